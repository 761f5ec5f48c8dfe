//! The `agentd` command line.

mod args;
mod commands;
mod exit;
mod out;
mod project;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    out::log_to_stderr(args.verbose);
    match commands::run(&args) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => ExitCode::from(out::report(&failure, args.command.wants_json())),
    }
}
