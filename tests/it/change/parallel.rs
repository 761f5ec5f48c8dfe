//! Concurrent changes, the same change started twice, and changes stopped by a signal.

use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::change_project::Stage;
use crate::support::waiting::until;
use crate::support::{Run, write};

/// Script of an agent that waits until it is released.
const WAITS: &str = "touch \"$home/waits\"; while [ ! -f \"$home/go\" ]; do sleep 0.02; done\n";

fn wait_for_exit(child: Child) -> Run {
    Run::from(child.wait_with_output().unwrap())
}

#[test]
fn concurrent_changes_are_both_merged() {
    let stage = Stage::new();
    let [one, two] =
        ["one", "two"].map(|change| stage.start(&["run", change, "Say it", "--auto", "--trust"]));
    for run in [wait_for_exit(one), wait_for_exit(two)] {
        assert_eq!(run.code, 0, "{}", run.stderr);
    }

    for change in ["one", "two"] {
        assert_eq!(
            stage.project.read(&format!("{change}.txt")),
            format!("{change}\n")
        );
        assert!(
            stage
                .project
                .read(&format!("agentd/specs/{change}.md"))
                .contains(&format!("It says {change}."))
        );
        assert_eq!(
            stage
                .project
                .read("CHANGELOG.md")
                .matches(&format!("It says {change}."))
                .count(),
            1
        );

        let merges = stage.subjects();
        let merge = format!("Merge agentd/{change}: Say it");
        assert_eq!(
            merges.iter().filter(|subject| **subject == merge).count(),
            1,
            "{merges:?}"
        );
    }

    assert_eq!(stage.calls().len(), 10);
    assert_eq!(
        (
            stage.git("status --porcelain"),
            stage.git("branch --list agentd/*")
        ),
        Default::default()
    );
}

#[test]
fn second_of_two_conflicting_changes_reports_the_conflict() {
    let stage = Stage::new();
    stage.set_script("implement", "echo \"$change\" > same.txt\n");
    let [one, two] = ["one", "two"]
        .map(|change| stage.start(&["run", change, "Say it", "--auto", "--trust"]))
        .map(wait_for_exit);

    let (done, failed) = if one.code == 0 {
        (one, two)
    } else {
        (two, one)
    };
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(failed.code, 5, "{}", failed.stderr);
    assert!(
        failed.stderr.contains("merge conflict between `main` and"),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("same.txt"), "{}", failed.stderr);
    assert_eq!(
        stage.git("log --merges --format=%s main").lines().count(),
        1,
        "no part of it is merged"
    );
    assert_eq!(stage.git("status --porcelain"), "");
    assert_eq!(stage.worktrees().len(), 1, "the finished work is kept");
}

#[test]
fn eight_changes_open_concurrently() {
    let stage = Stage::new();
    let names: Vec<String> = (1..=8).map(|number| format!("change-{number}")).collect();
    let begun: Vec<Child> = names
        .iter()
        .map(|name| stage.start(&["run", name, "Say it", "--trust"]))
        .collect();

    for run in begun.into_iter().map(wait_for_exit) {
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(
            run.stderr.contains("awaiting approval before implement"),
            "{}",
            run.stderr
        );
    }

    assert_eq!(stage.worktrees().len(), 8);

    let list = stage.project.run(&["change", "list"]).ok();
    for name in &names {
        assert!(list.contains(name.as_str()), "{list}");
        assert!(
            stage
                .git(&format!("log --format=%s agentd/{name}"))
                .contains(&format!("agentd({name}): plan: PASS"))
        );
    }

    assert_eq!(stage.calls().len(), 16);
}

#[test]
fn same_change_started_twice_is_refused() {
    let stage = Stage::new();
    stage.set_script("plan", WAITS);

    let first = stage.start(&["run", "say", "Say it", "--auto", "--trust"]);
    until("the agent does not start", || {
        stage.outside("waits").is_file()
    });

    for args in [
        &["run", "say"][..],
        &["resume", "say"],
        &["approve", "say"],
        &["cancel", "say"],
    ] {
        let busy = stage.project.run(args);
        assert_eq!(busy.code, 75, "{args:?}: {}", busy.stderr);
        assert!(busy.stderr.contains("SessionBusy"), "{}", busy.stderr);
    }

    write(&stage.outside("go"), "");
    let first = wait_for_exit(first);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert_eq!(
        (stage.project.read("say.txt").as_str(), stage.calls().len()),
        ("say\n", 5)
    );
}

/// Stops a change as soon as a file exists.
fn check_stopped_change(stage: &Stage, sign: &str) {
    let child = stage.start(&["run", "say", "Say it", "--auto", "--trust"]);
    until("it does not start", || stage.outside(sign).is_file());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let run = wait_for_exit(child);
    assert_eq!(run.code, 130, "{}", run.stderr);
    until("a process is still running", || stage.alive().is_empty());
}

#[test]
fn change_stopped_during_a_call_can_be_resumed() {
    for mode in ["plan", "implement", "archive"] {
        let stage = Stage::new();
        stage.set_script(mode, WAITS);
        check_stopped_change(&stage, "waits");
        write(&stage.outside("go"), "");
        stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
        assert_eq!(
            (stage.project.read("say.txt").as_str(), stage.calls().len()),
            ("say\n", 6),
            "{mode}"
        );
    }
}

/// A check runs between implement and review: a stopped check is not treated as a failed one.
#[test]
fn change_stopped_during_a_check_can_be_resumed() {
    for checks_before in [0, 1] {
        let stage = Stage::new();
        let home = stage.project.home();
        let home = home.display();
        let check = format!(
            "test -f {home}/go && exit 0\n\
             if [ \"$(cat {home}/count 2>/dev/null | wc -l)\" -ge {checks_before} ]; then touch {home}/checks; sleep 600; fi\n\
             echo >> {home}/count\n"
        );
        stage.project.write("check.sh", check);

        stage.commit("check");
        check_stopped_change(&stage, "checks");

        write(&stage.outside("go"), "");
        stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
        assert_eq!(stage.project.read("say.txt"), "say\n");
        assert_eq!(
            stage.calls().len(),
            5,
            "{checks_before}: {:?}",
            stage.calls()
        );
    }
}
