//! Every command and flag, documented where it is declared.

mod ask;
mod change;
mod data;
mod ledger;
mod spec;

use std::path::PathBuf;

pub(crate) use ask::{
    AskArgs, FinishArg, ParseArgs, ProbeArgs, PromptArgs, SchemaOf, SendArgs, TurnArgs,
};
pub(crate) use change::{
    ChangeCommand, DecideArgs, DemoArgs, EndArgs, FixArgs, PhaseArgs, ReviewArgs, RunArgs,
    RunOptions,
};
use clap::{Parser, Subcommand};
use clap_complete::Shell;
pub(crate) use data::{ModelsCommand, PackCommand, TemplateCommand};
pub(crate) use ledger::{LogArgs, ReplayArgs, ResumeArgs, ShowArgs};
pub(crate) use spec::SpecCommand;

/// Prompts from layers, any agent, a verdict you can trust.
#[derive(Debug, Parser)]
#[command(name = "agentd", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  agentd demo                                    a whole change in seconds, without an agent or a key
  agentd review                                  one verdict on the current branch, as an exit code
  agentd run add-login \"Add login\"              plan and challenge, then wait for your approval
  agentd approve add-login                       implement and review; once more to merge
  agentd status                                  every change: phase, verdicts, rounds, cost

  agentd prompt plan \"Add login\"                 see the exact prompt, in any git repository
  agentd prompt review \"Check it\" --change add-login --agent codex --explain
  agentd init                                    describe the project to agents
  agentd template list                           see which prompts are in force

  agentd turn plan \"Add login\" --change add-login --agent my-agent
  agentd log                                     every turn: verdict, tokens, cost, time

stdout is data, stderr is talk. Exit codes: 0 fine, 1 findings, 2 usage, 3 input,
4 template, pack or settings, 5 agent, 6 verdict, 7 the outside world, 8 forbidden,
9 given up by a verdict (MAJOR_ISSUES, REJECTED), 75 the session is busy, 130 stopped.")]
pub(crate) struct Args {
    /// Work in this folder instead of the current one
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,

    /// Say more on stderr, such as which template stands in for a missing one
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lead a change from a request to the archive: plan, challenge, implement, review, archive
    #[command(after_help = "\
Examples:
  agentd run add-login \"Add login\"              open it, plan it and challenge it; then wait
  agentd run add-login                           go on from wherever it stands
  agentd run add-login \"Add login\" --auto       do not wait: all the way, merge included
  agentd run add-login \"Add login\" --agent claude

The change lives on the branch agentd/add-login, in a work tree of its own outside of the
project. Your own tree is written only by the merge at the end. Agents, models and limits of
each phase are set in agentd/config.toml.

Exit codes: 0 it is done, or waits for your approval; 8 it goes in circles, or waits for
answers; 9 it was given up by a verdict.")]
    Run(RunArgs),

    /// Plan a change: proposal, specs and tasks
    #[command(after_help = "\
Examples:
  agentd plan add-login \"Add login\"
  agentd plan add-login                          plan it once more")]
    Plan(RunArgs),

    /// Challenge the plan of a change
    #[command(after_help = "\
Examples:
  agentd challenge add-login --agent codex")]
    Challenge(PhaseArgs),

    /// Carry out the tasks of a change
    #[command(after_help = "\
Examples:
  agentd implement add-login --agent claude

What changed is held against what the agent claims, and the project's own checks are run.")]
    Implement(PhaseArgs),

    /// Review a change, or, without one, the current branch and what is not committed
    #[command(after_help = "\
Examples:
  agentd review                                  the current branch against its base
  agentd review --base origin/main --trust       in CI: checks are run without having been accepted
  agentd review --agent claude --json | jq .findings
  agentd review add-login                        the review phase of a change

As a pre-push hook: `exec agentd review --allow-empty` in .git/hooks/pre-push.

Definitions (settings, agents, packs, templates, check commands) are those of the base. Without a
change, --trust covers the checks alone.

Exit codes: 0 PASS, 1 NEEDS_CHANGES or failing checks, 9 MAJOR_ISSUES, 6 no verdict.")]
    Review(ReviewArgs),

