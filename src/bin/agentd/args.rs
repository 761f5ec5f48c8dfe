//! Commands and flags with their help texts.

mod ask;
mod change;
mod chat;
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
pub(crate) use chat::ChatArgs;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
pub(crate) use data::{ModelsCommand, PackCommand, TemplateCommand};
pub(crate) use ledger::{LogArgs, ReplayArgs, ResumeArgs, ShowArgs};
pub(crate) use spec::SpecCommand;

/// Build prompts, run coding agents, and check their verdicts.
#[derive(Debug, Parser)]
#[command(name = "agentd", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  agentd demo                                    run an example change; needs no agent and no key
  agentd review                                  review the current branch; exit code by verdict
  agentd run add-login \"Add login\"               plan and challenge, then stop for your approval
  agentd approve add-login                       implement and review; approve again to merge
  agentd status                                  list open changes: phase, verdicts, rounds, cost

  agentd prompt plan \"Add login\"                 print the exact prompt; nothing is sent
  agentd prompt review \"Check it\" --change add-login --agent codex --explain
  agentd init                                    write a project description for agents
  agentd template list                           list the prompt templates in use

  agentd turn plan \"Add login\" --change add-login --agent my-agent
  agentd log                                     list turns: verdict, tokens, cost, time

Results go to stdout, messages and progress to stderr.

Exit codes: 0 success, 1 findings, 2 invalid command line, 3 invalid input,
4 invalid or untrusted template, pack or settings, 5 agent failed, 6 no clear verdict,
7 environment failure (git, ledger, output), 8 not allowed now, 9 abandoned (MAJOR_ISSUES,
REJECTED), 75 session busy, 130 stopped.")]
pub(crate) struct Args {
    /// Run in this folder instead of the current one
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,

    /// Print debug messages on stderr, such as which fallback template is used
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Args {
    /// Uses the PROJECT argument of `chat` as the folder to run in, relative to `--directory`.
    pub(crate) fn with_project_folder(mut self) -> Self {
        if let Command::Chat(chat) = &mut self.command
            && let Some(project) = chat.project.take()
        {
            self.directory = Some(match self.directory {
                Some(folder) => folder.join(project),
                None => project,
            });
        }
        self
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a change from the request to the merge: plan, challenge, implement, review, archive
    #[command(after_help = "\
Examples:
  agentd run add-login \"Add login\"               plan and challenge, then stop for your approval
  agentd run add-login                           continue the change
  agentd run add-login \"Add login\" --auto        run to the merge without stopping for approval
  agentd run add-login \"Add login\" --agent claude

The change is made on the branch agentd/add-login, in a separate worktree outside of the
project. Your working tree changes only with the merge at the end. Configure the agent, model
and limits of each phase in agentd/config.toml.

Exit codes: 0 done, or awaiting your approval; 8 stuck at the round limit, or awaiting
answers; 9 abandoned by a verdict.")]
    Run(RunArgs),

    /// Plan a change: write its proposal, specs and tasks
    #[command(after_help = "\
Examples:
  agentd plan add-login \"Add login\"
  agentd plan add-login                          plan it again")]
    Plan(RunArgs),

    /// Review the plan of a change before it is implemented
    #[command(after_help = "\
Examples:
  agentd challenge add-login --agent codex")]
    Challenge(PhaseArgs),

    /// Implement the tasks of a change
    #[command(after_help = "\
Examples:
  agentd implement add-login --agent claude

The agent's claims are compared with the files that changed, and the project's checks are run.")]
    Implement(PhaseArgs),

    /// Review a change, or the current branch and uncommitted changes
    #[command(after_help = "\
Examples:
  agentd review                                  review the current branch against its base
  agentd review --base origin/main --trust       in CI: trust the project's checks for this run
  agentd review --agent claude --json | jq .findings
  agentd review add-login                        run the review phase of a change

As a pre-push hook: `exec agentd review --allow-empty` in .git/hooks/pre-push.

Settings, agents, packs, templates and check commands are taken from the base. Without CHANGE,
--trust trusts only the checks.

Exit codes: 0 PASS, 1 NEEDS_CHANGES or failing checks, 6 no verdict, 9 MAJOR_ISSUES.")]
    Review(ReviewArgs),

    /// Archive a change that passed its review: merge its specs and its branch
    #[command(after_help = "\
Examples:
  agentd archive add-login")]
    Archive(PhaseArgs),

    /// Approve a change that is waiting for you
    #[command(after_help = "\
Examples:
  agentd approve add-login                       approve, and run to the next stop
  agentd approve add-login --later               record the approval only")]
    Approve(DecideArgs),

    /// Send a change back with a note for the agents
    #[command(after_help = "\
Examples:
  agentd revise add-login --note \"Use the existing session store\"")]
    Revise(DecideArgs),

