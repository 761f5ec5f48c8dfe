//! Agents that are commands, started from their definitions and contained; and agents without a
//! command.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use agentd::ErrorKind;
use agentd::agent::{
    AgentCall, CommandAgent, Containment, Driver, Echo, Limits, Replay, RunningCall, Scripted,
};
use agentd::config::{Agents, Environment};
use agentd::models::{CallOutcome, Format, Mode, Permission, Reply, UsageMetrics};
use agentd::secret::Secrets;
use tempfile::TempDir;

use crate::support::agent_output::shipped;
use crate::support::waiting::{HANG, until};

/// A working folder and a call folder.
struct CallFolders {
    folder: TempDir,
    mode: Mode,
}

impl CallFolders {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        Self {
            folder,
            mode: Mode::new("implement").unwrap(),
        }
    }

    fn tree(&self) -> std::path::PathBuf {
        self.folder.path().join("tree")
    }

    fn ask(
        &self,
        driver: &dyn Driver,
        prompt: &str,
        permission: Permission,
    ) -> Result<Reply, agentd::Error> {
        let (root, folder) = (self.tree(), self.folder.path().join("call"));
        let call = self.call(prompt, permission, &root, &folder);
        wait(driver.start(&call)?.as_mut())
    }

    fn call<'a>(
        &'a self,
        prompt: &'a str,
        permission: Permission,
        root: &'a Path,
        folder: &'a Path,
    ) -> AgentCall<'a> {
        let mode = &self.mode;
        let limits = Limits {
            grace: Duration::from_millis(200),
            ..Limits::default()
        };
        let marker = "command-agent-test";
        let (format, max_output, commands) = (Format::Xml, None, &[]);
        AgentCall {
            prompt,
            format,
            mode,
            permission,
            tools: agentd::agent::Tools::Own,
            commands,
            model: None,
            max_output,
            root,
            folder,
            marker,
            limits,
        }
    }
}

fn wait(running: &mut dyn RunningCall) -> Result<Reply, agentd::Error> {
    Ok(running.wait(HANG)?.unwrap())
}

fn agents(definition: &str) -> Agents {
    shipped()
        .overlaid(
            &format!("format: 1\nagents:\n  a:\n{definition}"),
            "agents.yaml",
        )
        .unwrap()
}

fn driver(agents: &Agents, variables: &[(&str, &str)]) -> CommandAgent {
    let path = std::env::var_os("PATH").unwrap();
    let given = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let environment = Environment(
        [(OsString::from("PATH"), path)]
            .into_iter()
            .chain(given)
            .collect(),
    );
    let secrets = Secrets::new(agents.secrets(&environment));
    let guard = Path::new(env!("CARGO_BIN_EXE_agentd"));
    CommandAgent::new(
        agents.find("a").unwrap(),
        agents,
        &environment,
        &secrets,
        guard,
        Containment::Guard,
    )
}

#[test]
fn command_gets_arguments_and_prompt_on_stdin() {
    let place = CallFolders::new();
    let definition = "    argv: [sh, -c, 'printf \"%s|\" \"$@\"; cat; pwd', sh, '{permissions}', [--model, '{model}'], 'm={model}', '{cwd}', '']
    permissions: {read-only: [--read, [--only, '{cwd}/x']], edit: [--write]}\n";
    let agents = agents(definition);
    let tree = place.tree().canonicalize().unwrap();
    let tree = tree.to_str().unwrap();
    let reply = place
        .ask(&driver(&agents, &[]), "<p>ü\n", Permission::ReadOnly)
        .unwrap();
    let given = place.tree();
    let given = given.to_str().unwrap();
    assert_eq!(
        reply.text,
        format!("--read|--only|{given}/x|{given}||<p>ü\n{tree}\n")
    );
    assert_eq!((reply.end, reply.left_behind), (CallOutcome::Ok, 0));

    let (root, folder) = (place.tree(), place.folder.path().join("second"));
    let call = AgentCall {
        model: Some("big {cwd}"),
        ..place.call("", Permission::Edit, &root, &folder)
    };
    let reply = wait(driver(&agents, &[]).start(&call).unwrap().as_mut()).unwrap();
    assert_eq!(
        reply.text,
        format!("--write|--model|big {{cwd}}|m=big {{cwd}}|{given}||{tree}\n"),
        "filled once"
    );
}

