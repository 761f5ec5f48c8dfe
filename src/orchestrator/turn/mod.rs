//! One turn: a prompt, the agent's reply and its effects.
//!
//! [`take_turn`] shows the whole sequence: inspect → compose → call agent → parse → apply → commit → run steps → settle
//! → advance. Each step has its own file. `session.rs` is the only way to add events to a session, except during
//! recovery: `recover.rs` finishes interrupted turns.

mod active_turn;
mod apply_reply;
pub(crate) mod artifacts;
pub(crate) mod calibration;
mod call;
mod call_error;
mod call_files;
mod chunking;
mod context;
mod document_checks;
mod find_driver;
pub(crate) mod findings;
pub(crate) mod history;
mod inspect;
mod instructions;
mod ledger_text;
mod next_state;
mod opening;
pub(crate) mod prepare;
mod progress;
mod read_only;
pub(crate) mod record;
pub(crate) mod recover;
mod repairs;
pub(crate) mod reply_reader;
mod report;
pub(crate) mod request;
pub(crate) mod resolved;
mod resume;
mod run;
mod session;
pub(crate) mod site;
mod steps;
mod take_turn;
mod token_check;
mod turn_findings;

pub(crate) use active_turn::ActiveTurn;
pub(crate) use apply_reply::apply_and_run;
pub use calibration::{measured, measured_agents};
pub use context::TurnContext;
pub use find_driver::find_driver;
pub use findings::{load_findings, open_findings};
pub use inspect::preview;
pub use instructions::with_request;
pub use ledger_text::ledger_text;
pub use next_state::next_state;
pub use prepare::estimate_tokens;
pub use progress::{ProgressEvent, ProgressReceiver, ProgressSender, progress_channel};
pub use record::{CallRecord, ReplyRecord, TurnRecord};
pub use recover::recover_all;
pub use reply_reader::MAX_REPAIRS;
pub use report::{TurnReport, VerdictOverride};
pub use request::{BlockContent, NamedBlock, ReviewTree, TurnRequest};
pub use resume::{replay, resume};
pub use run::{AcceptNow, CommittedTrees, Run, StopFlag};
pub(crate) use session::Session;
pub(crate) use steps::{run_steps, stale_reason};
pub use take_turn::take_turn;
