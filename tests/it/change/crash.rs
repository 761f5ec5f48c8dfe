//! A whole change that is killed at every place it comes to, and led on: its end is the same as without that.

use std::collections::BTreeMap;
use std::thread;

use agentd::fail::{CHANGE_POINTS, POINTS};
use agentd::models::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::change_project::Stage;
use crate::support::waiting::until;
use crate::support::write;

/// The points that are tried unless `AGENTD_SOAK` asks for all: before, in and after a call, and where files, commits,
/// the archive and the merge are made.
const SOME: [&str; 7] = [
    "opened",
    "recorded",
    "written",
    "ticked",
    "git-committed",
    "archived",
    "landed",
];

/// The points at which an agent may be at work, so that what it says is lost.
const AT_WORK: [&str; 2] = ["launched", "recorded"];

/// The agent's calls for a change that nothing disturbs.
const CALLS: [&str; 5] = [
    "say plan",
    "say challenge",
    "say implement",
    "say review",
    "say archive",
];

/// What is committed in the end, and by which commits.
type Result = (BTreeMap<String, String>, Vec<String>);

/// Returns it without the number of the turn, which is another one if a call was lost before.
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
        .committed()
        .into_iter()
        .map(|(path, text)| (path, plain(text)));
    (committed.collect(), stage.subjects())
}

/// Kills a change at a point as often as it comes there anew, and leads it on each time. Returns how often.
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
        assert!(crashes < 40, "{point}: it comes to no end");
        until("an agent outlives its program", || stage.alive().is_empty());
        // What recovery comes to again is left alone, or it would never get further.
        let now = replies();
        time = if now == before { time + 1 } else { 1 };
        before = now;
    }
}

#[test]
fn killed_change_resumes_to_the_same_result() {
    let undisturbed = Stage::new();
    undisturbed.lead("say", "Say it").ok();
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
                    .for_each(|point| comes_to_the_same_end(point, expected))
            });
        }
    });
}

fn comes_to_the_same_end(point: &str, expected: &Result) {
    let stage = Stage::new();
    let crashes = killed_at(&stage, point);
    assert!(crashes > 0, "{point}: a change does not come there");
    assert_eq!(&result(&stage), expected, "{point}");
    let calls = stage.calls();
    if AT_WORK.contains(&point) {
        assert!(calls.len() <= CALLS.len() + crashes, "{point}: {calls:?}");
    } else {
        assert_eq!(
            calls, CALLS,
            "{point}: an agent is asked twice for what it has said"
        );
    }
    assert_eq!(stage.git("status --porcelain"), "", "{point}");
    assert_eq!(stage.trees(), Vec::<std::path::PathBuf>::new(), "{point}");
    assert_eq!(stage.git("branch --list agentd/*"), "", "{point}");
}

/// The agent may have done half of its work in a tree of its own: a new turn goes on there.
#[test]
fn resume_keeps_edits_of_a_killed_agent() {
    let stage = Stage::new();
    stage.does(
        "implement",
        "if [ ! -f half.txt ]; then echo half > half.txt; exec sleep 600; fi\n",
    );
    let mut child = stage.start(&["run", "say", "Say it", "--auto", "--trust"]);
    until("the agent does not begin", || {
        stage
            .trees()
            .first()
            .is_some_and(|tree| tree.join("half.txt").is_file())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    until("the agent outlives its program", || {
        stage.alive().is_empty()
    });
    let run = stage.project.run(&["resume", "say", "--trust"]);
    // It goes on as `agentd run` does, which stops before the merge.
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

/// What failed after a turn is tried again, once each time, however often that was tried before.
#[test]
fn failed_merge_is_retried_without_calling_the_agent() {
    let stage = Stage::new();
    // Work in no commit is in the way of the file that the change brings.
    stage.project.write("say.txt", "mine\n");
    let words = "work that is in no commit is in the way: say.txt";
    let run = stage.lead("say", "Say it");
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
    // Each attempt takes the few steps of the end once more.
    assert!(tried < 40, "{tried}: each attempt is twice the one before");
    assert_eq!(stage.project.read("say.txt"), "mine\n");
    std::fs::remove_file(stage.project.root().join("say.txt")).unwrap();
    stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
    assert_eq!(stage.project.read("say.txt"), "say\n");
    assert_eq!(stage.calls(), CALLS);
}

/// Neither `kill -9` nor Ctrl-C is a round, and a call that goes on is none either.
#[test]
fn repeated_interruptions_do_not_loop() {
    let stage = Stage::new();
    stage.does(
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
        until("the agent does not begin", || begun() > index);
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
