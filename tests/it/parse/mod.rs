//! Replies: what counts and what does not.

mod bad_replies;
mod fuzz;
mod nonce;
mod properties;
mod redteam;
mod repair;
mod replies;
mod stream;
