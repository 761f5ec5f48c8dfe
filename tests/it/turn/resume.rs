//! Interrupted turns and their continuation, and the progress output of a turn.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::recording_agent::{answer, call, calls, define_agents};
use crate::support::waiting::until_written;
use crate::support::{TestProject, did_not_run, files_below, write};

const HANGS: &[&str] = &["out begun", "hang"];

/// Takes a turn whose agent hangs, and returns once the agent has printed something.
fn start_hanging_turn(project: &TestProject, mode: &str, session: &str) -> Child {
    define_agents(project, &[("agent", HANGS, "")]);
    let args = ["turn", mode, "Go", "--session", session, "--agent", "agent"];
    let child = project
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = project
        .root()
        .join(format!(".agentd/calls/{session}.1.1/stdout"));
    until_written(&said, "begun\n");
    child
}

fn send_signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// Makes the agent answer from now on.
fn let_agent_answer(project: &TestProject, reply: &str) {
    let step = answer(project, "reply", reply);
    define_agents(project, &[("agent", &[&step], "")]);
}

fn results(project: &TestProject) -> Vec<Value> {
    let log = project.run(&["log", "--json"]).json();
    log.as_array()
        .unwrap()
        .iter()
        .map(|row| row["result"].clone())
        .collect()
}

#[test]
fn finished_turn_leaves_nothing_to_resume() {
    let project = TestProject::new();
    let_agent_answer(&project, "Planned.\n");
    project
        .run(&["turn", "plan", "Go", "--session", "a", "--agent", "agent"])
        .ok();

    let run = project.run(&["resume", "a"]);
    assert!(
        run.stderr.contains("nothing to resume: a/1 is complete"),
        "{}",
        run.stderr
    );
    assert_eq!((run.ok().as_str(), calls(&project, "agent")), ("", 1));
    assert!(
        project
            .run(&["resume"])
            .stderr
            .contains("nothing to resume")
    );
}

