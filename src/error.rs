//! The error type of the crate: kind, message, position, hint and cause.
//!
//! Errors of your own drivers, stores and operations have [`ErrorKind::Custom`]:
//!
//! ```
//! use agentd::{Error, ErrorKind};
//!
//! let error = Error::new(ErrorKind::Custom("TrackerDown"), "the tracker does not answer")
//!     .with_hint("see status.example.org");
//! assert_eq!(error.kind().name(), "TrackerDown");
//! assert_eq!(format!("{error:#}"), "the tracker does not answer\nhint: see status.example.org");
//! ```

use std::error;
use std::fmt;

/// Result with the error type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its kind, message, position, hint and cause.
///
/// `{}` prints the message; `{:#}` adds the cause, the position with its source line, and the hint.
pub struct Error(Box<ErrorDetails>);

struct ErrorDetails {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    hint: Option<String>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// Kinds of errors.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The mode has neither a template for the agent nor a BASE template, or a template or identity is unknown.
    TemplateNotFound,
    /// A template has invalid front matter or placeholders, or is too large.
    TemplateInvalid,
    /// A mandatory variable has no value in strict mode.
    MissingVariable,
    /// The prompt has no instructions, or cannot be sent for another reason.
    PromptInvalid,
    /// The text is not a prompt written by `to_xml`.
    XmlInvalid,
    /// The name of an agent, mode, session or operation breaks the rules for names.
    NameInvalid,
    /// The pack does not exist.
    PackNotFound,
    /// The pack is invalid or inconsistent.
    PackInvalid,
    /// The pack does not have the mode.
    UnknownMode,
    /// The model is not in the catalogue.
    UnknownModel,
    /// The agent has no driver.
    UnknownAgent,
    /// The operation is not registered.
    UnknownOperation,
    /// The state file is invalid.
    StateInvalid,
    /// The tools are not valid JSON Schema.
    ToolsInvalid,
    /// A settings file is invalid.
    ConfigInvalid,
    /// The prompt does not fit its budget even at its minimum size.
    BudgetTooSmall,
    /// The reply lacks the verdict that its mode requires.
    MissingReviewMarker,
    /// The reply lacks a marker that its mode requires.
    MissingMarker,
    /// The mode does not allow the verdict.
    VerdictNotAllowed,
    /// A file or folder is missing, unreadable, of the wrong type or size, or not text.
    FileUnusable,
    /// The change or one of its files does not exist.
    ChangeNotFound,
    /// The spec, or the requirement of a spec, does not exist.
    SpecNotFound,
    /// The spec is invalid.
    SpecInvalid,
    /// The script of a scripted agent is invalid.
    ScriptInvalid,
    /// The script does not match the turn.
    ScriptMismatch,
    /// The agent is not logged in.
    AgentAuth,
    /// The agent's quota is exhausted.
    AgentQuota,
    /// The agent's rate limit requires a longer wait than allowed.
    AgentRateLimited,
    /// The agent does not accept a prompt of this size.
    AgentTooLarge,
    /// The agent's reply is truncated.
    AgentCutOff,
    /// The model refuses to answer.
    AgentRefused,
    /// The agent's reply is empty.
    AgentEmpty,
    /// The agent exited with an error.
    AgentCrashed,
    /// The agent exceeded a timeout.
    AgentTimedOut,
    /// The agent's command was not found.
    AgentNotInstalled,
    /// The agent's output could not be parsed.
    AgentOutputUnknown,
    /// The agent's output exceeds the limit.
    AgentOutputTooLarge,
    /// The user stopped the agent.
    AgentStopped,
    /// The program exited before the agent finished.
    AgentLost,
    /// A read-only agent has changed files.
    AgentEdited,
    /// The agent cannot be started, for example because of its folder, its guard or its arguments.
    AgentUnusable,
    /// The call would exceed a budget.
    BudgetExhausted,
    /// The price of the model is unknown, and the budget limits money.
    PriceUnknown,
    /// Files of the project that run or configure something are not trusted yet.
    NotTrusted,
    /// The ledger cannot be opened, read or written.
    LedgerUnusable,
    /// The ledger was edited while a session was held.
    LedgerChanged,
    /// The operating system provides no random bytes.
    NoRandomness,
    /// The disk is full.
    StorageFull,
    /// The session uses another pack.
    OtherPack,
    /// The conditions for leaving the mode are not met.
    GateClosed,
    /// A command of the user was refused.
    CommandRefused,
    /// The turn cannot be resumed.
    NotResumable,
    /// Another change with this name exists.
    ChangeExists,
    /// The change is not waiting for this decision.
    NotWaiting,
    /// The verdict was given for a different commit.
    VerdictStale,
    /// Nothing has changed, or no change can be shown to a reviewer.
    NothingToReview,
    /// An effect of the reply could not be carried out.
    ReplyUnusable,
    /// The turn or session is not in the ledger.
    TurnNotFound,
    /// Another process holds the session, or the lease is void.
    SessionBusy,
    /// The folder is not inside the working tree of a git repository.
    NotARepository,
    /// The repository has no commits.
    NoCommits,
    /// A git command failed.
    GitFailed,
    /// Two branches have a merge conflict.
    MergeConflict,
    /// A named error of a program that uses this library, for example of its driver or store.
    Custom(&'static str),
}

impl ErrorKind {
    /// Returns the name of the variant, as in JSON output; for [`Self::Custom`], the name that it holds.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Custom(name) => name.to_owned(),
            known => format!("{known:?}"),
        }
    }
}

