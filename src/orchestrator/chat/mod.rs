//! A conversation with an agent: a session of a pack whose prompts show the earlier turns.
//!
//! [`chat_turn`] sends one message and returns the reply with the results of its actions. [`preview_chat`] composes the
//! prompt for a message without sending it, [`enter_mode`] moves a session to another mode, [`run_command`] runs a
//! command of the user that the pack declares, and [`undo_message`] undoes the last message.

mod enter_mode;
mod preview;
mod reply;
mod run_command;
mod send;
mod undo;

pub use enter_mode::{chat_state, enter_mode};
pub use preview::{ChatPreview, preview_chat};
pub use reply::ChatReply;
pub use run_command::{CommandReport, run_command};
pub use send::{ChatOptions, chat_turn, check_chat_pack};
pub use undo::{UndoReport, undo_message};
