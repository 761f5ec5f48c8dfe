//! Transcripts of the command line: exit code, stdout and stderr of each command, compared with the file itself.
//!
//! A transcript is a YAML header between two lines of `---`, then commands, each followed by its output:
//!
//! ```text
//! $ agentd show nothing
//! ? 3
//! --- stderr
//! error: …
//! ```
//!
//! `? CODE` is left out for exit code 0, and a stream on which nothing was printed is left out, too. A command is a line
//! for `sh`, run in the project. `[..]` matches any text in a line, and a line of `...` any number of lines. What differs
//! from run to run is replaced by [`redact_values`], and escape sequences for colours by names such as `{bold}`.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use libtest_mimic::Trial;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::data::DataFormat;
use snapbox::{Assert, Data, IntoData};

use crate::support::change_script::CommonScript;
use crate::support::{
    TestProject, agentd_program, case_names, path_without_agents, repository, write,
};

/// Plays an agent: answers each mode with the reply that was prepared for it.
const STAND_IN_AGENT: &str = include_str!("../support/programs/stand_in_agent.sh");

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: String| {
        let path = repository().join("tests/cases").join(&name);
        Trial::test(name, move || check(&path).map_err(Into::into))
    };
    case_names("cli").into_iter().map(trial).collect()
}

/// The project that the commands run in.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// One sentence for the reader of the file.
    #[serde(rename = "about")]
    _about: String,
    #[serde(default)]
    git: GitState,
    /// Adds the files of `tests/data/change/common.yaml`: a program `greet.sh` and its check.
    #[serde(default)]
    greeter: bool,
    /// Files of the project. A path such as `../reply.txt` is outside of it.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Scripts for the agent `scripted`, written next to the project: whole turns, or turns of `common.yaml` as in
    /// `tests/cases/change`.
    #[serde(default)]
    scripts: BTreeMap<String, Vec<Value>>,
    /// Names of agents on PATH that are played by `tests/support/programs/stand_in_agent.sh`.
    #[serde(default)]
    agents: Vec<String>,
    /// Replies of these agents by mode: texts, or names of turns in `common.yaml`.
    #[serde(default)]
    replies: BTreeMap<String, String>,
    /// Shell lines that run before the first command and are not shown.
    #[serde(default)]
    before: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum GitState {
    /// All files of the project are committed on the branch `main`.
    #[default]
    Committed,
    /// A repository without a commit.
    Empty,
    /// No repository.
    None,
}

/// A command and the text that follows it in the transcript.
#[derive(Debug)]
struct Step<'a> {
    line: &'a str,
    output: String,
}

fn check(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (header, body) = split_header(&text)
        .ok_or("a transcript starts with a header between two lines of `---`")?;
    let steps = parse_steps(body)?;
    let project =
        start_project(&serde_saphyr::from_str(header).map_err(|error| error.to_string())?);

    let mut actual = format!("---\n{header}---\n");
    for step in &steps {
        let output = name_colours(&render(&shell(&project, step.line)));
        let output = redact_values(&redact_paths(&project, &output, "[PROJECT]", "[HOME]"));
        if let Some(line) = output.lines().find(|line| line.starts_with("$ ")) {
            return Err(format!(
                "`{}` prints a line that looks like a command: {line}",
                step.line
            ));
        }
        let _written = write!(
            actual,
            "\n$ {}\n{}",
            step.line,
            with_wildcards_of(&step.output, output)
        );
    }

    let assert = Assert::new().action_env(DEFAULT_ACTION_ENV);
    let expected = Data::read_from(path, Some(DataFormat::Text)).raw();
    assert
        .try_eq(Some(&"actual"), actual.into_data(), expected)
        .map_err(|error| error.to_string())
}

/// Splits a transcript into its header and the rest.
fn split_header(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n")?;
    let end = rest.find("\n---\n")? + 1;
    Some((&rest[..end], &rest[end + "---\n".len()..]))
}

fn parse_steps(body: &str) -> Result<Vec<Step<'_>>, String> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in body.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(line), _) => steps.push(Step {
                line,
                output: String::new(),
            }),
            (None, Some(step)) => step.output.extend([line, "\n"]),
            (None, None) if line.is_empty() => {}
            (None, None) => return Err(format!("no command before `{line}`")),
        }
    }

    let count = steps.len();
    if count == 0 {
        return Err("no command".to_owned());
    }

    // An empty line is between a command and the one before it.
    for step in &mut steps[..count - 1] {
        step.output.pop();
    }
    Ok(steps)
}

