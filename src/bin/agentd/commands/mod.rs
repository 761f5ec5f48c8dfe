//! The commands, one file each.

mod again;
mod ask;
mod doctor;
mod explain;
mod init;
mod log;
mod models;
mod pack;
mod parse;
mod probe;
mod prompt;
mod report;
mod schema;
mod sending;
mod show;
mod spec;
mod template;
mod trust;
mod turn;

use clap::CommandFactory;

use crate::args::{Args, Command};
use crate::exit;
use crate::out::{self, Outcome};

/// Runs the command that was asked for.
pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Prompt(prompt) => prompt::run(args, prompt),
        Command::Turn(turn) => turn::run(args, turn),
        Command::Probe(given) => probe::run(args, given),
        Command::Doctor { json } => doctor::run(args, *json),
        Command::Log(given) => log::run(args, given),
        Command::Show(given) => show::run(args, given),
        Command::Diff { old, new, json } => show::diff(args, old, new, *json),
        Command::Replay(given) => again::replay_turn(args, given),
        Command::Resume(given) => again::resume_turn(args, given),
        Command::Usage { session, json } => log::usage(args, session.as_deref(), *json),
        Command::Export { session } => show::export(args, session.as_deref()),
        Command::Parse(parse) => parse::run(args, parse),
        Command::Template { command } => template::run(args, command),
        Command::Pack { command } => pack::run(args, command),
        Command::Spec { command } => spec::run(args, command),
        Command::Models { command } => models::run(args, command),
        Command::Tokens { file, model, json } => models::tokens(args, file, model, *json),
        Command::Init { json } => init::run(args, *json),
        Command::Trust { show, json } => trust::run(args, *show, *json),
        Command::Schema { value } => schema::run(*value),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "agentd", &mut script);
            out::data(|out| out.write_all(&script))?;
            Ok(exit::OK)
        }
    }
}