#[test]
fn stopped_turn_is_retried_with_the_same_prompt() {
    let project = TestProject::new();
    let mut child = start_hanging_turn(&project, "plan", "a");

    send_signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(results(&project), ["stopped"]);
    assert_eq!(
        project.run(&["show", "a", "--reply"]).ok(),
        "begun\n",
        "the output is kept"
    );

    let_agent_answer(&project, "Planned.\n<review>PASS</review>\n");

    // The current files of the project do not matter: the prompt is the recorded one.
    project.write("new.txt", "x");
    assert_eq!(project.run(&["resume", "a"]).ok(), "Planned.\n");
    assert_eq!(
        call(&project, "agent", 1).stdin,
        call(&project, "agent", 2).stdin
    );
    assert_eq!(results(&project), ["ok"]);

    let record = project.run(&["show", "a", "--json"]).json();
    let ends: Vec<_> = record["turn"]["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["answered"]["end"])
        .collect();
    assert_eq!(ends, ["stopped", "ok"], "one turn, two calls");
    assert_eq!(record["turn"]["next"], "challenge");
}

#[test]
fn killed_run_is_finished_and_reported() {
    let project = TestProject::new();
    let mut child = start_hanging_turn(&project, "plan", "a");
    send_signal(&child, Signal::SIGKILL);

    child.wait().unwrap();
    assert_eq!(results(&project), ["interrupted"], "no process saw its end");

    let run = project.run(&["resume"]);
    assert!(
        run.stderr.contains("the call of a/1 is lost"),
        "{}",
        run.stderr
    );

    run.ok();
    assert_eq!(results(&project), ["lost"]);

    let left: Vec<_> = files_below(&project.root().join(".agentd"))
        .into_iter()
        .filter(|file| file.starts_with("calls"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(
        project
            .run(&["resume"])
            .stderr
            .contains("nothing to resume"),
        "once is enough"
    );

    // The agent is called again only if its session is named.
    let_agent_answer(&project, "Planned.\n");
    assert_eq!(calls(&project, "agent"), 1);

    let run = project.run(&["resume", "a", "--json"]);
    assert_eq!(run.report()["report"]["calls"], 2);
}

#[test]
fn agent_with_edit_permission_is_not_retried_unasked() {
    let project = TestProject::new();
    project.write("agentd/changes/a/proposal.md", "# A\n");
    let mut child = start_hanging_turn(&project, "implement", "a");

    send_signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let_agent_answer(&project, "Done.\n");
    project.run(&["resume", "a"]).fails(
        8,
        &[
            "NotResumable",
            "may already have edited files",
            "`git status`",
            "--again",
        ],
    );
    assert_eq!(calls(&project, "agent"), 1);
    assert_eq!(project.run(&["resume", "a", "--again"]).ok(), "Done.\n");
    assert_eq!(calls(&project, "agent"), 2);
}

#[test]
fn turn_is_not_resumed_with_another_pack() {
    let project = TestProject::new();
    let mut child = start_hanging_turn(&project, "plan", "a");
    send_signal(&child, Signal::SIGINT);
    child.wait().unwrap();
    let_agent_answer(&project, "Planned.\n");
    let template = project.run(&["template", "show", "plan"]).ok();

    write(
        &project.user_folder().join("templates/system/BASE-plan.md"),
        template.replace("# Plan a change", "# Plan it"),
    );
    project.run(&["resume", "a"]).fails(
        8,
        &[
            "NotResumable",
            "`sdd` or its template changed after the prompt was sent",
            "start a new turn",
        ],
    );
    assert_eq!(calls(&project, "agent"), 1);
}

/// Runs the program with stderr on a terminal, and returns the screen output. Calls `look` with the
/// output so far each time it grows. Returns `None` if the command `script`, which provides a
/// terminal, is missing.
fn run_on_terminal(
    project: &TestProject,
    args: &[&str],
    mut look: impl FnMut(&str),
) -> Option<String> {
    let program = project.command(args);
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let quoted: String = words
        .map(|word| format!("'{}' ", word.to_str().unwrap()))
        .collect();
    let mut child = Command::new("script")
        .args(["-qec", &format!("{quoted} >data"), "/dev/null"])
        .current_dir(project.home())
        .env("HOME", project.home())
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;

    // At the end of its input `script` would type an end of file, which the terminal would echo.
    let typing = child.stdin.take();
    let (mut terminal, mut shown, mut buffer) =
        (child.stdout.take().unwrap(), Vec::new(), [0; 4096]);
    loop {
        let count = terminal.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        shown.extend(&buffer[..count]);
        look(&String::from_utf8_lossy(&shown));
    }

    drop(typing);
    let shown = String::from_utf8(shown).unwrap();
    assert!(child.wait().unwrap().success(), "{shown}");

    Some(shown)
}

/// Returns the distinct times that a live view has shown, in seconds.
fn seconds_shown(shown: &str) -> BTreeSet<u64> {
    let parts = shown.split("s · ~");
    parts
        .filter_map(|part| part.rsplit(" · ").next()?.parse().ok())
        .collect()
}

#[test]
fn live_lines_cannot_drive_the_terminal() {
    let project = TestProject::new();

    // A title, the clipboard, a colour, a cursor movement, in both forms; then words.
    let evil = "\u{1b}]0;owned\u{7}\u{1b}]52;c;eA==\u{1b}\\\u{1b}[31m\u{9b}2J\u{1b}[9;9H\u{202e}";
    let said = answer(
        &project,
        "said",
        &format!("Reading.\n{evil}Working {evil}on it\n"),
    );
    let seen = project.home().join("seen");
    let wait = format!("await {}", seen.display());
    define_agents(&project, &[("talker", &[&said, &wait, "out Done."], "")]);
    let root = project.root().display().to_string();
    let args = [
        "-C",
        &root,
        "turn",
        "plan",
        "Go",
        "--session",
        "a",
        "--agent",
        "talker",
    ];

    // The agent continues once its lines were shown and redrawn, and the seconds have changed.
    let lines = " tokens\r\nReading.\r\nWorking on it\r\u{1b}[2A\u{1b}[J";
    let look = |shown: &str| {
        if shown.replace("\r\r", "\r").contains(lines) && seconds_shown(shown).len() > 1 {
            write(&seen, "");
        }
    };

    let Some(shown) = run_on_terminal(&project, &args, look) else {
        return did_not_run(
            "live_lines_cannot_drive_the_terminal",
            "the command `script` is missing",
        );
    };
    assert!(
        shown.contains("\r\u{1b}[Ja/1 plan by talker · "),
        "{shown:?}"
    );
    assert!(shown.replace("\r\r", "\r").contains(lines), "{shown:?}");
    assert!(seconds_shown(&shown).len() > 1, "{shown:?}");

    // All control sequences are ours: three lines are erased, and a few words have a colour.
    let ours = [
        "\u{1b}[J",
        "\u{1b}[2A",
        "\u{1b}[3A",
        "\u{1b}[0m",
        "\u{1b}[1m",
        "\u{1b}[33m",
        "\u{1b}[36m",
    ];
    let plain = ours.iter().fold(shown, |text, code| text.replace(code, ""));
    assert!(
        !plain
            .chars()
            .any(|c| (c.is_control() && !"\r\n\t".contains(c)) || c == '\u{202e}'),
        "{plain:?}"
    );
    assert!(
        !plain.contains("owned") && !plain.contains("[31m"),
        "{plain:?}"
    );
}

#[test]
fn turn_without_a_terminal_prints_no_progress() {
    let project = TestProject::new();
    define_agents(&project, &[("talker", &["out Working.", "out Done."], "")]);

    let run = project.run(&["turn", "plan", "Go", "--session", "a", "--agent", "talker"]);
    assert!(
        !run.stderr.contains('\r') && !run.stderr.contains('\u{1b}'),
        "{:?}",
        run.stderr
    );

    // A turn of more than five seconds, on a busy machine, prints that it is still running.
    let lines = run
        .stderr
        .lines()
        .filter(|line| line.contains("talker") && !line.contains("so far"));
    assert_eq!(
        lines.count(),
        2,
        "a warning and the row of the turn: {}",
        run.stderr
    );
    assert_eq!(run.ok(), "Working.\nDone.\n");

    let log = project.run(&["log", "--json"]).json();
    assert_eq!(log[0]["result"], json!("ok"));
}
