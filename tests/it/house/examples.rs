//! Runs the programs of `examples/` as their first lines describe.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use agentd::ops::{Git, Repository};
use agentd::pack::DEMO;
use serde_json::{Value, json};

use crate::support::model_server_process::ModelServer;
use crate::support::{TestProject, program, repository, write_program};

/// Runs an example, which must succeed, and returns its stdout.
fn run_example(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs an example in a folder that is not a project yet.
fn printed_in_project(example: &str) -> String {
    let project = TestProject::new();
    run_example(Command::new(program(example)).arg(project.root()))
}

#[test]
fn every_example_is_run_by_a_test() {
    let tests = fs::read_to_string(repository().join("tests/it/house/examples.rs")).unwrap();
    let readme_tests = fs::read_to_string(repository().join("tests/it/cli/readme.rs")).unwrap();

    for entry in fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let quoted = format!("\"{}\"", path.file_stem().unwrap().to_str().unwrap());
        let is_run = tests.contains(&quoted) || readme_tests.contains(&quoted);
        assert!(is_run, "no test runs {}", path.display());
    }
}

#[test]
fn parse_reply_finds_the_message_the_action_and_both_verdicts() {
    assert_eq!(
        run_example(&mut Command::new(program("parse_reply"))),
        "message: One thing is wrong.\n\
         finding: critical src/main.rs\n\
         verdict: NEEDS_CHANGES\n\
         verdict: PASS\n"
    );
}

