//! `agentd chat` with piped input.

use agentd::models::{ChangeCause, Event, SessionId};
use agentd::store::{SqliteStore, Store};

use crate::support::recording_agent::{answer, call, calls, define_agents};
use crate::support::{TestProject, files_below, run_with_stdin};

/// Runs `agentd chat` with messages on stdin.
fn chat(project: &TestProject, args: &[&str], input: &str) -> crate::support::Run {
    project.run_with_stdin(&[&["chat"], args].concat(), input.as_bytes())
}

#[test]
fn second_call_gets_the_first_message_and_the_whole_first_reply() {
    let project = TestProject::new();
    let reply = "<thinking>\nShe hides something.\n</thinking>\n\n<message>\nWhat does Mara fear?\n</message>";
    let first = answer(&project, "first", reply);
    let second = answer(&project, "second", "<message>Noted.</message>");
    define_agents(
        &project,
        &[("first", &[&first], ""), ("second", &[&second], "")],
    );

    let run = chat(&project, &["--agent", "first"], "My hero is Mara.\n");
    assert_eq!(run.ok(), "What does Mara fear?\n");
    let run = chat(&project, &["--agent", "second"], "Being left.\n");
    assert_eq!(run.ok(), "Noted.\n");

    assert_eq!(calls(&project, "second"), 1);
    let prompt = call(&project, "second", 1).stdin;
    let (_, history) = prompt.split_once("## CONVERSATION HISTORY").unwrap();
    assert!(
        history.starts_with(&format!(
            "\n\nUSER: My hero is Mara.\n\nASSISTANT: {reply}\n"
        )),
        "{history}"
    );
}

#[test]
fn folder_gets_nothing_but_the_ledger() {
    let project = TestProject::new();
    let folder = project.home().join("novel");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.to_str().unwrap();
    let run = chat(&project, &[path, "--agent", "echo"], "Hello\n");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("mode architect, agent echo"),
        "{}",
        run.stderr
    );

    let files = files_below(&folder);
    assert!(!files.is_empty());
    assert!(
        files.iter().all(|file| file.starts_with(".agentd")),
        "{files:?}"
    );
}

#[test]
fn failed_call_is_not_in_the_next_prompt() {
    let project = TestProject::new();
    let good = answer(&project, "good", "<message>Noted.</message>");
    define_agents(
        &project,
        &[("bad", &["exit 3"], ""), ("good", &[&good], "")],
    );

    let run = chat(&project, &["--agent", "bad"], "A thief.\nA liar.\n");
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert_eq!(
        calls(&project, "bad"),
        1,
        "the input ends at the first failure"
    );

    chat(&project, &["--agent", "good"], "A queen.\n").ok();
    let prompt = call(&project, "good", 1).stdin;
    assert!(!prompt.contains("A thief."), "{prompt}");
    assert!(!prompt.contains("## CONVERSATION HISTORY"));
}

#[test]
fn crash_between_turns_loses_nothing() {
    let project = TestProject::new();
    let reply = answer(&project, "reply", "<message>Noted.</message>");
    define_agents(&project, &[("agent", &[&reply], "")]);

    // Killed after the reply of the second message was recorded, before it was read.
    chat(&project, &["--agent", "agent"], "One.\n").ok();
    let mut killed = project.command(&["chat", "--agent", "agent"]);
    killed.env("AGENTD_FAIL", "replied=abort");
    let run = run_with_stdin(killed, b"Two.\n");
    assert_eq!(run.code, -1, "{}", run.stderr);

    chat(&project, &["--agent", "agent"], "Three.\n").ok();
    let number = calls(&project, "agent");
    let prompt = call(&project, "agent", number).stdin;
    let (_, history) = prompt.split_once("## CONVERSATION HISTORY").unwrap();
    let places: Vec<_> = ["USER: One.", "USER: Two.", "User: Three."]
        .map(|text| {
            history
                .find(text)
                .unwrap_or_else(|| panic!("{text}: {history}"))
        })
        .into();
    assert!(places.is_sorted(), "{history}");
}

#[test]
fn verbose_output_has_the_size_of_the_prompt_and_its_layers() {
    let project = TestProject::new();
    let run = chat(&project, &["--agent", "echo", "-v"], "Hello\n");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let line = |start: &str| run.stderr.lines().any(|line| line.contains(start));
    assert!(line("prompt for architect: full tier, "), "{}", run.stderr);
    assert!(line("  identity: "), "{}", run.stderr);
    assert!(line("  session_state: "), "{}", run.stderr);
}

#[test]
fn command_finishes_the_interrupted_turn_before_it() {
    let project = TestProject::new();
    let decision = "<action type=\"save_decision\"><category>voice</category><key>rhythm</key>\
                    <value>Short sentences.</value></action>";
    let saves = answer(
        &project,
        "saves",
        &format!("<message>Noted.</message>\n{decision}"),
    );
    let talks = answer(&project, "talks", "<message>Go on.</message>");
    define_agents(
        &project,
        &[("saves", &[&saves], ""), ("talks", &[&talks], "")],
    );
    let entered = chat(
        &project,
        &["--agent", "talks"],
        "/mode voice_calibration --insist\n",
    );
    assert_eq!(entered.code, 0, "{}", entered.stderr);

    // Killed after the reply was recorded, before its action was carried out.
    let mut killed = project.command(&["chat", "--agent", "saves"]);
    killed.env("AGENTD_FAIL", "replied=abort");
    let run = run_with_stdin(killed, b"Short sentences, always.\n");
    assert_eq!(run.code, -1, "{}", run.stderr);

    let run = chat(&project, &["--agent", "talks"], "/lock\nDraft it.\n");
    assert_eq!(
        run.ok(),
        "✓ voice_bundle is complete\n✓ set voice_context.locked\nGo on.\n"
    );

    let store = SqliteStore::open_existing(&project.root())
        .unwrap()
        .unwrap();
    let events = store.events(&SessionId::new("chat").unwrap()).unwrap();
    let is_settled =
        |event: &Event| matches!(event, Event::Settled { settlement, .. } if settlement.done);
    let is_command = |event: &Event| matches!(event, Event::StateChanged { cause, .. } if *cause == ChangeCause::User);
    let settled = events.iter().position(|(_, event)| is_settled(event));
    let command = events.iter().position(|(_, event)| is_command(event));
    assert!(
        settled.unwrap() < command.unwrap(),
        "{settled:?} {command:?}"
    );

    let prompt = call(&project, "talks", 1).stdin;
    assert!(prompt.contains("<current_mode>DIRECTOR</current_mode>"));
    assert!(
        prompt.contains("<entry category=\"voice\" key=\"rhythm\""),
        "{prompt}"
    );
}

#[test]
fn rest_of_an_invalid_block_is_not_sent() {
    let project = TestProject::new();
    let reply = answer(&project, "reply", "<message>Noted.</message>");
    define_agents(&project, &[("agent", &[&reply], "")]);
    let input = b"\"\"\"\nOne \xFF line.\nAnother.\n\"\"\"\n";
    let run = project.run_with_stdin(&["chat", "--agent", "agent"], input);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("not UTF-8"), "{}", run.stderr);
    assert_eq!(calls(&project, "agent"), 0);
}
