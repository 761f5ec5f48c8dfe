//! Console and shell blocks of the documentation: each is run, and a console block shows what is really printed.
//!
//! A block runs in an empty folder, or where the block before it on the page has left off. A comment before the block
//! starts it elsewhere, or says why it is not run:
//!
//! ```text
//! <!-- project: greeter -->         a project as in tests/data/docs/greeter.yaml
//! <!-- not run: needs a model -->   listed in `NOT_RUN`; commands of agentd must still exist
//! ```
//!
//! In a `console` block, `$ ` starts a command, and the lines below it are what it prints. A line of `…` matches any
//! number of lines. Values that differ from run to run, and sizes of prompts, may be any.
//! After a command that fails, the block shows the exit code with `echo $?`. A `sh` block shows no output, and all its
//! commands succeed.
//!
//! `SNAPSHOTS=overwrite` writes what is printed into the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use regex::Regex;
use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::data::DataFormat;
use snapbox::{Assert, Data, IntoData};

use crate::cli::{Header, redact_paths, redact_values, shell, start_project};
use crate::support::{TestProject, files_below, read_data, repository};

/// Pages and reasons of all blocks that are not run.
const NOT_RUN: [(&str, &str); 16] = [
    ("CONTRIBUTING.md", "builds this repository"),
    ("CONTRIBUTING.md", "builds this repository"),
    ("CONTRIBUTING.md", "builds this repository"),
    ("CONTRIBUTING.md", "builds this repository"),
    ("CONTRIBUTING.md", "builds this repository"),
    ("README.md", "builds this repository"),
    ("docs/guide/your-own-agent.md", "needs a model server"),
    ("docs/internals/small-model.md", "installs a model with pip"),
    (
        "docs/internals/small-model.md",
        "needs the model SmolLM2-135M",
    ),
    (
        "docs/internals/small-model.md",
        "needs the model SmolLM2-135M",
    ),
    (
        "docs/internals/small-model.md",
        "needs the model SmolLM2-135M",
    ),
    (
        "docs/internals/speed.md",
        "takes minutes, and its figures are those of one machine",
    ),
    (
        "docs/reference/http.md",
        "needs a model server and the key of a provider",
    ),
    ("docs/reference/probe.md", "needs a model server"),
    ("fuzz/README.md", "installs a tool and takes minutes"),
    ("fuzz/README.md", "writes to this repository"),
];

/// Names of fences whose content is not run. Another name, such as `bash`, would keep commands from being run.
const DATA_LANGUAGES: [&str; 8] = [
    "", "json", "markdown", "python", "rust", "toml", "xml", "yaml",
];

/// Starts the lines that separate the outputs of the commands of a block.
const MARK: char = '\u{1}';

pub(crate) fn trials() -> Vec<Trial> {
    let page_trial = |page: PathBuf| {
        let name = page.to_str().unwrap().to_owned();
        Trial::test(name, move || check_page(&page).map_err(Into::into))
    };

    let pages = pages();
    let mut trials: Vec<Trial> = pages.into_iter().map(page_trial).collect();
    trials.push(Trial::test("docs/blocks_not_run", || {
        check_setups();
        Ok(())
    }));
    trials.push(Trial::test("docs/wrong_blocks_fail", || {
        check_wrong_blocks_fail();
        Ok(())
    }));
    trials
}

/// Returns the pages that have a block, relative to the repository.
fn pages() -> Vec<PathBuf> {
    let docs = files_below(&repository().join("docs"));
    let docs = docs.into_iter().map(|file| Path::new("docs").join(file));
    let others = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "fuzz/README.md",
    ];
    let mut pages: Vec<PathBuf> = others
        .map(PathBuf::from)
        .into_iter()
        .chain(docs)
        .filter(|file| file.extension().is_some_and(|kind| kind == "md"))
        .filter(|file| !blocks(&read_page(file)).is_empty())
        .collect();
    pages.sort();
    pages
}

