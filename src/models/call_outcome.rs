//! Outcome of a call to an agent.

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::ErrorKind;

/// Outcome of a call to an agent.
///
/// Definitions of agents (`ends` in agents.yaml) and scripts name an outcome in kebab case, such as `rate-limited`, and
/// the driver adds the details. In JSON, the name is the value of `end`, in snake case.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum CallOutcome {
    /// The agent sent a complete reply.
    #[default]
    Ok,
    /// The agent is not logged in, or its API key was rejected.
    Auth,
    /// The quota of the account is exhausted.
    Quota {
        /// Time of the reset, in the agent's words.
        resets: Option<String>,
    },
    /// The agent asks to retry later.
    RateLimited {
        /// Seconds to wait; `None` if the agent does not say.
        retry_after: Option<u64>,
    },
    /// The prompt is larger than the agent accepts.
    TooLarge {
        /// Tokens of the prompt, as the agent counts them.
        #[serde(default)]
        tokens: Option<u64>,
        /// Maximum number of tokens that the agent accepts.
        #[serde(default)]
        limit: Option<u64>,
    },
    /// The reply was truncated, for example by a token limit.
    Cut,
    /// The model declines to answer.
    Refused,
    /// The reply is empty.
    Empty,
    /// The agent failed with an exit code or a signal.
    Crashed {
        /// Exit code; `None` if the process was killed by a signal or the code is unknown.
        code: Option<i32>,
        /// Signal that killed the process, if one did.
        signal: Option<i32>,
    },
    /// The agent exceeded a time limit and was stopped.
    TimedOut {
        /// True if the agent wrote no output for too long, false if the whole call took too long.
        idle: bool,
        /// Limit in seconds.
        seconds: u64,
    },
    /// The command of the agent is not installed.
    NotInstalled,
    /// The output does not match the definition of the agent.
    UnknownOutput,
    /// The agent wrote more output than the limit and was stopped.
    OutputTooLarge {
        /// Limit in bytes.
        limit: u64,
    },
    /// The user stopped the call.
    Stopped,
    /// The program that made the call ended before the reply was complete.
    Lost,
    /// Files were changed during a read-only call.
    Edited {
        /// Number of changed files.
        files: u64,
        /// Paths of the first few.
        first: Vec<String>,
    },
}

/// Outcomes that the output of an agent can indicate, by their names in `ends` of agents.yaml.
const REPORTED_OUTCOMES: [(&str, CallOutcome); 8] = [
    ("auth", CallOutcome::Auth),
    ("quota", CallOutcome::Quota { resets: None }),
    (
        "rate-limited",
        CallOutcome::RateLimited { retry_after: None },
    ),
    (
        "too-large",
        CallOutcome::TooLarge {
            tokens: None,
            limit: None,
        },
    ),
    ("cut", CallOutcome::Cut),
    ("refused", CallOutcome::Refused),
    ("empty", CallOutcome::Empty),
    ("not-installed", CallOutcome::NotInstalled),
];

/// Outcomes that only agentd itself can detect, by their names in scripts.
#[cfg(feature = "run")]
const DETECTED_OUTCOMES: [(&str, CallOutcome); 7] = [
    (
        "crashed",
        CallOutcome::Crashed {
            code: None,
            signal: None,
        },
    ),
    (
        "timed-out",
        CallOutcome::TimedOut {
            idle: false,
            seconds: 0,
        },
    ),
    (
        "idle",
        CallOutcome::TimedOut {
            idle: true,
            seconds: 0,
        },
    ),
    ("unknown-output", CallOutcome::UnknownOutput),
    ("output-too-large", CallOutcome::OutputTooLarge { limit: 0 }),
    ("stopped", CallOutcome::Stopped),
    ("lost", CallOutcome::Lost),
];

impl CallOutcome {
    /// Returns true if the call returned a complete reply.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }

    /// Returns true if the call failed for a reason other than the agent's work: stopped by the user, lost when agentd
    /// was killed, rate limited, out of quota, not logged in or not installed.
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

    /// Returns true if the text of the call is a reply, complete or truncated, and not the output of a failed agent.
    #[must_use]
    pub fn has_reply(&self) -> bool {
        matches!(
            self,
            Self::Ok
                | Self::Cut
                | Self::TimedOut { .. }
                | Self::OutputTooLarge { .. }
                | Self::Stopped
                | Self::Lost
        )
    }

