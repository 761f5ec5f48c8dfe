//! Every command and flag, documented where it is declared.

mod data;
mod ledger;
mod spec;

use std::path::PathBuf;

use agentd::models::Format;
use agentd::orchestrator::MOST_REPAIRS;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
pub(crate) use data::{ModelsCommand, PackCommand, TemplateCommand};
pub(crate) use ledger::{LogArgs, ReplayArgs, ResumeArgs, ShowArgs};
pub(crate) use spec::SpecCommand;

/// Prompts from layers, any agent, a verdict you can trust.
#[derive(Debug, Parser)]
#[command(name = "agentd", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  agentd prompt plan \"Add login\"                 see the exact prompt, in any git repository
  agentd prompt review \"Check it\" --change add-login --agent codex --explain
  agentd init                                    describe the project to agents
  agentd template list                           see which prompts are in force

  agentd turn plan \"Add login\" --change add-login --agent my-agent
  agentd log                                     every turn: verdict, tokens, cost, time

stdout is data, stderr is talk. Exit codes: 0 fine, 1 findings, 2 usage, 3 input,
4 template, pack or settings, 5 agent, 6 verdict, 7 the outside world, 8 forbidden,
75 the session is busy, 130 stopped.")]
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
    /// Print the exact prompt that an agent would get; send nothing
    #[command(after_help = "\
Examples:
  agentd prompt plan \"Add login\"
  agentd prompt plan \"Add login\" --agent gemini --file src/main.rs --explain
  agentd prompt implement \"Do all open tasks\" --change add-login --agent claude
  git log -1 --format=%B | agentd prompt plan -
  agentd prompt plan \"Add login\" --json | jq -j '.segments[].text'
  agentd prompt architect \"What next?\" --pack foreman --model llama3.2:3b --explain
  agentd prompt task-agent \"Fix the build\" --pack taskqueue --set depth=0 --set max_steps=5")]
    Prompt(PromptArgs),

    /// Take one turn: send the prompt to an agent, read the reply, do what it asks for
    #[command(after_help = "\
Examples:
  agentd turn plan \"Add login\" --change add-login --agent scripted --script plan.yaml
  agentd turn plan \"Add login\" --agent my-agent  any command that agents.yaml describes

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
  agentd show add-login --reply")]
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

    /// Bring to an end what was interrupted; with a session, call its agent again if it gave no whole reply
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
}

impl Command {
    /// Tells whether failures shall be told as JSON too.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
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
            Self::Completions { .. } => false,
        }
    }
}

/// What a prompt is made from.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// The mode of the process, such as plan, challenge, implement, review or archive
    pub(crate) mode: String,

    /// What the agent shall do; `-` reads it from stdin
    pub(crate) text: String,

    /// The process [default: the one in agentd/config.toml, or sdd]
    #[arg(long, value_name = "NAME")]
    pub(crate) pack: Option<String>,

    /// The session to work on, such as a change: agentd/changes/ID
    #[arg(long, visible_alias = "change", value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Show this file to the agent; may be given several times
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,

    /// Show this file as an artifact of an earlier step; may be given several times
    #[arg(long = "artifact", value_name = "PATH")]
    pub(crate) artifacts: Vec<PathBuf>,

    /// Show files given with --file or --artifact even if by their name they hold secrets
    #[arg(long)]
    pub(crate) force_secret_files: bool,

    /// Hand on this remark; may be given several times
    #[arg(long = "thought", value_name = "TEXT")]
    pub(crate) thoughts: Vec<String>,

    /// What the session works on, in YAML or JSON; `agentd schema state` describes it
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// The model to write for: its window, its tier and its habits [default: none; the pack's own limits hold]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// Give a variable a value; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,

    /// Refuse a prompt in which a mandatory variable has no value
    #[arg(long)]
    pub(crate) strict: bool,

    /// The agent, such as claude, gemini, codex or any other [default: the mode's in agentd/config.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// How the prompt is written [default: as the pack says]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FormatArg>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// Print an envelope with parts and segments as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Say on stderr which template won, where each variable came from, what each part takes and what was cut
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TurnArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Ask the agent again for what its reply lacks, so often at most
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(MOST_REPAIRS)))]
    pub(crate) repairs: u8,

    /// Print what happens as it happens, and the whole report at the end, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// The agent, such as claude, ollama:llama3.2:3b or any that agents.yaml describes
    pub(crate) agent: String,

    /// The model [default: the agent's own]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// How many requests are made under each condition; more than there are begin again [default: each once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) turns: Option<u16>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a prompt is sent.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The script of the agent `scripted`
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Use the project's own definitions and its ledger in this run although nobody has accepted them with `agentd trust`
    #[arg(long)]
    pub(crate) trust: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ParseArgs {
    /// The reply; `-` is stdin
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,

    /// The process that the reply belongs to [default: the one in agentd/config.toml, or sdd, if a mode is named]
    #[arg(long, value_name = "NAME")]
    pub(crate) pack: Option<String>,

    /// The mode that the reply belongs to [default: the first of the process, if one is named]
    #[arg(long, value_name = "NAME")]
    pub(crate) mode: Option<String>,

    /// The prompt that was sent: what the reply repeats of it does not count
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,

    /// The `run` that verdicts of this turn name: others count less
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// Take no verdict that does not name the `run`
    #[arg(long, requires = "run")]
    pub(crate) require_run: bool,

    /// How the reply came to its end; of one that was cut off nothing is done
    #[arg(long, value_enum, default_value_t = FinishArg::Stop)]
    pub(crate) finish: FinishArg,

    /// Print the whole response as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FinishArg {
    /// The agent was done
    Stop,
    /// The limit of its length was reached
    Length,
    /// The agent was stopped
    Killed,
    /// The agent failed, so its output is no reply
    Failed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatArg {
    /// The unified prompt as XML
    Xml,
    /// Plain text with headings
    Flat,
    /// Chat messages, as JSON
    Chat,
    /// The system prompt, the tools as JSON Schema and the messages, as JSON
    Tools,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Xml => Self::Xml,
            FormatArg::Flat => Self::Flat,
            FormatArg::Chat => Self::Chat,
            FormatArg::Tools => Self::Tools,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The unified prompt
    Prompt,
    /// The state file, and the XML it becomes
    State,
}
