//! A turn of a script: its reply, its outcome and the files that it writes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use super::Limits;
use super::output_parser::round_to_u64;
use crate::models::{CallOutcome, Mode, UsageMetrics};

/// A turn in a script file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedTurn {
    /// Expected mode; `None` accepts every mode.
    pub(super) mode: Option<Mode>,
    /// Strings that the prompt must contain.
    #[serde(default)]
    pub(super) expect: Vec<String>,
    /// The reply, in which `{{NONCE}}` is replaced by the nonce of the prompt.
    pub(super) reply: Option<String>,
    /// Contents of files to write, by their path in the working tree.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Reported usage.
    #[serde(default)]
    pub(super) usage: ScriptedUsage,
    /// Outcome of the call; `None` means success. The fields below are details of it.
    #[serde(default, deserialize_with = "CallOutcome::deserialize_scripted")]
    end: Option<CallOutcome>,
    /// Delay of a rate limit, in seconds.
    retry_after: Option<u64>,
    /// Time at which a quota is reset.
    resets: Option<String>,
    /// Exit code of a crash.
    code: Option<i32>,
    /// Signal of a crash.
    signal: Option<i32>,
}

/// Usage of a turn; the names are those of `usage` in agents.yaml.
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
            micro_dollars: usage
                .cost_dollars
                .map(|dollars| round_to_u64(dollars * 1e6)),
        }
    }
}

impl ScriptedTurn {
    /// Returns a message about the first problem of the turn; `None` if it is valid.
    pub(super) fn find_problem(&self) -> Option<String> {
        if self.reply.is_none() && self.end.is_none() {
            return Some("a turn needs `reply` or `end`".to_owned());
        }
        if let Some((key, end)) = self.misplaced_detail() {
            return Some(format!("`{key}` is only allowed with `end: {end}`"));
        }
        for path in self.files.keys() {
            if path.split('/').any(is_reserved) {
                return Some(format!("invalid path {path:?}: inside `.git` or `.agentd`"));
            }
            if path.split('/').any(is_not_plain) {
                return Some(format!("invalid path {path:?}: not a plain relative path"));
            }
        }
        None
    }

    /// Returns the first detail that does not belong to the outcome, and the outcome that it belongs to.
    fn misplaced_detail(&self) -> Option<(&'static str, &'static str)> {
        let has_end = |end: fn(&CallOutcome) -> bool| self.end.as_ref().is_some_and(end);
        let is_quota = has_end(|end| matches!(end, CallOutcome::Quota { .. }));
        let is_rate_limit = has_end(|end| matches!(end, CallOutcome::RateLimited { .. }));
        let is_crash = has_end(|end| matches!(end, CallOutcome::Crashed { .. }));

        if self.retry_after.is_some() && !is_rate_limit {
            return Some(("retry_after", "rate-limited"));
        }
        if self.resets.is_some() && !is_quota {
            return Some(("resets", "quota"));
        }
        if self.code.is_some() && !is_crash {
            return Some(("code", "crashed"));
        }
        (self.signal.is_some() && !is_crash).then_some(("signal", "crashed"))
    }

    /// Returns the scripted outcome of a call; `Ok` if the script sets none. Its details come from the script, or, if the
    /// call exceeds a limit, from `limits`.
    pub(super) fn outcome(&self, limits: &Limits) -> CallOutcome {
        let Some(end) = &self.end else {
            return CallOutcome::Ok;
        };
        match end {
            CallOutcome::Quota { .. } => CallOutcome::Quota {
                resets: self.resets.clone(),
            },
            CallOutcome::RateLimited { .. } => CallOutcome::RateLimited {
                retry_after: self.retry_after,
            },
            CallOutcome::Crashed { .. } => CallOutcome::Crashed {
                code: self.code,
                signal: self.signal,
            },
            CallOutcome::TimedOut { idle, .. } => CallOutcome::TimedOut {
                idle: *idle,
                seconds: if *idle { limits.idle } else { limits.wall }.as_secs(),
            },
            CallOutcome::OutputTooLarge { .. } => CallOutcome::OutputTooLarge {
                limit: limits.output,
            },
            without_details => without_details.clone(),
        }
    }

    /// Writes the turn's files; fails with a message about the first that cannot be written.
    pub(super) fn write_files(&self, root: &Path) -> Result<(), String> {
        for (path, text) in &self.files {
            write(root, path, text).map_err(|error| format!("cannot write {path}: {error}"))?;
        }
        Ok(())
    }
}

/// Returns true for the path components `.git` and `.agentd`, ignoring case.
fn is_reserved(name: &str) -> bool {
    [".git", ".agentd"]
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Returns true for path components that can escape the tree, and for those that are not portable.
fn is_not_plain(name: &str) -> bool {
    matches!(name, "" | "." | "..") || name.contains(['\\', ':']) || name.contains(char::is_control)
}

/// Writes a file below a root. Fails if the file or one of its parent folders is a symlink.
#[expect(
    clippy::disallowed_methods,
    reason = "a scripted agent edits the working tree like any other agent"
)]
fn write(root: &Path, path: &str, text: &str) -> io::Result<()> {
    let mut at = root.to_path_buf();
    let mut names = path.split('/').peekable();
    while let Some(name) = names.next() {
        at.push(name);
        let is_last = names.peek().is_none();
        match at.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => {
                return Err(io::Error::other(format!("{name} is a symlink")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_last => {
                fs::create_dir(&at)?
            }
            Ok(_) | Err(_) => {}
        }
    }
    fs::write(at, text)
}
