//! The README tells the truth: its commands print what it shows, its example is the one that runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{TestProject, files_below, repository};

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).unwrap()
}

fn blocks(text: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}\n");
    text.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs the commands of a block in one shell; returns the block as it really looks.
fn play(block: &str) -> String {
    let project = TestProject::new();
    let commands: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let script: String = commands
        .iter()
        .map(|command| format!("printf '%s\\n' '$ {}'\n{command}\n", command.replace('\'', "'\\''")))
        .collect();
    let program = Path::new(env!("CARGO_BIN_EXE_agentd")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; set -e; {script}")])
        .current_dir(project.home())
        .env("HOME", project.home())
        .env("PATH", path)
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    shown.replace(&project.home().display().to_string(), "~")
}

#[test]
fn the_sixty_second_try_prints_what_it_shows() {
    let blocks = blocks(&readme(), "console");
    assert_eq!(blocks.len(), 1);
    assert_eq!(without_sizes(&play(&blocks[0])), without_sizes(&blocks[0]));
}

/// Sizes change with every word of a template; that they are shown is what counts.
fn without_sizes(block: &str) -> String {
    let word = |word: &str| {
        let number = word.starts_with(|c: char| c.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_digit() || b == b',');
        if number { "#".to_owned() } else { word.to_owned() }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n";
    block.lines().map(line).collect()
}

#[test]
fn the_first_command_works() {
    let block = &blocks(&readme(), "sh")[0];
    let command = block.lines().next().unwrap();
    let args = command.strip_prefix("cargo run --release -- ").unwrap().split(" #").next().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("\"{}\" {args}", env!("CARGO_BIN_EXE_agentd"))])
        .current_dir(repository())
        .output()
        .unwrap();
    let prompt = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(prompt.contains("A small notes app"), "the example's own words are in the prompt");
    assert!(prompt.ends_with("<instructions>Add login</instructions>\n</prompt>\n"));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "nothing is missing");
}

#[test]
fn the_library_example_is_the_one_that_runs() {
    let example = fs::read_to_string(repository().join("examples/hello.rs")).unwrap();
    let code = example.split_once("\n\n").unwrap().1;
    assert_eq!(blocks(&readme(), "rust"), [code]);
    let output = Command::new(env!("CARGO"))
        .args(["run", "-q", "--offline", "--example", "hello"])
        .current_dir(repository())
        .output()
        .unwrap();
    let xml = String::from_utf8(output.stdout).unwrap();
    assert!(xml.starts_with("<prompt>\n<system_prompt><![CDATA[# Plan a change\n"), "{xml}");
    assert!(roxmltree::Document::parse(&xml).is_ok());
}

/// Returns the anchors of a page: its headings in small letters, with hyphens for blanks and without other signs.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
        .map(|line| line.chars().filter(|c| plain(*c)).collect())
        .collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let docs = files_below(&repository().join("docs")).into_iter().map(|file| Path::new("docs").join(file));
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(Path::new).map(Path::to_path_buf);
    for page in docs.filter(|page| page.extension().is_some_and(|kind| kind == "md")).chain(pages) {
        let path = repository().join(&page);
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.is_file(), "{} links to {link}", page.display());
            let there = anchor.is_empty()
                || anchors(&fs::read_to_string(target).unwrap()).contains(&anchor.to_owned());
            assert!(there, "{} links to {link}", page.display());
        }
    }
}
