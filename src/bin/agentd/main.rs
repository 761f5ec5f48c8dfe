//! The `agentd` command line.

mod args;
mod commands;
mod exit;
mod out;
mod project;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return ExitCode::from(out::usage(&error)),
    };
    out::log_to_stderr(args.verbose);
    match commands::run(&args) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => ExitCode::from(out::report(&failure, args.command.wants_json())),
    }
}