    /// Returns a short name for display, such as `rate limited`.
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

    /// Returns the error kind of the outcome; `None` if the call succeeded.
    #[must_use]
    pub fn error_kind(&self) -> Option<ErrorKind> {
        let kind = match self {
            Self::Ok => return None,
            Self::Auth => ErrorKind::AgentAuth,
            Self::Quota { .. } => ErrorKind::AgentQuota,
            Self::RateLimited { .. } => ErrorKind::AgentRateLimited,
            Self::TooLarge { .. } => ErrorKind::AgentTooLarge,
            Self::Cut => ErrorKind::AgentCutOff,
            Self::Refused => ErrorKind::AgentRefused,
            Self::Empty => ErrorKind::AgentEmpty,
            Self::Crashed { .. } => ErrorKind::AgentCrashed,
            Self::TimedOut { .. } => ErrorKind::AgentTimedOut,
            Self::NotInstalled => ErrorKind::AgentNotInstalled,
            Self::UnknownOutput => ErrorKind::AgentOutputUnknown,
            Self::OutputTooLarge { .. } => ErrorKind::AgentOutputTooLarge,
            Self::Stopped => ErrorKind::AgentStopped,
            Self::Lost => ErrorKind::AgentLost,
            Self::Edited { .. } => ErrorKind::AgentEdited,
        };
        Some(kind)
    }

    /// Deserializes the name of an outcome that the output of an agent can indicate, such as `rate-limited`.
    pub(crate) fn deserialize_reported<'de, D>(deserializer: D) -> Result<Self, D::Error>
    where
        D: Deserializer<'de>,
    {
        find_named(
            &String::deserialize(deserializer)?,
            REPORTED_OUTCOMES.iter(),
        )
    }

    /// Deserializes the name of any outcome that a script can produce.
    #[cfg(feature = "run")]
    pub(crate) fn deserialize_scripted<'de, D>(deserializer: D) -> Result<Option<Self>, D::Error>
    where
        D: Deserializer<'de>,
    {
        Option::<String>::deserialize(deserializer)?
            .map(|name| find_named(&name, REPORTED_OUTCOMES.iter().chain(&DETECTED_OUTCOMES)))
            .transpose()
    }
}

fn find_named<'a, E: de::Error>(
    name: &str,
    outcomes: impl Iterator<Item = &'a (&'a str, CallOutcome)> + Clone,
) -> Result<CallOutcome, E> {
    let outcome = outcomes.clone().find(|(label, _)| *label == name);
    outcome.map(|(_, outcome)| outcome.clone()).ok_or_else(|| {
        let labels: Vec<&str> = outcomes.map(|(label, _)| *label).collect();
        E::custom(format!(
            "unknown outcome `{name}`, expected one of `{}`",
            labels.join("`, `")
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    fn reported(name: &str) -> Result<CallOutcome, Error> {
        let deserializer: StrDeserializer<'_, Error> = name.into_deserializer();
        CallOutcome::deserialize_reported(deserializer)
    }

    #[test]
    fn an_agent_reports_an_outcome_by_its_name() {
        assert_eq!(reported("cut").unwrap(), CallOutcome::Cut);
        assert_eq!(
            reported("rate-limited").unwrap(),
            CallOutcome::RateLimited { retry_after: None }
        );
    }

    #[test]
    fn an_agent_cannot_report_that_the_user_stopped_it() {
        assert_eq!(
            reported("stopped").unwrap_err().to_string(),
            "unknown outcome `stopped`, expected one of `auth`, `quota`, `rate-limited`, `too-large`, `cut`, `refused`, \
             `empty`, `not-installed`"
        );
    }

    #[test]
    fn only_a_call_that_went_well_is_no_error() {
        assert_eq!(CallOutcome::Ok.error_kind(), None);

        for (name, outcome) in REPORTED_OUTCOMES {
            assert!(outcome.error_kind().is_some(), "{name}");
        }
    }

    #[test]
    fn output_of_a_failed_call_is_no_reply() {
        let crashed = CallOutcome::Crashed {
            code: Some(1),
            signal: None,
        };
        assert!(!crashed.has_reply() && !CallOutcome::Auth.has_reply());
        assert!(CallOutcome::Cut.has_reply() && CallOutcome::Lost.has_reply());
    }
}
