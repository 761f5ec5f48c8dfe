//! How a call to an agent ended, and what to do next.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// How a call to an agent ended.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum CallOutcome {
    /// The agent answered and came to its end.
    #[default]
    Ok,
    /// The agent is not logged in, or its key is refused.
    Auth,
    /// What the account may use is used up.
    Quota {
        /// When there is more, as the agent says it.
        resets: Option<String>,
    },
    /// The agent asks to wait.
    RateLimited {
        /// How long, in seconds.
        retry_after: Option<u64>,
    },
    /// The prompt is more than the agent takes.
    TooLarge {
        /// How many tokens it has, as the agent counts them.
        #[serde(default)]
        tokens: Option<u64>,
        /// How many tokens the agent takes.
        #[serde(default)]
        limit: Option<u64>,
    },
    /// The reply lacks its end.
    Cut,
    /// The model declines to answer.
    Refused,
    /// The agent said nothing.
    Empty,
    /// The agent failed on its own.
    Crashed {
        /// The exit code, if it came to one.
        code: Option<i32>,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
    /// The agent took too long and was stopped.
    TimedOut {
        /// Whether it had gone silent, rather than come to the end of its time.
        idle: bool,
        /// The limit, in seconds.
        seconds: u64,
    },
    /// The agent's command is not there.
    NotInstalled,
    /// The agent's output is not what its definition says.
    UnknownOutput,
    /// The agent wrote more than it may, and was stopped.
    OutputTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The user stopped the call.
    Stopped,
    /// The program that made the call was gone before the reply was whole.
    Lost,
    /// Files were changed in a mode in which the agent may only read.
    Edited {
        /// How many.
        files: u64,
        /// The first of them.
        first: Vec<String>,
    },
}

impl CallOutcome {
    /// Tells whether the reply may count.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }

