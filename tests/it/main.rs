//! Integration tests, in one folder per room of the program. Case files have their own binary, `tests/runner`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and it sets up its own files and processes"
)]
#![expect(
    clippy::too_many_lines,
    reason = "a test may hold a long table of cases, or follow a whole change"
)]

#[expect(
    dead_code,
    reason = "shared with the test binary `cases`, which uses the rest"
)]
#[path = "../support/mod.rs"]
mod support;

mod agent;
mod apply;
mod change;
mod chat;
mod cli;
mod compose;
mod house;
mod ops;
mod pack;
mod parse;
mod real_agents;
mod seeds;
mod spec;
mod store;
mod turn;
