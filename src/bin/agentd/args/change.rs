//! Arguments of the commands that run a change.

use std::path::PathBuf;

use clap::Subcommand;

use super::SendArgs;

/// Options for running a change.
#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    /// Agent for the phases of this run [default: each phase's agent in agentd/config.toml, or one on PATH]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Model for the phases of this run [default: the agent's default]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,

    /// Do not stop for approval before implement and before the merge
    #[arg(long)]
    pub(crate) auto: bool,

    /// Continue without answering the planner's questions
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) send: SendArgs,

    /// Print progress and the result as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `run` and `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Name of the change, such as add-login: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    /// Requested change; `-` reads stdin [default: continue an existing change]
    #[arg(value_name = "REQUEST")]
    pub(crate) request: Option<String>,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Arguments of a command that runs one phase.
#[derive(Debug, clap::Args)]
pub(crate) struct PhaseArgs {
    /// Name of the change
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Arguments of `review`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReviewArgs {
    /// Name of the change [default: review the current branch and uncommitted changes]
    #[arg(value_name = "CHANGE")]
    pub(crate) change: Option<String>,

    /// Compare with this commit [default: the upstream, origin's default branch, main or master]
    #[arg(long, value_name = "REF", conflicts_with = "change")]
    pub(crate) base: Option<String>,

    /// Exit with 0 instead of 3 if nothing differs from the base
    #[arg(long, conflicts_with = "change")]
    pub(crate) allow_empty: bool,

    /// Point for the reviewer to check with special care
    #[arg(long, value_name = "TEXT", conflicts_with = "change")]
    pub(crate) mind: Option<String>,

    /// Do not run the project's checks
    #[arg(long, conflicts_with = "change")]
    pub(crate) no_checks: bool,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Arguments of `fix`.
#[derive(Debug, clap::Args)]
pub(crate) struct FixArgs {
    /// Problem to fix; `-` reads stdin
    #[arg(value_name = "REQUEST")]
    pub(crate) request: String,

    /// Name of the change and of its branch agentd/NAME [default: derived from the request]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Show this file to the agent; can be repeated
    #[arg(long = "file", value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Arguments of `approve` and `revise`.
#[derive(Debug, clap::Args)]
pub(crate) struct DecideArgs {
    /// Name of the change
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    /// Note for the agents; part of all later prompts of the change
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,

    /// Record the decision without running the change
    #[arg(long)]
    pub(crate) later: bool,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

/// Arguments of `reject` and `cancel`.
#[derive(Debug, clap::Args)]
pub(crate) struct EndArgs {
    /// Name of the change
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,

    /// Reason, recorded with the decision
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Create the project `greet` in this folder [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Use this script instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,

    /// Print progress and the result as JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChangeCommand {
    /// List all changes, including finished ones
    #[command(after_help = "\
Examples:
  agentd change list
  agentd change list --json | jq -r '.[] | select(.status == \"approval\") | .change'")]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show a change: status, rounds, verdicts, findings, branch and worktree
    #[command(after_help = "\
Examples:
  agentd change show add-login")]
    Show {
        /// Name of the change
        change: String,
        /// Print the change as JSON
        #[arg(long)]
        json: bool,
    },
}
