//! The `agentd` command line.

mod args;
mod commands;
mod exit;
mod out;
mod project;
mod signals;
mod watch;
mod when;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    agentd::agent::guard_main();
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
