//! Every command and flag, documented where it is declared.

use std::path::PathBuf;

use agentd::orchestrator::MOST_REPAIRS;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Prompts from layers, any agent, a verdict you can trust.
#[derive(Debug, Parser)]
#[command(name = "agentd", version, max_term_width = 100)]
#[command(after_help = "\
Examples:
  agentd prompt plan \"Add login\"                 see the exact prompt, in any git repository
  agentd prompt review \"Check it\" --change add-login --agent codex --explain
  agentd init                                    describe the project to agents
  agentd template list                           see which prompts are in force

stdout is data, stderr is talk. Exit codes: 0 fine, 1 findings, 2 usage, 3 input,
4 template, pack or settings, 5 agent, 6 verdict, 7 the outside world.")]
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
            Self::Parse(args) => args.json,
            Self::Init { json } | Self::Tokens { json, .. } => *json,
            Self::Models { command } => match command {
                ModelsCommand::List { json } | ModelsCommand::Show { json, .. } => *json,
            },
            Self::Pack { command } => match command {
                PackCommand::List { json }
                | PackCommand::Show { json, .. }
                | PackCommand::Check { json, .. }
                | PackCommand::New { json, .. } => *json,
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

    /// The change to work on: agentd/changes/ID
    #[arg(long, value_name = "ID")]
    pub(crate) change: Option<String>,

    /// Show this file to the agent; may be given several times
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,

    /// Show this file as an artifact of an earlier step; may be given several times
    #[arg(long = "artifact", value_name = "PATH")]
    pub(crate) artifacts: Vec<PathBuf>,

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
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// The agent to write for, such as claude, gemini, codex or any other [default: the mode's in agentd/config.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// How the prompt is written [default: as the pack says]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FormatArg>,

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

    /// The agent; `scripted` is the one there is so far
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: String,

    /// The script of the scripted agent
    #[arg(long, value_name = "FILE", required_if_eq("agent", "scripted"))]
    pub(crate) script: Option<PathBuf>,

    /// Ask the agent again for what its reply lacks, so often at most
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(MOST_REPAIRS)))]
    pub(crate) repairs: u8,

    /// Print the whole report as JSON
    #[arg(long)]
    pub(crate) json: bool,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The unified prompt
    Prompt,
    /// The state file, and the XML it becomes
    State,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models that are known
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show one model
    #[command(after_help = "\
Examples:
  agentd models show llama3.2:3b")]
    Show {
        /// The model's name or an alias
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List every template at every place, and which are in force
    List {
        /// Print the list as JSON, each with its metadata
        #[arg(long)]
        json: bool,
    },

    /// Print the template for a mode, as it stands in its file
    #[command(after_help = "\
Examples:
  agentd template show plan --agent gemini
  agentd template show plan --built-in > templates/system/BASE-plan.md    start your own")]
    Show {
        /// The mode
        mode: String,
        /// The agent [default: the mode's in agentd/config.toml, or BASE]
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Print the one that is compiled in, whatever the project and the user have
        #[arg(long)]
        built_in: bool,
        /// Print it with its metadata as JSON
        #[arg(long)]
        json: bool,
    },

    /// Check that templates hold what their mode needs: sections, placeholders, markers
    #[command(after_help = "\
Examples:
  agentd template check                  all templates, shipped and your own
  agentd template check BASE-plan")]
    Check {
        /// Names of templates, such as BASE-plan [default: all]
        names: Vec<String>,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    /// List the packs at every place
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show a pack: its modes, layers, actions and files, or one of its files
    #[command(after_help = "\
Examples:
  agentd pack show foreman
  agentd pack show foreman identity.md > agentd/packs/foreman/identity.md    start your own
  agentd pack show sdd --json | jq '.modes | keys'")]
    Show {
        /// The pack's name
        name: String,
        /// Print this file of it instead
        file: Option<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },

    /// Check that packs hold together, and what their prose takes at every tier against its budget
    #[command(after_help = "\
Examples:
  agentd pack check                  all packs, shipped and your own
  agentd pack check foreman")]
    Check {
        /// Names of packs [default: all]
        names: Vec<String>,
        /// Print the figures as JSON
        #[arg(long)]
        json: bool,
    },

    /// Start a pack of your own in agentd/packs/NAME; never overwrite
    #[command(after_help = "\
Examples:
  agentd pack new letters && agentd prompt draft \"Thank the referee\" --pack letters")]
    New {
        /// The pack's name
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}
