//! Flags of the commands that read the ledger, or go on from it.

use super::SendArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// The session [default: all]
    pub(crate) session: Option<String>,

    /// Show so many turns at most, the newest
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 30)]
    pub(crate) number: usize,

    /// Print the turns as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The turn: SESSION/NUMBER, SESSION for its last one, `last` for the newest of all
    #[arg(value_name = "TURN")]
    pub(crate) turn: String,

    /// Print the prompt, byte for byte as it was sent
    #[arg(long, group = "part")]
    pub(crate) prompt: bool,

    /// Print the reply, as it came
    #[arg(long, group = "part")]
    pub(crate) reply: bool,

    /// Print the prompt or the reply of this call [default: the first prompt; the reply before repairs]
    #[arg(long, value_name = "NUMBER", requires = "part", conflicts_with_all = ["response", "fit"])]
    pub(crate) call: Option<usize>,

    /// Print the reply as it is read, as JSON
    #[arg(long, group = "part")]
    pub(crate) response: bool,

    /// Print the fit report, as JSON
    #[arg(long, group = "part")]
    pub(crate) fit: bool,

    /// Print the record of the turn as JSON
    #[arg(long, conflicts_with = "part")]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The session [default: only bring to an end what earlier runs have left, in all of them]
    pub(crate) session: Option<String>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Call an agent again that could have edited files
    #[arg(long)]
    pub(crate) again: bool,

    /// Print what happens as it happens, and the whole report at the end, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The turn: SESSION/NUMBER, SESSION for its last one, `last` for the newest of all
    #[arg(value_name = "TURN")]
    pub(crate) turn: String,

    /// Send the same prompt to this agent instead of reading the recorded reply again
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print what happens as it happens, and the whole report at the end, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}
