//! Commands of the user that a pack declares.

use agentd::apply::{advance_after_command, gate_checklist};
use agentd::models::{ActionOutcome, Event, Mode, State, StateChange};
use agentd::orchestrator::{chat_state, enter_mode, run_command};
use agentd::store::Store;
use agentd::{ErrorKind, Pack};
use serde_json::{Value, json};

use super::{Conversation, session};
use crate::support::{events, files_below};

const MANIFEST: &str = r#"
format: 1
name: report
description: Writes a report.
start: outline
rendering: flat
actions:
  set_status:
    modes: [draft]
    operation: artifact.status
    with: {artifact: document, status: status}
commands:
  publish:
    description: Publish the report
    modes: [draft]
    steps:
      - {operation: state.set, with: {path: report.published, value: true}}
      - {operation: artifact.status, with: {artifact: approval, status: complete}}
      - {operation: artifact.status, with: {artifact: summary, status: complete}}
  tag:
    description: Tag the report as urgent
    steps:
      - {operation: state.add, with: {path: report.tags, value: urgent}}
      - {operation: knowledge.save, with: {category: process, key: urgency, value: It is urgent.}}
  untag:
    description: Remove the tag
    steps:
      - {operation: state.remove, with: {path: report.tags, value: urgent}}
layers:
  - {id: identity, holds: text, text: identity.md, class: pinned, zone: stable}
  - {id: state, holds: state, class: required, zone: turn}
  - {id: knowledge, holds: knowledge, class: elastic, zone: turn}
  - {id: history, holds: history, class: elastic, zone: session}
  - {id: request, holds: instructions, class: pinned, zone: turn}
modes:
  outline:
    permission: read-only
    next: {otherwise: draft}
  draft:
    permission: read-only
    after: [artifact.status]
    gate: >-
      status("approval") == "complete" and status("summary") == "complete"
      and state("report.published") == "true"
    next: {otherwise: archive}
  archive:
    permission: read-only
    gate: state("report.published") == "true"
    finish: [git.commit]
    next: {otherwise: done}
"#;

const ACTIONS: &str = "
actions:
  set_status:
    description: Sets the status of a document
    parameters:
      document: {type: string, required: true}
      status: {type: string, required: true}
";

const STATE: &str = "
sections:
  report: {fields: {published: boolean, tags: words}}
  documents: {holds: artifacts, element: document}
  results: {holds: results}
  knowledge_context: {holds: knowledge}
";

const ARTIFACTS: &str = "
artifacts:
  summary: {title: Summary, file: summary.md, fields: {cause: {title: Cause}}}
  approval: {title: Approval}
";

const CLAIM: &str = "<message>Approved.</message>\n\
<action type=\"set_status\"><document>approval</document><status>complete</status></action>";

fn report_pack() -> Pack {
    let files = [
        ("pack.yaml", MANIFEST),
        ("actions.yaml", ACTIONS),
        ("state.yaml", STATE),
        ("artifacts.yaml", ARTIFACTS),
        ("identity.md", "You write reports. Actions: set_status.\n"),
    ];
    Pack::from_files("report", files).unwrap()
}

/// Returns a conversation about a report, in the mode `draft`.
fn report(agents: &[(&'static str, &'static str)]) -> Conversation {
    let mut chat = Conversation::new("foreman", agents);
    chat.workspace.pack = report_pack();
    enter_mode(&chat.context(), &session(), &mode("draft"), false).unwrap();
    chat
}

fn mode(name: &str) -> Mode {
    Mode::new(name).unwrap()
}

fn ledger(chat: &Conversation) -> Vec<Event> {
    events(&chat.store, "novel")
}

fn change(path: &str, from: Value, to: Value) -> StateChange {
    StateChange {
        path: path.to_owned(),
        from: Some(from).filter(|value| !value.is_null()),
        to: Some(to),
    }
}

