//! Instructions of a turn on a change: the task of the phase, the request of the change, and the notes of the user.

use std::time::SystemTime;

use super::request::TurnRequest;
use crate::compose::{Variables, inject_variables};
use crate::error::Result;
use crate::models::{Decision, Event, Mode};
use crate::orchestrator::clock;
use crate::pack::{NOTES_NOTICE, REQUEST_NOTICE};
use crate::store::Store;

/// Adds the request of a change and the notes of the user to the instructions of a turn on the change.
///
/// # Errors
///
/// Fails if the ledger cannot be read.
pub fn with_request(store: &dyn Store, request: TurnRequest) -> Result<TurnRequest> {
    let instructions = add_request(store, &request)?;
    Ok(TurnRequest {
        instructions,
        ..request
    })
}

/// Returns the instructions of a turn on a change: the task of the phase, then the request of the change, then the
/// notes of the user with their dates.
///
/// The request is not repeated if it is the task, and the instructions of a session that is not a change are returned
/// unchanged.
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
        add_paragraph(&mut instructions, REQUEST_NOTICE, "REQUEST", request.trim());
    }
    if let Some(notes) = format_notes(&events) {
        add_paragraph(&mut instructions, NOTES_NOTICE, "NOTES", &notes);
    }
    Ok(instructions)
}

/// Adds a paragraph: a template with one variable, which is replaced by `value`.
fn add_paragraph(instructions: &mut String, template: &str, variable: &str, value: &str) {
    let values = Variables::from([(variable.to_owned(), value.to_owned())]);
    instructions.truncate(instructions.trim_end().len());
    instructions.push_str("\n\n");
    instructions.push_str(inject_variables(template, &values).trim_end());
}

/// Formats the notes of the user on a change, in order, each with its date, the decision, and the phase that waited for
/// the decision. Returns `None` if there are no notes.
fn format_notes(events: &[(SystemTime, Event)]) -> Option<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut phase: Option<&Mode> = None;
    // Time at which the current phase was entered, and the phase before it.
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
                // If a decision changes the phase, the new phase is recorded before the decision, at the same time.
                let waiting_phase = match entered {
                    Some((at, before)) if at == *time => before,
                    _ => phase,
                };
                let at_phase = waiting_phase.map(|mode| format!(" at {mode}"));
                let at_phase = at_phase.unwrap_or_default();
                let date: String = clock::format_utc(*time).chars().take(10).collect();
                notes.push(format!(
                    "{date}, {}{at_phase}:\n{}",
                    command_name(*decision),
                    note.trim()
                ));
            }
            _ => {}
        }
    }
    (!notes.is_empty()).then(|| notes.join("\n\n"))
}

/// Returns the name of the command that makes a decision.
fn command_name(decision: Decision) -> &'static str {
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
        let decided = |decision, note: &str| Event::Decided {
            decision,
            note: Some(note.to_owned()),
        };
        let events = [
            (day(0), entered("plan")),
            (day(1), decided(Decision::Revise, "Use hmac.\n")),
            (day(2), entered("implement")),
            (day(3), entered("plan")),
            (
                day(3),
                decided(Decision::Revise, "**Which hash?**\nSHA-512"),
            ),
            (day(4), decided(Decision::Approve, "  ")),
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
        assert_eq!(format_notes(&events).as_deref(), Some(expected));
        assert_eq!(format_notes(&events[2..4]), None);
    }
}
