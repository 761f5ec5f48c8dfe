//! Files that agentd did not create, and replies that cannot be read where they are found.

use std::fs;
use std::os::unix::fs::symlink;

use agentd::models::Event;

use super::{Stage, TARGET, TURN, WRITTEN, call_outcomes, until_written};

/// A repository can contain a folder with the name of a call, with links to anywhere.
#[test]
fn links_in_a_call_folder_are_not_written_through() {
    for name in ["prompt", "stdout", "stderr", "job", "exit.part", "exit"] {
        let stage = Stage::new();
        let outside = stage.outside("mine");
        fs::write(&outside, "mine").unwrap();
        let call = stage.project.root().join(".agentd/calls/s.1.1");
        fs::create_dir_all(&call).unwrap();
        symlink(&outside, call.join(name)).unwrap();
        stage.run(&TURN).ok();
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine", "{name}");
        stage.check_end(1, WRITTEN);
    }

    for link in [".agentd/calls", ".agentd/calls/s.1.1"] {
        let stage = Stage::new();
        let outside = stage.outside("folder");
        fs::create_dir(&outside).unwrap();
        let link = stage.project.root().join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&outside, &link).unwrap();
        stage.run(&TURN);
        assert_eq!(
            fs::read_dir(&outside).unwrap().count(),
            0,
            "{}",
            link.display()
        );
    }
}

/// The ledger was moved away, and its last call left its files. They do not belong to the new call
/// of the same name.
#[test]
fn files_of_another_call_are_ignored() {
    let stage = Stage::new();
    stage.run_with(&TURN, "replied=abort");
    stage.is_alone_soon();
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let _gone = fs::remove_file(stage.project.root().join(".agentd").join(file));
    }
    stage.run_with(&TURN, "called=abort");
    let run = stage.run(&["resume"]);
    assert!(
        run.stderr.contains("the call of s/1 is lost"),
        "{}",
        run.stderr
    );
    assert_eq!(call_outcomes(&stage.events()), ["lost"]);
    assert!(!stage.project.root().join(TARGET).exists());
}

/// A reply may contain a key that only its own run knew.
#[test]
fn reply_with_a_possible_secret_waits_until_the_secret_is_set() {
    let stage = Stage::new();
    stage.run_with(&TURN, "replied=abort");
    stage.is_alone_soon();
    let without = |args: &[&str]| {
        let mut command = stage.command(args, "");
        command.env_remove("FAKE_API_KEY");
        crate::support::Run::from(command.output().unwrap())
    };

    let run = without(&["resume"]);
    assert!(
        run.stderr
            .contains("cannot redact the reply of s/1: FAKE_API_KEY is not set"),
        "{}",
        run.stderr
    );
    without(&["resume", "s"]).fails(8, &["NotResumable", "FAKE_API_KEY", ".agentd/calls"]);
    without(&TURN).fails(8, &["NotResumable"]);
    assert_eq!(
        call_outcomes(&stage.events()),
        Vec::<&str>::new(),
        "no part of it is kept"
    );

    stage.run(&["resume"]).ok();
    assert_eq!(
        (call_outcomes(&stage.events()), stage.calls()),
        (vec!["ok"], 1)
    );

    stage.check_end(1, WRITTEN);
}

#[test]
fn reply_of_a_removed_agent_waits_for_its_definition() {
    let stage = Stage::new();
    stage.run_with(&TURN, "replied=abort");
    stage.is_alone_soon();
    let definitions = stage.project.user_folder().join("agents.yaml");
    let described = fs::read_to_string(&definitions).unwrap();
    fs::write(&definitions, described.replace("  fake:", "  other:")).unwrap();

    let run = stage.run(&["resume"]);
    assert!(
        run.stderr.contains("cannot read the reply of `fake`"),
        "{}",
        run.stderr
    );

    fs::write(&definitions, described).unwrap();
    stage.run(&["resume"]).ok();
    assert_eq!(
        (call_outcomes(&stage.events()), stage.calls()),
        (vec!["ok"], 1)
    );

    stage.check_end(1, WRITTEN);
}

/// A session that cannot be recovered stays pending.
#[test]
fn failed_recovery_is_repeated_by_the_next_run() {
    let stage = Stage::new();
    stage.run_with(&TURN, "replied=abort");
    stage.is_alone_soon();
    let other = [
        "turn",
        "plan",
        "Go",
        "--session",
        "other",
        "--agent",
        "echo",
    ];
    stage.run_with(&other, "committing=error");

    let run = stage.run(&["resume"]);
    assert!(
        run.stderr.contains("recovered the reply of s/1"),
        "{}",
        run.stderr
    );
    assert_eq!(stage.calls(), 1);

    stage.check_end(1, WRITTEN);
}

/// While the agent of a read-only mode runs, the user may edit the files that its reply replaces.
#[test]
fn user_edits_during_a_call_are_kept() {
    let stage = Stage::new();
    stage.steps(&["err begun", &stage.await_release(), "reply"]);
    stage.project.write(TARGET, "old\n");
    let turn = stage.start(&TURN, "");
    until_written(
        &stage.project.root().join(".agentd/calls/s.1.1/stderr"),
        "begun",
    );
    stage.project.write(TARGET, "mine\n");
    stage.release();

    let output = turn.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stage.project.read(TARGET), "mine\n");

    let settled = stage
        .events()
        .into_iter()
        .find_map(|(_, event)| match event {
            Event::Settled { settlement, .. } => Some(settlement),
            _ => None,
        });
    let settled = settled.unwrap();
    assert!(
        !settled.done
            && settled
                .detail
                .contains("changed after the prompt was created"),
        "{settled:?}"
    );
}

#[test]
fn session_keeps_its_pack() {
    let stage = Stage::new();
    stage.run(&TURN).ok();
    let args = [
        "turn",
        "task-agent",
        "Go",
        "--pack",
        "taskqueue",
        "--session",
        "s",
        "--agent",
        "echo",
    ];
    stage
        .run(&args)
        .fails(3, &["OtherPack", "uses pack `sdd`", "--pack sdd"]);
    assert_eq!(stage.calls(), 1);
}

/// A turn that was refused before it started leaves no session that the ledger does not know.
#[test]
fn refused_turn_does_not_block_the_export() {
    let stage = Stage::new();
    stage
        .run(&[
            "turn",
            "review",
            "Go",
            "--session",
            "aaa",
            "--agent",
            "fake",
        ])
        .fails(3, &["ChangeNotFound"]);
    stage.run(&TURN).ok();
    assert!(stage.run(&["export"]).ok().contains("\"session\":\"s\""));
}