#[test]
fn command_is_recorded_once_and_the_next_prompt_shows_it() {
    let chat = Conversation::new("foreman", &[("first", "<message>Go on.</message>")]);
    let context = chat.context();
    enter_mode(&context, &session(), &mode("voice_calibration"), true).unwrap();
    let before = ledger(&chat).len();

    // No turn was taken in the mode.
    let report = run_command(&context, &session(), "lock").unwrap();
    assert_eq!(
        report.details,
        ["voice_bundle is complete", "set voice_context.locked"]
    );
    assert_eq!(report.command_mode, mode("voice_calibration"));
    assert_eq!(report.mode, mode("director"));
    assert!(!report.ended);

    let added = ledger(&chat).split_off(before);
    let added: Vec<Value> = added
        .iter()
        .map(|event| serde_json::to_value(event).unwrap())
        .collect();
    assert_eq!(
        added,
        [
            json!({
                "event": "state_changed",
                "changes": [
                    {"path": "artifacts.voice_bundle", "to": {"fields": {}, "declared": "complete"}},
                    {"path": "voice_context.locked", "to": true},
                ],
                "cause": "user",
            }),
            json!({"event": "entered", "mode": "director"}),
        ]
    );

    chat.say("first", "Draft it.").unwrap();
    let prompt = chat.last_prompt();
    assert!(prompt.contains("<current_mode>DIRECTOR</current_mode>"));
    assert!(prompt.contains("<locked>true</locked>"), "{prompt}");
}

#[test]
fn last_command_ends_the_session_as_done() {
    let chat = Conversation::new("foreman", &[]);
    let context = chat.context();
    enter_mode(&context, &session(), &mode("director"), true).unwrap();
    let report = run_command(&context, &session(), "draft-complete").unwrap();
    assert_eq!((report.mode, report.ended), (mode("editor"), false));

    let report = run_command(&context, &session(), "manuscript-complete").unwrap();
    assert_eq!((report.mode, report.ended), (mode("editor"), true));
    assert_eq!(ledger(&chat).last(), Some(&Event::Ended { done: true }));

    // Given again, it changes nothing.
    let before = ledger(&chat);
    run_command(&context, &session(), "manuscript-complete").unwrap();
    assert_eq!(ledger(&chat), before);
}

#[test]
fn command_is_refused_in_other_modes_and_unless_the_pack_declares_it() {
    let chat = Conversation::new("foreman", &[]);
    let context = chat.context();
    let error = run_command(&context, &session(), "lock").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandRefused);
    assert_eq!(
        error.message(),
        "`/lock` is not allowed in mode `architect`"
    );
    assert_eq!(error.hint(), Some("modes that allow it: voice_calibration"));

    let error = run_command(&context, &session(), "publish").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameInvalid);
    assert_eq!(
        error.hint(),
        Some("commands of the pack: /lock, /draft-complete, /manuscript-complete")
    );
    assert!(ledger(&chat).is_empty());
}

#[test]
fn refused_step_leaves_nothing_of_the_steps_before_it() {
    let chat = report(&[]);
    let context = chat.context();
    let before = ledger(&chat);

    let error = run_command(&context, &session(), "publish").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandRefused);
    assert_eq!(
        error.message(),
        "`/publish` was refused: `summary` is not_started, not complete: missing cause"
    );
    assert_eq!(error.hint(), Some("nothing was changed"));
    assert_eq!(ledger(&chat), before);
    let state = chat.store.state(&session()).unwrap();
    assert!(state.document.sections.is_empty());
    assert!(state.document.artifacts.is_empty());
}

#[test]
fn command_sees_edits_of_files_since_the_last_turn() {
    let chat = report(&[]);
    chat.project
        .write("summary.md", "## Cause\n\nA full disk.\n");
    let before = ledger(&chat).len();
    let files = files_below(&chat.project.root());

    let report = run_command(&chat.context(), &session(), "publish").unwrap();
    assert_eq!(report.mode, mode("archive"));
    let added = ledger(&chat).split_off(before);
    let [
        Event::StateChanged { changes: edits, .. },
        Event::StateChanged { changes, .. },
        Event::Entered { .. },
    ] = &added[..]
    else {
        panic!("{added:?}")
    };
    assert_eq!(edits.len(), 1);
    let fields = json!({"cause": "A full disk."});
    assert_eq!(
        changes[..],
        [
            change("report.published", Value::Null, json!(true)),
            change(
                "artifacts.approval",
                Value::Null,
                json!({"fields": {}, "declared": "complete"})
            ),
            change(
                "artifacts.summary",
                json!({"fields": fields, "edited": ["cause"]}),
                json!({"fields": fields, "edited": ["cause"], "declared": "complete"})
            ),
        ]
    );
    assert_eq!(files_below(&chat.project.root()), files);
}

