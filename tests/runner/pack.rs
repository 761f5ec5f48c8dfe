//! Faulty pack manifests: every error is reported with its location, and nothing else is.

use agentd::pack::{Pack, PackReport, ProblemSeverity};
use agentd::{ErrorKind, SearchPath};
use libtest_mimic::Trial;

use crate::support::TestProject;
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("pack", check)
}

/// A case is a manifest whose first lines name its problems, as `# fault: LINE:COLUMN WORDS` for an error and
/// `# warning: [FILE:]LINE:COLUMN WORDS`, or with words alone. `# file NAME: TEXT` adds a file, in which `\n` is a new line.
fn check(manifest: &str) {
    let project = TestProject::new();
    let folder = "agentd/packs/trial";
    project
        .write(&format!("{folder}/pack.yaml"), manifest)
        .write(&format!("{folder}/a.md"), "# A\n\nText.\n")
        .write(&format!("{folder}/open.md"), "Text.\n\n{{nowhere}}\n");
    let files = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("# file "));
    for file in files {
        let (name, text) = file.split_once(": ").unwrap();
        project.write(&format!("{folder}/{name}"), text.replace("\\n", "\n"));
    }

    let places = SearchPath::new(Some(project.root()), None);
    check_warnings(manifest, &Pack::check("trial", &places).unwrap());
    check_faults(manifest, Pack::load("trial", &places));
}

/// All warnings of a case that names some are expected, and each has a hint.
fn check_warnings(manifest: &str, report: &PackReport) {
    let expected = expected(manifest, "# warning: ");
    if expected.is_empty() {
        return;
    }
    let warnings = report
        .problems
        .iter()
        .filter(|problem| problem.severity == ProblemSeverity::Warning);
    let reported: Vec<String> = warnings
        .inspect(|problem| assert!(problem.hint.is_some(), "{problem} has no hint"))
        .map(ToString::to_string)
        .collect();
    check_reported(&expected, &reported.join("\n"));
}

/// All errors of a case are expected; without any the pack loads.
fn check_faults(manifest: &str, loaded: agentd::Result<Pack>) {
    let expected = expected(manifest, "# fault: ");
    let Err(error) = loaded else {
        let has_warning = manifest.contains("# warning: ");
        assert!(expected.is_empty() && has_warning, "the pack loads");
        return;
    };
    assert_eq!(error.kind(), ErrorKind::PackInvalid, "{error:#}");
    let place = error.place().map(ToString::to_string).unwrap_or_default();
    check_reported(&expected, &format!("{place}: {}", error.message()));
}

fn expected<'a>(manifest: &'a str, prefix: &str) -> Vec<&'a str> {
    let lines = manifest.lines();
    lines.filter_map(|line| line.strip_prefix(prefix)).collect()
}

fn check_reported(expected: &[&str], reported: &str) {
    for problem in expected {
        assert!(
            is_reported(problem, reported),
            "{problem}\n    is not in: {reported}"
        );
    }
    assert_eq!(
        reported.lines().count(),
        expected.len(),
        "other problems are reported: {reported}"
    );
}

fn is_reported(problem: &str, reported: &str) -> bool {
    match problem
        .split_once(' ')
        .filter(|(place, _)| place.contains(':'))
    {
        Some((place, words)) => {
            let place = if place.starts_with(|c: char| c.is_ascii_digit()) {
                format!("pack.yaml:{place}: ")
            } else {
                format!("{place}: ")
            };
            reported
                .lines()
                .any(|line| line.contains(&place) && line.contains(words))
        }
        None => reported.contains(problem),
    }
}
