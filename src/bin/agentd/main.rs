//! The `agentd` command line.

mod args;
mod commands;
mod exit;
mod hidden;
mod humanize;
mod progress_view;
mod project;
mod signals;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    agentd::agent::guard_main();

    let arguments = match hidden::receive_variables() {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(terminal::print_failure(&error.into(), false)),
    };

    let args = match args::Args::try_parse_from(arguments) {
        Ok(args) => args.with_project_folder(),
        Err(error) => return ExitCode::from(terminal::print_usage_error(&error)),
    };
    terminal::log_to_stderr(args.verbose);

    let hidden = if args.command.may_run_project_code() {
        hidden::hide_secrets(&args)
    } else {
        Ok(())
    };

    match hidden
        .map_err(Into::into)
        .and_then(|()| commands::run(&args))
    {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            ExitCode::from(terminal::print_failure(&failure, args.command.wants_json()))
        }
    }
}
