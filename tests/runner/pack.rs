//! Faulty pack manifests: every fault is reported with its place, and nothing else is.

use agentd::pack::Pack;
use agentd::{ErrorKind, Places};
use libtest_mimic::Trial;

use crate::support::TestProject;
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("pack", check)
}

/// A case is a manifest whose first lines name its faults: `# fault: LINE:COLUMN WORDS`, or words alone.
fn check(manifest: &str) {
    let project = TestProject::new();
    project
        .write("agentd/packs/trial/pack.yaml", manifest)
        .write("agentd/packs/trial/a.md", "# A\n\nText.\n")
        .write("agentd/packs/trial/open.md", "Text.\n\n{{nowhere}}\n");

    let error = Pack::load("trial", &Places::new(Some(project.root()), None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PackInvalid, "{error:#}");
    let place = error.place().map(ToString::to_string).unwrap_or_default();
    let reported = format!("{place}: {}", error.message());

    let expected: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("# fault: "))
        .collect();
    for fault in &expected {
        assert!(
            is_reported(fault, &reported),
            "{fault}\n    is not in: {reported}"
        );
    }
    assert_eq!(
        reported.lines().count(),
        expected.len(),
        "other faults are reported: {reported}"
    );
}

fn is_reported(fault: &str, reported: &str) -> bool {
    match fault
        .split_once(' ')
        .filter(|(place, _)| place.contains(':'))
    {
        Some((place, words)) => reported
            .lines()
            .any(|line| line.contains(&format!("pack.yaml:{place}: ")) && line.contains(words)),
        None => reported.contains(fault),
    }
}
