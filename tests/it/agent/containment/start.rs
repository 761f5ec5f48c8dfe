//! Start of an agent: its files, its environment, and failures to start.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agentd::agent::{Containment, ExitCause, GuardedCommand, Limits, launch};
use agentd::{Error, ErrorKind};

use super::{Call, guard, supported_kinds};
use crate::support::{files_below, program, write_program};

#[test]
fn prompt_is_passed_and_output_and_exit_code_are_kept() {
    for containment in supported_kinds("prompt_is_passed_and_output_and_exit_code_are_kept") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let exit = call.run_agent(&["echo", "err trouble", "exit 3"]);
        assert_eq!(
            (exit.code, exit.signal, exit.cause, exit.left_behind),
            (Some(3), None, ExitCause::Ended, 0)
        );
        assert_eq!(call.stdout_text(), "hello\n");
        assert_eq!(
            fs::read_to_string(call.folder().join("stderr")).unwrap(),
            "trouble\n"
        );
    }
}

#[test]
fn agent_gets_its_environment_and_working_folder() {
    for containment in supported_kinds("agent_gets_its_environment_and_working_folder") {
        let mut call = Call {
            containment,
            ..Call::new()
        };
        call.env = vec![("ONE".into(), "1".into())];
        call.run_agent(&["env", "pwd"]);
        let folder = call.parent.path().canonicalize().unwrap();
        assert_eq!(
            call.stdout_text(),
            format!(
                "AGENTD_CALL={}\nONE=1\n{}\n",
                call.marker(),
                folder.display()
            )
        );
    }
}

#[test]
fn call_files_are_private_and_hold_no_environment_secret() {
    let mut call = Call::new();
    call.env.push(("KEY".into(), "canary-4711".into()));
    call.run_agent(&["out words"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&call.folder()), mode(call.folder().parent().unwrap())),
        (0o700, 0o700)
    );

    let files = files_below(&call.folder());
    assert_eq!(
        files,
        ["exit", "job", "prompt", "stderr", "stdout"].map(std::path::PathBuf::from)
    );

    for file in files.iter().map(|file| call.folder().join(file)) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert!(
            !String::from_utf8(fs::read(&file).unwrap())
                .unwrap()
                .contains("canary-4711")
        );
    }
}

#[test]
fn agent_has_no_blocked_signals_and_no_terminal() {
    let call = Call::new();
    call.run(&["grep", "SigBlk", "/proc/self/status"]);
    assert_eq!(call.stdout_text(), "SigBlk:\t0000000000000000\n");
    // The session belongs to the guard and has no terminal.
    let contained = call
        .start(&["cut", "-d ", "-f6,7", "/proc/self/stat"])
        .unwrap();
    let session = contained.process().pid;
    call.end_of(contained);
    assert_eq!(call.stdout_text(), format!("{session} 0\n"));
}

#[test]
fn prompt_and_output_of_50_mb_do_not_deadlock() {
    let mut call = Call::within(Limits {
        output: 64 << 20,
        ..Limits::default()
    });
    call.prompt = (0..50 << 20)
        .map(|at: u32| at.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    assert_eq!(call.run_agent(&["echo"]).code, Some(0));
    assert!(call.stdout() == call.prompt);
}

#[test]
fn agent_may_ignore_its_prompt() {
    let mut call = Call::new();
    call.prompt = vec![b'x'; 10 << 20];
    let exit = call.run_agent(&["read-stdin 1024", "close-stdin", "out done"]);
    assert_eq!((exit.code, exit.cause), (Some(0), ExitCause::Ended));
    assert_eq!(call.stdout_text(), "read 1024 bytes\ndone\n");
}

#[test]
fn missing_command_is_not_installed() {
    for containment in supported_kinds("missing_command_is_not_installed") {
        let mut call = Call {
            containment,
            ..Call::new()
        };
        assert_eq!(call.run(&["no-such-agent"]).cause, ExitCause::NotInstalled);
        assert_eq!(
            call.run(&["./no-such-agent"]).cause,
            ExitCause::NotInstalled
        );
        // The command is searched on the PATH of the agent, not on ours.
        call.env = vec![("PATH".into(), call.parent.path().into())];
        assert_eq!(call.run(&["sh"]).cause, ExitCause::NotInstalled);
    }
}

#[test]
fn unstartable_command_reports_the_reason() {
    let call = Call::new();
    let path = call.parent.path().join("agent");
    let why = |content: &str, mode: u32| {
        write_program(&path, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match call.run(&[path.to_str().unwrap()]).cause {
            ExitCause::NotStarted(why) => why,
            cause => panic!("{cause:?}"),
        }
    };
    assert!(why("#!/bin/sh\n", 0o600).contains("ermission denied"));
    assert!(why("#!/no/such/shell\n", 0o700).contains("the interpreter of"));
}

#[test]
fn oversized_arguments_are_reported() {
    let mut call = Call::new();
    let longest = "x".repeat(131_071);
    assert_eq!(call.run(&["true", &longest]).code, Some(0));

    let error = call.start(&["true", &format!("{longest}x")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AgentUnusable);
    assert!(
        format!("{error:#}").contains("131072 bytes") && format!("{error:#}").contains("E2BIG"),
        "{error:#}"
    );

    let many: Vec<&str> = ["true"].into_iter().chain([longest.as_str(); 64]).collect();
    let ExitCause::NotStarted(why) = call.run(&many).cause else {
        panic!()
    };
    assert!(why.contains("E2BIG"), "{why}");

    call.env.push(("LONG".into(), OsString::from(longest)));
    let error = call.start(&["true"]).unwrap_err();
    assert!(
        format!("{error:#}").contains("LONG") && format!("{error:#}").contains("E2BIG"),
        "{error:#}"
    );
}

#[test]
fn program_without_a_guard_is_refused_before_start() {
    let call = Call::new();
    call.run(&["true"]);
    let argv = ["touch".to_owned(), "started".to_owned()];
    let refused = |program: &str, argv: &[String], cwd: &Path| -> Error {
        agentd::agent::prepare(&call.folder(), b"").unwrap();
        let error = launch(&GuardedCommand {
            guard: Path::new(program),
            argv,
            env: &call.env,
            cwd,
            folder: &call.folder(),
            marker: &call.marker(),
            limits: Limits::default(),
            containment: Containment::Guard,
        });
        error.unwrap_err()
    };

    let here = call.parent.path();
    for program in ["/no/such/program", "/bin/true", "/bin/echo"] {
        let error = refused(program, &argv, here);
        assert_eq!(error.kind(), ErrorKind::AgentUnusable);
        assert!(
            error.message().contains(program) && error.hint().unwrap().contains("guard_main"),
            "{error:#}"
        );
    }

    let program = guard().to_str().unwrap();
    assert_eq!(
        refused(program, &argv, &here.join("missing")).kind(),
        ErrorKind::AgentUnusable
    );
    assert_eq!(refused(program, &[], here).kind(), ErrorKind::AgentUnusable);
    assert!(!here.join("started").exists());
}

/// Without the check, each start would take itself for the program and start itself again.
#[test]
fn program_without_guard_main_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(program("without_guard_main"));
    let output = command.env("FOLDER", folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("did not call `agent::guard_main`"), "{said}");
    let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
    assert_eq!(
        starts.lines().count(),
        2,
        "the program, and the one guard that refused"
    );
}
