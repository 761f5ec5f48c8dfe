//! Rules for names and wording that a test can check: type names, the start of doc comments, words to avoid.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{files_below, repository};

/// Words of the old wording. Each has a plain replacement: `exists`, `prints`, `reports`, `must`, `next to`, `after`.
const AVOIDED_WORDS: [&str; 18] = [
    "stand",
    "stands",
    "stood",
    "tells",
    "told",
    "shall",
    "whoever",
    "whom",
    "of its own",
    "to an end",
    "comes to",
    "come to",
    "is led",
    "are led",
    "that which",
    "leads on",
    "beside",
    "behind",
];

/// Beginnings of doc comments that are a clause instead of a verb phrase or a noun phrase.
const AVOIDED_BEGINNINGS: [&str; 5] = ["What", "Who", "Whether", "How", "Tells"];

/// Lines in which an avoided word has its ordinary meaning: the file, and a part of the line.
const ORDINARY_USES: [(&str, &str); 1] = [("src/ops/checks/run.rs", "exit.left_behind")];

/// Types that exist twice on purpose: the file of the second one, and the name.
const PLATFORM_TYPES: [(&str, &str); 2] = [
    ("src/agent/other.rs", "ProcessTree"),
    ("src/agent/other.rs", "Signals"),
];

/// Returns the sources in a folder of the repository, without their unit tests.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let root = repository();
    files_below(&root.join(folder))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let path = Path::new(folder).join(path);
            let text = fs::read_to_string(root.join(&path)).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
            (path, code)
        })
        .collect()
}

/// Returns the names of the types that a source declares outside of functions and `impl` blocks.
fn declared_types(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| {
            let item = ["pub(crate) ", "pub(super) ", "pub "]
                .iter()
                .find_map(|visibility| line.strip_prefix(visibility))
                .unwrap_or(line);
            let declared = ["struct ", "enum ", "trait ", "type ", "union "]
                .iter()
                .find_map(|keyword| item.strip_prefix(keyword))?;
            declared.split(|c: char| !c.is_alphanumeric()).next()
        })
        .collect()
}

#[test]
fn type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();

    for (path, text) in sources("src") {
        let file = path.display().to_string();
        for name in declared_types(&text) {
            if !PLATFORM_TYPES.contains(&(file.as_str(), name)) {
                places
                    .entry(name.to_owned())
                    .or_default()
                    .push(file.clone());
            }
        }
    }

    assert!(places.len() > 300, "{} types", places.len());
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "a type name exists once: {places:#?}");
}

#[test]
fn declared_types_are_found() {
    let text = "pub struct One {\n    x: u8,\n}\nenum Two<'a> {}\nimpl A for B {\n    type Error = E;\n}\n";
    assert_eq!(declared_types(text), ["One", "Two"]);
}

/// Returns the first lines of doc comments.
fn doc_beginnings(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut previous_is_doc = false;

    for line in text.lines().map(str::trim_start) {
        let doc = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        if let Some(doc) = doc
            && !previous_is_doc
        {
            found.push(doc.trim());
        }
        previous_is_doc = doc.is_some();
    }
    found
}

#[test]
fn doc_comments_start_with_a_verb_or_a_noun() {
    let mut wrong = Vec::new();

    for folder in ["src", "tests", "benches", "examples"] {
        for (path, text) in sources(folder) {
            for line in doc_beginnings(&text) {
                let word = line.split_whitespace().next().unwrap_or_default();
                if AVOIDED_BEGINNINGS.contains(&word) {
                    wrong.push(format!("{}: {line}", path.display()));
                }
            }
        }
    }

    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn doc_beginnings_are_found() {
    let text = "//! How it works.\n\n    /// What it is.\n    /// Who cares.\n    x: u8,\n";
    assert_eq!(doc_beginnings(text), ["How it works.", "What it is."]);
}

/// Returns the lines of comments and of string literals with several words.
fn prose_lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| {
            let trimmed = line.trim_start();
            if trimmed.starts_with("//") {
                return Some(trimmed);
            }
            let start = line.find('"')?;
            let literal = &line[start..];
            (literal.matches(' ').count() > 2).then_some(literal)
        })
        .collect()
}

/// Returns the avoided word in a line, if there is one.
fn avoided_word(line: &str) -> Option<&'static str> {
    let lower = line.to_lowercase();
    AVOIDED_WORDS.into_iter().find(|word| {
        lower.match_indices(word).any(|(at, _)| {
            let before = lower[..at].chars().next_back();
            let after = lower[at + word.len()..].chars().next();
            let is_part_of_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !is_part_of_word(before) && !is_part_of_word(after)
        })
    })
}

#[test]
fn avoided_words_are_not_used() {
    let mut wrong = Vec::new();
    let mut used = 0;

    for (path, text) in sources("src") {
        let file = path.display().to_string();
        for line in prose_lines(&text) {
            let Some(word) = avoided_word(line) else {
                continue;
            };
            if ORDINARY_USES
                .iter()
                .any(|(allowed, part)| file == *allowed && line.contains(part))
            {
                used += 1;
            } else {
                wrong.push(format!("{file}: `{word}` in: {line}"));
            }
        }
    }

    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        used >= ORDINARY_USES.len(),
        "remove the uses that are gone from ORDINARY_USES"
    );
}

#[test]
fn avoided_words_are_found_as_whole_words() {
    assert_eq!(avoided_word("/// It stands here."), Some("stands"));
    assert_eq!(
        avoided_word("/// It has a tree of its own."),
        Some("of its own")
    );
    assert_eq!(avoided_word("/// A standard that is understood."), None);
}
