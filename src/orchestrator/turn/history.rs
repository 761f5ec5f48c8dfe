//! The conversation of a session, read from the ledger for the next prompt.

use std::collections::BTreeSet;
use std::time::SystemTime;

use super::ledger_text::ledger_text;
use super::record::TurnRecord;
use crate::error::Result;
use crate::models::{BlobId, ConversationTurn, Event, SessionId, State, Tier};
use crate::orchestrator::workspace::Workspace;
use crate::pack::{Layer, LayerContent, PerTier};
use crate::store::Store;

/// Upper bound for the bytes of one token; the longest tokens of known tokenizers have 128.
const MAX_TOKEN_BYTES: u64 = 256;

/// Fills the history of a state with the turns of its session, for a pack whose prompts show them.
///
/// A turn is shown once its reply was read, unless the user has undone it; a failed turn is not shown. Messages and
/// replies are read from the newest turn backwards, and only as many as a prompt could show. A history from a state file
/// is kept as it is.
///
/// # Errors
///
/// `LedgerUnusable` if a reply or a message is missing in the ledger.
pub(crate) fn load_history(
    workspace: &Workspace,
    store: &dyn Store,
    session: &SessionId,
    state: &mut State,
) -> Result<()> {
    let document = &mut state.document;
    let Some(limits) = HistoryLimits::new(workspace) else {
        return Ok(());
    };
    if !document.history.is_empty() {
        return Ok(());
    }

    let events = store.events(session)?;
    let mut turns: Vec<ConversationTurn> = Vec::new();
    let mut bytes = 0;
    let mut unread = 0;
    let undone = undone_turns(&events);
    for record in newest_first(session, &events) {
        let is_shown = !undone.contains(&record.started.turn);
        let Some(message) = answered_message(&record).filter(|_| is_shown) else {
            continue;
        };
        if turns.len() >= limits.turns || bytes > limits.bytes {
            unread += 1;
            continue;
        }

        let turn = ConversationTurn {
            user: ledger_text(store, message)?,
            assistant: read_reply(store, &record)?,
        };
        bytes += turn.user.len() as u64 + turn.assistant.len() as u64;
        turns.push(turn);
    }

    turns.reverse();
    document.history = turns;
    document.history_start = unread;
    Ok(())
}

/// Maximum size of the history that a prompt can show.
struct HistoryLimits {
    turns: usize,
    bytes: u64,
}

impl HistoryLimits {
    /// Returns the limits of the pack's history layer, the largest of all tiers; `None` if the pack has no such layer.
    fn new(workspace: &Workspace) -> Option<Self> {
        let mut layers = workspace.pack.layers.iter();
        let layer: &Layer = layers.find(|layer| layer.holds == LayerContent::History)?;
        let tokens = layer.cap.map_or(u64::MAX, largest);
        let prompt_bytes = workspace.settings.max_prompt_bytes as u64;
        Some(Self {
            turns: layer.items.map_or(usize::MAX, largest),
            bytes: tokens.saturating_mul(MAX_TOKEN_BYTES).min(prompt_bytes),
        })
    }
}

fn largest<T: Copy + Ord + Default>(values: PerTier<T>) -> T {
    let all = Tier::ALL.into_iter().map(|tier| values.at(tier));
    all.max().unwrap_or_default()
}

/// Returns the turns of a session, the newest first, each built when it is asked for.
pub(crate) fn newest_first<'a>(
    session: &'a SessionId,
    events: &'a [(SystemTime, Event)],
) -> impl Iterator<Item = TurnRecord> + 'a {
    let mut rest = events;
    std::iter::from_fn(move || {
        let start = rest
            .iter()
            .rposition(|(_, event)| matches!(event, Event::Started(_)))?;
        let turn = TurnRecord::last(session, &rest[start..]);
        rest = &rest[..start];
        turn
    })
}

/// Returns the numbers of the turns that the user has undone.
pub(crate) fn undone_turns(events: &[(SystemTime, Event)]) -> BTreeSet<u64> {
    let undone = events.iter().filter_map(|(_, event)| match event {
        Event::Undone { turns, .. } => Some(turns),
        _ => None,
    });
    undone.flatten().copied().collect()
}

/// Returns the message of a turn whose reply was read; `None` for a failed turn.
pub(crate) fn answered_message(turn: &TurnRecord) -> Option<&BlobId> {
    let has_reply = turn.replied.is_some() && turn.answered().is_some();
    turn.started.message.as_ref().filter(|_| has_reply)
}

/// Reads the whole reply of a turn: thoughts, message, actions, and the answers to repairs.
fn read_reply(store: &dyn Store, turn: &TurnRecord) -> Result<String> {
    let replies = turn.replies(store)?;
    let said: Vec<&str> = replies.iter().map(|reply| reply.trim()).collect();
    Ok(said.join("\n\n"))
}