    /// Archive a change that has passed its review: merge its specs and its branch
    #[command(after_help = "\
Examples:
  agentd archive add-login")]
    Archive(PhaseArgs),

    /// Let a change go on that waits for you
    #[command(after_help = "\
Examples:
  agentd approve add-login                       and go on to where it waits next
  agentd approve add-login --later               only record it")]
    Approve(DecideArgs),

    /// Send a change back with a note that the next round is shown
    #[command(after_help = "\
Examples:
  agentd revise add-login --note \"Use the session store that is there\"")]
    Revise(DecideArgs),

    /// Give up a change that waits for you; its branch stays
    #[command(after_help = "\
Examples:
  agentd reject add-login --note \"We buy it instead\"")]
    Reject(EndArgs),

    /// Give up a change wherever it stands; its branch stays
    #[command(after_help = "\
Examples:
  agentd cancel add-login")]
    Cancel(EndArgs),

    /// The light lane: one prompt, one edit, checks, one review, one commit
    #[command(after_help = "\
Examples:
  agentd fix \"Typo in README: recieve\"
  agentd fix \"Off by one in src/page.rs\" --agent claude

Exit codes: 0 it passed and is committed; 1 NEEDS_CHANGES, 9 given up: it stays on its branch.")]
    Fix(FixArgs),

    /// Tell how all open changes stand, and which of them touch the same requirement
    #[command(after_help = "\
Examples:
  agentd status
  agentd status --json")]
    Status {
        /// Print the changes as JSON
        #[arg(long)]
        json: bool,
    },

    /// List changes, and show one
    Change {
        #[command(subcommand)]
        command: ChangeCommand,
    },

    /// Show a whole change on a small project made for it: scripted, in seconds, without an agent, a key or a network
    #[command(after_help = "\
Examples:
  agentd demo
  agentd demo --folder /tmp/agentd-demo          make the project there, to look at

The agent is scripted; files, git, checks and verdicts are real.")]
    Demo(DemoArgs),

    /// Print the exact prompt that an agent would get; send nothing
    #[command(after_help = "\
Examples:
  agentd prompt plan \"Add login\"
  agentd prompt plan \"Add login\" --agent gemini --file src/main.rs --explain
  agentd prompt implement \"Do all open tasks\" --change add-login --agent claude
  git log -1 --format=%B | agentd prompt plan -
  agentd prompt plan \"Add login\" --json | jq -j '.segments[].text'
  agentd prompt architect \"What next?\" --pack foreman --model llama3.2:3b --explain
  agentd prompt task-agent \"Fix the build\" --pack taskqueue --set depth=0 --set max_steps=5
  agentd prompt task-agent \"Go on\" --pack taskqueue --context task=@task.md --context upstream=\"#1 is done\"")]
    Prompt(PromptArgs),

    /// Take one turn: send the prompt to an agent, read the reply, do what it asks for
    #[command(after_help = "\
Examples:
  agentd turn plan \"Add login\" --change add-login --agent scripted --script plan.yaml
  agentd turn plan \"Add login\" --agent my-agent  any command that agents.yaml describes
  agentd turn task-agent \"Go on\" --pack taskqueue --context task=@task.md

A script is a YAML file:
  format: 1
  turns:
    - mode: plan
      expect: [\"<instructions>Add login</instructions>\"]
      reply: |
        <content_update target=\"proposal.md\">
        # Add login
        </content_update>
        <review run=\"{{NONCE}}\">PASS</review>")]
    Turn(TurnArgs),

    /// Measure how well an agent keeps to the protocol: small requests, each a recorded turn
    #[command(after_help = "\
Examples:
  agentd probe ollama:llama3.2:3b
  agentd probe claude --model claude-sonnet-4 --turns 3
  agentd probe my-agent --json | jq .kept

Ten requests (a message, an action or a verdict) are made under three conditions: without
any help, with a reminder of the form, and with an example turn. The shares of right replies
are kept in the ledger, and from ten replies without help on prompts for that model use them.

