//! Leaving a mode: the gate as a checklist, and a risk that is taken.

use agentd::ErrorKind;
use agentd::apply::gate_checklist;
use agentd::models::{ArtifactProgress, ArtifactStatus, Event, Mode, State, StateDocument};
use agentd::orchestrator::enter_mode;
use agentd::store::Store;
use serde_json::json;

use super::{Conversation, session};
use crate::support::{events, shipped_pack};

fn mode(name: &str) -> Mode {
    Mode::new(name).unwrap()
}

fn artifact(name: &str, status: ArtifactStatus, missing: &[&str]) -> ArtifactProgress {
    ArtifactProgress {
        name: name.to_owned(),
        status,
        completed: vec!["Start".to_owned()],
        missing: missing.iter().map(|field| (*field).to_owned()).collect(),
        ..ArtifactProgress::default()
    }
}

#[test]
fn checklist_has_a_line_for_each_condition() {
    let pack = shipped_pack("foreman");
    let document = StateDocument {
        work_order: vec![
            artifact("Protagonist", ArtifactStatus::Complete, &[]),
            artifact(
                "Beat Sheet",
                ArtifactStatus::InProgress,
                &["B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8"],
            ),
            artifact("Theme", ArtifactStatus::InProgress, &["Theme Statement"]),
        ],
        ..StateDocument::default()
    };
    let state = State {
        document,
        ..State::in_mode(mode("architect"))
    };
    let gate = gate_checklist(&pack, &state).unwrap().unwrap();
    assert_eq!(
        gate.to_string(),
        "[x] Protagonist\n\
         [ ] Beat Sheet: missing B1, B2, B3, B4, B5, B6 and 2 more\n\
         [ ] Theme: missing Theme Statement\n\
         [ ] status(\"world_rules\") == \"complete\""
    );
    assert!(!gate.is_open());
}

#[test]
fn conditions_that_are_not_about_an_artifact_show_their_rule() {
    let pack = shipped_pack("foreman");
    let mut state = State::in_mode(mode("voice_calibration"));
    state.document.work_order = vec![artifact("Voice Bundle", ArtifactStatus::Complete, &[])];
    let gate = gate_checklist(&pack, &state).unwrap().unwrap();
    assert_eq!(
        gate.to_string(),
        "[x] Voice Bundle\n[ ] state(\"voice_context.locked\") == \"true\""
    );

    state
        .document
        .sections
        .insert("voice_context".to_owned(), json!({"locked": true}));
    let gate = gate_checklist(&pack, &state).unwrap().unwrap();
    assert!(gate.is_open(), "{gate}");
}

#[test]
fn fresh_session_lists_the_required_fields() {
    let chat = Conversation::new("foreman", &[]);
    let gate = gate_checklist(&chat.workspace.pack, &State::default()).unwrap();
    let gate = gate.unwrap();
    let theme = gate
        .conditions
        .iter()
        .find(|condition| condition.artifact.as_deref() == Some("Theme"))
        .unwrap();
    assert_eq!(theme.missing, ["Central Theme", "Theme Statement"]);
}

#[test]
fn closed_gate_is_skipped_only_on_request_and_the_risk_is_shown() {
    let chat = Conversation::new("foreman", &[("first", "<message>Go on.</message>")]);
    let context = chat.context();
    chat.say("first", "My hero is Mara.").unwrap();

    let error = enter_mode(&context, &session(), &mode("director"), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GateClosed);
    assert!(error.message().contains("[ ] Theme: missing Central Theme"));
    assert!(error.hint().unwrap().contains("/mode director --insist"));
    let state = chat.store.state(&session()).unwrap();
    assert_eq!(
        (state.mode, state.risks.len()),
        (Some(mode("architect")), 0)
    );

    let state = enter_mode(&context, &session(), &mode("director"), true).unwrap();
    assert_eq!(state.mode, Some(mode("director")));
    let [risk] = &state.risks[..] else {
        panic!("{:?}", state.risks)
    };
    assert_eq!(
        risk,
        "left architect before its gate was open: Protagonist (5 missing), \
         Beat Sheet (15 missing), Theme (2 missing), World Rules (1 missing)"
    );
    let names: Vec<_> = events(&chat.store, "novel")
        .iter()
        .rev()
        .take(2)
        .map(|event| serde_json::to_value(event).unwrap()["event"].clone())
        .collect();
    assert_eq!(names, ["entered", "gate_skipped"]);

    chat.say("first", "Draft it.").unwrap();
    let prompt = chat.last_prompt();
    assert!(prompt.contains("<current_mode>DIRECTOR</current_mode>"));
    assert!(prompt.contains("  <risk>left architect before its gate was open: Protagonist"));
}

#[test]
fn going_back_needs_no_open_gate() {
    let chat = Conversation::new("foreman", &[]);
    let context = chat.context();
    enter_mode(&context, &session(), &mode("director"), true).unwrap();
    let state = enter_mode(&context, &session(), &mode("architect"), false).unwrap();
    assert_eq!(state.mode, Some(mode("architect")));
    assert_eq!(state.risks.len(), 1);

    // The mode that the session is in already is not entered again.
    let before = events(&chat.store, "novel").len();
    enter_mode(&context, &session(), &mode("architect"), false).unwrap();
    assert_eq!(events(&chat.store, "novel").len(), before);

    let error = enter_mode(&context, &session(), &mode("nowhere"), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownMode);
}

#[test]
fn prompt_shows_the_five_newest_risks() {
    let chat = Conversation::new("foreman", &[("first", "<message>Go on.</message>")]);
    let context = chat.context();
    for _ in 0..7 {
        enter_mode(&context, &session(), &mode("director"), true).unwrap();
        enter_mode(&context, &session(), &mode("architect"), false).unwrap();
    }
    let skipped = events(&chat.store, "novel")
        .iter()
        .filter(|event| matches!(event, Event::GateSkipped { .. }))
        .count();
    assert_eq!(skipped, 7);

    chat.say("first", "Hello").unwrap();
    assert_eq!(chat.last_prompt().matches("<risk>").count(), 5);
}
