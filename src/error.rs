//! The error type of the crate: kind, message, place, hint and cause.
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

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and the way out.
///
/// `{}` prints the message, `{:#}` adds the place with its source line, the causes and the hint.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    hint: Option<String>,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// The kinds of failure a caller may want to tell apart.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Neither an agent's own template nor the BASE template exists for a mode.
    TemplateNotFound,
    /// A template cannot be read: front matter, placeholders or size.
    TemplateInvalid,
    /// A mandatory variable has no value, and the caller asked for strictness.
    MissingVariable,
    /// A prompt without instructions, or otherwise not sendable.
    PromptInvalid,
    /// Text that is not a prompt as `to_xml` writes it.
    XmlInvalid,
    /// A name of an agent, mode, session or operation that breaks the rules for names.
    NameInvalid,
    /// No such pack.
    PackNotFound,
    /// A pack that does not hold together.
    PackInvalid,
    /// A mode that the pack does not have.
    UnknownMode,
    /// A model that is not in the catalogue.
    UnknownModel,
    /// An agent that has no driver.
    UnknownAgent,
    /// An operation that the program does not have.
    UnknownOperation,
    /// A state file that cannot be understood.
    StateInvalid,
    /// Tools that are not JSON Schema.
    ToolsInvalid,
    /// A settings file that cannot be understood.
    ConfigInvalid,
    /// A prompt that does not fit its budget even at its smallest.
    BudgetTooSmall,
    /// A reply without the verdict that its mode requires.
    MissingReviewMarker,
    /// A reply without a marker that its mode requires.
    MissingMarker,
    /// A verdict that its mode does not know.
    VerdictNotAllowed,
    /// A file or folder that cannot be used: missing, unreadable, of the wrong kind or size, or no text.
    FileUnusable,
    /// A change, or one of its files, that is not there.
    ChangeNotFound,
    /// A spec that is not there.
    SpecNotFound,
    /// A spec that cannot be understood.
    SpecInvalid,
    /// A script that cannot be understood.
    ScriptInvalid,
    /// A script that does not fit the turn it was asked to play.
    ScriptMismatch,
    /// An agent that is not logged in.
    AgentAuth,
    /// An agent whose account has nothing left.
    AgentQuota,
    /// An agent that asks to wait longer than is waited.
    AgentRateLimited,
    /// An agent that does not take a prompt of this size.
    AgentTooLarge,
    /// An agent whose reply lacks its end.
    AgentCutOff,
    /// An agent whose model declines to answer.
    AgentRefused,
    /// An agent that said nothing.
    AgentEmpty,
    /// An agent that failed on its own.
    AgentCrashed,
    /// An agent that took too long.
    AgentTimedOut,
    /// An agent whose command is not there.
    AgentNotInstalled,
    /// An agent whose output is not understood.
    AgentOutputUnknown,
    /// An agent that wrote too much.
    AgentOutputTooLarge,
    /// An agent that the user stopped.
    AgentStopped,
    /// An agent that had not finished when the program ended.
    AgentLost,
    /// An agent that may only read has changed files.
    AgentEdited,
    /// An agent that cannot be started: its folder, its guard or its arguments.
    AgentUnusable,
    /// A call that would exceed a budget.
    BudgetExhausted,
    /// A model without a known price under a budget of money.
    PriceUnknown,
    /// Files of the project that would run or steer something, and have not been accepted.
    NotTrusted,
    /// A ledger that cannot be opened, read or written.
    LedgerUnusable,
    /// A ledger that something else has edited while a session of it was held.
    LedgerChanged,
    /// The operating system has no random bytes.
    NoRandomness,
    /// A place that has no room left.
    StorageFull,
    /// A session that another pack leads.
    OtherPack,
    /// A turn that cannot be taken once more.
    NotResumable,
    /// A change that is there already, and is another one.
    ChangeExists,
    /// A change that does not wait for what was decided.
    NotWaiting,
    /// A verdict that is not about what is there now.
    VerdictStale,
    /// Nothing has changed, or nothing of it can be shown, so there is nothing to review.
    NothingToReview,
    /// A reply of which something could not be done.
    ReplyUnusable,
    /// A turn or session that is not in the ledger.
    TurnNotFound,
    /// A session that someone else holds, or a step that is no longer ours to write.
    SessionBusy,
    /// A folder that is in no git repository with a work tree.
    NotARepository,
    /// A repository in which nothing was committed yet.
    NoCommits,
    /// Git could not do its part, or refused to.
    GitFailed,
    /// Two branches that contradict each other.
    MergeConflict,
    /// An error of a program that uses this library, with its name: in a driver, a store or a memory of its own.
    Custom(&'static str),
}

impl ErrorKind {
    /// Returns the kind's name as it is spelt in the code and in JSON output; of a custom kind, its own name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Custom(name) => name.to_owned(),
            known => format!("{known:?}"),
        }
    }
}

/// A place in a text: its origin, line and column (both from 1), and the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the text came from, usually a path.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The text of that line.
    pub text: String,
}

impl Place {
    /// Returns the place of a byte offset in a text.
    #[must_use]
    pub fn at_offset(origin: impl Into<String>, text: &str, offset: usize) -> Self {
        let offset = floor_char_boundary(text, offset);
        let before = &text[..offset];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = text[start..offset].chars().count() + 1;
        Self::at_line(origin, text, line, column)
    }

    /// Returns the place of a line and column in a text.
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

/// How much of a long source line is shown on either side of the caret.
const SHOWN: usize = 60;

impl Place {
    /// Returns the place, its source line and carets under as many columns, each on a line of its own.
    #[must_use]
    pub fn snippet(&self, width: usize) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let start = self.column.saturating_sub(SHOWN + 1);
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = self
            .text
            .chars()
            .skip(start)
            .take(2 * SHOWN)
            .map(visible)
            .collect();
        let caret = " ".repeat(
            self.column
                .saturating_sub(1 + start)
                .min(shown.chars().count()),
        );
        let room = shown.chars().count().saturating_sub(caret.len());
        let carets = "^".repeat(width.min(room).max(1));
        format!("\n{margin}--> {self}\n{margin} |\n{number} | {shown}\n{margin} | {caret}{carets}")
    }
}

impl Error {
    /// Returns an error of a kind with a message: a lower-case fragment without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            message: message.into(),
            place: None,
            hint: None,
            source: None,
        }))
    }

    /// Adds the way out.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the place.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Leaves out the line that the place would show: it may hold what nobody should see.
    #[must_use]
    pub fn without_text(mut self) -> Self {
        if let Some(place) = &mut self.0.place {
            place.text.clear();
        }
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message alone.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the place, if the failure has one.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// Returns the way out, if one is known.
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
            .with_hint("mend it");
        assert_eq!(
            format!("{error:#}"),
            "broken\n --> a.yaml:2:5\n  |\n2 |   twö: 3\n  |     ^\nhint: mend it"
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