    /// Abandon a change that is waiting for you; keep its branch
    #[command(after_help = "\
Examples:
  agentd reject add-login --note \"We buy it instead\"")]
    Reject(EndArgs),

    /// Abandon a change in any state; keep its branch
    #[command(after_help = "\
Examples:
  agentd cancel add-login")]
    Cancel(EndArgs),

    /// Make a small change: one edit, checks, one review, one commit
    #[command(after_help = "\
Examples:
  agentd fix \"Typo in README: recieve\"
  agentd fix \"Off by one in src/page.rs\" --agent claude

Exit codes: 0 passed and merged; 1 NEEDS_CHANGES, 9 abandoned: the branch is kept.")]
    Fix(FixArgs),

    /// Show open changes, and warn about those that touch the same requirement
    #[command(after_help = "\
Examples:
  agentd status
  agentd status --json")]
    Status {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// List changes, or show one
    Change {
        #[command(subcommand)]
        command: ChangeCommand,
    },

    /// Run a whole change on a small example project, with a scripted agent and without a network
    #[command(after_help = "\
Examples:
  agentd demo
  agentd demo --folder /tmp/agentd-demo          create the project in this folder

The agent's replies are scripted; files, git, checks and verdicts are real.")]
    Demo(DemoArgs),

    /// Chat with an agent line by line; the next run continues the conversation
    #[command(after_help = "\
Examples:
  agentd chat                                    talk to the foreman in this folder
  agentd chat ~/book --agent claude
  echo \"Who is the hero?\" | agentd chat --json | jq -r .message
  agentd chat --session draft-2                  a second conversation in the same project

A message is a line, or several lines between lines of \"\"\". /help lists the commands.
Everything is recorded in .agentd/ of the folder; the next `agentd chat` continues where this one
ended, also with another agent.

Exit codes: 0 at the end of the input; 1 if the input was one message and every effect of its
reply failed or was refused; 5 agent failed; 8 the gate of the mode is closed. On a terminal, an
error does not end the conversation.")]
    Chat(ChatArgs),

    /// Print the exact prompt that an agent would get, without sending it
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

    /// Take one turn: send a prompt to an agent, parse the reply, apply its effects
    #[command(after_help = "\
Examples:
  agentd turn plan \"Add login\" --change add-login --agent scripted --script plan.yaml
  agentd turn plan \"Add login\" --agent my-agent  an agent defined in agents.yaml
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

    /// Measure how reliably an agent follows the reply protocol
    #[command(after_help = "\
Examples:
  agentd probe ollama:llama3.2:3b
  agentd probe claude --model claude-sonnet-4 --turns 3
  agentd probe my-agent --json | jq .kept

A probe sends ten requests (for a message, an action or a verdict) under three conditions:
without help, with a reminder of the format, and with an example turn. Each request is a
recorded turn. After ten replies without help, the measured success rate decides whether
prompts for that model have a reminder of the format and an example.

Exit code: 0 if the probe completed, whatever its result.")]
    Probe(ProbeArgs),

    /// Show which agents are installed, which one each mode uses, and how agent processes are sandboxed
    #[command(after_help = "\
Examples:
  agentd doctor
  agentd doctor --json | jq .namespace.works

Exit codes: 0 no problem found, 1 problems found.")]
    Doctor {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },

    /// List recorded turns
    #[command(after_help = "\
Examples:
  agentd log
  agentd log add-login -n 5
  agentd log --json | jq '.[] | select(.verdict == \"MAJOR_ISSUES\")'")]
    Log(LogArgs),

    /// Show a turn: its prompt, calls, verdict and effects
    #[command(after_help = "\
Examples:
  agentd show last
  agentd show add-login/3 --prompt > prompt.xml
  agentd show add-login --reply
  agentd show add-login --reply --call 2")]
    Show(ShowArgs),

    /// Compare the prompts of two turns, block by block
    #[command(after_help = "\
Examples:
  agentd diff add-login/1 add-login/2")]
    Diff {
        /// First turn: SESSION/NUMBER, SESSION for its last turn, or `last` for the newest turn
        #[arg(value_name = "TURN")]
        old: String,
        /// Second turn
        #[arg(value_name = "TURN")]
        new: String,
        /// Print the comparison as JSON
        #[arg(long)]
        json: bool,
    },

    /// Parse a recorded reply again, or send a recorded prompt to another agent
    #[command(after_help = "\
Examples:
  agentd replay add-login/3                      check that it is still parsed the same way
  agentd replay add-login/3 --agent echo         send the same prompt to another agent; no effects

Exit codes: 0 same result, 1 different result.")]
    Replay(ReplayArgs),

    /// Recover interrupted turns
    ///
    /// With SESSION: call its agent again if the reply is incomplete. If SESSION is a change: continue the change.
    #[command(after_help = "\
Examples:
  agentd resume
  agentd resume add-login")]
    Resume(ResumeArgs),

    /// Show usage by session and agent: turns, calls, tokens, cost, time
    #[command(after_help = "\
Examples:
  agentd usage
  agentd usage add-login --json")]
    Usage {
        /// Session [default: all]
        session: Option<String>,
        /// Print the usage as JSON
        #[arg(long)]
        json: bool,
    },

    /// Print the ledger, or one session of it, as JSON lines
    #[command(after_help = "\
Examples:
  agentd export > ledger.jsonl
  agentd export add-login | jq -r 'select(.event.event == \"replied\") | .event.verdict'")]
    Export {
        /// Session [default: all]
        session: Option<String>,
    },

    /// Parse a reply, and print its message, actions, updates and verdict
    #[command(after_help = "\
Examples:
  agentd parse reply.txt --pack sdd --mode review
  claude -p < prompt.xml | agentd parse --mode review --prompt prompt.xml
  agentd parse reply.txt --pack foreman --mode architect --json | jq .actions

Exit codes: 0 no problems, 1 problems found, 6 the verdict is missing or unclear.")]
    Parse(ParseArgs),

    /// List, show and check system templates
    Template {
        #[command(subcommand)]
        command: TemplateCommand,
    },

    /// List, show, check and create packs
    Pack {
        #[command(subcommand)]
        command: PackCommand,
    },

    /// Check, list and show specs
    Spec {
        #[command(subcommand)]
        command: SpecCommand,
    },

    /// List and show known models
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },

    /// Count the tokens of a file
    #[command(after_help = "\