#[test]
fn definition_can_set_a_model() {
    let agents = agents("    argv: [echo, '{model}']\n    model: small\n");
    assert_eq!(
        CallFolders::new()
            .ask(&driver(&agents, &[]), "", Permission::Edit)
            .unwrap()
            .text,
        "small\n"
    );
}

#[test]
fn prompt_can_be_passed_as_a_file() {
    let agents =
        agents("    argv: [sh, -c, 'cat \"$1\"; cat', sh, '{prompt_file}']\n    prompt: file\n");
    let prompt = "long ".repeat(100_000);
    let reply = CallFolders::new()
        .ask(&driver(&agents, &[]), &prompt, Permission::Edit)
        .unwrap();
    assert_eq!(
        reply.text, prompt,
        "the prompt is whole, and stdin is empty"
    );
}

#[test]
fn unenforceable_permission_is_refused() {
    let agents = agents("    argv: [touch, ran, '{permissions}']\n    permissions: {edit: []}\n");
    let place = CallFolders::new();
    let error = place
        .ask(&driver(&agents, &[]), "", Permission::ReadOnly)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AgentUnusable);
    assert!(!place.tree().join("ran").exists());
    assert_eq!(
        place
            .ask(&driver(&agents, &[]), "", Permission::Edit)
            .unwrap()
            .end,
        CallOutcome::Empty
    );
    assert!(place.tree().join("ran").exists());
}

#[test]
fn command_sees_allowed_variables_and_output_is_redacted() {
    let agents = agents(
        "    argv: [sh, -c, 'echo \"$A_API_KEY\"; env; echo \"$A_API_KEY\" >&2; exit 3']\n    environment: [A_*]\n    set: {SET: by-us}\n",
    );
    let variables = [
        ("A_API_KEY", "canary-value"),
        ("B_API_KEY", "other-canary"),
        ("A_NAME", "shown"),
    ];

    let reply = CallFolders::new()
        .ask(&driver(&agents, &variables), "", Permission::Edit)
        .unwrap();
    assert_eq!(
        reply.end,
        CallOutcome::Crashed {
            code: Some(3),
            signal: None
        }
    );
    assert!(
        reply.text.starts_with("[secret A_API_KEY]\n"),
        "{}",
        reply.text
    );
    assert!(
        reply.text.contains("A_NAME=shown\n") && reply.text.contains("SET=by-us\n"),
        "{}",
        reply.text
    );
    assert!(
        !reply.text.contains("canary") && !reply.text.contains("B_API_KEY"),
        "{}",
        reply.text
    );
    assert_eq!(reply.detail, "[secret A_API_KEY]");
}

const EVENTS: &str = "    output: {kind: jsonl, text: [{when: {type: say}, path: text}], final: {type: end}, usage: {input: n}}\n";

