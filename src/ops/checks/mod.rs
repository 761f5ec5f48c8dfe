//! The project's checks: detected from its files or set in its configuration, and run under the guard process.

mod detect;
mod listing;
mod run;

pub(super) use detect::{TEST_FOLDERS, has_target};
pub use detect::{check_commands, check_commands_in, detect_checks};
pub use listing::ProjectListing;
pub use run::{CheckJob, checks_report, run_checks};
