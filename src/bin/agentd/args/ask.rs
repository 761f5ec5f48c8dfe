//! Arguments of the commands that build, send and parse prompts.

use std::path::PathBuf;

use agentd::models::Format;
use agentd::orchestrator::MAX_REPAIRS;
use clap::ValueEnum;

/// Inputs of a prompt.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Mode of the pack, such as plan, challenge, implement, review or archive
    pub(crate) mode: String,

    /// Instructions for the agent; `-` reads stdin
    pub(crate) text: String,

    /// Pack [default: the pack in agentd/config.toml, or sdd]
    #[arg(long, value_name = "NAME")]
    pub(crate) pack: Option<String>,

    /// Session, or name of a change in agentd/changes
    #[arg(long, visible_alias = "change", value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Show this file to the agent; can be repeated
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,

    /// Show this file to the agent as an artifact of an earlier step; can be repeated
    #[arg(long = "artifact", value_name = "PATH")]
    pub(crate) artifacts: Vec<PathBuf>,

    /// Add a named block of context, such as `task`, from the argument or a UTF-8 file; can be repeated. Blocks keep
    /// their order, even if they have the same name. To pass text that starts with `@`, write `@@`
    #[arg(long = "context", value_name = "NAME=TEXT|@FILE")]
    pub(crate) contexts: Vec<String>,

    /// Allow files whose names suggest secrets in --file, --artifact and --context
    #[arg(long)]
    pub(crate) force_secret_files: bool,

    /// Add a remark for the agent; can be repeated
    #[arg(long = "thought", value_name = "TEXT")]
    pub(crate) thoughts: Vec<String>,

    /// State file of the session, in YAML or JSON; see `agentd schema state`
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// Model to fit the prompt to [default: none; the limits of the pack apply]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// Set a template variable; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<String>,

    /// Fail if a required variable has no value
    #[arg(long)]
    pub(crate) strict: bool,

    /// Agent, such as claude, gemini or codex [default: the mode's agent in agentd/config.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Prompt format [default: the format of the pack]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FormatArg>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    /// Print the prompt with its parts and segments as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Explain on stderr the template, the source of each variable, and the size and shortening of each block
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TurnArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Maximum number of times to ask the agent to complete its reply
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_REPAIRS)))]
    pub(crate) repairs: u8,

    /// Print progress and the final report as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    /// Agent, such as claude, ollama:llama3.2:3b or one defined in agents.yaml
    pub(crate) agent: String,

    /// Model [default: the agent's default]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// Number of requests per condition; above ten, requests repeat [default: each once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) turns: Option<u16>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options for sending a prompt.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// YAML file with the replies of the agent `scripted`
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Trust the project's files and ledger for this run only, without `agentd trust`
    #[arg(long)]
    pub(crate) trust: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ParseArgs {
    /// File with the reply; `-` reads stdin
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,

    /// Pack of the reply [default with --mode: the pack in agentd/config.toml, or sdd]
    #[arg(long, value_name = "NAME")]
    pub(crate) pack: Option<String>,

    /// Mode of the reply [default with --pack: the first mode of the pack]
    #[arg(long, value_name = "NAME")]
    pub(crate) mode: Option<String>,

    /// Prompt that was sent; text that the reply quotes from it has no effect
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,

    /// Value that the `run` attribute of a verdict must have
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// Outcome of the call; an incomplete reply has no effects
    #[arg(long, value_enum, default_value_t = FinishArg::Stop)]
    pub(crate) finish: FinishArg,

    /// Print the parsed reply as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FinishArg {
    /// The agent finished
    Stop,
    /// The output-token limit was reached
    Length,
    /// The agent was stopped
    Killed,
    /// The agent failed; its output is not a reply
    Failed,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatArg {
    /// XML
    Xml,
    /// Plain text with headings
    Flat,
    /// Chat messages, as JSON
    Chat,
    /// System prompt, tools as JSON Schema, and messages, as JSON
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
    /// Unified prompt
    Prompt,
    /// State file, and the XML made from it
    State,
}