fn read_page(page: &Path) -> String {
    fs::read_to_string(repository().join(page)).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Language {
    Console,
    Shell,
}

/// The comment before a block.
#[derive(Debug, PartialEq)]
enum Setup {
    /// Go on where the block before has left off.
    Same,
    Project(String),
    NotRun(String),
}

#[derive(Debug)]
struct Block {
    /// Index of the first line after the fence.
    start: usize,
    indent: String,
    language: Language,
    setup: Setup,
    lines: Vec<String>,
}

/// Finds the console and shell blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<(String, bool)> = None;
    let mut setup = Setup::Same;

    for (index, line) in page.lines().enumerate() {
        let text = line.trim();

        if let Some((end, is_kept)) = &fence {
            if text == end {
                fence = None;
            } else if *is_kept && let Some(block) = blocks.last_mut() {
                let line = line.strip_prefix(&block.indent).unwrap_or(text);
                block.lines.push(line.to_owned());
            }
            continue;
        }

        if text.starts_with("```") {
            let name = text.trim_start_matches('`');
            let language = match name {
                "console" => Some(Language::Console),
                "sh" => Some(Language::Shell),
                name => {
                    assert!(
                        DATA_LANGUAGES.contains(&name),
                        "a block in `{name}`: use sh or console"
                    );
                    None
                }
            };
            fence = Some((
                text[..text.len() - name.len()].to_owned(),
                language.is_some(),
            ));
            if let Some(language) = language {
                blocks.push(Block {
                    start: index + 1,
                    indent: line[..line.len() - line.trim_start().len()].to_owned(),
                    language,
                    setup: std::mem::replace(&mut setup, Setup::Same),
                    lines: Vec::new(),
                });
            }
        } else if let Some(comment) = comment(text) {
            setup = match comment.split_once(": ") {
                Some(("project", name)) => Setup::Project(name.to_owned()),
                Some(("not run", reason)) => Setup::NotRun(reason.to_owned()),
                _ => Setup::Same,
            };
        } else if !text.is_empty() {
            setup = Setup::Same;
        }
    }
    blocks
}

fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- ")?.strip_suffix(" -->")
}

fn check_page(page: &Path) -> Result<(), String> {
    let actual = run_page(&read_page(page))?;

    let expected = Data::read_from(&repository().join(page), Some(DataFormat::Text)).raw();
    Assert::new()
        .action_env(DEFAULT_ACTION_ENV)
        .try_eq(Some(&"actual"), actual.into_data(), expected)
        .map_err(|error| error.to_string())
}

/// Runs the blocks of a page, and returns the page with what they print.
fn run_page(page: &str) -> Result<String, String> {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let mut place: Option<Place> = None;
    let mut replaced: Vec<(usize, usize, Vec<String>)> = Vec::new();

    for block in blocks(page) {
        match &block.setup {
            Setup::NotRun(_) => {
                check_commands_exist(&block)?;
                continue;
            }
            Setup::Project(name) => place = Some(Place::in_project(name)),
            Setup::Same => {}
        }
        let place = place.get_or_insert_with(Place::empty);

        match block.language {
            Language::Shell => place.run_script(&block.lines)?,
            Language::Console => {
                let printed = place.run_console(&block.lines)?;
                if let Some(line) = printed.iter().find(|line| line.trim().starts_with("```")) {
                    return Err(format!(
                        "a command prints a line that ends the block: {line}"
                    ));
                }
                let indent = |line: &String| match line.as_str() {
                    "" => String::new(),
                    line => format!("{}{line}", block.indent),
                };
                replaced.push((
                    block.start,
                    block.lines.len(),
                    printed.iter().map(indent).collect(),
                ));
            }
        }
    }

    // From the last block to the first, so that the places of the others stay valid.
    for (start, count, printed) in replaced.into_iter().rev() {
        lines.splice(start..start + count, printed);
    }
    Ok(lines.join("\n") + "\n")
}