#[test]
fn output_is_streamed_while_the_command_runs() {
    let script = r#"printf "%s\n" "{\"type\":\"say\",\"text\":\"one \"}"; while [ ! -e go ]; do sleep 0.05; done; printf "%s\n" "{\"type\":\"say\",\"text\":\"two\"}" "{\"type\":\"end\",\"n\":5}""#;
    let agents = agents(&format!("    argv: [sh, -c, '{script}']\n{EVENTS}"));
    let place = CallFolders::new();
    let driver = driver(&agents, &[]);
    let (root, folder) = (place.tree(), place.folder.path().join("call"));
    let call = place.call("", Permission::Edit, &root, &folder);
    let mut running = driver.start(&call).unwrap();

    let mut said = String::new();
    until("there is no output", || {
        assert!(running.wait(Duration::from_millis(20)).unwrap().is_none());
        said = running.said();
        !said.is_empty()
    });
    assert_eq!(said, "one ");
    assert!(running.process().is_some());

    let half = driver.salvage(&folder, call.marker).unwrap().unwrap().reply;
    assert_eq!(
        (half.end, half.text.as_str()),
        (CallOutcome::Lost, "one "),
        "the reply is not complete yet"
    );

    fs::write(place.tree().join("go"), "").unwrap();
    let reply = wait(running.as_mut()).unwrap();
    assert_eq!(
        running.said(),
        "two",
        "the last output is available after the end"
    );

    let usage = UsageMetrics {
        input_tokens: Some(5),
        ..UsageMetrics::default()
    };
    assert_eq!(
        reply,
        Reply {
            usage,
            tool_calls: None,
            ..Reply::from_text("one two")
        }
    );

    let found = driver.salvage(&folder, call.marker).unwrap().unwrap();
    assert_eq!(found.reply, reply, "the reply is found again by its folder");
    assert!(found.milliseconds > 0);
    assert_eq!(
        driver.salvage(&folder, "another").unwrap(),
        None,
        "files of another call are ignored"
    );
}

#[test]
fn stopped_and_missing_commands_are_reported() {
    let place = CallFolders::new();
    let sleeps = agents("    argv: [sh, -c, 'echo begun; exec sleep 600']\n");
    let driver_of_sleep = driver(&sleeps, &[]);
    let (root, folder) = (place.tree(), place.folder.path().join("call"));
    let call = place.call("", Permission::Edit, &root, &folder);
    let mut running = driver_of_sleep.start(&call).unwrap();
    until("there is no output", || {
        assert!(running.wait(Duration::from_millis(20)).unwrap().is_none());
        !running.said().is_empty()
    });

    running.stop(false);
    let reply = wait(running.as_mut()).unwrap();
    assert_eq!(
        (reply.end, reply.text.as_str()),
        (CallOutcome::Stopped, "begun\n")
    );

    let half = driver_of_sleep
        .salvage(&folder, call.marker)
        .unwrap()
        .unwrap()
        .reply;
    assert_eq!(
        (half.end, half.text.as_str()),
        (CallOutcome::Lost, "begun\n"),
        "a partial reply is kept, and does not count"
    );
    assert_eq!(
        driver_of_sleep
            .salvage(&place.folder.path().join("none"), call.marker)
            .unwrap(),
        None
    );

    let limits = Limits {
        idle: Duration::from_secs(1),
        ..call.limits
    };
    let folder = place.folder.path().join("idle");
    let call = AgentCall {
        limits,
        folder: &folder,
        ..call
    };
    let reply = wait(driver_of_sleep.start(&call).unwrap().as_mut()).unwrap();
    assert_eq!(
        reply.end,
        CallOutcome::TimedOut {
            idle: true,
            seconds: 1
        }
    );

    let missing = agents("    argv: [no-such-agent-anywhere]\n");
    let reply = CallFolders::new()
        .ask(&driver(&missing, &[]), "x", Permission::Edit)
        .unwrap();
    assert_eq!(reply.end, CallOutcome::NotInstalled);
}

#[test]
fn only_commands_spend() {
    assert!(driver(&agents("    argv: ['true']\n"), &[]).spends());
    assert!(!Echo.spends() && !Replay::new(Reply::default()).spends());
}

#[test]
fn echo_returns_the_prompt_and_replay_its_reply() {
    let place = CallFolders::new();
    assert_eq!(
        place.ask(&Echo, "<p>", Permission::ReadOnly).unwrap(),
        Reply::from_text("<p>")
    );

    let recorded = Reply {
        end: CallOutcome::Cut,
        detail: "why".to_owned(),
        ..Reply::from_text("half")
    };
    let replay = Replay::new(recorded.clone());

    for _ in 0..2 {
        assert_eq!(
            place
                .ask(&replay, "anything", Permission::ReadOnly)
                .unwrap(),
            recorded
        );
    }
}

fn script(turn: &str) -> Result<Scripted, agentd::Error> {
    Scripted::read(
        &format!("format: 1\nturns:\n  - {{{turn}}}\n"),
        "script.yaml",
    )
}