Examples:
  agentd tokens src/main.rs
  agentd prompt plan \"Add login\" | agentd tokens --model claude-sonnet-4")]
    Tokens {
        /// File to count; `-` reads stdin
        #[arg(default_value = "-")]
        file: PathBuf,
        /// Model to count tokens for
        #[arg(long, value_name = "ID", default_value = "gpt-4o")]
        model: String,
        /// Print the count as JSON
        #[arg(long)]
        json: bool,
    },

    /// Create agentd/project.md and agentd/config.toml; keep existing files
    #[command(after_help = "\
Examples:
  agentd init
  agentd init -C ../other-project")]
    Init {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },

    /// Trust the templates, packs, agents, settings, checks and ledger of this project
    #[command(after_help = "\
Examples:
  agentd trust --show                            list the files, and which are new or changed
  agentd trust                                   trust all of them, after you have read them")]
    Trust {
        /// List the files and their status without trusting them; exit with 1 if one is not trusted
        #[arg(long)]
        show: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },

    /// Print a JSON Schema
    #[command(after_help = "\
Examples:
  agentd schema prompt > prompt.schema.json
  agentd schema state --pack foreman             schema of the state files of a pack")]
    Schema {
        /// Schema to print
        value: SchemaOf,

        /// Pack of the state files [default: the project's pack]
        #[arg(long, value_name = "NAME")]
        pack: Option<String>,
    },

    /// Print a shell completion script
    #[command(after_help = "\
Examples:
  agentd completions bash > ~/.local/share/bash-completion/completions/agentd
  agentd completions zsh > ~/.zfunc/_agentd")]
    Completions {
        /// Shell that the script is for
        shell: Shell,
    },

    /// Write one man page per command
    #[command(hide = true)]
    #[command(after_help = "\
Examples:
  agentd man --out /usr/local/share/man/man1")]
    Man {
        /// Folder to write to; created if it does not exist
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

impl Command {
    /// Returns true if the command may run agents or checks. That is assumed of every command outside this list, including
    /// new ones.
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

    /// Returns true if the command prints JSON. Its errors are then also printed as JSON.
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
            Self::Chat(args) => args.json,
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
