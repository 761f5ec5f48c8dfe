//! Questions on a terminal: trust for the checks of the project, and questions of the planner.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::support::{TestProject, did_not_run};

/// A planner that first asks two questions and plans with the answers, and a challenger that
/// rejects the plan.
const SCRIPT: &str = r#"format: 1
turns:
  - mode: plan
    reply: |
      Too thin.
      <content_update target="proposal.md">
      # Greet

      ## Why
      Someone asked.

      ## Open questions
      - In which language?
      - Is it for everyone? Assumed: yes.
      - How loud?
      </content_update>
      <review run="{{NONCE}}">NEEDS_REVISION</review>
  - mode: plan
    expect: ["In which language?", "In Esperanto", "How loud?", "Whispering"]
    end: stopped
"#;

/// The character that a terminal turns into SIGINT.
const CTRL_C: &str = "\u{3}";

/// Runs the program on a terminal and types each line when its question appears. Returns `None`
/// without `script`.
fn run_typing(project: &TestProject, args: &[&str], lines: &[(&str, &str)]) -> Option<String> {
    let program = project.command(args);
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let quoted: String = words
        .map(|word| format!("'{}' ", word.to_str().unwrap()))
        .collect();
    let mut child = Command::new("script")
        .args(["-qec", &quoted, "/dev/null"])
        .current_dir(project.root())
        .env("HOME", project.home())
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let (mut typing, mut shown) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut seen, mut next, mut buffer) = (String::new(), 0, [0_u8; 4096]);
    loop {
        let read = shown.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        while let Some((_, answer)) = lines
            .get(next)
            .filter(|(question, _)| seen.contains(question))
        {
            // Ctrl-C must not be followed by a line end, which would answer the question.
            let line_end = if *answer == CTRL_C { "" } else { "\n" };
            typing
                .write_all(format!("{answer}{line_end}").as_bytes())
                .unwrap();
            next += 1;
        }
    }

    drop(typing);
    child.wait().unwrap();
    assert_eq!(next, lines.len(), "not every question was asked: {seen}");

    Some(seen)
}

fn project() -> TestProject {
    let project = TestProject::new();
    project.write("check.sh", "true\n");
    project.write(
        "agentd/config.toml",
        "format = 1\n[review]\ncommands = [\"sh check.sh\"]\n",
    );

    for words in [
        "add -A",
        "-c user.name=T -c user.email=t@example.invalid commit -qm start",
    ] {
        let status = Command::new("git")
            .args(words.split(' '))
            .current_dir(project.root())
            .status()
            .unwrap();
        assert!(status.success());
    }

    project.write("../home/script.yaml", SCRIPT);
    project
}

#[test]
fn user_accepts_checks_and_answers_the_planner() {
    let project = project();
    let script = project.home().join("script.yaml").display().to_string();
    let args = [
        "run", "greet", "Greet", "--agent", "scripted", "--script", &script,
    ];
    let lines = [
        ("trust them?", "y"),
        ("In which language?", "In Esperanto"),
        ("How loud?", "Whispering"),
    ];

    let Some(shown) = run_typing(&project, &args, &lines) else {
        return did_not_run(
            "user_accepts_checks_and_answers_the_planner",
            "the command `script` is missing",
        );
    };
    assert!(
        shown.contains("sh check.sh") && !shown.contains("? Is it for everyone"),
        "{shown}"
    );

    // Trust and answers are kept.
    assert!(
        project
            .run(&["trust", "--show"])
            .stdout
            .contains("trusted   checks")
    );

    let tree = project.run(&["change", "show", "greet", "--json"]).json()["tree"]
        .as_str()
        .unwrap()
        .to_owned();
    let notes = std::fs::read_to_string(format!("{tree}/agentd/changes/greet/NOTES.md")).unwrap();
    assert!(
        notes.contains("**In which language?**\nIn Esperanto\n\n**How loud?**\nWhispering"),
        "{notes}"
    );
}

/// Nothing runs while a question is open, so the first Ctrl-C ends the program. The change keeps
/// waiting.
#[test]
fn ctrl_c_at_a_question_loses_nothing() {
    let project = project();
    let script = project.home().join("script.yaml").display().to_string();
    let args = [
        "run", "greet", "Greet", "--agent", "scripted", "--script", &script,
    ];
    let lines = [("trust them?", "y"), ("In which language?", CTRL_C)];

    let Some(shown) = run_typing(&project, &args, &lines) else {
        return did_not_run(
            "ctrl_c_at_a_question_loses_nothing",
            "the command `script` is missing",
        );
    };
    assert!(!shown.contains("How loud?"), "{shown}");
    assert!(!shown.contains("once more ends it"), "{shown}");

    let row = project.run(&["status", "--json"]).json();
    assert_eq!(row[0]["status"], "answers", "{row}");
    assert_eq!(row[0]["turns"], 1, "{row}");
}

#[test]
fn declined_checks_spend_nothing() {
    let project = project();
    let script = project.home().join("script.yaml").display().to_string();
    let args = [
        "run", "greet", "Greet", "--agent", "scripted", "--script", &script,
    ];

    let Some(shown) = run_typing(&project, &args, &[("trust them?", "no")]) else {
        return did_not_run(
            "declined_checks_spend_nothing",
            "the command `script` is missing",
        );
    };
    assert!(shown.contains("NotTrusted"), "{shown}");
    assert_eq!(
        project.run(&["log", "--json"]).json(),
        serde_json::json!([])
    );
}