/// Position in a file or another source, with the line for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the source, usually a path.
    pub origin: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Text of the line.
    pub text: String,
}

impl Place {
    /// Returns the position of a byte offset in `text`.
    #[must_use]
    pub fn at_offset(origin: impl Into<String>, text: &str, offset: usize) -> Self {
        let offset = floor_char_boundary(text, offset);
        let before = &text[..offset];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = text[start..offset].chars().count() + 1;
        Self::at_line(origin, text, line, column)
    }

    /// Returns the position of a line and column in `text`.
    #[must_use]
    pub fn at_line(origin: impl Into<String>, text: &str, line: usize, column: usize) -> Self {
        let line_text = text.lines().nth(line.saturating_sub(1)).unwrap_or("");
        Self {
            origin: origin.into(),
            line,
            column,
            text: line_text.to_owned(),
        }
    }
}

fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.origin, self.line, self.column)
    }
}

/// Maximum number of characters of a source line shown on either side of the caret.
const MAX_SNIPPET_CHARS: usize = 60;

impl Place {
    /// Returns a snippet for display: the position, the source line, and `width` carets below the column.
    #[must_use]
    pub fn snippet(&self, width: usize) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let start = self.column.saturating_sub(MAX_SNIPPET_CHARS + 1);
        let replace_control = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = self
            .text
            .chars()
            .skip(start)
            .take(2 * MAX_SNIPPET_CHARS)
            .map(replace_control)
            .collect();

        let indent = " ".repeat(
            self.column
                .saturating_sub(1 + start)
                .min(shown.chars().count()),
        );
        let max_carets = shown.chars().count().saturating_sub(indent.len());
        let carets = "^".repeat(width.min(max_carets).max(1));

        format!("\n{margin}--> {self}\n{margin} |\n{number} | {shown}\n{margin} | {indent}{carets}")
    }
}

impl Error {
    /// Creates an error. The message is a lower-case fragment without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorDetails {
            kind,
            message: message.into(),
            place: None,
            hint: None,
            source: None,
        }))
    }

    /// Adds a hint: the next step for the user.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the position of the error.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Removes the source line of the position, which may contain a secret.
    #[must_use]
    pub fn without_text(mut self) -> Self {
        if let Some(place) = &mut self.0.place {
            place.text.clear();
        }
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    #[must_use]
    #[expect(missing_docs, reason = "the name says it all")]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message without position, cause and hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the position, if there is one.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// Returns the hint, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if !f.alternate() {
            return Ok(());
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        if let Some(place) = &self.0.place {
            f.write_str(&place.snippet(1))?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self:#}", self.0.kind.name())
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_shows_its_line_with_a_caret() {
        let place = Place::at_offset("a.yaml", "one\n  twö: 3\n", 9);
        assert_eq!((place.line, place.column), (2, 5));
        let error = Error::new(ErrorKind::PackInvalid, "broken")
            .with_place(place)
            .with_hint("fix it");
        assert_eq!(
            format!("{error:#}"),
            "broken\n --> a.yaml:2:5\n  |\n2 |   twö: 3\n  |     ^\nhint: fix it"
        );
    }

    #[test]
    fn an_error_of_a_caller_has_its_own_name() {
        let kind = ErrorKind::Custom("TrackerDown");
        let error = Error::new(kind, "no answer");
        assert_eq!((error.kind(), kind.name().as_str()), (kind, "TrackerDown"));
        assert_eq!(format!("{error:?}"), "TrackerDown: no answer");
        assert_ne!(kind, ErrorKind::Custom("TrackerFull"));
    }

    #[test]
    fn an_offset_inside_a_character_or_past_the_end_still_has_a_place() {
        assert_eq!(Place::at_offset("a", "ö", 1).column, 1);
        assert_eq!(Place::at_offset("a", "ab", 99).column, 3);
    }

    #[test]
    fn a_very_long_line_is_shown_in_part() {
        let line = "x".repeat(1_000_000);
        let error = Error::new(ErrorKind::PackInvalid, "broken")
            .with_place(Place::at_offset("a", &line, 500_000));
        assert!(format!("{error:#}").len() < 1_000);
    }
}
