//! Interrupted edits of the work tree: none is lost, and none is applied twice.

use std::fs;
use std::thread;

use agentd::fail::POINTS;
use agentd::models::{Event, Mode, State};

use super::{Stage, TARGET, call_outcomes};
use crate::support::write;

/// The turn of an agent without tools that builds a change.
const BUILD: [&str; 9] = [
    "turn",
    "implement",
    "Build it",
    "--agent",
    "fake",
    "--session",
    "s",
    "--file",
    "src/a.txt",
];

/// A kind of edit: the reply, the file, and its content before and after.
struct Edit {
    reply: &'static str,
    file: &'static str,
    before: Option<&'static str>,
    after: Option<&'static str>,
}

const EDITS: [Edit; 3] = [
    Edit {
        reply: "<content_update target=\"src/a.txt\" format=\"diff\">\n@@ -1 +1 @@\n-one\n+two\n</content_update>\n",
        file: "src/a.txt",
        before: Some("one\n"),
        after: Some("two\n"),
    },
    Edit {
        reply: "<content_update target=\"src/new/deep/b.txt\">\nnew\n</content_update>\n",
        file: "src/new/deep/b.txt",
        before: None,
        after: Some("new\n"),
    },
    Edit {
        reply: "<content_update target=\"src/a.txt\" format=\"diff\">\n--- a/src/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n\
                </content_update>\n",
        file: "src/a.txt",
        before: Some("one\n"),
        after: None,
    },
];

fn stage(edit: &Edit) -> Stage {
    let stage = Stage::new();
    stage.define("    tools: false\n");
    write(&stage.outside("reply"), edit.reply);
    stage
        .project
        .write(TARGET, "# P\n")
        .write("src/a.txt", "one\n");
    stage
}

fn target_content(stage: &Stage, edit: &Edit) -> Option<String> {
    fs::read_to_string(stage.project.root().join(edit.file)).ok()
}

/// Returns the results of the effects.
fn settlements(stage: &Stage) -> Vec<(String, bool)> {
    let settled = |event: Event| match event {
        Event::Settled { settlement, .. } => {
            Some((settlement.operation.to_string(), settlement.done))
        }
        _ => None,
    };
    stage
        .events()
        .into_iter()
        .filter_map(|(_, event)| settled(event))
        .collect()
}

/// Runs a test with each kind of edit at each fail point from the reply on.
fn at_each_point(work: impl Fn(&Stage, &Edit, &str) + Sync) {
    thread::scope(|scope| {
        for edit in &EDITS {
            let work = &work;
            scope.spawn(move || {
                for point in POINTS.iter().skip_while(|point| **point != "replied") {
                    let stage = stage(edit);
                    work(&stage, edit, point);
                }
            });
        }
    });
}

#[test]
fn edit_killed_at_a_fail_point_is_applied_once() {
    at_each_point(|stage, edit, point| {
        let run = stage.run_with(&BUILD, &format!("{point}=abort"));
        assert_eq!(run.code, -1, "{point}: {}", run.stderr);

        let images = [
            edit.before.map(str::to_owned),
            edit.after.map(str::to_owned),
        ];
        assert!(
            images.contains(&target_content(stage, edit)),
            "{point}: {:?}",
            target_content(stage, edit)
        );

        stage.is_alone_soon();
        let before = stage.events();

        stage.finish();
        stage.check(&before, &[Some("# P\n")]);
        assert_eq!(
            target_content(stage, edit).as_deref(),
            edit.after,
            "{point}"
        );
        assert_eq!(
            settlements(stage),
            [("files.edit".to_owned(), true)],
            "{point}"
        );
        assert_eq!(
            (call_outcomes(&stage.events()), stage.calls()),
            (vec!["ok"], 1),
            "{point}"
        );

        let events: Vec<Event> = stage.events().into_iter().map(|(_, event)| event).collect();
        assert_eq!(
            State::fold(&events).mode,
            Some(Mode::new("review").unwrap()),
            "{point}"
        );
    });
}

/// Someone else may write the file between the decision and the edit. Their content stays.
#[test]
fn pending_edit_does_not_overwrite_newer_content() {
    for edit in &EDITS {
        let stage = stage(edit);
        assert_eq!(stage.run_with(&BUILD, "committed=abort").code, -1);
        stage.project.write(edit.file, "someone was here\n");
        stage.run(&["resume"]).ok();
        assert_eq!(
            target_content(&stage, edit).as_deref(),
            Some("someone was here\n")
        );
        assert_eq!(settlements(&stage), [("files.edit".to_owned(), false)]);
    }
}

/// The reason for refusing a diff is decided with the reply, and recovery reports the same one.
#[test]
fn refusal_is_kept_across_a_crash() {
    let edit = Edit {
        reply: "<content_update target=\"src/a.txt\" format=\"diff\">\n@@ -1 +1 @@\n-uno\n+two\n</content_update>\n",
        ..EDITS[0]
    };
    let stage = stage(&edit);
    assert_eq!(stage.run_with(&BUILD, "committed=abort").code, -1);
    // By now the diff would apply.
    stage.project.write("src/a.txt", "uno\n");
    stage.run(&["resume"]).ok();
    let shown = stage.run(&["show", "s"]).ok();
    assert!(
        shown.contains("cannot write src/a.txt: hunk 1 does not apply"),
        "{shown}"
    );
    assert_eq!(target_content(&stage, &edit).as_deref(), Some("uno\n"));
}

/// Two sessions may write into one folder: recovery of one keeps the pending files of the other.
#[test]
fn recovery_removes_only_its_own_files() {
    let stage = stage(&EDITS[0]);
    stage
        .project
        .write("src/.agentd-unfinished-s2~abc", "theirs")
        .write("src/.agentd-unfinished-s~abc", "ours");
    assert_eq!(stage.run_with(&BUILD, "writing=abort").code, -1);
    stage.run(&["resume"]).ok();
    let names = fs::read_dir(stage.project.root().join("src")).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".agentd-unfinished-s2~abc", "a.txt"]);
}

/// An agent that cannot have edited anything is called again without a question.
#[test]
fn lost_call_without_tools_is_retried_unasked() {
    let stage = stage(&EDITS[0]);
    assert_eq!(stage.run_with(&BUILD, "called=abort").code, -1);
    stage.run(&["resume", "s"]).ok();
    assert_eq!(target_content(&stage, &EDITS[0]).as_deref(), EDITS[0].after);
}
