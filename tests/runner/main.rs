//! One test per file under `tests/cases`, named by its path: `cargo test reply/shapes/17` runs one case. Each page of
//! the documentation is a test as well.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and it sets up its own files and processes"
)]

#[expect(
    dead_code,
    reason = "shared with the test binary `it`, which uses the rest"
)]
#[path = "../support/mod.rs"]
mod support;

mod agent_output;
mod change;
mod cli;
mod cli_coverage;
mod docs;
mod edit;
mod front_matter;
mod http;
mod pack;
mod picture;
mod reply;
mod screen;
mod spec;
mod xml;

use std::collections::BTreeSet;
use std::env;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use support::{case_names, files_below, read_case, repository};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.test_threads.is_none() {
        arguments.test_threads = env::var("RUST_TEST_THREADS")
            .ok()
            .and_then(|threads| threads.parse().ok());
    }

    let trials = [
        change::trials(),
        cli::trials(),
        edit::trials(),
        http::trials(),
        agent_output::trials(),
        front_matter::trials(),
        pack::trials(),
        reply::trials(),
        screen::trials(),
        spec::trials(),
        xml::trials(),
    ];
    let mut trials: Vec<Trial> = trials.into_iter().flatten().collect();
    trials.push(every_case_folder_is_run(&trials));
    trials.push(cli_coverage::trial());
    trials.extend(docs::trials());
    trials.push(picture::trial());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns a trial that fails if a folder of `tests/cases` has no trial, so that nothing would run its files.
fn every_case_folder_is_run(trials: &[Trial]) -> Trial {
    let first_part = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let run: BTreeSet<String> = trials
        .iter()
        .map(|trial| first_part(trial.name()))
        .collect();
    Trial::test("every_case_folder_is_run", move || {
        let files = files_below(&repository().join("tests/cases"));
        let folders: BTreeSet<String> = files
            .iter()
            .map(|file| first_part(file.to_str().unwrap()))
            .collect();
        assert_eq!(folders, run);
        Ok(())
    })
}

/// Returns one trial for each file below `tests/cases/FOLDER`. The check gets the file's text and panics on a failure.
fn trials_of(folder: &str, check: fn(&str)) -> Vec<Trial> {
    let trial = |name: String| {
        let path = name.clone();
        Trial::test(name, move || {
            check(&read_case(&path));
            Ok(())
        })
    };
    case_names(folder).into_iter().map(trial).collect()
}