#[test]
fn script_edits_files_reports_usage_and_fails() {
    let place = CallFolders::new();
    fs::create_dir(place.tree().join("src")).unwrap();
    fs::write(place.tree().join("src/a.rs"), "old").unwrap();
    let turn = "reply: done, files: {src/a.rs: new, docs/deep/b.md: more}, usage: {input: 10, output: 2, cost_dollars: 0.5}";
    let reply = place
        .ask(&script(turn).unwrap(), "", Permission::Edit)
        .unwrap();
    assert_eq!((reply.end, reply.text.as_str()), (CallOutcome::Ok, "done"));
    assert_eq!(
        (reply.usage.tokens(), reply.usage.micro_dollars),
        (Some(12), Some(500_000))
    );
    assert_eq!(
        fs::read_to_string(place.tree().join("src/a.rs")).unwrap(),
        "new"
    );
    assert_eq!(
        fs::read_to_string(place.tree().join("docs/deep/b.md")).unwrap(),
        "more"
    );

    for (turn, end) in [
        ("end: auth", CallOutcome::Auth),
        (
            "end: quota, resets: 3pm",
            CallOutcome::Quota {
                resets: Some("3pm".to_owned()),
            },
        ),
        (
            "end: rate-limited, retry_after: 1",
            CallOutcome::RateLimited {
                retry_after: Some(1),
            },
        ),
        (
            "end: crashed, signal: 9",
            CallOutcome::Crashed {
                code: None,
                signal: Some(9),
            },
        ),
        (
            "end: timed-out",
            CallOutcome::TimedOut {
                idle: false,
                seconds: 3600,
            },
        ),
        ("end: cut, reply: half", CallOutcome::Cut),
    ] {
        assert_eq!(
            place
                .ask(&script(turn).unwrap(), "", Permission::Edit)
                .unwrap()
                .end,
            end,
            "{turn}"
        );
    }
}

#[test]
fn script_writes_only_in_the_work_tree() {
    for path in [
        "/etc/x",
        "../x",
        "a/../../x",
        ".git/config",
        "a/.GIT/x",
        ".agentd/ledger.db",
        "a//b",
        "a\\b",
        ".",
    ] {
        let error = script(&format!("reply: x, files: {{'{path}': y}}")).expect_err(path);
        assert_eq!(
            (error.kind(), error.place().unwrap().line),
            (ErrorKind::ScriptInvalid, 3),
            "{path}"
        );
    }

    let place = CallFolders::new();
    let outside = place.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    std::os::unix::fs::symlink(&outside, place.tree().join("link")).unwrap();
    std::os::unix::fs::symlink(outside.join("file"), place.tree().join("name")).unwrap();
    std::os::unix::fs::symlink(outside.join("none"), place.tree().join("dangling")).unwrap();
    for path in ["link/file", "link/new", "name", "dangling"] {
        let driver = script(&format!("reply: x, files: {{{path}: y}}")).unwrap();
        let error = place.ask(&driver, "", Permission::Edit).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::ScriptMismatch, "{path}");
    }

    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);

    let driver = script("reply: x, files: {a: y}").unwrap();
    let error = place.ask(&driver, "", Permission::ReadOnly).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ScriptMismatch);
    assert!(
        !place.tree().join("a").exists(),
        "a read-only mode stays read-only"
    );
}

#[test]
fn unplayable_script_is_refused_on_load() {
    for (turn, words) in [
        ("mode: plan", "a turn needs `reply` or `end`"),
        (
            "end: cut, retry_after: 1",
            "`retry_after` is only allowed with `end: rate-limited`",
        ),
        (
            "reply: x, code: 1",
            "`code` is only allowed with `end: crashed`",
        ),
        ("end: tired", "tired"),
        ("reply: x, usage: {inputs: 1}", "inputs"),
    ] {
        let error = script(turn).expect_err(turn);
        assert_eq!(error.kind(), ErrorKind::ScriptInvalid, "{turn}");
        assert!(error.message().contains(words), "{turn}: {error}");
    }
}
