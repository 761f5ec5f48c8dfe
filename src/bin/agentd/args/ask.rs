//! Flags of the commands that make, send and read prompts.

use std::path::PathBuf;

use agentd::models::Format;
use agentd::orchestrator::MAX_REPAIRS;
use clap::ValueEnum;

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

    /// Give a named block of context, such as `task`: its text, or `@` and a UTF-8 file. May be given several times: the
    /// prompt has all of them in this order, also those of one name. `@@` starts a text with `@`
    #[arg(long = "context", value_name = "NAME=TEXT|@FILE")]
    pub(crate) contexts: Vec<String>,

    /// Show files given with --file, --artifact or --context even if by their name they hold secrets
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
    #[arg(long, value_name = "TIMES", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_REPAIRS)))]
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
#[derive(Clone, Debug, clap::Args)]
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

    /// The `run` that verdicts of this turn must carry
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

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
