//! Arguments of `agentd chat`.

use std::path::PathBuf;

use super::SendArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    /// Folder of the project [default: the current one]
    #[arg(value_name = "PROJECT")]
    pub(crate) project: Option<PathBuf>,

    /// Pack [default: the pack of the session, then a chat pack in agentd/config.toml, or foreman]
    #[arg(long, value_name = "NAME")]
    pub(crate) pack: Option<String>,

    /// Session; each has its own conversation
    #[arg(long, value_name = "NAME", default_value = "chat")]
    pub(crate) session: String,

    /// Agent, such as claude, gemini or ollama:llama3.2:3b [default: the mode's agent in agentd/config.toml]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Model to fit prompts to [default: the model of the agent]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print each reply as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
