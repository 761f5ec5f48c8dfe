//! The commands, one file for each group.

mod chat;
mod decide;
mod demo;
mod doctor;
mod explain;
mod fix;
mod init;
mod input;
mod log;
mod man;
mod models;
mod pack;
mod parse;
mod probe;
mod prompt;
mod report;
mod resume;
mod review;
mod run;
mod schema;
mod session;
mod show;
mod spec;
mod status;
mod template;
mod trust;
mod turn;

use clap::CommandFactory;

use crate::args::{Args, Command};
use crate::exit;
use crate::terminal::{self, CommandResult};

/// Runs the command of the command line.
pub(crate) fn run(args: &Args) -> CommandResult {
    match &args.command {
        Command::Run(given) => run::run(args, given),
        Command::Plan(given) => run::plan(args, given),
        Command::Challenge(given) => run::phase(args, "challenge", given),
        Command::Implement(given) => run::phase(args, "implement", given),
        Command::Archive(given) => run::phase(args, "archive", given),
        Command::Review(given) => review::run(args, given),
        Command::Approve(given) => decide::approve(args, given),
        Command::Revise(given) => decide::revise(args, given),
        Command::Reject(given) => decide::abandon(args, given, true),
        Command::Cancel(given) => decide::abandon(args, given, false),
        Command::Fix(given) => fix::run(args, given),
        Command::Status { json } => status::status(args, *json),
        Command::Change { command } => status::run(args, command),
        Command::Demo(given) => demo::run(args, given),
        Command::Chat(given) => chat::run(args, given),
        Command::Prompt(prompt) => prompt::run(args, prompt),
        Command::Turn(turn) => turn::run(args, turn),
        Command::Probe(given) => probe::run(args, given),
        Command::Doctor { json } => doctor::run(args, *json),
        Command::Log(given) => log::run(args, given),
        Command::Show(given) => show::run(args, given),
        Command::Diff { old, new, json } => show::diff(args, old, new, *json),
        Command::Replay(given) => resume::replay_turn(args, given),
        Command::Resume(given) => resume::resume_turn(args, given),
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
        Command::Schema { value, pack } => schema::run(args, *value, pack.as_deref()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "agentd", &mut script);
            terminal::write_data(|out| out.write_all(&script))?;
            Ok(exit::OK)
        }
        Command::Man { out } => man::run(args, out),
    }
}
