//! Parsing of replies.

mod bad_replies;
mod fuzz;
mod nonce;
mod properties;
mod redteam;
mod repair;
mod replies;
mod stream;
