//! The project's checks: found by its files, or set by its configuration, and run under a guard.

mod detect;
mod listing;
mod run;

pub(super) use detect::{TEST_FOLDERS, has_target};
pub use detect::{check_commands, check_commands_in, detect_checks};
pub use listing::ProjectListing;
pub use run::{CheckJob, checks_report, run_checks};
