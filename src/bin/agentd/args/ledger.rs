//! Arguments of the commands that read the ledger.

use super::SendArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Session [default: all]
    pub(crate) session: Option<String>,

    /// Maximum number of turns to list, the newest
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 30)]
    pub(crate) number: usize,

    /// Print the turns as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Turn: SESSION/NUMBER, SESSION for its last turn, or `last` for the newest turn
    #[arg(value_name = "TURN")]
    pub(crate) turn: String,

    /// Print the prompt byte for byte
    #[arg(long, group = "part")]
    pub(crate) prompt: bool,

    /// Print the reply as it was received
    #[arg(long, group = "part")]
    pub(crate) reply: bool,

    /// Print the prompt or reply of this call [default: the first prompt; the reply before repairs]
    #[arg(long, value_name = "NUMBER", requires = "part", conflicts_with_all = ["response", "fit"])]
    pub(crate) call: Option<usize>,

    /// Print the parsed reply as JSON
    #[arg(long, group = "part")]
    pub(crate) response: bool,

    /// Print the fit report as JSON
    #[arg(long, group = "part")]
    pub(crate) fit: bool,

    /// Print the record of the turn as JSON
    #[arg(long, conflicts_with = "part")]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// Session to continue [default: only recover interrupted turns of all sessions]
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Call the agent again even if it may have edited files
    #[arg(long)]
    pub(crate) again: bool,

    /// Print progress and the final report as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// Turn: SESSION/NUMBER, SESSION for its last turn, or `last` for the newest turn
    #[arg(value_name = "TURN")]
    pub(crate) turn: String,

    /// Send the prompt to this agent instead of parsing the recorded reply again
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print progress and the final report as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}
