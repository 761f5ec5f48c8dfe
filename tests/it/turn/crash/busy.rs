//! Several programs at once: on one session, on several, and on one whose holder sleeps or is dead.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::unistd::Pid;
use serde_json::Value;

use super::{Stage, TURN, UNDISTURBED, WRITTEN, code_of, names, until, until_written};
use crate::support::waiting::suspend;
use crate::support::{Run, did_not_run};

#[test]
fn one_of_sixteen_processes_takes_the_turn() {
    let stage = Stage::new();
    stage.steps(&[&stage.await_release(), "reply"]);
    let (printed, results) = mpsc::channel();
    let results: Vec<_> = thread::scope(|scope| {
        for _ in 0..16 {
            let printed = printed.clone();
            let mut command = stage.command(&[&TURN[..], &["--json"]].concat(), "");
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            scope.spawn(move || printed.send(Run::from(command.output().unwrap())).unwrap());
        }
        drop(printed);
        // No process waits for the holder of the session.
        let first: Vec<_> = results.iter().take(15).collect();
        stage.release();
        first.into_iter().chain(results.iter()).collect()
    });

    let (taken, refused): (Vec<Run>, Vec<Run>) = results.into_iter().partition(|run| run.code == 0);
    assert_eq!((taken.len(), refused.len()), (1, 15));

    for run in refused {
        assert_eq!(run.code, 75, "{}", run.stderr);
        let last: Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
        assert_eq!(last["error"]["kind"], "SessionBusy");
        let message = last["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("session `s` has been locked by `agentd turn` (pid "),
            "{message}"
        );
        assert!(message.ends_with(" s"), "since when: {message}");
    }

    assert_eq!(stage.calls(), 1, "one turn, one call");
    assert_eq!(names(&stage.events()), UNDISTURBED);

    stage.check(&[], &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
}

#[test]
fn four_sessions_run_concurrently() {
    let stage = Stage::new();
    stage.steps(&[&stage.await_release(), "reply"]);
    let start = |session: &str| {
        let mut args = TURN;
        args[6] = session;
        stage.start(&args, "")
    };

    let programs: Vec<Child> = ["s", "t", "u", "v"]
        .iter()
        .map(|session| start(session))
        .collect();
    until("the agents do not run concurrently", || stage.calls() == 4);

    stage.release();
    for program in programs {
        assert_eq!(code_of(program), Some(0));
    }
    assert_eq!(stage.calls(), 4);

    for session in ["s", "t", "u", "v"] {
        assert_eq!(
            stage
                .project
                .read(&format!("agentd/changes/{session}/proposal.md")),
            WRITTEN
        );
    }

    assert_eq!(
        stage.store().unwrap().verify().unwrap(),
        Vec::<String>::new()
    );

    stage.check_secrets();
}

#[test]
fn lock_of_a_killed_holder_is_taken_over() {
    let stage = Stage::with(&["out begun", "hang"]);

    // At this point it holds no lock on the ledger's database, which would block the others.
    let mut owner = stage.start_held("recorded");
    until_written(
        &stage.project.root().join(".agentd/calls/s.1.1/stdout"),
        "begun",
    );
    suspend(Pid::from_raw(owner.id().cast_signed()));
    let before = stage.events();
    for args in [&TURN[..], &["resume", "s"]] {
        let words = ["SessionBusy", &format!("(pid {})", owner.id())];
        stage.run(args).fails(75, &words);
    }

    let held = format!(
        "note: session `s` is in use by `agentd turn` (pid {})\n",
        owner.id()
    );
    assert_eq!(
        stage.run(&["resume"]).stderr,
        held,
        "a sleeping holder is not dead"
    );
    assert_eq!(stage.events(), before);
    assert!(!stage.alive().is_empty(), "its agent was left alone");

    owner.kill().unwrap();
    owner.wait().unwrap();
    stage.steps(&["reply"]);

    let next = stage.run(&TURN);
    assert!(
        next.stderr.contains("the call of s/1 is lost"),
        "{}",
        next.stderr
    );

    next.ok();
    stage.check(&before, &[Some(WRITTEN)]);
    stage.check_end(2, WRITTEN);
    assert_eq!(stage.calls(), 2);
}

/// Inside a container, processes outside are not visible, although the boot id is the same.
#[test]
fn session_locked_outside_a_container_is_busy_inside() {
    let namespace = ["-rpf", "--mount-proc"];
    if !Command::new("unshare")
        .args(namespace)
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        let test = "session_locked_outside_a_container_is_busy_inside";
        return did_not_run(test, "namespaces are not available");
    }

    let stage = Stage::with(&["out begun", "hang"]);
    let mut owner = stage.start(&TURN, "");
    until_written(
        &stage.project.root().join(".agentd/calls/s.1.1/stdout"),
        "begun",
    );

    // From here on it adds no event.
    until_written(&stage.trace_file(), "recorded\n");
    let before = stage.events();

    // If it were taken over, the wait would end.
    stage.steps(&["reply"]);
    for args in [&TURN[..], &["resume", "s"]] {
        let agentd = stage.command(args, "");
        let mut inside = Command::new("unshare");
        inside
            .args(namespace)
            .arg(agentd.get_program())
            .args(agentd.get_args());
        inside
            .current_dir(stage.project.root())
            .stdin(Stdio::null());
        for (name, value) in agentd.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        let words = ["SessionBusy", &format!("(pid {})", owner.id())];
        Run::from(inside.output().unwrap()).fails(75, &words);
    }

    assert_eq!(stage.events(), before, "nothing was taken over");
    assert!(!stage.alive().is_empty(), "its agent was left alone");

    owner.kill().unwrap();
    owner.wait().unwrap();
    stage.is_alone_soon();
}
