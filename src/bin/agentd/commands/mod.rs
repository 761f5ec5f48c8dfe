//! The commands, one file each.

mod ask;
mod explain;
mod init;
mod models;
mod pack;
mod parse;
mod prompt;
mod schema;
mod template;
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
        Command::Parse(parse) => parse::run(args, parse),
        Command::Template { command } => template::run(args, command),
        Command::Pack { command } => pack::run(args, command),
        Command::Models { command } => models::run(args, command),
        Command::Tokens { file, model, json } => models::tokens(args, file, model, *json),
        Command::Init { json } => init::run(args, *json),
        Command::Schema { value } => schema::run(*value),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "agentd", &mut script);
            out::data(|out| out.write_all(&script))?;
            Ok(exit::OK)
        }
    }
}
