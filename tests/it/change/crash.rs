//! A whole change, killed at every fail point and resumed: the result is the same as without a
//! kill.

use std::collections::BTreeMap;
use std::thread;

use agentd::fail::{CHANGE_POINTS, POINTS};
use agentd::models::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::change_project::Stage;
use crate::support::waiting::until;
use crate::support::write;

/// The fail points tested unless `AGENTD_SOAK` asks for all: before, during and after a call, and
/// around file writes, commits, the archive and the merge.
const SOME: [&str; 7] = [
    "opened",
    "recorded",
    "written",
    "ticked",
    "git-committed",
    "archived",
    "landed",
];

/// The fail points at which an agent may be running, so that its reply is lost.
const AT_WORK: [&str; 2] = ["launched", "recorded"];

/// The calls of the agent for an undisturbed change.
const CALLS: [&str; 5] = [
    "say plan",
    "say challenge",
    "say implement",
    "say review",
    "say archive",
];

/// The committed files at the end, and the commits.
type Result = (BTreeMap<String, String>, Vec<String>);

/// Removes the turn number, which is higher if a call was lost.
fn result(stage: &Stage) -> Result {
    let plain = |text: String| -> String {
        let line = |line: &str| {
            if line.starts_with("## Evidence of say/") {
                "## Evidence\n".into()
            } else {
                format!("{line}\n")
            }
        };
        text.lines().map(line).collect()
    };
    let committed = stage
        .committed_files()
        .into_iter()
        .map(|(path, text)| (path, plain(text)));
    (committed.collect(), stage.subjects())
}