Exit code: 0 if the probe was made, whatever it shows.")]
    Probe(ProbeArgs),

    /// Tell which agents are on PATH, who would be asked in each mode, and how processes are contained here
    #[command(after_help = "\
Examples:
  agentd doctor
  agentd doctor --json | jq .namespace.works

Exit codes: 0 all is well, 1 something is not.")]
    Doctor {
        /// Print the facts as JSON
        #[arg(long)]
        json: bool,
    },

    /// List the turns that were taken
    #[command(after_help = "\
Examples:
  agentd log
  agentd log add-login -n 5
  agentd log --json | jq '.[] | select(.verdict == \"MAJOR_ISSUES\")'")]
    Log(LogArgs),

    /// Show a turn: what was sent, what came back, what was made of it
    #[command(after_help = "\
Examples:
  agentd show last
  agentd show add-login/3 --prompt > prompt.xml
  agentd show add-login --reply
  agentd show add-login --reply --call 2")]
    Show(ShowArgs),

    /// Compare the prompts of two turns, segment by segment
    #[command(after_help = "\
Examples:
  agentd diff add-login/1 add-login/2")]
    Diff {
        /// The one turn: SESSION/NUMBER, SESSION for its last one, `last` for the newest of all
        #[arg(value_name = "TURN")]
        old: String,
        /// The other turn
        #[arg(value_name = "TURN")]
        new: String,
        /// Print the segments as JSON
        #[arg(long)]
        json: bool,
    },

    /// Read a recorded reply again, or send a recorded prompt to another agent
    #[command(after_help = "\
Examples:
  agentd replay add-login/3                      is it still read as it was?
  agentd replay add-login/3 --agent echo         the same bytes to another agent; no effects

Exit codes: 0 it is read as it was, 1 it is not.")]
    Replay(ReplayArgs),

    /// Bring to an end what was interrupted; with a session, call its agent again if it gave no whole reply; with a
    /// change, lead it on
    #[command(after_help = "\
Examples:
  agentd resume
  agentd resume add-login")]
    Resume(ResumeArgs),

    /// Tell what agents have used: turns, tokens, money, time
    #[command(after_help = "\
Examples:
  agentd usage
  agentd usage add-login --json")]
    Usage {
        /// The session [default: all]
        session: Option<String>,
        /// Print the figures as JSON
        #[arg(long)]
        json: bool,
    },

    /// Print the whole ledger, or one session of it, as JSON lines
    #[command(after_help = "\
Examples:
  agentd export > ledger.jsonl
  agentd export add-login | jq -r 'select(.event.event == \"replied\") | .event.verdict'")]
    Export {
        /// The session [default: all]
        session: Option<String>,
    },

    /// Read a reply: what it says, what it asks for, and what of it counts
    #[command(after_help = "\
Examples:
  agentd parse reply.txt --pack sdd --mode review
  claude -p < prompt.xml | agentd parse --mode review --prompt prompt.xml
  agentd parse reply.txt --pack foreman --mode architect --json | jq .actions

Exit codes: 0 all of it is clear, 1 something is not, 6 the verdict is missing or unclear.")]
    Parse(ParseArgs),

    /// See and check system templates
    Template {
        #[command(subcommand)]
        command: TemplateCommand,
    },

    /// See, check and start packs: processes as data
    Pack {
        #[command(subcommand)]
        command: PackCommand,
    },

    /// Check, list and see specs: what is true of the project
    Spec {
        #[command(subcommand)]
        command: SpecCommand,
    },

    /// See the catalogue of models
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },

    /// Count the tokens of a text
    #[command(after_help = "\
Examples:
  agentd tokens src/main.rs
  agentd prompt plan \"Add login\" | agentd tokens --model claude-sonnet-4")]
    Tokens {
        /// The file to count; `-` is stdin
        #[arg(default_value = "-")]
        file: PathBuf,
        /// The model whose tokens are counted
        #[arg(long, value_name = "ID", default_value = "gpt-4o")]
        model: String,
        /// Print the count as JSON
        #[arg(long)]
        json: bool,
    },

    /// Write agentd/project.md and agentd/config.toml; never overwrite
    #[command(after_help = "\
