//! Dependencies of the builds, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::support::repository;

/// Licences that may be linked into the program.
const LICENCES: [&str; 12] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // The list of certificate authorities is data under this licence.
    "CDLA-Permissive-2.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Maximum number of crates in the pure build.
const MAX_PURE_CRATES: usize = 80;

fn metadata(features: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .args(features)
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the ids of all packages that a build uses. `all_kinds` includes dev-dependencies.
fn used_packages(metadata: &Value, all_kinds: bool) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let mut found = BTreeSet::new();
    let mut waiting = vec![metadata["resolve"]["root"].as_str().unwrap()];
    while let Some(id) = waiting.pop() {
        if !found.insert(id.to_owned()) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            if all_kinds || kinds.iter().any(|kind| kind["kind"] != "dev") {
                waiting.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }

    found
}

fn packages<'a>(metadata: &'a Value, ids: &'a BTreeSet<String>) -> impl Iterator<Item = &'a Value> {
    let all = metadata["packages"].as_array().unwrap().iter();
    all.filter(|package| ids.contains(package["id"].as_str().unwrap()))
}

#[test]
fn pure_build_is_small() {
    let metadata = metadata(&["--no-default-features", "--features=tokenizer"]);
    let used = used_packages(&metadata, false);
    assert!(
        used.len() > 10 && used.len() <= MAX_PURE_CRATES,
        "{} crates",
        used.len()
    );
}

/// The vocabulary adds 30 MB to a binary, so the pure build and `run` can omit it.
#[test]
fn only_feature_tokenizer_links_a_vocabulary() {
    let links_vocabulary = |features: &[&str]| {
        let metadata = metadata(&[&["--no-default-features"], features].concat());
        let used = used_packages(&metadata, false);
        packages(&metadata, &used).any(|package| package["name"] == "bpe-openai")
    };
    assert!(!links_vocabulary(&[]));
    assert!(!links_vocabulary(&["--features=run"]));
    assert!(links_vocabulary(&["--features=tokenizer"]));
    assert!(links_vocabulary(&["--features=cli"]));
}

#[test]
fn no_crate_is_linked_twice() {
    let metadata = metadata(&[]);
    let used = used_packages(&metadata, false);
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages(&metadata, &used) {
        let version = package["version"].as_str().unwrap();
        versions
            .entry(package["name"].as_str().unwrap())
            .or_default()
            .push(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    assert_eq!(versions, BTreeMap::new());
}

#[test]
fn licences_are_allowed_and_crates_come_from_the_registry() {
    let metadata = metadata(&["--all-features"]);
    let used = used_packages(&metadata, true);
    for package in packages(&metadata, &used) {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_allowed(licence), "{name}: {licence}");
        let source = package["source"].as_str();
        assert!(
            name == "agentd" || source.is_some_and(|source| source.starts_with("registry+")),
            "{name}: {source:?}"
        );
    }
}

fn is_allowed(licence: &str) -> bool {
    let licence = licence.replace('/', " OR ").replace(['(', ')'], "");
    licence.split(" AND ").all(|part| {
        part.split(" OR ")
            .any(|name| LICENCES.contains(&name.trim()))
    })
}

#[test]
fn licence_expressions_are_parsed() {
    assert!(is_allowed("MIT/Apache-2.0") && is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!is_allowed("GPL-3.0") && !is_allowed("MIT AND GPL-3.0") && !is_allowed("none"));
}
