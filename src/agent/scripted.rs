//! An agent that plays a script, for tests and demonstrations without a model.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use super::builtin::ReadyReply;
use super::script_turn::ScriptedTurn;
use super::{AgentCall, Driver, RecoveredCall, RunningCall};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Nonce, Permission, Reply};
use crate::text::yaml::{self, WithPlace};

/// An agent that plays a script, turn by turn. It fails if a prompt is not as the script expects.
#[derive(Debug)]
pub struct Scripted {
    origin: String,
    text: String,
    turns: Vec<WithPlace<ScriptedTurn>>,
    next: AtomicUsize,
}

/// Placeholder in a reply for the nonce of the turn, which a script cannot know.
const NONCE_PLACEHOLDER: &str = "{{NONCE}}";

/// Maximum number of characters that an error message shows of an expected string.
const MAX_SHOWN_CHARS: usize = 120;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    format: WithPlace<u64>,
    turns: Vec<WithPlace<ScriptedTurn>>,
}

impl Scripted {
    /// Parses a script. `origin` is its name in messages.
    ///
    /// # Errors
    ///
    /// `ScriptInvalid`, with the line and column, if the script is malformed.
    pub fn read(text: &str, origin: &str) -> Result<Self> {
        let script: ScriptFile = yaml::read(text, origin, 1, ErrorKind::ScriptInvalid)?;
        if script.format.value != 1 {
            let place = yaml::place(text, origin, 1, script.format.referenced);
            let format = script.format.value;
            let message = format!("unsupported script format {format}; expected 1");
            return Err(Error::new(ErrorKind::ScriptInvalid, message).with_place(place));
        }
        for turn in &script.turns {
            if let Some(problem) = turn.value.find_problem() {
                let place = yaml::place(text, origin, 1, turn.referenced);
                return Err(Error::new(ErrorKind::ScriptInvalid, problem).with_place(place));
            }
        }
        Ok(Self {
            origin: origin.to_owned(),
            text: text.to_owned(),
            turns: script.turns,
            next: AtomicUsize::new(0),
        })
    }

    fn mismatch(&self, turn: &WithPlace<ScriptedTurn>, message: String) -> Error {
        Error::new(ErrorKind::ScriptMismatch, message)
            .with_place(yaml::place(&self.text, &self.origin, 1, turn.referenced))
            .with_hint("`agentd prompt` with the same arguments shows the prompt that was sent")
    }
}

impl Driver for Scripted {
    fn spends(&self) -> bool {
        false
    }

    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        self.answer(call)
            .map(|reply| -> Box<dyn RunningCall> { ReadyReply::boxed(reply) })
    }

    fn salvage(&self, _folder: &Path, _marker: &str) -> Result<Option<RecoveredCall>> {
        Ok(None)
    }
}

impl Scripted {
    fn answer(&self, call: &AgentCall<'_>) -> Result<Reply> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(turn) = self.turns.get(index) else {
            let turns = match self.turns.len() {
                1 => "1 turn".to_owned(),
                count => format!("{count} turns"),
            };
            let message = format!(
                "script {} has no turn {}: it has {turns}",
                self.origin,
                index + 1
            );
            return Err(Error::new(ErrorKind::ScriptMismatch, message));
        };
        if let Some(mode) = turn.value.mode.as_ref().filter(|mode| *mode != call.mode) {
            return Err(self.mismatch(
                turn,
                format!(
                    "the script expects mode `{mode}`, but the turn is in mode `{}`",
                    call.mode
                ),
            ));
        }
        for expected in &turn.value.expect {
            if !call.prompt.contains(expected.as_str()) {
                let shown: String = expected.chars().take(MAX_SHOWN_CHARS).collect();
                return Err(self.mismatch(turn, format!("the prompt does not contain {shown:?}")));
            }
        }

        let mut text = turn.value.reply.clone().unwrap_or_default();
        if text.contains(NONCE_PLACEHOLDER) {
            let Some(nonce) = find_nonce(call.prompt) else {
                return Err(self.mismatch(
                    turn,
                    format!("the reply has {NONCE_PLACEHOLDER}, but the prompt has no nonce"),
                ));
            };
            text = text.replace(NONCE_PLACEHOLDER, nonce.as_str());
        }
        if call.permission == Permission::ReadOnly && !turn.value.files.is_empty() {
            let message = format!(
                "the turn edits files, but mode `{}` is read-only",
                call.mode
            );
            return Err(self.mismatch(turn, message));
        }
        turn.value
            .write_files(call.root)
            .map_err(|message| self.mismatch(turn, message))?;

        Ok(Reply {
            text,
            usage: turn.value.usage.into(),
            end: turn.value.outcome(&call.limits),
            ..Reply::default()
        })
    }
}

/// Returns the nonce of the first `<review run="…"` of a prompt. In JSON the quotes are escaped.
fn find_nonce(prompt: &str) -> Option<Nonce> {
    let values = prompt.split("<review run=").skip(1);
    let mut nonces = values.filter_map(|rest| {
        let value = rest.trim_start_matches('\\').strip_prefix('"')?;
        let end = value.find(['"', '\\'])?;
        Nonce::new(&value[..end]).ok()
    });
    nonces.next()
}