Examples:
  agentd init
  agentd init -C ../other-project")]
    Init {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },

    /// Accept this project's own templates, packs, agents, settings and ledger as they are now
    #[command(after_help = "\
Examples:
  agentd trust --show                            what there is, and what is new or changed
  agentd trust                                   accept all of it, once you have read it")]
    Trust {
        /// List them with how each stands, and accept nothing; exit code 1 if one is not accepted
        #[arg(long)]
        show: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },

    /// Print the JSON Schema of a value
    #[command(after_help = "\
Examples:
  agentd schema prompt > prompt.schema.json
  agentd schema state                            what a state file holds, and the XML it becomes")]
    Schema {
        /// Which value
        value: SchemaOf,
    },

    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  agentd completions bash > ~/.local/share/bash-completion/completions/agentd
  agentd completions zsh > ~/.zfunc/_agentd")]
    Completions {
        /// The shell
        shell: Shell,
    },

    /// Write man pages, one for each command
    #[command(hide = true)]
    #[command(after_help = "\
Examples:
  agentd man --out /usr/local/share/man/man1")]
    Man {
        /// Write them to this folder, which is created if it does not exist
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

impl Command {
    /// Returns whether it may run agents or checks. Those that do not are named, so that a new command is in doubt.
    pub(crate) fn may_run_project_code(&self) -> bool {
        !matches!(
            self,
            Self::Status { .. }
                | Self::Change { .. }
                | Self::Prompt(_)
                | Self::Log(_)
                | Self::Show(_)
                | Self::Diff { .. }
                | Self::Usage { .. }
                | Self::Export { .. }
                | Self::Parse(_)
                | Self::Template { .. }
                | Self::Pack { .. }
                | Self::Spec { .. }
                | Self::Models { .. }
                | Self::Tokens { .. }
                | Self::Init { .. }
                | Self::Trust { .. }
                | Self::Schema { .. }
                | Self::Completions { .. }
                | Self::Man { .. }
        )
    }

    /// Tells whether failures shall be told as JSON too.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) | Self::Plan(args) => args.options.json,
            Self::Challenge(args) | Self::Implement(args) | Self::Archive(args) => {
                args.options.json
            }
            Self::Review(args) => args.options.json,
            Self::Approve(args) | Self::Revise(args) => args.options.json,
            Self::Reject(args) | Self::Cancel(args) => args.json,
            Self::Fix(args) => args.options.json,
            Self::Status { json } => *json,
            Self::Change { command } => match command {
                ChangeCommand::List { json } | ChangeCommand::Show { json, .. } => *json,
            },
            Self::Demo(args) => args.json,
            Self::Prompt(args) => args.json,
            Self::Turn(args) => args.json,
            Self::Probe(args) => args.json,
            Self::Parse(args) => args.json,
            Self::Log(args) => args.json,
            Self::Show(args) => args.json,
            Self::Replay(args) => args.json,
            Self::Resume(args) => args.json,
            Self::Doctor { json } | Self::Diff { json, .. } | Self::Usage { json, .. } => *json,
            Self::Export { .. } => true,
            Self::Init { json } | Self::Tokens { json, .. } | Self::Trust { json, .. } => *json,
            Self::Models { command } => match command {
                ModelsCommand::List { json } | ModelsCommand::Show { json, .. } => *json,
            },
            Self::Pack { command } => match command {
                PackCommand::List { json }
                | PackCommand::Show { json, .. }
                | PackCommand::Check { json, .. }
                | PackCommand::New { json, .. } => *json,
            },
            Self::Spec { command } => match command {
                SpecCommand::Check { json, .. }
                | SpecCommand::List { json }
                | SpecCommand::Show { json, .. } => *json,
            },
            Self::Template { command } => match command {
                TemplateCommand::List { json }
                | TemplateCommand::Show { json, .. }
                | TemplateCommand::Check { json, .. } => *json,
            },
            Self::Schema { .. } => true,
            Self::Completions { .. } | Self::Man { .. } => false,
        }
    }
}
