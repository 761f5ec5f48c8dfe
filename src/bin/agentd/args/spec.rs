//! Arguments of `spec`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SpecCommand {
    /// Check specs, proposals and tasks; print each problem with file and line
    #[command(after_help = "\
Examples:
  agentd spec check                  check agentd/specs and the specs of open changes
  agentd spec check agentd/changes/add-login/tasks.md
  agentd spec check --json | jq -r '.[].findings[].message'

Files named tasks.md and proposal.md are checked as such, all others as specs.

Exit codes: 0 no problems, 1 problems found.")]
    Check {
        /// Files [default: agentd/specs/*.md and agentd/changes/*/specs/*.md]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },

    /// List the specs in agentd/specs
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
        /// Id of the spec
        id: String,
        /// Print only this requirement
        requirement: Option<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}