/// Returns the first command of the first console block of a page, and the lines below it.
pub(crate) fn first_step(page: &Path) -> Result<(String, Vec<String>), String> {
    let blocks = blocks(&read_page(page));
    let block = blocks
        .iter()
        .find(|block| block.language == Language::Console);
    let steps = steps(&block.ok_or("no console block")?.lines)?;
    steps.into_iter().next().ok_or("no command".to_owned())
}

/// A project, and the folder that the next block runs in.
pub(crate) struct Place {
    project: TestProject,
    folder: PathBuf,
}

impl Place {
    pub(crate) fn empty() -> Self {
        let project = TestProject::new();
        let folder = project.home();
        Self { project, folder }
    }

    fn in_project(name: &str) -> Self {
        let header = read_data(&format!("docs/{name}.yaml"));
        let header: Header = serde_saphyr::from_str(&header).unwrap();
        let project = start_project(&header);
        let folder = project.root();
        Self { project, folder }
    }

    /// Runs commands, and returns what they print on stdout and stderr.
    pub(crate) fn print(&mut self, script: &str) -> Result<String, String> {
        self.run(script).map(|printed| printed.text)
    }

    /// Runs the lines of a shell block; each command must succeed.
    fn run_script(&mut self, lines: &[String]) -> Result<(), String> {
        let script = lines.join("\n");
        let printed = self.run(&format!("set -e\n{script}\n"))?;
        if printed.code == 0 {
            return Ok(());
        }
        Err(format!(
            "exit code {} of a command in\n{script}\n\nIt prints:\n{}",
            printed.code, printed.text
        ))
    }

    /// Runs the commands of a console block, and returns the block with what they print.
    fn run_console(&mut self, lines: &[String]) -> Result<Vec<String>, String> {
        let steps = steps(lines)?;
        let mut script =
            format!("mark() {{ last=$?; printf '\\n{MARK}%s\\n' \"$last\"; return $last; }}\n");
        for (command, _) in &steps {
            let _written = writeln!(script, "{command}\nmark");
        }

        let printed = self.run(&script)?.text;
        let parts: Vec<&str> = printed.split(&format!("\n{MARK}")).collect();
        if parts.len() != steps.len() + 1 {
            return Err(format!("not every command ran:\n{printed}"));
        }

        let mut block = Vec::new();
        let mut text = parts[0];
        for (index, (command, shown)) in steps.iter().enumerate() {
            let (code, next) = parts[index + 1]
                .split_once('\n')
                .unwrap_or((parts[index + 1], ""));
            let next_command = steps.get(index + 1).map(|(command, _)| command.as_str());
            if code != "0" && next_command != Some("echo $?") {
                return Err(format!(
                    "`{command}` fails with exit code {code}; show it with `echo $?`:\n{text}"
                ));
            }

            block.push(format!("$ {command}"));
            block.extend(align(shown, text));
            text = next;
        }
        Ok(block)
    }

    fn run(&mut self, script: &str) -> Result<Printed, String> {
        let left = self.project.home().join(".left-in");
        let script = format!(
            "exec 2>&1\ntrap 'code=$?; pwd > \"{left}\"; exit $code' EXIT\ncd '{folder}'\n{script}",
            left = left.display(),
            folder = self.folder.display()
        );
        let output = shell(&self.project, &script);

        let folder = fs::read_to_string(left).map_err(|error| error.to_string())?;
        self.folder = PathBuf::from(folder.trim_end());
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Printed {
            code: output.status.code().unwrap_or(-1),
            text: redact_paths(&self.project, &text, "~/project", "~"),
        })
    }
}

/// Cost of a line that is only shown, or only printed.
const GAP: usize = 100;