/// Kills a change every time it reaches a fail point, and resumes it each time. Returns the number
/// of kills.
fn killed_at(stage: &Stage, point: &str) -> usize {
    let replies = || {
        let is_reply =
            |event: &&Event| matches!(event, Event::Replied { .. } | Event::Entered { .. });
        stage.events("say").iter().filter(is_reply).count()
    };

    let (mut crashes, mut time, mut before) = (0, 1, usize::MAX);
    loop {
        let opened = !stage.events("say").is_empty();
        let args = if opened {
            vec!["run", "say"]
        } else {
            vec!["run", "say", "Say it"]
        };
        let mut command = stage
            .project
            .command(&[&args[..], &["--auto", "--trust"]].concat());
        let output = command
            .env("AGENTD_FAIL", format!("{point}@{time}=abort"))
            .output()
            .unwrap();

        if let Some(code) = output.status.code() {
            assert_eq!(
                code,
                0,
                "{point}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return crashes;
        }

        crashes += 1;
        assert!(crashes < 40, "{point}: the change does not end");
        until("an agent outlives its program", || stage.alive().is_empty());

        // A fail point that recovery passes again is left alone, or the change would never get
        // further.
        let now = replies();
        time = if now == before { time + 1 } else { 1 };
        before = now;
    }
}

#[test]
fn killed_change_resumes_to_the_same_result() {
    let undisturbed = Stage::new();
    undisturbed.run_change("say", "Say it").ok();

    let expected = result(&undisturbed);
    assert_eq!(undisturbed.calls(), CALLS);
    assert_eq!(expected.0["say.txt"], "say\n");
    assert_eq!(
        expected.0["CHANGELOG.md"].matches("It says say.").count(),
        1
    );
    assert!(expected.0["agentd/changes/archive/say/tasks.md"].contains("- [x] 1.1"));
    assert!(expected.0["agentd/specs/say.md"].contains("### R1 - It is said"));
    assert_eq!(
        expected
            .1
            .iter()
            .filter(|subject| subject.starts_with("Merge "))
            .count(),
        1
    );

    let all: Vec<&str> = POINTS.into_iter().chain(CHANGE_POINTS).collect();
    let points = if std::env::var_os("AGENTD_SOAK").is_some() {
        all
    } else {
        SOME.to_vec()
    };
    thread::scope(|scope| {
        for half in points.chunks(points.len().div_ceil(2)) {
            let expected = &expected;
            scope.spawn(move || {
                half.iter()
                    .for_each(|point| check_same_result(point, expected))
            });
        }
    });
}

fn check_same_result(point: &str, expected: &Result) {
    let stage = Stage::new();
    let crashes = killed_at(&stage, point);
    assert!(crashes > 0, "{point}: a change does not reach it");
    assert_eq!(&result(&stage), expected, "{point}");

    let calls = stage.calls();
    if AT_WORK.contains(&point) {
        assert!(calls.len() <= CALLS.len() + crashes, "{point}: {calls:?}");
    } else {
        assert_eq!(
            calls, CALLS,
            "{point}: an agent is called twice for the same reply"
        );
    }

    assert_eq!(stage.git("status --porcelain"), "", "{point}");
    assert_eq!(
        stage.worktrees(),
        Vec::<std::path::PathBuf>::new(),
        "{point}"
    );
    assert_eq!(stage.git("branch --list agentd/*"), "", "{point}");
}

/// The agent may have finished half of its work in its worktree: a new turn continues there.
#[test]
fn resume_keeps_edits_of_a_killed_agent() {
    let stage = Stage::new();
    stage.set_script(
        "implement",
        "if [ ! -f half.txt ]; then echo half > half.txt; exec sleep 600; fi\n",
    );

    let mut child = stage.start(&["run", "say", "Say it", "--auto", "--trust"]);
    until("the agent does not start", || {
        stage
            .worktrees()
            .first()
            .is_some_and(|tree| tree.join("half.txt").is_file())
    });

    child.kill().unwrap();
    child.wait().unwrap();
    until("the agent outlives its program", || {
        stage.alive().is_empty()
    });

    let run = stage.project.run(&["resume", "say", "--trust"]);

    // It continues like `agentd run`, which stops before the merge.
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("the call of say/3 is lost"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("awaiting approval before archive"),
        "{}",
        run.stderr
    );

    let mut calls = CALLS.to_vec();
    calls.insert(2, "say implement");
    assert_eq!(stage.calls(), calls[..5]);

    stage.project.run(&["approve", "say", "--trust"]).ok();
    assert_eq!(stage.calls(), calls);
    assert_eq!(
        (
            stage.project.read("half.txt"),
            stage.project.read("say.txt")
        ),
        ("half\n".into(), "say\n".into())
    );
}

/// A failed step after a turn is retried once per run, regardless of the number of earlier
/// attempts.
#[test]
fn failed_merge_is_retried_without_calling_the_agent() {
    let stage = Stage::new();

    // An uncommitted file blocks the file that the change adds.
    stage.project.write("say.txt", "mine\n");
    let words = "uncommitted changes would be overwritten: say.txt";
    let run = stage.run_change("say", "Say it");
    assert!(
        run.code == 5 && run.stderr.contains(words),
        "{}",
        run.stderr
    );

    for _ in 0..3 {
        let run = stage.project.run(&["run", "say", "--auto", "--trust"]);
        assert!(
            run.code == 5 && run.stderr.contains(words),
            "{}",
            run.stderr
        );
    }

    let tried = stage
        .events("say")
        .iter()
        .filter(|event| matches!(event, Event::Intended { .. }))
        .count();

    // Each attempt repeats only the few final steps.
    assert!(
        tried < 40,
        "{tried}: each attempt takes twice as many steps"
    );
    assert_eq!(stage.project.read("say.txt"), "mine\n");

    std::fs::remove_file(stage.project.root().join("say.txt")).unwrap();
    stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
    assert_eq!(stage.project.read("say.txt"), "say\n");
    assert_eq!(stage.calls(), CALLS);
}

/// Neither `kill -9` nor Ctrl-C counts as a round, and neither does a continued call.
#[test]
fn repeated_interruptions_do_not_loop() {
    let stage = Stage::new();
    stage.set_script(
        "plan",
        "echo begun >> \"$1\"/begun; if [ ! -f \"$1\"/enough ]; then exec sleep 600; fi\n",
    );
    let begun = || {
        std::fs::read_to_string(stage.outside("begun"))
            .unwrap_or_default()
            .lines()
            .count()
    };

    for (index, signal) in [Signal::SIGKILL, Signal::SIGINT]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let request: &[&str] = if index == 0 { &["Say it"] } else { &[] };
        let mut child = stage.start(&[&["run", "say"], request, &["--auto", "--trust"]].concat());
        until("the agent does not start", || begun() > index);
        let status = stage.project.run(&["status"]).ok();
        assert!(!status.contains("stuck"), "{status}");
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        child.wait().unwrap();
        until("the agent outlives its program", || {
            stage.alive().is_empty()
        });
    }

    write(&stage.outside("enough"), "");
    stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
    assert_eq!(stage.project.read("say.txt"), "say\n");
}