    /// Returns true if the call was interrupted from outside, or the agent never came to work: by the user, with the
    /// program, for a limit of its account, or because it is not logged in or not installed. Such a call says nothing
    /// about the work.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::Lost
                | Self::Auth
                | Self::Quota { .. }
                | Self::RateLimited { .. }
                | Self::NotInstalled
        )
    }

    /// Returns the end as one word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Auth => "auth",
            Self::Quota { .. } => "quota",
            Self::RateLimited { .. } => "rate limited",
            Self::TooLarge { .. } => "too large",
            Self::Cut => "cut off",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::Crashed { .. } => "crashed",
            Self::TimedOut { .. } => "timed out",
            Self::NotInstalled => "not installed",
            Self::UnknownOutput => "unknown output",
            Self::OutputTooLarge { .. } => "output too large",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::Edited { .. } => "edited",
        }
    }

    /// Returns the end of a turn's call as an error that says what to do next; `None` if all went well. `detail` is what
    /// the agent said.
    #[must_use]
    pub fn error(&self, agent: &str, turn: &str, detail: &str) -> Option<Error> {
        let (kind, what, hint) = self.words()?;
        let session = turn.split('/').next().unwrap_or_default();
        let hint = hint.replace("TURN", turn).replace("SESSION", session);
        let detail = detail.trim();
        let detail = if detail.is_empty() {
            String::new()
        } else {
            format!(": {detail}")
        };
        Some(Error::new(kind, format!("{agent} {what}{detail}")).with_hint(hint))
    }

    /// Returns the kind, what happened, and what to do next.
    fn words(&self) -> Option<(ErrorKind, String, String)> {
        let said = |kind, what: &str, hint: &str| Some((kind, what.to_owned(), hint.to_owned()));
        match self {
            Self::Ok => None,
            Self::Auth => said(
                ErrorKind::AgentAuth,
                "is not logged in",
                "log in with its own command; for a server, set the variable that its `key` names",
            ),
            Self::Quota { resets } => {
                let when = resets
                    .as_deref()
                    .map(|when| format!(", which resets {when}"))
                    .unwrap_or_default();
                let what = format!("has used up what its account allows{when}");
                Some((
                    ErrorKind::AgentQuota,
                    what,
                    "wait, or take another agent with --agent".to_owned(),
                ))
            }
            Self::RateLimited { retry_after } => {
                let wait = retry_after
                    .map(|seconds| format!(" {seconds} s"))
                    .unwrap_or_default();
                let hint = "take the turn again later, or raise `max_wait_seconds` under [limits]";
                Some((
                    ErrorKind::AgentRateLimited,
                    format!("asks to wait{wait}"),
                    hint.to_owned(),
                ))
            }
            Self::TooLarge { tokens, limit } => said(
                ErrorKind::AgentTooLarge,
                &format!(
                    "does not take a prompt of this size{}",
                    sizes(*tokens, *limit)
                ),
                "give it fewer files, or name its --model so that the prompt is fitted",
            ),
            Self::Cut => said(
                ErrorKind::AgentCutOff,
                "was cut off before the end of its reply",
                "take the turn again, or ask for less at once",
            ),
            Self::Refused => said(
                ErrorKind::AgentRefused,
                "declines to answer",
                "`agentd show TURN --reply` shows its words; say it differently, or take another agent",
            ),
            Self::Empty => said(
                ErrorKind::AgentEmpty,
                "said nothing",
                "take the turn again; an exit code of 0 alone is no answer",
            ),
            Self::Crashed { code, signal } => Some(crashed(*code, *signal)),
            Self::TimedOut { idle, seconds } => {
                let (what, setting) = if *idle {
                    ("was silent for", "idle")
                } else {
                    ("took more than", "wall")
                };
                let hint = format!("raise `{setting}_seconds` under [limits] if it needs longer");
                Some((
                    ErrorKind::AgentTimedOut,
                    format!("{what} {seconds} s and was stopped"),
                    hint,
                ))
            }
            Self::NotInstalled => said(
                ErrorKind::AgentNotInstalled,
                "is not installed",
                "install it, put it on PATH, or take another agent with --agent",
            ),
            Self::UnknownOutput => said(
                ErrorKind::AgentOutputUnknown,
                "wrote something that its definition does not describe",
                "`agentd show TURN --reply` shows it; its version may be new",
            ),
            Self::OutputTooLarge { limit } => {
                let what = format!("wrote more than {limit} bytes and was stopped");
                let hint = "raise `output_bytes` under [limits] if it needs more";
                Some((ErrorKind::AgentOutputTooLarge, what, hint.to_owned()))
            }
            Self::Stopped => said(
                ErrorKind::AgentStopped,
                "was stopped",
                "`agentd resume SESSION` calls it again",
            ),
            Self::Edited { files, first } => Some(edited(*files, first)),
            Self::Lost => said(
                ErrorKind::AgentLost,
                "had not finished when the program ended",
                "`agentd resume SESSION` calls it again",
            ),
        }
    }
}

fn crashed(code: Option<i32>, signal: Option<i32>) -> (ErrorKind, String, String) {
    let how = match (signal, code) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("failed with exit code {code}"),
        (None, None) => "failed".to_owned(),
    };
    let hint = match signal {
        Some(9) => "signal 9 often means that memory ran out",
        _ => "`agentd show TURN --reply` shows what it wrote",
    };
    (ErrorKind::AgentCrashed, how, hint.to_owned())
}

fn edited(files: u64, first: &[String]) -> (ErrorKind, String, String) {
    let more = if files > first.len() as u64 {
        ", …"
    } else {
        ""
    };
    let were = if files == 1 { "file was" } else { "files were" };
    let what = format!(
        "may only read, and {files} {were} changed: {}{more}",
        first.join(", ")
    );
    let hint = "see `git status`; the reply does not count; if you changed them, try again";
    (ErrorKind::AgentEdited, what, hint.to_owned())
}

/// Returns what a prompt has and what is taken, in words, if both are known.
fn sizes(tokens: Option<u64>, limit: Option<u64>) -> String {
    tokens.zip(limit).map_or_else(String::new, |(has, takes)| {
        format!(" ({has} tokens, at most {takes})")
    })
}
