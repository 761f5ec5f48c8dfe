//! The attacks of the red-team report: each has a test.

use std::fs;

use serde::Deserialize;

use crate::support::repository;

/// An attack, and the tests that fail if it succeeds.
#[derive(Deserialize)]
struct Attack {
    attack: String,
    /// A name with `/` is a case file or a folder of cases, any other a test of `tests/it` or a
    /// unit test.
    tests: Vec<String>,
}

/// Findings of the report that have tests. H4 and M5 are not closed yet.
const FINDINGS: [&str; 13] = [
    "H1", "H2", "H3", "H5", "H6", "M1", "M2", "M3", "M4", "M6", "M7", "Low", "Counts",
];

fn attacks() -> Vec<Attack> {
    let text = fs::read_to_string(repository().join("tests/data/redteam.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Returns true if a test exists: a case file, a folder of cases, or a function in the file of its module.
fn test_exists(test: &str) -> bool {
    let is_case = !test.contains("::");
    if is_case {
        return repository().join("tests/cases").join(test).exists();
    }
    let (module, function) = test.rsplit_once("::").unwrap();
    let file = format!("{}.rs", module.replace("::", "/"));
    ["tests/it", "src"]
        .iter()
        .filter_map(|folder| fs::read_to_string(repository().join(folder).join(&file)).ok())
        .any(|text| text.contains(&format!("fn {function}(")))
}

#[test]
fn every_attack_names_existing_tests() {
    let attacks = attacks();
    for attack in &attacks {
        assert!(!attack.tests.is_empty(), "{} has no test", attack.attack);
        for test in &attack.tests {
            assert!(
                test_exists(test),
                "{}: there is no test {test}",
                attack.attack
            );
        }
    }
    for finding in FINDINGS {
        let is_named = |attack: &Attack| attack.attack.starts_with(&format!("{finding} "));
        assert!(attacks.iter().any(is_named), "{finding} is missing");
    }
}

#[test]
fn missing_test_is_detected() {
    assert!(test_exists("change/unshown_review.yaml"));
    assert!(!test_exists("change/no_such_case.yaml"));
    assert!(!test_exists("house::redteam::no_such_test"));
    assert!(!test_exists("house::no_such_module::a_test"));
}
