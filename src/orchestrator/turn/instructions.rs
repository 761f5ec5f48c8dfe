//! The instructions of a turn on a change: the task of the phase, the request, and what people have said since.

use std::time::SystemTime;

use super::request::TurnRequest;
use crate::compose::{Variables, inject_variables};
use crate::error::Result;
use crate::models::{Decision, Event, Mode};
use crate::orchestrator::clock;
use crate::pack::{NOTES_NOTICE, REQUEST_NOTICE};
use crate::store::Store;

/// Returns a request with the instructions of `add_request`.
///
/// # Errors
///
/// Those of the ledger.
pub fn with_request(store: &dyn Store, request: TurnRequest) -> Result<TurnRequest> {
    let instructions = add_request(store, &request)?;
    Ok(TurnRequest {
        instructions,
        ..request
    })
}

/// Returns the instructions of a turn on a change: the task of the phase, then the request of the change, then what
/// people have said about it, with dates. They stay as they are if the phase is asked for with the bare request and
/// nobody has said anything, and in a session that is not a change.
pub(crate) fn add_request(store: &dyn Store, turn: &TurnRequest) -> Result<String> {
    let mut instructions = turn.instructions.clone();
    let Some(session) = turn.works_on() else {
        return Ok(instructions);
    };
    let events = store.events(session)?;
    let request = events.iter().find_map(|(_, event)| match event {
        Event::Opened(opened) => Some(opened.request.as_str()),
        _ => None,
    });
    let Some(request) = request else {
        return Ok(instructions);
    };

    if instructions.trim() != request.trim() {
        add(&mut instructions, REQUEST_NOTICE, "REQUEST", request.trim());
    }
    if let Some(notes) = notes(&events) {
        add(&mut instructions, NOTES_NOTICE, "NOTES", &notes);
    }
    Ok(instructions)
}

/// Adds a paragraph in which a variable has a value.
fn add(instructions: &mut String, words: &str, variable: &str, value: &str) {
    let values = Variables::from([(variable.to_owned(), value.to_owned())]);
    instructions.truncate(instructions.trim_end().len());
    instructions.push_str("\n\n");
    instructions.push_str(inject_variables(words, &values).trim_end());
}

/// Returns what people have said to a change, in order, each with its date, the decision and the phase that waited for it;
/// `None` if nobody has said anything.
fn notes(events: &[(SystemTime, Event)]) -> Option<String> {
    let mut notes: Vec<String> = Vec::new();
    // The phase that the change is in, and the one that it was in before; `None` at the start.
    let mut phase: Option<&Mode> = None;
    let mut entered: Option<(SystemTime, Option<&Mode>)> = None;
    for (time, event) in events {
        match event {
            Event::Entered { mode } => {
                entered = Some((*time, phase));
                phase = Some(mode);
            }
            Event::Decided {
                decision,
                note: Some(note),
            } if !note.trim().is_empty() => {
                // A decision that leads elsewhere is recorded together with the phase that it leads to, and after it.
                let waited = match entered {
                    Some((at, before)) if at == *time => before,
                    _ => phase,
                };
                let phase = waited.map(|mode| format!(" at {mode}")).unwrap_or_default();
                let date: String = clock::format_utc(*time).chars().take(10).collect();
                notes.push(format!(
                    "{date}, {}{phase}:\n{}",
                    name(*decision),
                    note.trim()
                ));
            }
            _ => {}
        }
    }
    (!notes.is_empty()).then(|| notes.join("\n\n"))
}

/// Returns a decision as the command that makes it is called.
fn name(decision: Decision) -> &'static str {
    match decision {
        Decision::Approve | Decision::Waive => "approve",
        Decision::Revise => "revise",
        Decision::Reject => "reject",
        Decision::Cancel => "cancel",
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_note_has_its_date_the_decision_and_the_phase_that_waited() {
        let day = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 86_400);
        let entered = |mode: &str| Event::Entered {
            mode: Mode::new(mode).unwrap(),
        };
        let said = |decision, note: &str| Event::Decided {
            decision,
            note: Some(note.to_owned()),
        };
        let events = [
            (day(0), entered("plan")),
            (day(1), said(Decision::Revise, "Use hmac.\n")),
            (day(2), entered("implement")),
            (day(3), entered("plan")),
            (day(3), said(Decision::Revise, "**Which hash?**\nSHA-512")),
            (day(4), said(Decision::Approve, "  ")),
            (
                day(5),
                Event::Decided {
                    decision: Decision::Approve,
                    note: None,
                },
            ),
        ];
        let expected = "1970-01-02, revise at plan:\nUse hmac.\n\n\
                        1970-01-04, revise at implement:\n**Which hash?**\nSHA-512";
        assert_eq!(notes(&events).as_deref(), Some(expected));
        assert_eq!(notes(&events[2..4]), None);
    }
}
