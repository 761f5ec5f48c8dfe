//! Properties of every merge: nothing is lost, nothing is invented, and the result is a valid spec.

use std::collections::{BTreeMap, BTreeSet};

use agentd::spec::{Spec, check_spec, merge};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;

const NOW: &str = "2026-02-01T10:00:00Z";

/// Parts by section: the text of a section, and its requirements, scenarios and other headings.
type SpecParts = Vec<(&'static str, &'static str, Vec<(String, &'static str)>)>;

const WORDS: [&str; 6] = [
    "",
    "One.",
    "Two.",
    "Three.\n\n```text\n### R9 - x\n```",
    "Four.\n\n#### Deep",
    "Fünf.",
];

/// Writes a spec from its parts.
fn write_spec(plan: &SpecParts, title: &str) -> String {
    let mut body = format!("# {title}\n");
    let mut ids = Vec::new();
    for (section, text, parts) in plan {
        body += &format!("\n## {section}\n\n{text}\n");
        for (heading, text) in parts {
            let steps = if heading.starts_with("Scenario") {
                "- **WHEN** a\n- **THEN** b\n\n"
            } else {
                "Do.\n\n"
            };
            body += &format!("\n### {heading}\n{steps}{text}\n");
            ids.extend(
                heading
                    .split_once(" - ")
                    .map(|(id, _)| id.to_owned())
                    .filter(|id| id.starts_with('R')),
            );
        }
    }

    let list: String = ids.iter().map(|id| format!("    - {id}\n")).collect();
    format!(
        "---\nid: x\ntype: spec\ntitle: {title}\nversion: 3\ncreated_at: 2026-01-22T00:00:00Z\nupdated_at: 2026-01-22T00:00:00Z\n\
         requirements:\n  total: {}\n  ids:\n{list}design_elements:\n  has_mermaid: false\n  has_json_schema: false\n  \
         has_pseudo_code: false\n  has_api_spec: false\n---\n\n<spec>\n\n{body}\n</spec>\n",
        ids.len()
    )
}

/// The parts of a valid spec: requirement R1 always exists, all other parts are optional.
fn any_parts() -> impl Strategy<Value = (SpecParts, &'static str)> {
    let part = prop_oneof![
        (2..6_usize).prop_map(|n| format!("R{n} - Title")),
        (0..3_usize).prop_map(|n| format!("Scenario: case {n}")),
        (0..2_usize).prop_map(|n| format!("Notes {n}")),
    ];
    let parts = vec((part, select(WORDS.to_vec())), 0..5);
    let sections = vec((select(WORDS[..3].to_vec()), parts), 3);
    let names = subsequence(vec!["A", "B", "C"], 0..=3);
    (
        sections,
        names,
        select(vec!["Old", "New"]),
        select(WORDS.to_vec()),
    )
        .prop_map(|(filled, names, title, first)| {
            let mut plan: SpecParts =
                vec![("Requirements", "", vec![("R1 - First".to_owned(), first)])];
            plan.extend(
                names
                    .into_iter()
                    .zip(filled)
                    .map(|(name, (text, parts))| (name, text, parts)),
            );
            (without_doubles(plan), title)
        })
}

/// Removes each heading except the first of its kind.
fn without_doubles(mut plan: SpecParts) -> SpecParts {
    let mut used = BTreeSet::new();
    for (_, _, parts) in &mut plan {
        parts.retain(|(heading, _)| used.insert(heading.clone()));
    }
    plan
}

fn any_spec() -> impl Strategy<Value = String> {
    any_parts().prop_map(|(plan, title)| write_spec(&plan, title))
}

/// A spec, and two versions of it with some sections changed: most pairs merge, some conflict.
fn any_versions() -> impl Strategy<Value = [String; 3]> {
    let masks = vec(proptest::bool::weighted(0.5), 8);
    (any_parts(), any_parts(), any_parts(), masks).prop_map(|((base, title), one, other, masks)| {
        let mixed = |(edit, _): &(SpecParts, &str), mask: &[bool]| {
            let names = ["Requirements", "A", "B", "C"].into_iter().zip(mask);
            let of = |(name, edited): (&str, &bool)| {
                let plan = if *edited { edit } else { &base };
                plan.iter().find(|(known, ..)| *known == name).cloned()
            };
            write_spec(&without_doubles(names.filter_map(of).collect()), title)
        };
        [
            write_spec(&base, title),
            mixed(&one, &masks[..4]),
            mixed(&other, &masks[4..]),
        ]
    })
}

/// Merges `versions` a few hundred times. A test with nothing but conflicts would prove little.
#[test]
fn generated_versions_both_merge_and_conflict() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let merged = |_| {
        let [base, current, wanted] = any_versions().new_tree(&mut runner).unwrap().current();
        merge(Some(&base), Some(&current), &wanted, NOW).is_ok()
    };
    let merged = (0..300).map(merged).filter(|merged| *merged).count();
    assert!((60..240).contains(&merged), "{merged} of 300");
}

/// Splits the body of a spec at its headings, with a different rule than the program: texts by
/// heading.
fn sections(text: &str) -> BTreeMap<String, String> {
    let body = text
        .split_once("<spec>")
        .unwrap()
        .1
        .rsplit_once("</spec>")
        .unwrap()
        .0;
    let mut found = BTreeMap::new();
    let (mut name, mut is_code) = (String::new(), false);
    for line in body.lines() {
        is_code ^= line.starts_with("```");
        let special = line.starts_with("### R") || line.starts_with("### Scenario");
        if !is_code && (line.starts_with("## ") || special) {
            name = line.to_owned();
        }
        let text: &mut String = found.entry(name.clone()).or_default();
        text.push_str(line);
        text.push('\n');
    }

    found
        .into_iter()
        .map(|(name, text)| (name, text.trim().to_owned()))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn generated_specs_are_valid(spec in any_spec()) {
        prop_assert_eq!(check_spec(&spec), []);
    }

    #[test]
    fn unchanged_side_changes_nothing(base in any_spec(), edited in any_spec()) {
        let wanted = merge(Some(&base), Some(&base), &edited, NOW).unwrap();
        prop_assert_eq!(sections(&wanted), sections(&edited));
        // Only one side changed: the order is also that of the change.
        prop_assert_eq!(Spec::read(&wanted).unwrap().title, Spec::read(&edited).unwrap().title);
        let order = |text: &str| text.split_once("<spec>").unwrap().1.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
        prop_assert_eq!(order(&wanted), order(&edited));
        let kept = merge(Some(&base), Some(&edited), &base, NOW).unwrap();
        prop_assert_eq!(sections(&kept), sections(&edited));
        prop_assert_eq!(Spec::read(&kept).unwrap().version, 4);
    }

    #[test]
    fn merge_loses_and_invents_nothing([base, current, wanted] in any_versions()) {
        let (old, now, new) = (sections(&base), sections(&current), sections(&wanted));
        let names: BTreeSet<&String> = now.keys().chain(new.keys()).chain(old.keys()).collect();

        match merge(Some(&base), Some(&current), &wanted, NOW) {
            Ok(merged) => {
                prop_assert_eq!(check_spec(&merged), []);
                let merged = sections(&merged);
                for name in names {
                    let (old, now, new, got) = (old.get(name), now.get(name), new.get(name), merged.get(name));
                    // Every edit of either side is present. Without an edit, the text is unchanged.
                    prop_assert!(now == old || got == now, "{}: the current edit is lost", name);
                    prop_assert!(new == old || got == new, "{}: the wanted edit is lost", name);
                    prop_assert!(now != old || new != old || got == old, "{}: invented", name);
                }
                prop_assert!(merged.keys().all(|name| now.contains_key(name) || new.contains_key(name)));
            }
            Err(conflicts) => {
                prop_assert!(!conflicts.is_empty());
                for found in &conflicts {
                    let texts = [(&found.base, &old), (&found.current, &now), (&found.wanted, &new)];
                    for (text, of) in texts.into_iter().filter(|_| found.section.starts_with('#')) {
                        let known = text.as_ref().is_none_or(|text| of.values().any(|known| known == text));
                        prop_assert!(known, "{:?} is in no version", text);
                    }
                }
            }
        }
    }

    #[test]
    fn conflicts_do_not_depend_on_the_side([base, one, other] in any_versions(), is_new in proptest::bool::ANY) {
        let base = Some(base).filter(|_| !is_new);
        let names = |current: &str, wanted: &str| {
            let found = merge(base.as_deref(), Some(current), wanted, NOW).err().unwrap_or_default();
            // The title of the document is not part of the name of its first section.
            let key = |section: &str| if section.starts_with("# ") { "#".to_owned() } else { section.to_owned() };
            found.iter().map(|found| key(&found.section)).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(names(&one, &other), names(&other, &one));
    }
}
