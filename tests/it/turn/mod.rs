//! One turn, from prompt to recorded result.

mod basics;
mod calibration;
mod conversation;
mod crash;
mod edited_ledger;
mod edits;
mod http;
mod mode_settings;
mod preview;
mod resume;
mod secret_turns;
mod secrets;
mod sent_texts;
mod trust;