#[test]
fn small_window_shortens_blocks_and_marks_estimates() {
    let text = run_example(&mut Command::new(program("small_window")));
    let row = |block: &str| {
        let row = text.lines().find(|line| line.starts_with(block)).unwrap();
        row.split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(
        (row("identity")[1], row("identity")[3]),
        ("minimal", "full")
    );
    assert_eq!(
        (row("process_map")[1], row("process_map")[2]),
        ("-", "full")
    );

    let totals: Vec<&str> = text.lines().rev().take(2).collect();
    assert!(totals[1].ends_with(" tokens, Calibrated"), "{text}");
    assert!(totals[0].ends_with(" tokens, Exact"), "{text}");

    let tokens = |line: &str| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(2 * tokens(totals[1]) < tokens(totals[0]), "{text}");
}

#[test]
fn custom_agent_answers_a_turn() {
    let text = printed_in_project("custom_agent");
    let lines: Vec<&str> = text.lines().collect();
    let words = lines[0]
        .strip_prefix("I read ")
        .and_then(|rest| rest.strip_suffix(" words, in architect."))
        .unwrap();
    assert!(words.parse::<u64>().unwrap() > 500, "{text}");
    assert_eq!(lines[1..], ["1 call, outcome ok"]);
}

#[test]
fn custom_operation_is_run() {
    assert_eq!(
        printed_in_project("custom_operation"),
        "new ticket: Checkout shows an empty page\n\
         I have told the team.\n\
         tracker.create: created ticket 17\n"
    );
}

#[test]
fn chat_http_sends_each_message_with_the_turns_before_it() {
    let server = ModelServer::start(&json!([
        {"text": "<message>Who is the thief?</message>"},
        {"text": "<thinking>A name.</thinking><message>And what does Ada want?</message>"},
    ]));
    let mut chat = Command::new(program("chat_http"))
        .args([server.url(), "llama3.2:3b"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    chat.stdin
        .take()
        .unwrap()
        .write_all(b"A thief learns to trust.\nShe is called Ada.\n")
        .unwrap();

    let output = chat.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "Who is the thief?\nAnd what does Ada want?\n"
    );

    let second: Value = serde_json::from_str(&server.body(2)).unwrap();
    let messages = second["messages"].as_array().unwrap();

    let (system, turns) = messages.split_first().unwrap();
    assert_eq!(system["role"], "system");

    let roles: Vec<&str> = turns
        .iter()
        .map(|turn| turn["role"].as_str().unwrap())
        .collect();
    assert!(roles.ends_with(&["user", "assistant", "user"]), "{roles:?}");

    let texts = turns.iter().map(|turn| turn["content"].as_str().unwrap());
    let last: Vec<&str> = texts.rev().take(3).collect();
    assert!(last[2].contains("A thief learns to trust."), "{last:?}");
    assert!(last[1].contains("Who is the thief?"), "{last:?}");
    assert!(last[0].contains("She is called Ada."), "{last:?}");
}

/// Runs `review` on a repository with one uncommitted change. The agent gives this verdict and
/// reports one finding.
fn review(verdict: &str, severity: &str) -> Output {
    let project = TestProject::new();
    let root = project.root();
    let git = |arguments: &[&str]| {
        let command = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        git.current_dir(&root).args(command).args(arguments);
        assert!(git.status().unwrap().success());
    };

    project.write("price.py", "price = 1\n");
    git(&["add", "price.py"]);
    git(&["commit", "--quiet", "--message=first"]);
    project.write("price.py", "price = 2\n");

    let bin = project.home().join("bin");
    let script = format!(
        "#!/bin/sh\n\
         prompt=$(cat; printf '%s\\n' \"$@\")\n\
         run=$(printf '%s' \"$prompt\" | sed -n 's/.*<review run=\"\\([a-z0-9]*\\)\".*/\\1/p' | head -n 1)\n\
         echo '<message>Read.</message>'\n\
         echo '<action type=\"finding\"><severity>{severity}</severity><file>price.py</file>'\n\
         echo '<problem>The price is doubled.</problem></action>'\n\
         echo \"<review run=\\\"$run\\\">{verdict}</review>\"\n"
    );
    write_program(&bin.join("copilot"), script);
    Command::new(program("review"))
        .arg(&root)
        .arg("copilot")
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("HOME", project.home())
        .output()
        .unwrap()
}

#[test]
fn review_exits_with_the_verdict() {
    let passed = review("PASS", "minor");
    assert_eq!(
        String::from_utf8_lossy(&passed.stdout),
        "price.py: The price is doubled.\npassed: true\n",
        "{passed:?}"
    );
    assert_eq!(passed.status.code(), Some(0));

    // A critical finding overrules the verdict.
    let overruled = review("PASS", "critical");
    assert_eq!(
        String::from_utf8_lossy(&overruled.stdout),
        "price.py: The price is doubled.\npassed: false\n",
        "{overruled:?}"
    );
    assert_eq!(overruled.status.code(), Some(1));
}

#[test]
fn run_change_merges_the_change() {
    let project = TestProject::new();
    for (path, text) in DEMO {
        project.write(path, text);
    }
    let identity = [
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ];
    let git = Git {
        env: identity
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..Git::default()
    };
    Repository::create(&project.root(), &git, "A program that greets").unwrap();
    let mut command = Command::new(program("run_change"));

    command
        .arg(project.root())
        .arg(project.home().join("worktrees"))
        .env("HOME", project.home())
        .envs(identity);
    assert_eq!(
        run_example(&mut command),
        "plan: PASS\n\
         challenge: NEEDS_REVISION\n\
         plan: PASS\n\
         challenge: PASS\n\
         implement: \n\
         review: NEEDS_CHANGES\n\
         implement: \n\
         review: PASS\n\
         archive: \n\
         Over { done: true }\n"
    );

    let greeting = project.read("greet.sh");
    assert!(greeting.contains("${1:-world}"), "{greeting}");
}

/// The crate page and the page of every public module start with an example.
#[test]
fn every_module_page_has_an_example() {
    let read = |path: &str| fs::read_to_string(repository().join("src").join(path)).ok();
    let front_page = read("lib.rs").unwrap();
    let mut modules = 0;

    for module in front_page
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
    {
        // Fail points are not documented.
        if module == "fail" {
            continue;
        }
        let text = read(&format!("{module}/mod.rs"))
            .or_else(|| read(&format!("{module}.rs")))
            .unwrap();
        let mut page = text.lines().take_while(|line| line.starts_with("//!"));
        assert!(
            page.any(|line| line == "//! ```"),
            "{module} has no example"
        );
        modules += 1;
    }

    assert!(modules >= 15, "{modules}");

    let page = front_page
        .lines()
        .take_while(|line| line.starts_with("//!"));
    let examples = page
        .filter(|line| *line == "//! # Ok::<(), agentd::Error>(())" || *line == "//! ```no_run");
    assert!(examples.count() >= 4);
}
