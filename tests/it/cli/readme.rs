//! The README and the pages: the first commands work, the example is the one that runs, and links resolve. Their console
//! blocks are run by `tests/runner/docs.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Run, TestProject, files_below, path_without_agents, program, repository};

fn readme() -> String {
    page("README.md")
}

fn page(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

fn blocks(text: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}\n");
    text.split(&open)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn first_command_works() {
    let block = &blocks(&readme(), "sh")[0];
    let command = block.lines().next().unwrap();
    let args = command
        .strip_prefix("cargo run --release -- ")
        .unwrap()
        .split(" #")
        .next()
        .unwrap();
    let project = TestProject::new();
    let mut command = project.command(&args.split_whitespace().collect::<Vec<_>>());

    let run = Run::from(command.env("TMPDIR", project.home()).output().unwrap());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("merged agentd/greet-anyone into main"),
        "{}",
        run.stderr
    );
}

/// An agent without an account. It recognises the phase by the headings of the prompt.
const STAND_IN: &str = r##"#!/bin/sh
prompt=$(cat)
run=$(printf '%s' "$prompt" | sed -n 's/.*<review run="\([^"]*\)".*/\1/p' | head -n 1)
case $prompt in
    *"# Plan a change"*) say=plan ;;
    *"# Challenge a "*) say=challenge_pass ;;
    *"# Implement a "*) echo 'echo "Hello, ${1:-world}!"' > greet.sh; say=implement ;;
    *"# Review a"*) say=review_pass ;;
    *"# Archive a change"*) say=archive ;;
esac
sed "s/{{NONCE}}/$run/" "$HOME/$say"
"##;

#[test]
fn readme_commands_archive_a_change_from_a_clone() {
    let project = TestProject::new();
    let common: serde_json::Value =
        serde_saphyr::from_str(include_str!("../../data/change/common.yaml")).unwrap();
    for name in ["greet.sh", "check.sh"] {
        project.write(name, common["files"][name].as_str().unwrap());
    }
    project.write("Makefile", "test:\n\tsh check.sh\n");
    for (name, turn) in common["turns"].as_object().unwrap() {
        fs::write(project.home().join(name), turn["reply"].as_str().unwrap()).unwrap();
    }
    let bin = project.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("claude"), STAND_IN).unwrap();
    fs::create_dir_all(project.user_folder()).unwrap();
    fs::write(
        project.user_folder().join("agents.yaml"),
        "format: 1\nagents:\n  claude:\n    argv: [claude]\n",
    )
    .unwrap();
    let all = blocks(&readme(), "sh");
    let block = all
        .iter()
        .find(|block| block.contains("agentd init"))
        .unwrap();

    let (clone, steps) = block.split_once('\n').unwrap();
    assert!(
        clone.starts_with("git clone ") && clone.ends_with(" && cd project"),
        "{clone}"
    );

    let program = Path::new(env!("CARGO_BIN_EXE_agentd")).parent().unwrap();
    let path = format!(
        "{}:{}:{}",
        bin.display(),
        program.display(),
        path_without_agents().to_str().unwrap()
    );
    let start = "chmod +x \"$HOME/bin/claude\"; git add -A; git commit -qm start; cd ..; git clone -q project clone; cd clone";
    let script = format!("exec 2>&1; set -e; {start}\n{steps}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(project.root())
        .env("HOME", project.home())
        .env("PATH", path)
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "Test")))
        .envs(
            ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "test@example.invalid")),
        )
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap();

    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Merge agentd/add-login: Add login"), "{said}");

    let clone = project.root().parent().unwrap().join("clone");
    assert!(
        fs::read_to_string(clone.join("greet.sh"))
            .unwrap()
            .contains("${1:-world}")
    );
    assert!(
        fs::read_to_string(clone.join("agentd/specs/greeting.md"))
            .unwrap()
            .contains("### R1")
    );
    assert!(clone.join("agentd/changes/archive").is_dir());
}

#[test]
fn library_example_matches_the_example_file() {
    let example = fs::read_to_string(repository().join("examples/hello.rs")).unwrap();
    let code = example.split_once("\n\n").unwrap().1;
    assert_eq!(blocks(&readme(), "rust"), [code]);
    let output = Command::new(program("hello")).output().unwrap();
    let xml = String::from_utf8(output.stdout).unwrap();
    assert!(
        xml.starts_with("<prompt>\n<system_prompt><![CDATA[# Plan a change\n"),
        "{xml}"
    );
    assert!(roxmltree::Document::parse(&xml).is_ok());
}

/// Returns the lines of a page that are not inside a fenced code block.
fn prose_lines(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = Vec::new();

    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }

    lines
}

/// Returns the anchors of a page: its headings in lower case, with hyphens for spaces and without punctuation.
fn anchors(text: &str) -> Vec<String> {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');

    prose_lines(text)
        .into_iter()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim())
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .map(|title| title.chars().filter(is_kept).collect())
        .collect()
}

/// Returns every documentation page, relative to the repository.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "fuzz/README.md",
    ]
    .map(PathBuf::from)
    .to_vec();

    let docs = files_below(&repository().join("docs"));
    let docs = docs.into_iter().map(|file| Path::new("docs").join(file));
    pages.extend(docs.filter(|file| file.extension().is_some_and(|kind| kind == "md")));

    pages
}

#[test]
fn links_between_pages_resolve() {
    let mut checked = 0;

    for page in pages() {
        let path = repository().join(&page);
        let text = fs::read_to_string(&path).unwrap();
        let lines = prose_lines(&text);
        let links = lines
            .iter()
            .flat_map(|line| line.split("](").skip(1))
            .map(|rest| rest.split(')').next().unwrap())
            .filter(|link| !link.starts_with("https://"));

        for link in links {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap().join(file)
            };
            assert!(target.exists(), "{} links to {link}", page.display());

            let has_anchor = anchor.is_empty()
                || anchors(&fs::read_to_string(target).unwrap()).contains(&anchor.to_owned());
            assert!(has_anchor, "{} links to {link}", page.display());
            checked += 1;
        }
    }

    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn every_page_is_reachable_from_the_index() {
    let index = page("docs/README.md");

    for file in pages() {
        let Ok(file) = file.strip_prefix("docs") else {
            continue;
        };
        let name = file.to_str().unwrap();
        let is_listed = name == "README.md" || index.contains(&format!("]({name})"));
        assert!(is_listed, "docs/README.md does not link to {name}");
    }
}

/// Sources, data and messages name pages as `docs/FOLDER/PAGE.md`.
#[test]
fn pages_named_in_sources_exist() {
    let mut named = Vec::new();
    for folder in ["src", "data", "packs", "templates", "benches", "examples"] {
        let files = files_below(&repository().join(folder));
        named.extend(files.into_iter().map(|file| Path::new(folder).join(file)));
    }
    named.extend(["Cargo.toml", "justfile", "test.sh"].map(PathBuf::from));
    named.push(PathBuf::from(".github/workflows/ci.yml"));

    let mut checked = 0;
    for file in named {
        let text =
            String::from_utf8_lossy(&fs::read(repository().join(&file)).unwrap()).into_owned();

        for rest in text.split("docs/").skip(1) {
            let Some(end) = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-/.".contains(c))
            else {
                continue;
            };
            let Some((name, _)) = rest[..end].split_once(".md") else {
                continue;
            };
            let path = format!("docs/{name}.md");
            assert!(
                repository().join(&path).is_file(),
                "{} names {path}",
                file.display()
            );
            checked += 1;
        }
    }

    assert!(checked > 5, "only {checked} names were found");
}