#[test]
fn agent_cannot_declare_what_the_user_declares() {
    let chat = report(&[("claims", CLAIM)]);
    chat.project
        .write("summary.md", "## Cause\n\nA full disk.\n");
    let reply = chat.say("claims", "Is it approved?").unwrap();
    let [action] = &reply.actions[..] else {
        panic!("{:?}", reply.actions)
    };
    assert_eq!(action.outcome, ActionOutcome::Failed);
    assert_eq!(
        action.detail,
        "only the user can declare `approval` complete"
    );

    // The failed action of the last reply does not keep the user in the mode.
    assert_eq!(chat.store.state(&session()).unwrap().progress.undone, 1);
    let report = run_command(&chat.context(), &session(), "publish").unwrap();
    assert_eq!(report.mode, mode("archive"));
}

#[test]
fn command_in_a_mode_without_a_gate_keeps_the_mode() {
    let mut chat = Conversation::new("foreman", &[("first", "<message>Go on.</message>")]);
    chat.workspace.pack = report_pack();
    let context = chat.context();
    let report = run_command(&context, &session(), "tag").unwrap();
    assert_eq!(report.mode, mode("outline"));
    assert_eq!(report.details, ["added to report.tags", "saved urgency"]);

    chat.say("first", "Begin.").unwrap();
    let prompt = chat.last_prompt();
    assert!(prompt.contains("<tags>urgent</tags>"), "{prompt}");
    assert!(prompt.contains("It is urgent."), "{prompt}");

    run_command(&context, &session(), "untag").unwrap();
    let state = chat.store.state(&session()).unwrap();
    assert_eq!(state.document.value_at("report.tags"), Some(&json!([])));
    let error = run_command(&context, &session(), "untag").unwrap_err();
    assert!(error.message().ends_with("`report.tags` has no such item"));
}

#[test]
fn mode_that_the_user_went_back_to_is_not_left_by_a_command() {
    let chat = report(&[]);
    let context = chat.context();
    enter_mode(&context, &session(), &mode("archive"), true).unwrap();
    enter_mode(&context, &session(), &mode("draft"), false).unwrap();

    chat.project
        .write("summary.md", "## Cause\n\nA full disk.\n");
    let report = run_command(&context, &session(), "publish").unwrap();
    assert_eq!(report.mode, mode("draft"));
    assert!(report.gate.unwrap().is_open());
}

/// Operations of `finish` belong to a turn, so a command does not end a session that has some.
#[test]
fn command_does_not_skip_the_operations_at_the_end() {
    let pack = report_pack();
    let mut state = State::in_mode(mode("archive"));
    assert_eq!(advance_after_command(&pack, &state).unwrap(), None);
    let published = json!({"published": true});
    state
        .document
        .sections
        .insert("report".to_owned(), published);
    assert_eq!(advance_after_command(&pack, &state).unwrap(), None);

    let mut without_finish = pack.clone();
    without_finish.modes[&mode("archive")].finish.clear();
    assert_eq!(
        advance_after_command(&without_finish, &state).unwrap(),
        Some(Event::Ended { done: true })
    );
}

#[test]
fn checklist_names_the_command_for_each_condition() {
    let chat = report(&[]);
    let gate = || {
        let state = chat_state(&chat.context(), &session()).unwrap();
        let gate = gate_checklist(&chat.workspace.pack, &state, &mode("draft"));
        gate.unwrap().unwrap()
    };
    assert_eq!(
        gate().to_string(),
        "[ ] Approval: use /publish\n\
         [ ] Summary: missing Cause; then use /publish\n\
         [ ] report.published is true: use /publish"
    );
    assert_eq!(
        gate().summarize_unmet(),
        "Approval, Summary (1 missing), report.published is not true"
    );
    assert_eq!(
        serde_json::to_value(&gate().conditions[2]).unwrap(),
        json!({
            "rule": "state(\"report.published\") == \"true\"",
            "holds": false,
            "command": "publish",
        })
    );

    // A mode that does not allow the command does not name it.
    let state = chat_state(&chat.context(), &session()).unwrap();
    let archive = gate_checklist(&chat.workspace.pack, &state, &mode("archive"));
    let archive = archive.unwrap().unwrap();
    assert_eq!(archive.to_string(), "[ ] report.published is true");

    chat.project
        .write("summary.md", "## Cause\n\nA full disk.\n");
    run_command(&chat.context(), &session(), "publish").unwrap();
    assert_eq!(
        gate().to_string(),
        "[x] Approval\n[x] Summary\n[x] report.published is true"
    );
}
