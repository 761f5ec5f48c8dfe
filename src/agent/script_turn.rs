//! What a turn of a script says, and the files that it edits.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::Limits;
use super::listen::whole;
use crate::models::{CallOutcome, Mode, UsageMetrics};

/// A turn as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedTurn {
    /// The mode that the turn is meant for.
    pub(super) mode: Option<Mode>,
    /// Strings that the prompt must contain.
    #[serde(default)]
    pub(super) expect: Vec<String>,
    /// The reply, in which `{{NONCE}}` is the nonce that the prompt tells.
    pub(super) reply: Option<String>,
    /// Files of the work tree that the turn writes, by their paths.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// What the turn says that it used.
    #[serde(default)]
    pub(super) usage: ScriptedUsage,
    /// How the turn ends, if it is not to end well.
    end: Option<EndName>,
    /// How long a rate limit asks to wait, in seconds.
    retry_after: Option<u64>,
    /// When there is more after a quota.
    resets: Option<String>,
    /// The exit code of a crash.
    code: Option<i32>,
    /// The signal of a crash.
    signal: Option<i32>,
}

/// What a turn used; the names are those of `usage` in agents.yaml.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptedUsage {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
    cost_dollars: Option<f64>,
}

impl From<ScriptedUsage> for UsageMetrics {
    fn from(usage: ScriptedUsage) -> Self {
        Self {
            input_tokens: usage.input,
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            output_tokens: usage.output,
            reasoning_tokens: usage.reasoning,
            micro_dollars: usage.cost_dollars.map(|dollars| whole(dollars * 1e6)),
        }
    }
}

/// The ends, by the names that `ends` in agents.yaml has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EndName {
    Auth,
    Quota,
    RateLimited,
    TooLarge,
    Cut,
    Refused,
    Empty,
    Crashed,
    TimedOut,
    Idle,
    NotInstalled,
    UnknownOutput,
    OutputTooLarge,
    Stopped,
    Lost,
}

impl ScriptedTurn {
    /// Returns what is wrong with a turn, in words.
    pub(super) fn fault(&self) -> Option<String> {
        if self.reply.is_none() && self.end.is_none() {
            return Some("a turn needs a `reply`, or an `end`".to_owned());
        }
        let of_ends = [
            (
                "retry_after",
                self.retry_after.is_some(),
                EndName::RateLimited,
                "rate-limited",
            ),
            ("resets", self.resets.is_some(), EndName::Quota, "quota"),
            ("code", self.code.is_some(), EndName::Crashed, "crashed"),
            ("signal", self.signal.is_some(), EndName::Crashed, "crashed"),
        ];
        let misplaced = of_ends
            .into_iter()
            .find(|(_, given, end, _)| *given && self.end != Some(*end));
        if let Some((key, .., end)) = misplaced {
            return Some(format!("`{key}` belongs to `end: {end}`"));
        }
        let path = self.files.keys().find(|path| path.split('/').any(is_odd))?;
        Some(format!(
            "{path:?} is no plain path of the work tree, or not a turn's to write"
        ))
    }

    /// Returns how the turn ends. The limits of an end are those that the call has.
    pub(super) fn end(&self, limits: &Limits) -> CallOutcome {
        match self.end {
            None => CallOutcome::Ok,
            Some(EndName::Auth) => CallOutcome::Auth,
            Some(EndName::Quota) => CallOutcome::Quota {
                resets: self.resets.clone(),
            },
            Some(EndName::RateLimited) => CallOutcome::RateLimited {
                retry_after: self.retry_after,
            },
            Some(EndName::TooLarge) => CallOutcome::TooLarge {
                tokens: None,
                limit: None,
            },
            Some(EndName::Cut) => CallOutcome::Cut,
            Some(EndName::Refused) => CallOutcome::Refused,
            Some(EndName::Empty) => CallOutcome::Empty,
            Some(EndName::Crashed) => CallOutcome::Crashed {
                code: self.code,
                signal: self.signal,
            },
            Some(EndName::TimedOut) => CallOutcome::TimedOut {
                idle: false,
                seconds: limits.wall.as_secs(),
            },
            Some(EndName::Idle) => CallOutcome::TimedOut {
                idle: true,
                seconds: limits.idle.as_secs(),
            },
            Some(EndName::NotInstalled) => CallOutcome::NotInstalled,
            Some(EndName::UnknownOutput) => CallOutcome::UnknownOutput,
            Some(EndName::OutputTooLarge) => CallOutcome::OutputTooLarge {
                limit: limits.output,
            },
            Some(EndName::Stopped) => CallOutcome::Stopped,
            Some(EndName::Lost) => CallOutcome::Lost,
        }
    }

    /// Writes the turn's files; the error says which cannot be written, and why.
    pub(super) fn write_files(&self, root: &Path) -> Result<(), String> {
        for (path, text) in &self.files {
            write(root, path, text)
                .map_err(|error| format!("the turn cannot write {path}: {error}"))?;
        }
        Ok(())
    }
}

/// Tells names that lead elsewhere, or to what git and this program own.
fn is_odd(name: &str) -> bool {
    let owned = [".git", ".agentd"]
        .iter()
        .any(|owned| name.eq_ignore_ascii_case(owned));
    owned
        || matches!(name, "" | "." | "..")
        || name.contains(['\\', ':'])
        || name.contains(char::is_control)
}

/// Writes a file below a root. Neither it nor a folder on the way may be a link.
#[expect(
    clippy::disallowed_methods,
    reason = "a scripted agent edits the work tree as any other does"
)]
fn write(root: &Path, path: &str, text: &str) -> io::Result<()> {
    let mut at = root.to_path_buf();
    let mut names = path.split('/').peekable();
    while let Some(name) = names.next() {
        at.push(name);
        let is_last = names.peek().is_none();
        match at.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                return Err(io::Error::other(format!("{name} is a link")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_last => {
                fs::create_dir(&at)?
            }
            Ok(_) | Err(_) => {}
        }
    }
    fs::write(at, text)
}