pub(crate) fn start_project(header: &Header) -> TestProject {
    let project = TestProject::new();
    let common = CommonScript::read();
    let greeter = header
        .greeter
        .then_some(&common.files)
        .into_iter()
        .flatten();
    for (path, content) in greeter.chain(&header.files) {
        project.write(path, content);
    }
    for (name, turns) in &header.scripts {
        let turns: Vec<Value> = turns.iter().map(|turn| common.turn(turn)).collect();
        project.write(
            &format!("../{name}"),
            json!({"format": 1, "turns": turns}).to_string(),
        );
    }

    add_stand_ins(&project, header, &common);

    match header.git {
        GitState::Committed => {
            let output = shell(
                &project,
                "git add -A && git commit -q --allow-empty -m start",
            );
            assert!(output.status.success(), "{output:?}");
        }
        GitState::Empty => {}
        GitState::None => fs::remove_dir_all(project.root().join(".git")).unwrap(),
    }

    for line in &header.before {
        let output = shell(&project, line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
    project
}

/// Puts the stand-ins for agents on PATH and writes what they reply.
fn add_stand_ins(project: &TestProject, header: &Header, common: &CommonScript) {
    let mut definitions = String::from("format: 1\nagents:\n");
    for name in &header.agents {
        let program = project.home().join("bin").join(name);
        write(&program, STAND_IN_AGENT);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let _written = writeln!(
            definitions,
            "  {name}:\n    argv: [{name}, [--model, \"{{model}}\"], \"{{permissions}}\"]\n    vendor: {name}\n    version: [--version]\n    \
             permissions: {{read-only: [--read-only], edit: [--edit]}}"
        );
    }
    if !header.agents.is_empty() {
        write(&project.user_folder().join("agents.yaml"), definitions);
    }

    for (mode, reply) in &header.replies {
        let reply = if reply.contains('\n') {
            reply.clone()
        } else {
            common.turn(&json!(reply))["reply"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        write(&project.home().join("replies").join(mode), reply);
    }
}

/// Runs a line in a shell that has the program on PATH and nothing of the environment of this process.
pub(crate) fn shell(project: &TestProject, line: &str) -> Output {
    let program = agentd_program();
    let others = path_without_agents();
    let folders = env::split_paths(&others).map(|folder| folder.into_os_string());
    let own = [
        project.home().join("bin").into_os_string(),
        program.parent().unwrap().as_os_str().to_owned(),
    ];
    let path = env::join_paths(own.into_iter().chain(folders));

    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .current_dir(project.root())
        .stdin(Stdio::null())
        .env_clear();
    shell
        .env("PATH", path.unwrap())
        .env("HOME", project.home())
        .env("TMPDIR", project.home());
    shell.envs([
        ("COLUMNS", "100"),
        ("LC_ALL", "C"),
        ("TERM", "dumb"),
        ("TZ", "UTC"),
    ]);
    shell.env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        shell.env(format!("GIT_{role}_NAME"), "Test");
        shell.env(format!("GIT_{role}_EMAIL"), "test@example.invalid");
    }

    shell.output().unwrap()
}

fn render(output: &Output) -> String {
    let mut text = String::new();
    match output.status.code() {
        Some(0) => {}
        Some(code) => text.extend(["? ", &code.to_string(), "\n"]),
        None => text.push_str("? killed\n"),
    }

    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if bytes.is_empty() {
            continue;
        }
        let printed = String::from_utf8_lossy(bytes);
        text.extend(["--- ", name, "\n", &printed]);
        if !printed.ends_with('\n') {
            text.push_str("\n--- no newline at the end\n");
        }
    }

    text
}

/// Returns what a command printed, with the wildcards of the transcript where they match.
fn with_wildcards_of(expected: &str, actual: String) -> String {
    let assert = Assert::new().normalize_paths(false);
    let (actual, _) = assert.normalize(actual.into_data(), expected.into_data());
    actual.render().unwrap_or_default()
}

/// Replaces escape sequences for colours by names.
fn name_colours(text: &str) -> String {
    let names = [
        ("0", "{/}"),
        ("1", "{bold}"),
        ("4", "{underline}"),
        ("31", "{red}"),
        ("32", "{green}"),
        ("33", "{yellow}"),
        ("36", "{cyan}"),
    ];
    names
        .into_iter()
        .fold(text.to_owned(), |text, (code, name)| {
            text.replace(&format!("\u{1b}[{code}m"), name)
        })
        .replace('\u{1b}', "{escape}")
}

/// Replaces the paths of the project and of the home folder.
pub(crate) fn redact_paths(project: &TestProject, text: &str, root: &str, home: &str) -> String {
    let mut text = text.to_owned();
    for (name, folder) in [(root, project.root()), (home, project.home())] {
        // The path of the temporary folder may contain a symbolic link.
        for path in [fs::canonicalize(&folder).unwrap(), folder] {
            text = text.replace(&path.display().to_string(), name);
        }
    }
    text
}

/// Replaces values that differ from run to run. Columns of a table keep their width.
pub(crate) fn redact_values(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let patterns = [
            (
                r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ",
                "YYYY-MM-DDThh:mm:ssZ",
            ),
            (r"/archive/20\d\d-\d\d-\d\d-", "/archive/YYYY-MM-DD-"),
            // Durations and ages.
            (r" in \d+(ms|s|m\d\ds)\b", " in [TIME]"),
            (r"(?m)\b\d+(ms|s|m\d\ds)$", "[TIME]"),
            (r#"("(milliseconds|age_seconds)": ?)\d+"#, "$1[TIME]"),
            (r"\bAGE +REQUEST\b", "AGE  REQUEST"),
            (r"\b\d+[sm] {2,}", "Ns   "),
            // Commits, texts of the ledger, and values that are fresh for every turn or session.
            (r"\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{10})\b", "[HASH]"),
            (
                r"\bworktrees/project-[0-9a-f]{8}\b",
                "worktrees/project-[HASH]",
            ),
            (r#"(\brun=\\?"|"run":")[a-z0-9]{8}\b"#, "$1[NONCE]"),
            (r"\b(turn|replay|probe)-[a-z0-9]{8}\b", "$1-[ID]"),
        ];
        patterns
            .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
            .to_vec()
    });

    let mut text = text.to_owned();
    for (pattern, name) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }

    text
}
