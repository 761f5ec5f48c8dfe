//! Agents that remove the ledger or the files of their call during a turn.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agentd::store::Store;
use serde_json::json;

use super::{Stage, TURN, WRITTEN, answers, call_outcomes, names};
use crate::support::{Run, write};

/// Takes a turn whose agent runs a shell script before it answers.
///
/// The program waits at a fail point while the script runs. Otherwise it could check the ledger
/// between two commands of the script.
fn take_turn(stage: &Stage, script: &str) -> Run {
    let [calls, trace, release, reply] = ["calls", "trace", "release", "reply"]
        .map(|name| stage.outside(name).display().to_string());
    let script = format!(
        "echo called >> {calls}; until grep -q recorded {trace}; do sleep 0.01; done; {script}; \
         touch {release}; cat {reply}"
    );
    let definition = json!({"format": 1, "agents": {"fake": {"argv": ["sh", "-c", script]}}});
    write(
        &stage.project.user_folder().join("agents.yaml"),
        definition.to_string(),
    );
    stage.run_with(
        &[&TURN[..], &["--json"]].concat(),
        &stage.hold_at("recorded"),
    )
}

const WARNING: &str = "warning: .agentd/ledger.db was removed while in use; it was restored\n";

#[test]
fn ledger_removed_by_an_agent_is_restored() {
    let stage = Stage::new();
    stage.run(&TURN).ok();
    let before = stage.events();

    for (number, remove) in (2..).zip([
        "rm -rf .agentd",
        "git clean -qfdx",
        "rm -f .agentd/ledger.db*",
        "rm .agentd/ledger.db",
    ]) {
        let run = take_turn(&stage, remove);
        assert!(run.stderr.contains(WARNING), "{remove}: {}", run.stderr);

        let events = stage.events();
        assert!(
            events.starts_with(&before),
            "{remove}: recorded events are lost"
        );

        let last = answers(&events).pop().unwrap();
        assert_eq!(last.turn, number, "{remove}: the turn is recorded");

        if remove.contains("ledger.db") {
            assert_eq!(
                (run.code, call_outcomes(&events).pop().unwrap()),
                (0, "ok"),
                "{}",
                run.stderr
            );
        } else {
            assert_eq!(
                (run.code, call_outcomes(&events).pop().unwrap()),
                (5, "crashed"),
                "{}",
                run.stderr
            );
            let fault = &run.last_line()["fault"];
            assert_eq!(fault["kind"], "AgentCrashed");
            let words = "the call's folder in .agentd/calls was removed; the reply is lost";
            assert!(
                fault["message"].as_str().unwrap().contains(words),
                "{fault}"
            );
            assert_eq!(last.detail, words);
        }

        let mode = |path: &str| {
            fs::metadata(stage.project.root().join(path))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };

        assert_eq!((mode(".agentd"), mode(".agentd/ledger.db")), (0o700, 0o600));
        assert_eq!(stage.project.read(".agentd/.gitignore"), "*\n");

        stage.check(&before, &[Some(WRITTEN), None]);
        assert_eq!(
            stage.store().unwrap().held().unwrap(),
            [],
            "the session is free"
        );
    }

    // The next program finds the ledger and recognises it.
    take_turn(&stage, "true").ok();
    stage.check_end(6, WRITTEN);
    assert_eq!(stage.calls(), 6);
}

#[test]
fn ledger_replaced_in_use_is_set_aside() {
    let (stage, other) = (Stage::new(), Stage::new());
    other.run(&TURN).ok();
    let (theirs, ours) = (
        other.project.root().join(".agentd"),
        stage.project.root().join(".agentd"),
    );
    let swap = format!("rm -rf .agentd; cp -r {} .agentd", theirs.display());

    let run = take_turn(&stage, &swap);
    assert_eq!(run.code, 7, "{}", run.stderr);

    for words in [
        "LedgerUnusable",
        "was replaced by another ledger",
        "is in .agentd/ledger-",
    ] {
        assert!(
            run.stderr.contains(words),
            "{words:?} is not in:\n{}",
            run.stderr
        );
    }

    assert_eq!(
        fs::read(theirs.join("ledger.db")).unwrap(),
        fs::read(ours.join("ledger.db")).unwrap()
    );

    let kept: Vec<_> = fs::read_dir(&ours)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("ledger-"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(run.stderr.contains(&kept[0]), "{}", run.stderr);

    // Follows the hint.
    fs::rename(ours.join(&kept[0]), ours.join("ledger.db")).unwrap();
    stage.steps(&["reply"]);
    stage.define("");

    stage.run(&["resume", "s"]).ok();
    assert_eq!(
        names(&stage.events())[..3],
        ["entered", "started", "called"]
    );

    stage.check_end(1, WRITTEN);
}
