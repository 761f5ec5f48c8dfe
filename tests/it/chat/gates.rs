//! Leaving a mode: the gate as a checklist, and a risk that is taken.

use agentd::ErrorKind;
use agentd::apply::gate_checklist;
use agentd::models::{ArtifactProgress, ArtifactStatus, Event, Mode, State, StateDocument};
use agentd::orchestrator::{chat_state, enter_mode};
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
                &[
                    "beat_1", "beat_2", "beat_3", "beat_4", "beat_5", "beat_6", "beat_7", "beat_8",
                ],
            ),
            artifact("Theme", ArtifactStatus::InProgress, &["theme_statement"]),
        ],
        ..StateDocument::default()
    };
    let state = State {
        document,
        ..State::in_mode(mode("architect"))
    };
    let gate = gate_checklist(&pack, &state, &mode("architect"))
        .unwrap()
        .unwrap();
    assert_eq!(
        gate.to_string(),
        "[x] Protagonist\n\
         [ ] Beat Sheet: missing 1. Opening Image, 2. Theme Stated, 3. Set-Up, 4. Catalyst, \
         5. Debate, 6. Break into Two and 2 more\n\
         [ ] Theme: missing Theme Statement\n\
         [ ] status(\"world_rules\") == \"complete\""
    );
    assert!(!gate.is_open());
}

#[test]
fn condition_about_a_field_is_shown_in_words() {
    let pack = shipped_pack("foreman");
    let mut state = State::in_mode(mode("voice_calibration"));
    state.document.work_order = vec![artifact("Voice Bundle", ArtifactStatus::Complete, &[])];
    let gate = gate_checklist(&pack, &state, &mode("voice_calibration"))
        .unwrap()
        .unwrap();
    assert_eq!(
        gate.to_string(),
        "[x] Voice Bundle\n[ ] voice_context.locked is true: use /lock"
    );

    state
        .document
        .sections
        .insert("voice_context".to_owned(), json!({"locked": true}));
    let gate = gate_checklist(&pack, &state, &mode("voice_calibration"))
        .unwrap()
        .unwrap();
    assert!(gate.is_open(), "{gate}");
}

#[test]
fn fresh_session_lists_the_required_fields() {
    let chat = Conversation::new("foreman", &[]);
    let gate = gate_checklist(&chat.workspace.pack, &State::default(), &mode("architect")).unwrap();
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
    let [risk, second_risk] = &state.risks[..] else {
        panic!("{:?}", state.risks)
    };
    assert_eq!(
        second_risk,
        "left voice_calibration before its gate was open: Voice Bundle, \
         voice_context.locked is not true"
    );
    assert_eq!(
        risk,
        "left architect before its gate was open: Protagonist (5 missing), \
         Beat Sheet (15 missing), Theme (2 missing), World Rules (1 missing)"
    );
    let names: Vec<_> = events(&chat.store, "novel")
        .iter()
        .rev()
        .take(3)
        .map(|event| serde_json::to_value(event).unwrap()["event"].clone())
        .collect();
    assert_eq!(names, ["entered", "gate_skipped", "gate_skipped"]);

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
    assert_eq!(state.risks.len(), 2);

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
    assert_eq!(skipped, 14);

    chat.say("first", "Hello").unwrap();
    assert_eq!(chat.last_prompt().matches("<risk>").count(), 5);
}

/// Reply that declares every artifact of the Story Bible complete.
pub(super) const COMPLETE: &str = "<message>Done.</message>\n\
<action type=\"update_status\"><template>protagonist</template><status>complete</status></action>\n\
<action type=\"update_status\"><template>beat_sheet</template><status>complete</status></action>\n\
<action type=\"update_status\"><template>theme</template><status>complete</status></action>\n\
<action type=\"update_status\"><template>world_rules</template><status>complete</status></action>";

/// Writes all fields of all artifacts, as a writer would.
pub(super) fn write_story_bible(chat: &Conversation) {
    for spec in chat.workspace.pack.artifacts.values() {
        let Some(file) = &spec.file else { continue };
        let sections = spec.fields.values().map(|field| {
            let text = "- one\n- two\n- three";
            format!("## {}\n\n{text}\n\n", field.title)
        });
        chat.project.write(file, sections.collect::<String>());
    }
}

#[test]
fn mode_that_the_user_went_back_to_is_left_only_by_the_user() {
    let agents = [
        ("complete", COMPLETE),
        ("talks", "<message>Go on.</message>"),
    ];
    let chat = Conversation::new("foreman", &agents);
    write_story_bible(&chat);
    let reply = chat.say("complete", "It is all there.").unwrap();
    assert_eq!(reply.turn_mode, mode("architect"));
    assert_eq!(reply.mode, mode("voice_calibration"));

    let context = chat.context();
    enter_mode(&context, &session(), &mode("architect"), false).unwrap();
    for agent in ["talks", "complete"] {
        let reply = chat.say(agent, "Let me look again.").unwrap();
        assert_eq!(reply.mode, mode("architect"), "{agent}");
        assert!(reply.gate.unwrap().is_open());
    }

    // All gates on the way are checked, not only that of the current mode.
    let error = enter_mode(&context, &session(), &mode("director"), false).unwrap_err();
    assert!(
        error
            .message()
            .starts_with("the gate of voice_calibration is closed")
    );
    let state = enter_mode(&context, &session(), &mode("voice_calibration"), false).unwrap();
    assert!(state.risks.is_empty());
}

#[test]
fn edits_since_the_last_turn_are_in_the_checklist() {
    let chat = Conversation::new("foreman", &[("complete", COMPLETE)]);
    chat.say("complete", "Is it complete?").unwrap();
    let context = chat.context();
    let error = enter_mode(&context, &session(), &mode("voice_calibration"), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GateClosed);

    write_story_bible(&chat);
    let state = chat_state(&context, &session()).unwrap();
    let gate = gate_checklist(&chat.workspace.pack, &state, &mode("architect"));
    let unmet = gate.unwrap().unwrap().summarize_unmet();
    assert_eq!(unmet, "Protagonist, Beat Sheet, Theme, World Rules");
}