/// Returns the lines that a command printed, in the form of a block: lines that differ only in values of one run are
/// those that are shown, and lines that `…` replaces are omitted.
///
/// Both are aligned at the lowest cost. It is zero if the block is right. If not, the result still has the `…` of the
/// block, and a line that was reworded is replaced by the printed line most like it.
fn align(shown: &[String], printed: &str) -> Vec<String> {
    let printed: Vec<&str> = printed.lines().collect();
    let costs = AlignmentCosts::new(shown, &printed);
    let mut lines = Vec::new();
    let mut at = 0;
    let mut next = 0;

    while at < shown.len() || next < printed.len() {
        let cost = costs.rest(at, next);
        let line = shown.get(at).map(String::as_str);

        if line == Some("…") {
            if cost == costs.rest(at + 1, next) {
                lines.push("…".to_owned());
                at += 1;
            } else {
                next += 1;
            }
            continue;
        }

        let difference = costs.difference(at, next);
        if difference.is_some_and(|difference| cost == difference + costs.rest(at + 1, next + 1)) {
            let is_same = difference == Some(0);
            let kept = line.filter(|_| is_same).unwrap_or(printed[next]);
            lines.push(kept.to_owned());
            at += 1;
            next += 1;
        } else if line.is_some() && cost == GAP + costs.rest(at + 1, next) {
            at += 1;
        } else {
            lines.push(printed[next].to_owned());
            next += 1;
        }
    }
    lines
}

/// The lowest costs of aligning the lines that are shown with those that were printed.
struct AlignmentCosts {
    /// Lines without values of one run.
    shown: Vec<String>,
    printed: Vec<String>,
    /// Cost of the rest, from a place in `shown` and a place in `printed` on.
    rest: Vec<Vec<usize>>,
}

impl AlignmentCosts {
    fn new(shown: &[String], printed: &[&str]) -> Self {
        let mut costs = Self {
            shown: shown.iter().map(|line| redact(line)).collect(),
            printed: printed.iter().map(|line| redact(line)).collect(),
            rest: vec![vec![0; printed.len() + 1]; shown.len() + 1],
        };
        for at in (0..=shown.len()).rev() {
            for next in (0..=printed.len()).rev() {
                costs.rest[at][next] = costs.lowest(at, next);
            }
        }
        costs
    }

    fn rest(&self, at: usize, next: usize) -> usize {
        self.rest[at][next]
    }

    fn lowest(&self, at: usize, next: usize) -> usize {
        let line = self.shown.get(at);
        let gap = if line.is_some_and(|line| line == "…") {
            0
        } else {
            GAP
        };
        let without_shown = line.map(|_| gap + self.rest(at + 1, next));
        let without_printed = self
            .printed
            .get(next)
            .map(|_| gap + self.rest(at, next + 1));
        let replaced = self
            .difference(at, next)
            .map(|difference| difference + self.rest(at + 1, next + 1));
        [without_shown, without_printed, replaced]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(0)
    }

    /// Returns how much two lines differ: 0 if only in values of one run, less than a gap if they have words in common,
    /// and two gaps if they have none.
    fn difference(&self, at: usize, next: usize) -> Option<usize> {
        let shown = self.shown.get(at).filter(|line| *line != "…")?;
        let printed = self.printed.get(next)?;
        if shown == printed {
            return Some(0);
        }

        let shown: BTreeSet<&str> = shown.split_whitespace().collect();
        let printed: BTreeSet<&str> = printed.split_whitespace().collect();
        let common = shown.intersection(&printed).count();
        let all = shown.union(&printed).count().max(1);
        Some(match common {
            0 => 2 * GAP,
            _ => (GAP - GAP * common / all).max(1),
        })
    }
}

/// Replaces values that differ from run to run, and sizes of prompts, which differ with every word of a template.
pub(crate) fn redact(text: &str) -> String {
    let sizes = [
        (r" *\b\d+ bytes\b", " [SIZE] bytes"),
        (r" *\b\d{1,3}(,\d{3})+\b", " [SIZE]"),
    ];
    sizes
        .into_iter()
        .fold(redact_values(text), |text, (pattern, name)| {
            Regex::new(pattern)
                .unwrap()
                .replace_all(&text, name)
                .into_owned()
        })
}

struct Printed {
    code: i32,
    text: String,
}

