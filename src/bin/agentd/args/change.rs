//! Flags of the commands that lead a change.

use std::path::PathBuf;

use clap::Subcommand;

use super::SendArgs;

/// How a change is led on.
#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    /// The agent of every phase that is taken now [default: each phase's own in agentd/config.toml, or one on PATH]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// The model of every phase that is taken now [default: the agent's own]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// Do not stop for approval before implement and before the merge
    #[arg(long)]
    pub(crate) auto: bool,

    /// Do not ask: go on without answers to what the planner asks
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print what happens as it happens, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A change from wherever it stands.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The change, such as add-login: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    /// What shall change; `-` reads it from stdin [default: go on with a change that is there]
    #[arg(value_name = "REQUEST")]
    pub(crate) request: Option<String>,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// One phase of a change.
#[derive(Debug, clap::Args)]
pub(crate) struct PhaseArgs {
    /// The change
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// A review, of a change or of what is there.
#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    /// The change [default: review the current branch and what is not committed, against its base]
    #[arg(value_name = "CHANGE")]
    pub(crate) change: Option<String>,

    /// What the current branch is compared with [default: its upstream, origin's default branch, main or master]
    #[arg(long, value_name = "REF", conflicts_with = "change")]
    pub(crate) base: Option<String>,

    /// Exit with 0 if nothing differs from the base [default: exit with 3]
    #[arg(long, conflicts_with = "change")]
    pub(crate) allow_empty: bool,

    /// What to look at with special care
    #[arg(long, value_name = "TEXT", conflicts_with = "change")]
    pub(crate) mind: Option<String>,

    /// Do not run the project's own checks
    #[arg(long, conflicts_with = "change")]
    pub(crate) no_checks: bool,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// A small fix.
#[derive(Debug, clap::Args)]
pub(crate) struct FixArgs {
    /// What is to be fixed; `-` reads it from stdin
    #[arg(value_name = "REQUEST")]
    pub(crate) request: String,

    /// The name of its branch, after agentd/ [default: made from the request]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Show this file to the agent; may be given several times
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// What a person decides about a change.
#[derive(Debug, clap::Args)]
pub(crate) struct DecideArgs {
    /// The change
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    /// What to mind; agents are shown it from now on
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,

    /// Only record the decision; `agentd run` goes on later
    #[arg(long)]
    pub(crate) later: bool,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// The end of a change that was not brought to its goal.
#[derive(Debug, clap::Args)]
pub(crate) struct EndArgs {
    /// The change
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Make the project in this folder, under the name `greet` [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Play this script instead of the shipped one
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Print what happens as it happens, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChangeCommand {
    /// List all changes, also those that are over
    #[command(after_help = "\
Examples:
  agentd change list
  agentd change list --json | jq -r '.[] | select(.standing == \"approval\") | .change'")]
    List {
        /// Print the changes as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show a change: how it stands, its rounds and verdicts, what it touches, where it lives
    #[command(after_help = "\
Examples:
  agentd change show add-login")]
    Show {
        /// The change
        change: String,
        /// Print the change as JSON
        #[arg(long)]
        json: bool,
    },
}
