//! Undo of the last message of a conversation.
//!
//! Files are restored before the event is recorded. After a crash in between, the restored texts look like edits of the
//! user; undoing the same message again finds them restored and completes the undo.

use std::time::SystemTime;

use indexmap::IndexMap;
use serde::Serialize;

use super::send::{check_chat_pack, is_follow_up};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    ArtifactRecord, ArtifactSpec, Event, Mode, SessionId, State, StateChange, StateDocument,
};
use crate::ops::{read_artifact, read_project_text, restore_artifact};
use crate::orchestrator::turn::artifacts::observe_artifacts;
use crate::orchestrator::turn::history::{answered_message, newest_first, undone_turns};
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::orchestrator::turn::{TurnContext, TurnRecord, ledger_text};
use crate::orchestrator::workspace::Workspace;

/// Result of undoing a message.
#[derive(Debug, Serialize)]
pub struct UndoReport {
    /// The message.
    pub message: String,
    /// Numbers of its turns, the newest first: the message, and follow-up calls.
    pub turns: Vec<u64>,
    /// Effects that were undone.
    pub undone: Vec<String>,
    /// Effects that remain, with the reasons.
    pub kept: Vec<String>,
    /// Mode of the session afterwards.
    pub mode: Mode,
}

/// Undoes the last message: its effects on the state, the knowledge and the files of artifacts, its change of the
/// mode, and its place in the history of later prompts. The ledger keeps everything.
///
/// A text or value that was changed since is kept and reported. Calling it again undoes the message before.
///
/// # Errors
///
/// `TurnNotFound` if there is no message left, `OtherPack`, and those of the ledger and the files.
pub fn undo_message(context: &TurnContext<'_>, session: &SessionId) -> Result<UndoReport> {
    let workspace = context.workspace;
    let pack = &workspace.pack;
    check_chat_pack(pack)?;

    with_lease(context, session, |lease| {
        let mut session = recover(context, lease)?;
        session.require_pack()?;

        let recorded = context.store.events(&lease.session)?;
        let exchange = last_exchange(&lease.session, &recorded);
        let Some(first) = exchange.last() else {
            return Err(Error::new(
                ErrorKind::TurnNotFound,
                "there is no message to undo",
            ));
        };
        let message = first.started.message.as_ref();
        let message = message
            .map(|id| ledger_text(context.store, id))
            .transpose()?;

        let edits = observe_artifacts(workspace, &session.state)?;
        let mut events: Vec<Event> = edits.into_iter().collect();
        let state = session.state.clone().after(&events);
        let mut undo = Undo::new(workspace, &state);
        for turn in &exchange {
            undo.revert_turn(turn)?;
        }
        fail::point("undoing")?;

        let turns: Vec<u64> = exchange.iter().map(|turn| turn.started.turn).collect();
        events.push(Event::Undone {
            turns: turns.clone(),
            changes: undo.changes,
        });
        if has_left_mode(&exchange, &state) {
            events.push(Event::Entered {
                mode: first.started.mode.clone(),
            });
        }
        session.commit(&events, &[])?;

        Ok(UndoReport {
            message: message.unwrap_or_default(),
            turns,
            undone: undo.undone,
            kept: undo.kept,
            mode: session.state.mode.unwrap_or_else(|| pack.start.clone()),
        })
    })
}

/// Returns the turns of the last message that was answered and not undone, the newest first.
fn last_exchange(session: &SessionId, events: &[(SystemTime, Event)]) -> Vec<TurnRecord> {
    let undone = undone_turns(events);
    let mut exchange = Vec::new();
    for turn in newest_first(session, events) {
        let is_undone = undone.contains(&turn.started.turn);
        if is_undone || answered_message(&turn).is_none() {
            continue;
        }
        let is_first = !is_follow_up(&turn);
        exchange.push(turn);
        if is_first {
            break;
        }
    }
    exchange
}

/// Returns true if the session is where the exchange has moved it.
fn has_left_mode(exchange: &[TurnRecord], state: &State) -> bool {
    let entered = exchange.iter().find_map(|turn| turn.next.as_ref());
    let has_ended = exchange.iter().any(|turn| turn.ended.is_some());
    (entered.is_some() && entered == state.mode.as_ref()) || (has_ended && state.ended.is_some())
}

