//! Spec merges, in hand-written examples.

use agentd::spec::{SpecConflict, check_spec, merge, touched};

use super::login;

const NOW: &str = "2026-02-01T10:00:00Z";

/// Returns the conflicting sections, each with the reason.
fn describe_conflicts(conflicts: &[SpecConflict]) -> Vec<String> {
    conflicts
        .iter()
        .map(|found| format!("{}: {}", found.section, found.why))
        .collect()
}

fn conflicts(base: Option<&str>, current: Option<&str>, wanted: &str) -> Vec<String> {
    describe_conflicts(&merge(base, current, wanted, NOW).unwrap_err())
}

/// Returns the spec with a third requirement after the second.
fn with_third(text: &str, title: &str) -> String {
    let third = format!("\n### R3 - {title}\n\nIt is logged.\n\n## Acceptance");
    text.replace("total: 2", "total: 3")
        .replace("    - R1\n", "    - R1\n    - R3\n")
        .replace("\n## Acceptance", &third)
}

#[test]
fn new_spec_is_version_1_of_today() {
    let merged = merge(
        None,
        None,
        &login().replace("version: 1", "version: 7"),
        NOW,
    )
    .unwrap();
    assert!(merged.contains(
        "version: 1\ncreated_at: 2026-02-01T10:00:00Z\nupdated_at: 2026-02-01T10:00:00Z\n"
    ));
    assert_eq!(check_spec(&merged), []);
}

#[test]
fn edits_of_different_sections_are_merged() {
    let base = login();
    let current = with_third(
        &base.replace("lock the account", "lock it for an hour"),
        "Log",
    )
    .replace("version: 1", "version: 4")
    .replace("title: \"Login\"", "title: \"Signing in\"");
    let wanted = base
        .replace("a name and a password", "a name and a pass phrase")
        .replace("## Requirements", "## Overview\n\nWho gets in.\n\n## Requirements")
        .replace("- **THEN** she is in.\n", "- **THEN** she is in.\n\n### Scenario: A wrong one\n\n- **WHEN** Bob guesses.\n- **THEN** he is out.\n\n```mermaid\ngraph TD\n```\n")
        .replace("has_mermaid: false", "has_mermaid: true");
    let expected = "---
id: login
type: spec
title: \"Signing in\"
version: 5
created_at: 2026-01-22T00:00:00Z
updated_at: 2026-02-01T10:00:00Z
requirements:
  total: 3
  ids:
    - R1
    - R2
    - R3
design_elements:
  has_mermaid: true
  has_json_schema: false
  has_pseudo_code: false
  has_api_spec: false
---

<spec>

# Login

## Overview

Who gets in.

## Requirements

### R1 - Password

A person gives a name and a pass phrase.

### R2: Lock

Three wrong passwords lock it for an hour.

### R3 - Log

It is logged.

## Acceptance Criteria

### Scenario: A right password

- **WHEN** Ada gives her password.
- **THEN** she is in.

### Scenario: A wrong one

- **WHEN** Bob guesses.
- **THEN** he is out.

```mermaid
graph TD
```

</spec>
";
    assert_eq!(
        merge(Some(&base), Some(&current), &wanted, NOW).unwrap(),
        expected
    );
    // The line ends of the current spec stay.
    let crlf = merge(
        Some(&base),
        Some(&current.replace('\n', "\r\n")),
        &wanted,
        NOW,
    )
    .unwrap();
    assert_eq!(crlf, expected.replace('\n', "\r\n"));
}

#[test]
fn two_edits_of_one_section_conflict() {
    let base = login();
    let current = base.replace("lock the account", "lock it for an hour");
    let wanted = base
        .replace("lock the account", "lock it for a day")
        .replace("### R2: Lock", "### R2: Locked");

    let found = merge(Some(&base), Some(&current), &wanted, NOW).unwrap_err();
    assert_eq!(
        describe_conflicts(&found),
        ["### R2: Locked: edited by both sides"]
    );
    assert_eq!(
        found[0].base.as_deref(),
        Some("### R2: Lock\n\nThree wrong passwords lock the account.")
    );
    assert_eq!(
        found[0].current.as_deref(),
        Some("### R2: Lock\n\nThree wrong passwords lock it for an hour.")
    );
    assert_eq!(
        found[0].wanted.as_deref(),
        Some("### R2: Locked\n\nThree wrong passwords lock it for a day.")
    );

    // The same edit on both sides is not a conflict.
    assert!(
        merge(Some(&base), Some(&current), &current, NOW)
            .unwrap()
            .contains("for an hour")
    );
}

#[test]
fn same_id_added_twice_conflicts() {
    let base = login();
    let (one, other) = (with_third(&base, "Log"), with_third(&base, "Report"));
    assert_eq!(
        conflicts(Some(&base), Some(&one), &other),
        ["### R3 - Report: added by both sides, with different texts"]
    );
    assert!(
        merge(Some(&base), Some(&one), &one, NOW)
            .unwrap()
            .contains("total: 3")
    );
}

#[test]
fn removal_merges_with_no_edit_and_conflicts_with_an_edit() {
    let full = with_third(&login(), "Log");
    let without = login();
    for (current, wanted) in [(&full, &without), (&without, &full)] {
        let merged = merge(Some(&full), Some(current), wanted, NOW).unwrap();
        assert!(
            !merged.contains("R3") && merged.contains("total: 2"),
            "{merged}"
        );
    }
    let edited = full.replace("It is logged.", "It is logged at once.");
    let why = "### R3 - Log: removed by the change, but edited in the meantime";
    assert_eq!(conflicts(Some(&full), Some(&edited), &without), [why]);
    let why = "### R3 - Log: edited by the change, but removed in the meantime";
    assert_eq!(conflicts(Some(&full), Some(&without), &edited), [why]);
}

