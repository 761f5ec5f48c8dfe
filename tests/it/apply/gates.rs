//! Gates of a session without a ledger.

use agentd::Pack;
use agentd::apply::{ReplyOutcome, advance, closed_gate, take_reply};
use agentd::models::{Event, Mode, State, StepResult};
use agentd::parse::{ReplyContext, parse, required_markers, verdict};

const MANIFEST: &str = r#"
format: 1
name: incident
description: From an alert to a report.
start: triage
markers: {release: ["YES", "NO"]}
layers:
  - {id: identity, holds: text, text: identity.md, class: pinned, zone: stable}
  - {id: request, holds: instructions, class: pinned, zone: turn}
modes:
  triage:
    permission: read-only
    updates: [impact.md]
    after: [files.write]
    gate: done("files.write") >= 1 and mode_turns >= 2
    next: {otherwise: publish}
  publish:
    permission: read-only
    markers: [release]
    verdicts: [PASS, NEEDS_CHANGES]
    gate: marker("release") == "YES"
    next: {NEEDS_CHANGES: triage, otherwise: done}
"#;

fn pack() -> Pack {
    let identity = "Say <release>YES</release> or <release>NO</release>.";
    Pack::from_files(
        "incident",
        [("pack.yaml", MANIFEST), ("identity.md", identity)],
    )
    .unwrap()
}

fn take(pack: &Pack, state: State, reply: &str) -> (State, ReplyOutcome) {
    let mode = state.mode.clone().unwrap_or_else(|| pack.start.clone());
    let grammar = pack.grammar(&mode).unwrap();
    let response = parse(reply, &grammar, &ReplyContext::default());
    let verdict = required_markers(&response, &grammar).and(verdict(&response, &grammar));
    take_reply(pack, state, &response, verdict).unwrap()
}

const UPDATE: &str =
    "<content_update target=\"impact.md\">\nNobody can check out.\n</content_update>";

#[test]
fn session_without_ledger_passes_its_gates() {
    let pack = pack();
    let (state, outcome) = take(&pack, State::default(), UPDATE);
    assert_eq!((state.turns, state.mode_turns), (1, 1));

    let [effect] = &outcome.effects[..] else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (effect.operation.as_str(), effect.target.as_str()),
        ("files.write", "impact.md")
    );
    assert_eq!(
        advance(&pack, &state).unwrap(),
        None,
        "nothing is written yet"
    );

    let state = state.settled(&StepResult::done(effect, "wrote impact.md"));
    assert_eq!(state.progress.open, 0);

    let gate = closed_gate(&pack, &state).unwrap().unwrap();
    assert_eq!(
        gate.to_string(),
        "done(\"files.write\") >= 1 and mode_turns >= 2"
    );
    assert_eq!(
        format!("{gate:?}"),
        "Condition(\"done(\\\"files.write\\\") >= 1 and mode_turns >= 2\")"
    );

    let (state, _) = take(&pack, state, "That is all.");
    assert!(closed_gate(&pack, &state).unwrap().is_none());

    let publish = Mode::new("publish").unwrap();
    let entered = Event::Entered {
        mode: publish.clone(),
    };
    assert_eq!(advance(&pack, &state).unwrap(), Some(entered.clone()));

    let state = state.after([&entered]);
    assert_eq!((state.mode.as_ref(), state.mode_turns), (Some(&publish), 0));

    let (state, _) = take(&pack, state, "Out.\n\n<release>NO</release>");
    assert_eq!(advance(&pack, &state).unwrap(), None);

    let (state, _) = take(&pack, state, "Out.\n\n<release>YES</release>");
    assert_eq!(
        advance(&pack, &state).unwrap(),
        Some(Event::Ended { done: true })
    );
}

/// A failed step keeps the session in its mode, regardless of the gate.
#[test]
fn failed_effect_closes_the_gate() {
    let pack = pack();
    let (state, outcome) = take(&pack, State::default(), UPDATE);
    let state = state.settled(&StepResult::done(&outcome.effects[0], "wrote it"));
    let (state, outcome) = take(&pack, state, UPDATE);
    assert!(closed_gate(&pack, &state).unwrap().is_none());
    assert_eq!(
        advance(&pack, &state).unwrap(),
        None,
        "one effect is pending"
    );

    let state = state.settled(&StepResult::not_done(&outcome.effects[0], "disk full"));
    assert_eq!(state.progress.undone, 1);
    assert_eq!(advance(&pack, &state).unwrap(), None);
}

#[test]
fn missing_marker_keeps_the_mode() {
    let pack = pack();
    let state = State::in_mode(Mode::new("publish").unwrap());
    let (state, outcome) = take(&pack, state, "Out.");
    assert!(outcome.fault.is_some());
    assert_eq!(advance(&pack, &state).unwrap(), None);
}

#[test]
fn reply_without_ledger_does_not_edit_the_work_tree() {
    let pack = pack();
    let reply = "<content_update target=\"src/main.rs\">\nfn main() {}\n</content_update>";
    let (_, outcome) = take(&pack, State::default(), reply);
    assert!(outcome.effects.is_empty());
    assert_eq!(outcome.proposals.len(), 1);
}