/// An undo in progress.
struct Undo<'a> {
    workspace: &'a Workspace,
    /// The document with the changes so far.
    document: StateDocument,
    changes: Vec<StateChange>,
    undone: Vec<String>,
    kept: Vec<String>,
}

impl<'a> Undo<'a> {
    fn new(workspace: &'a Workspace, state: &State) -> Self {
        Self {
            workspace,
            document: state.document.clone(),
            changes: Vec::new(),
            undone: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Reverts the effects of a turn, the last one first.
    fn revert_turn(&mut self, turn: &TurnRecord) -> Result<()> {
        let done = turn.settlements.iter().filter(|result| result.done);
        for result in done.rev() {
            if result.changes.is_empty() {
                let effect = format!("{} {}", result.operation, result.target);
                self.kept.push(format!("{effect}: cannot be undone"));
            }
            for change in result.changes.iter().rev() {
                match change.path.strip_prefix("artifacts.") {
                    Some(key) => self.revert_artifact(key, change)?,
                    None => self.revert_value(change),
                }
            }
        }
        Ok(())
    }

    /// Reverts a change of a value that is not an artifact.
    fn revert_value(&mut self, change: &StateChange) {
        let path = &change.path;
        let current = self.document.recorded_value(path);
        if current == change.to {
            self.undone.push(path.clone());
            self.record(StateChange {
                path: path.clone(),
                from: change.to.clone(),
                to: change.from.clone(),
            });
        } else if current != change.from {
            self.kept.push(format!("{path}: changed since"));
        }
    }

    /// Reverts a change of an artifact, field by field, in its file and in the document.
    fn revert_artifact(&mut self, key: &str, change: &StateChange) -> Result<()> {
        let Some(spec) = self.workspace.pack.artifacts.get(key) else {
            self.kept
                .push(format!("{key}: the pack has no such artifact"));
            return Ok(());
        };
        let before = read_record(change.from.as_ref());
        let after = read_record(change.to.as_ref());
        let mut record = self
            .document
            .artifacts
            .get(key)
            .cloned()
            .unwrap_or_default();

        let restored = self.restore_fields(key, spec, &before, &after)?;
        for (name, text) in restored {
            record.edited.remove(&name);
            match text.is_empty() {
                true => record.fields.shift_remove(&name),
                false => record.fields.insert(name, text),
            };
        }
        if before.declared != after.declared && record.declared == after.declared {
            record.declared = before.declared;
            self.undone.push(format!("status of {key}"));
        }

        let is_empty = record == ArtifactRecord::default();
        let value = (!is_empty).then(|| serde_json::to_value(&record).ok());
        self.record(StateChange {
            path: change.path.clone(),
            from: self.document.recorded_value(&change.path),
            to: value.flatten(),
        });
        Ok(())
    }

    /// Restores the fields that a change wrote, in the file of the artifact. Returns the restored texts; an empty text is
    /// that of a field that did not exist.
    fn restore_fields(
        &mut self,
        key: &str,
        spec: &ArtifactSpec,
        before: &ArtifactRecord,
        after: &ArtifactRecord,
    ) -> Result<IndexMap<String, String>> {
        let Some(file) = &spec.file else {
            return Ok(IndexMap::new());
        };
        let root = &self.workspace.root;
        let text = read_project_text(root, file)?.unwrap_or_default();
        let in_file = read_artifact(spec, &self.workspace.secrets.redact(&text));

        let mut restored = IndexMap::new();
        let mut to_write = IndexMap::new();
        for name in spec.fields.keys() {
            let earlier = before.fields.get(name);
            let written = after.fields.get(name);
            if earlier == written {
                continue;
            }

            let current = in_file.get(name);
            let text = earlier.cloned().unwrap_or_default();
            if current == written {
                self.undone.push(format!("{name} in {file}"));
                to_write.insert(name.clone(), text.clone());
                restored.insert(name.clone(), text);
            } else if current == earlier {
                restored.insert(name.clone(), text);
            } else {
                self.kept.push(format!("{name} in {file}: changed since"));
            }
        }

        if !to_write.is_empty() {
            restore_artifact(root, file, key, spec, &to_write)?;
        }
        Ok(restored)
    }

    fn record(&mut self, change: StateChange) {
        self.document.apply_change(&change);
        self.changes.push(change);
    }
}

/// Reads the record of an artifact from a change; an empty record if there is none.
fn read_record(value: Option<&serde_json::Value>) -> ArtifactRecord {
    value
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .unwrap_or_default()
}
