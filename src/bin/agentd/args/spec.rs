//! Commands on specs.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SpecCommand {
    /// Check specs, and proposals and tasks given by name: each fault with its file and line
    #[command(after_help = "\
Examples:
  agentd spec check                  all of agentd/specs, and those of open changes
  agentd spec check agentd/changes/add-login/tasks.md
  agentd spec check --json | jq -r '.[].findings[].message'

A file named tasks.md or proposal.md is checked as what it is, any other as a spec.

Exit codes: 0 no fault, 1 faults were found.")]
    Check {
        /// The files [default: agentd/specs/*.md and agentd/changes/*/specs/*.md]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },

    /// List the specs of agentd/specs
    #[command(after_help = "\
Examples:
  agentd spec list
  agentd spec list --json | jq '.[] | select(.scenarios == 0)'")]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Print a spec, or one of its requirements with the headings of its scenarios
    #[command(after_help = "\
Examples:
  agentd spec show login
  agentd spec show login R2
  agentd spec show login --json | jq '.requirements | length'")]
    Show {
        /// The spec's id
        id: String,
        /// Print this requirement alone
        requirement: Option<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}
