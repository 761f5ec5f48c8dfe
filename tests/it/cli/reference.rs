//! The reference pages match the program: commands, flags, settings and exit codes, no more and no less.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use agentd::config::Settings;
use regex::Regex;

use crate::support::{TestProject, files_below, repository};

fn page(name: &str) -> String {
    fs::read_to_string(repository().join("docs/reference").join(name)).unwrap()
}

/// Returns the text of all matches of the first group of a pattern.
fn matches(pattern: &str, text: &str) -> BTreeSet<String> {
    Regex::new(pattern)
        .unwrap()
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

/// Returns the flags of a help text.
fn flags(help: &str) -> BTreeSet<String> {
    matches(r"(?m)^ *(?:-\w, )?(--[a-z-]+)", help)
}

/// Returns the help of each command, by name: `review`, `pack check`.
fn helps() -> BTreeMap<String, String> {
    let project = TestProject::new();
    let mut helps = BTreeMap::new();
    // `man` is for packagers, and the help does not list it.
    let mut names = vec![String::new(), "man".to_owned()];

    while let Some(name) = names.pop() {
        let args: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
        let help = project.run(&args).ok();
        let list = help
            .split_once("\nCommands:\n")
            .map_or("", |(_, list)| list);
        let list = list.split("\n\n").next().unwrap_or_default();
        for below in matches(r"(?m)^  ([a-z]+) ", list) {
            if below != "help" {
                names.push(format!("{name} {below}").trim_start().to_owned());
            }
        }
        helps.insert(name, help);
    }
    helps
}

/// A section of commands.md describes the commands in its heading. `commands.rs` checks the other direction: every
/// command and flag is on the page.
#[test]
fn documented_commands_and_flags_exist() {
    let helps = helps();
    let page = page("commands.md");
    let sections: Vec<&str> = page
        .split("\n### ")
        .skip(1)
        .filter(|section| section.starts_with("`agentd "))
        .collect();
    assert!(sections.len() > 20, "{} sections", sections.len());

    for section in sections {
        let heading = section.lines().next().unwrap();
        let names = commands_of(heading, &helps);
        assert!(!names.is_empty(), "no command in `{heading}`");

        let mut known: BTreeSet<String> =
            names.iter().flat_map(|name| flags(&helps[name])).collect();
        if section.contains("flags of `prompt`") {
            known.extend(flags(&helps["prompt"]));
        }
        let rows = section.lines().filter(|line| line.starts_with("| `-"));
        for row in rows {
            let first_column = row.split(" | ").next().unwrap();
            for flag in matches(r"`(--[a-z-]+)", first_column) {
                // `--change` is another name of `--session`, which the help does not list.
                let is_known = known.contains(&flag) || flag == "--change";
                assert!(is_known, "`{heading}` has no flag {flag}");
            }
        }
        for flag in matches(r"`(--[a-z-]+)", section) {
            let exists = helps.values().any(|help| flags(help).contains(&flag));
            assert!(
                exists || flag == "--change",
                "no command has {flag}, which is in the section `{heading}`"
            );
        }
    }
}

/// Returns the commands that a heading names, such as `` `agentd log [SESSION]`, `show TURN` ``. A word after the first
/// command may also be a subcommand of its group.
fn commands_of(heading: &str, helps: &BTreeMap<String, String>) -> Vec<String> {
    let mut names = Vec::new();
    let mut group = String::new();

    for code in matches_in_order(r"`([^`]+)`", heading) {
        let words: Vec<&str> = code
            .trim_start_matches("agentd ")
            .split_whitespace()
            .collect();
        let both = words.get(..2).map(|words| words.join(" "));
        let in_group = format!("{group} {}", words[0]);

        let name = [both, Some(in_group), Some(words[0].to_owned())]
            .into_iter()
            .flatten()
            .find(|name| helps.contains_key(name.trim()))
            .unwrap_or_else(|| panic!("there is no command `{code}`"));
        if let Some((first, _)) = name.trim().split_once(' ') {
            group = first.to_owned();
        }
        names.push(name.trim().to_owned());
    }
    names
}

fn matches_in_order(pattern: &str, text: &str) -> Vec<String> {
    Regex::new(pattern)
        .unwrap()
        .captures_iter(text)
        .map(|found| found[1].to_owned())
        .collect()
}

/// Settings with an unknown key in a table name all keys of that table; the page must show each.
#[test]
fn every_setting_is_documented() {
    let page = page("settings.md");
    let example = page.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let tables = [
        ("", "unknown = 1"),
        ("prompt", "[prompt]\nunknown = 1"),
        ("structure", "[structure]\nunknown = 1"),
        ("limits", "[limits]\nunknown = 1"),
        ("budget", "[budget]\nunknown = 1"),
        ("budget.run", "[budget.run]\nunknown = 1"),
        ("modes.", "[modes.plan]\nunknown = 1"),
        ("review", "[review]\nunknown = 1"),
        ("change", "[change]\nunknown = 1"),
        ("[models]", "[[models]]\nunknown = 1"),
    ];
    let optional_model_keys = ["aliases", "max_output", "price", "retired"];

    for (table, text) in tables {
        let error = Settings::default()
            .overlaid(&format!("format = 1\n{text}\n"), "config.toml")
            .unwrap_err()
            .to_string();
        let (_, keys) = error
            .split_once("expected ")
            .unwrap_or_else(|| panic!("{error}"));
        let keys = matches(r"`([a-z_]+)`", keys);
        assert!(keys.len() > 1, "{table}: {error}");

        let shown = shown_keys(example, table);
        for key in keys {
            let is_shown = shown.contains(&key) || optional_model_keys.contains(&key.as_str());
            assert!(is_shown, "settings.md does not show `{key}` of [{table}]");
        }
    }
}

/// Returns the keys that an example shows in tables whose name starts like this, and the tables below it.
fn shown_keys(example: &str, table: &str) -> BTreeSet<String> {
    let mut current = String::new();
    let mut keys = BTreeSet::new();

    for line in example.lines() {
        if let Some(name) = line.strip_prefix('[') {
            let end = name.rfind(']').unwrap();
            current = name[..end].to_owned();
            let name = current.trim_matches(['[', ']']);
            match (table, name.split_once('.')) {
                ("", Some((first, _))) => keys.insert(first.to_owned()),
                ("", None) => keys.insert(name.to_owned()),
                (_, Some((first, below))) if first == table => keys.insert(below.to_owned()),
                _ => false,
            };
        } else if let Some((key, _)) = line.split_once('=') {
            let is_here = if table.is_empty() {
                current.is_empty()
            } else {
                current.starts_with(table)
            };
            if is_here && !key.starts_with([' ', '#']) {
                keys.insert(key.trim().to_owned());
            }
        }
    }
    keys
}

/// The page, the help and the source name the same exit codes.
#[test]
fn exit_codes_are_the_same_everywhere() {
    let documented = matches(r"(?m)^\| (\d+) \| ", &page("exit-codes.md"));

    let source = fs::read_to_string(repository().join("src/bin/agentd/exit.rs")).unwrap();
    let defined = matches(r"(?m)^pub\(crate\) const [A-Z]+: u8 = (\d+);", &source);
    assert!(defined.len() > 10, "{defined:?}");
    assert_eq!(documented, defined);

    let help = TestProject::new().run(&["--help"]).ok();
    let (_, listed) = help.split_once("\nExit codes:").unwrap();
    assert_eq!(matches(r"(?:^|,)\s+(\d+) ", listed), defined);

    for file in ["changes.md", "review.md"] {
        let page = page(file);
        let (_, section) = page.split_once("## Exit codes").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let codes = matches(r"(?m)^\| (\d+) \| ", section);
        assert!(
            codes.is_subset(&defined) && codes.len() > 5,
            "{file}: {codes:?}"
        );
    }
}

/// Files of this repository that the pages about its internals name exist.
#[test]
fn files_named_in_the_internals_exist() {
    let folder = repository().join("docs/internals");
    let mut checked = 0;

    for file in files_below(&folder) {
        let text = fs::read_to_string(folder.join(&file)).unwrap();
        for path in matches(r"`((?:src|tests|data|benches)/[\w./-]+)`", &text) {
            let exists = repository().join(&path).exists();
            assert!(exists, "docs/internals/{} names {path}", file.display());
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} paths");
}