/// Splits a console block into commands and the lines below them.
fn steps(lines: &[String]) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.clone()),
            (None, None) => {
                return Err(format!(
                    "a console block starts with a command, not `{line}`"
                ));
            }
        }
    }
    Ok(steps)
}

/// Checks that the subcommands and flags of a block exist, as far as can be seen without running it.
fn check_commands_exist(block: &Block) -> Result<(), String> {
    let project = TestProject::new();
    for line in &block.lines {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let line = match line.split_once(" -- ") {
            Some((start, rest)) if start.starts_with("cargo run") => format!("agentd {rest}"),
            _ => line.to_owned(),
        };
        if !line.starts_with("agentd ") {
            continue;
        }
        let ends = [" #", " | ", " > ", " < ", " || ", " && "];
        let end = ends.iter().filter_map(|end| line.find(end)).min();
        let command = &line[..end.unwrap_or(line.len())];

        let output = shell(&project, &format!("{command} --help"));
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("`{command}`: {message}"));
        }
    }
    Ok(())
}

/// Checks that the blocks that are not run are those of the list, and that every project has a block.
fn check_setups() {
    let mut not_run = Vec::new();
    let mut projects = BTreeSet::new();
    for page in pages() {
        for block in blocks(&read_page(&page)) {
            match block.setup {
                Setup::NotRun(reason) => not_run.push((page.to_str().unwrap().to_owned(), reason)),
                Setup::Project(name) => _ = projects.insert(format!("{name}.yaml")),
                Setup::Same => {}
            }
        }
    }

    let expected = NOT_RUN.map(|(page, reason)| (page.to_owned(), reason.to_owned()));
    assert_eq!(not_run, expected);
    let files = files_below(&repository().join("tests/data/docs"));
    let files: BTreeSet<String> = files
        .iter()
        .map(|file| file.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(files, projects);
}

/// Checks that this test can fail: pages with a wrong block are reported.
fn check_wrong_blocks_fail() {
    let page = |block: &str| format!("# Page\n\n{block}\n\nEnd.\n");
    let right = page(
        "```console\n$ echo one; echo two; echo three\none\n…\nthree\n$ false\n$ echo $?\n1\n```",
    );
    assert_eq!(run_page(&right).unwrap(), right);

    let wrong_line = page("```console\n$ echo one\ntwo\n```");
    assert_eq!(
        run_page(&wrong_line).unwrap(),
        page("```console\n$ echo one\none\n```")
    );
    let missing_line = page("```console\n$ echo one; echo two\none\n```");
    assert_ne!(run_page(&missing_line).unwrap(), missing_line);
    let reworded_line =
        page("```console\n$ seq 9; echo all is well; seq 9\n1\n…\nall is fine\n…\n```");
    assert_eq!(
        run_page(&reworded_line).unwrap(),
        reworded_line.replace("fine", "well")
    );
    let made_up_line = page("```console\n$ true\none\n```");
    assert_eq!(
        run_page(&made_up_line).unwrap(),
        page("```console\n$ true\n```")
    );

    let hidden_failure = page("```console\n$ sh -c 'exit 3'\n```");
    assert!(
        run_page(&hidden_failure)
            .unwrap_err()
            .contains("exit code 3")
    );
    let no_command = page("```console\none\n```");
    assert!(run_page(&no_command).unwrap_err().contains("not `one`"));
    let failing_script = page("```sh\ntrue\nfalse\ntrue\n```");
    assert!(
        run_page(&failing_script)
            .unwrap_err()
            .contains("exit code 1")
    );

    let unknown_flag =
        page("<!-- not run: a reason -->\n```sh\nagentd review --fly # a comment\n```");
    assert!(run_page(&unknown_flag).unwrap_err().contains("'--fly'"));
    let known_flag =
        page("<!-- not run: a reason -->\n```sh\nagentd review --json # a comment\n```");
    assert_eq!(run_page(&known_flag).unwrap(), known_flag);
}
