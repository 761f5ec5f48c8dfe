//! Findings in reports in the style of strong models, and their effect on a verdict.

use std::collections::BTreeMap;
use std::fs;

use agentd::apply::{collect_findings, overruled_by};
use agentd::models::{Finding, FindingWords, Mode, TurnResult};
use agentd::ops::noted;
use agentd::spec::read_findings;
use agentd::{Pack, ReviewResult, SearchPath};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::repository;

fn load(name: &str) -> Pack {
    Pack::load(name, &SearchPath::default()).unwrap()
}

fn words(pack: &Pack) -> FindingWords {
    FindingWords::new(&pack.actions["finding"])
}

fn findings(pack: &Pack, report: &str) -> Vec<Finding> {
    let words = words(pack);
    collect_findings(&words, read_findings(report, &words, &[]), &[])
}

/// Returns the terminal lines of a report's findings.
fn shown_findings(file: &str) -> Vec<String> {
    let path = repository().join("tests/data/findings").join(file);
    let report = fs::read_to_string(path).unwrap();
    findings(&load("sdd"), &report)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn natural_reports_are_parsed() {
    let review = [
        "src/itsdangerous/timed.py:274: major: `loads_unsafe` accepts `leeway` and ignores it [V1]",
        "src/itsdangerous/timed.py:173: major: A negative leeway is only refused with `max_age`, and after the \
         signature was checked [V2]",
        "environment: major: The checks run against another checkout [V4]",
        "src/itsdangerous/timed.py:183: minor: Misleading message for signatures from the future [V3]",
    ];
    assert_eq!(shown_findings("review.md"), review);

    let minor = [
        "specs/timed-signatures.md: minor: R4 says \"those of 2.2.0\" [C1]",
        "API section: minor: Type hints [C2]",
    ];
    assert_eq!(shown_findings("challenge_minor.md"), minor);

    let blocking =
        ["specs/timed-signatures.md: critical: The spec loses R1, R4 and ten scenarios [C1]"];
    assert_eq!(shown_findings("challenge_blocking.md"), blocking);
}

#[test]
fn both_packs_describe_findings_identically() {
    let read = |pack: &str| {
        fs::read_to_string(repository().join(format!("packs/{pack}/actions.yaml"))).unwrap()
    };
    assert_eq!(read("sdd"), read("light"));
}

/// Returns the result of a turn with this reply and these findings in its report.
fn counts_as(pack: &Pack, mode: &str, said: ReviewResult, report: &str) -> ReviewResult {
    let spec = pack.mode(&Mode::new(mode).unwrap()).unwrap();
    let settlement = noted(&findings(pack, report));
    let results = BTreeMap::from([(settlement.operation.clone(), settlement)]);
    overruled_by(spec, TurnResult::Verdict(said), &results)
        .map_or(said, |(_, result)| result.verdict().unwrap())
}

#[test]
fn open_severe_finding_overrules_only_pass() {
    let modes = [
        ("sdd", "challenge", ReviewResult::NeedsRevision),
        ("sdd", "review", ReviewResult::NeedsChanges),
        ("light", "review", ReviewResult::NeedsChanges),
    ];

    for (pack, mode, raised) in modes {
        let pack = load(pack);
        for severity in ["critical", "Blocking", "major", "HIGH", "showstopper"] {
            let report = format!("### V1 - x\n- Severity: {severity}\n");
            assert_eq!(
                counts_as(&pack, mode, ReviewResult::Pass, &report),
                raised,
                "{severity}"
            );
            for severe in [ReviewResult::MajorIssues, ReviewResult::Rejected] {
                assert_eq!(
                    counts_as(&pack, mode, severe, &report),
                    severe,
                    "{severity}"
                );
            }
        }

        for severity in ["minor", "medium", "moderate", "low", "nit"] {
            let report = format!("### V1 - x\n- Severity: {severity}\n");
            assert_eq!(
                counts_as(&pack, mode, ReviewResult::Pass, &report),
                ReviewResult::Pass,
                "{severity}"
            );
        }

        let settled = "### V1 - x\n- Severity: critical\n- Status: settled\n";
        assert_eq!(
            counts_as(&pack, mode, ReviewResult::Pass, settled),
            ReviewResult::Pass
        );
    }
}

/// A section of a report, with or without an id, a severity and a status.
fn any_section() -> impl Strategy<Value = String> {
    let heads = select(vec![
        "### V1 - x",
        "### V2: x",
        "## x",
        "### SEC-1: x",
        "- **V1** (major): x",
        "### R1 - x",
    ]);
    let severities = select(vec![
        "", "critical", "Blocking", "major", "minor", "nit", "odd", "none",
    ]);
    let statuses = select(vec!["", "open", "fixed in part", "settled"]);
    (heads, severities, statuses).prop_map(|(head, severity, status)| {
        let item = |label: &str, value: &str| match value {
            "" => String::new(),
            value => format!("- **{label}**: {value}\n"),
        };
        format!(
            "{head}\n{}{}\n",
            item("Severity", severity),
            item("Status", status)
        )
    })
}

proptest! {
    #[test]
    fn added_finding_never_improves_a_result(
        // A finding without a severity counts as major until another section of the same id gives
        // it one.
        sections in vec(any_section().prop_filter("rated", |section| section.contains("Severity")), 0..5),
        added in any_section().prop_filter("an open one", |section| !section.contains("settled")),
        at in any::<prop::sample::Index>(),
        said in select(ReviewResult::ALL.to_vec()),
        (pack, mode) in select(vec![("sdd", "challenge"), ("sdd", "review"), ("light", "review")]),
    ) {
        let pack = load(pack);
        let before = counts_as(&pack, mode, said, &sections.concat());
        let mut more = sections;
        let index = at.index(more.len() + 1);
        more.insert(index, added);
        let after = counts_as(&pack, mode, said, &more.concat());
        prop_assert!(after >= before && before >= said, "{said}: {before}, then {after}: {more:?}");
    }
}