#[test]
fn spec_added_twice_conflicts_where_it_differs() {
    let one = login();
    let other = with_third(&one, "Log")
        .replace("lock the account", "lock it")
        .replace("\"Login\"", "\"Log in\"");
    let expected = [
        "title: added by both sides",
        "### R2: Lock: added by both sides",
        "### R3 - Log: added by both sides",
    ];
    assert_eq!(conflicts(None, Some(&one), &other), expected);
    assert!(
        merge(None, Some(&one), &one, NOW)
            .unwrap()
            .contains("version: 2")
    );
}

#[test]
fn missing_or_invalid_spec_conflicts() {
    let base = login();
    let wanted = base.replace("lock the account", "lock it");
    let gone = "login: the spec was removed after the change was planned";
    assert_eq!(conflicts(Some(&base), None, &base), [gone]);
    assert_eq!(
        conflicts(Some(&base), None, &wanted),
        [
            "### R2: Lock: edited by the change, but removed in the meantime",
            gone
        ]
    );

    let broken = base.replace("total: 2", "total: 9");
    let why = "line 9: `total` is 9, but the body has 2 requirements";
    assert_eq!(
        conflicts(Some(&base), Some(&broken), &wanted),
        [format!("the current spec: {why}")]
    );
    assert_eq!(
        conflicts(Some(&base), Some(&base), &broken),
        [format!("the change's spec: {why}")]
    );

    // A spec that was invalid when the change was planned may have been repaired since.
    assert!(merge(Some(&broken), Some(&base), &wanted, NOW).is_ok());

    let other = base.replace("id: login", "id: logout");
    assert_eq!(
        conflicts(Some(&base), Some(&other), &wanted),
        ["login: the current spec has another id: `logout`"]
    );
}

#[test]
fn titles_are_merged_like_sections() {
    let base = login();
    let title = |title: &str| base.replace("\"Login\"", title);
    assert!(
        merge(Some(&base), Some(&title("A")), &base, NOW)
            .unwrap()
            .contains("title: \"A\"")
    );
    assert!(
        merge(Some(&base), Some(&base), &title("'B \"b\"'"), NOW)
            .unwrap()
            .contains("title: \"B \\\"b\\\"\"")
    );
    assert_eq!(
        conflicts(Some(&base), Some(&title("A")), &title("B")),
        ["title: edited by both sides"]
    );
}

/// A section that is renamed on one side does not move additions that the other side makes in it.
#[test]
fn part_without_a_section_conflicts() {
    let base = login();
    let renamed = base.replace("## Requirements", "## Demands");
    let why = "### R3 - Log: the section of this part was removed";
    assert_eq!(
        conflicts(Some(&base), Some(&with_third(&base, "Log")), &renamed),
        [why]
    );
    assert_eq!(
        conflicts(Some(&base), Some(&renamed), &with_third(&base, "Log")),
        [why]
    );

    // Content that both sides have moves along.
    let edited = base.replace("lock the account", "lock it");

    for (current, wanted) in [(&renamed, &edited), (&edited, &renamed)] {
        let merged = merge(Some(&base), Some(current), wanted, NOW).unwrap();
        assert!(
            merged.contains("## Demands\n\n### R1 - Password")
                && merged.contains("lock it.\n\n## Acceptance"),
            "{merged}"
        );
    }
}

#[test]
fn empty_result_conflicts() {
    let base = login();
    let drop = |id: &str, heading: &str, end: &str| {
        let start = base.find(heading).unwrap();
        let end = base.find(end).unwrap();
        format!("{}{}", &base[..start], &base[end..])
            .replace("total: 2", "total: 1")
            .replace(&format!("    - {id}\n"), "")
    };

    let (first, second) = (
        drop("R2", "### R2", "## Acceptance"),
        drop("R1", "### R1", "### R2"),
    );
    assert_eq!(
        conflicts(Some(&base), Some(&first), &second),
        ["login: after the merge: the spec has no requirements"]
    );
}

#[test]
fn other_headings_are_merged_in_place() {
    let base = login().replace("\n## Acceptance", "\n### Notes\n\nOne.\n\n## Acceptance");
    let current = base.replace("lock the account", "lock it");

    // The heading belongs to the part before it.
    let merged = merge(
        Some(&base),
        Some(&current),
        &base.replace("a password.", "a phrase."),
        NOW,
    )
    .unwrap();
    assert!(
        merged.contains("lock it.\n\n### Notes\n\nOne.\n\n## Acceptance"),
        "{merged}"
    );
    assert_eq!(
        conflicts(Some(&base), Some(&current), &base.replace("One.", "Two.")),
        ["### R2: Lock: edited by both sides"]
    );

    let base = login().replace(
        "## Requirements\n",
        "## Requirements\n\n### Notes\n\nOne.\n",
    );
    let why = "## Requirements: edited by both sides";
    assert_eq!(
        conflicts(
            Some(&base),
            Some(&base.replace("One.", "Three.")),
            &base.replace("One.", "Two.")
        ),
        [why]
    );
}

#[test]
fn change_touches_added_edited_and_removed_parts() {
    let base = with_third(&login(), "Log");
    let wanted = login()
        .replace("lock the account", "lock it")
        .replace("Scenario: A right", "Scenario: The right");
    assert_eq!(
        touched(Some(&base), &wanted),
        [
            "R2",
            "Scenario: The right password",
            "R3",
            "Scenario: A right password"
        ]
    );
    assert_eq!(touched(Some(&base), &base.replace('\n', "\r\n")), [""; 0]);
    assert_eq!(
        touched(None, &login()),
        ["R1", "R2", "Scenario: A right password"]
    );
}
