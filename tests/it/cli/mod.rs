//! The command line as a user types it.

mod bad_input;
mod commands;
mod doctor;
mod history;
mod parse_command;
mod readme;
mod reference;
mod screen;
mod settings;
