//! Every command has transcripts: its help, a success and a failure, and one that uses each of its flags.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use libtest_mimic::Trial;

use crate::support::{agentd_program, case_names, repository};

/// Flags of all commands that run a change. One transcript that uses the flag is enough for all of them.
const RUN_FLAGS: [&str; 7] = [
    "--agent", "--auto", "--json", "--model", "--script", "--trust", "--yes",
];

pub(crate) fn trial() -> Trial {
    Trial::test("cli/every_command_has_transcripts", || {
        let missing = missing_transcripts();
        assert!(
            missing.is_empty(),
            "no transcript of:\n{}",
            missing.join("\n")
        );
        Ok(())
    })
}

/// Transcripts of one command.
#[derive(Debug, Default)]
struct Shown {
    help: bool,
    success: bool,
    failure: bool,
    flags: BTreeSet<String>,
}

fn missing_transcripts() -> Vec<String> {
    let commands = commands();
    assert!(commands.len() > 45, "only {} commands", commands.len());
    let shown = shown(&commands);
    let used_anywhere: BTreeSet<&String> = shown.values().flat_map(|shown| &shown.flags).collect();

    let mut missing = Vec::new();
    for (name, help) in &commands {
        let none = Shown::default();
        let shown = shown.get(name).unwrap_or(&none);
        let is_group = help.contains("\nCommands:\n");

        let kinds = [
            ("--help", shown.help),
            ("that succeeds", shown.success || is_group),
            ("that fails", shown.failure),
        ];
        for (kind, _) in kinds.into_iter().filter(|(_, is_shown)| !is_shown) {
            missing.push(format!("agentd {name} {kind}"));
        }

        let is_run = help.contains("--auto ");
        for flag in flags(help) {
            let is_shared = is_run && RUN_FLAGS.contains(&flag.as_str());
            let is_common = ["--directory", "--verbose", "--version"].contains(&flag.as_str());
            let is_used = if is_shared || is_common {
                used_anywhere.contains(&flag)
            } else {
                shown.flags.contains(&flag)
            };
            if !is_used && !is_group && flag != "--help" {
                missing.push(format!("agentd {name} {flag}"));
            }
        }
    }
    missing
}

/// Returns all commands with their help, by name: `review`, `pack check`. `man` is not listed by the help.
fn commands() -> BTreeMap<String, String> {
    let mut commands = BTreeMap::new();
    let mut names = subcommands(&help(""));
    names.push("man".to_owned());

    while let Some(name) = names.pop() {
        let help = help(&name);
        names.extend(subcommands(&help).iter().map(|sub| format!("{name} {sub}")));
        commands.insert(name, help);
    }
    commands
}

fn help(name: &str) -> String {
    let mut command = Command::new(agentd_program());
    let output = command.args(name.split_whitespace()).arg("--help").output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn subcommands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn flags(help: &str) -> Vec<String> {
    help.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("--") || (line.starts_with('-') && line.contains(", --")))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")))
        .map(str::to_owned)
        .collect()
}

fn shown(commands: &BTreeMap<String, String>) -> BTreeMap<String, Shown> {
    let mut all: BTreeMap<String, Shown> = BTreeMap::new();

    for file in case_names("cli") {
        let text = fs::read_to_string(repository().join("tests/cases").join(file)).unwrap();
        let lines: Vec<&str> = text.lines().collect();

        for (index, line) in lines.iter().enumerate() {
            let Some(line) = line.strip_prefix("$ ") else {
                continue;
            };
            let code = lines
                .get(index + 1)
                .and_then(|next| next.strip_prefix("? "));
            let parts: Vec<&str> = line.split([';', '|', '&']).collect();

            for (place, part) in parts.iter().enumerate() {
                let words: Vec<&str> = part
                    .split_whitespace()
                    .skip_while(|word| *word != "agentd")
                    .skip(1)
                    .collect();
                let Some(name) = command_name(commands, &words) else {
                    continue;
                };

                let shown = all.entry(name).or_default();
                let long = words.iter().filter(|word| word.starts_with("--"));
                shown.flags.extend(long.map(|word| (*word).to_owned()));
                if words.contains(&"-n") {
                    shown.flags.insert("--number".to_owned());
                }

                let is_failure = code.is_some() && place + 1 == parts.len();
                if words.contains(&"--help") {
                    shown.help = true;
                } else if is_failure {
                    shown.failure = true;
                } else {
                    shown.success = true;
                }
            }
        }
    }
    all
}

/// Returns the name of the command that the words after `agentd` begin with.
fn command_name(commands: &BTreeMap<String, String>, words: &[&str]) -> Option<String> {
    let mut words = words
        .iter()
        .skip_while(|word| word.starts_with('-'))
        .peekable();
    if words
        .peek()
        .is_some_and(|word| !commands.contains_key(**word))
    {
        // The folder of `-C`.
        words.next();
        while words.peek().is_some_and(|word| word.starts_with('-')) {
            words.next();
        }
    }

    let first = (*words.next()?).to_owned();
    let both = words.next().map(|second| format!("{first} {second}"));
    both.filter(|name| commands.contains_key(name))
        .or_else(|| commands.contains_key(&first).then_some(first))
}
