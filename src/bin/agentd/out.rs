//! The one door to the terminal: data to stdout, talk to stderr.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use agentd::Error;
use anstyle::{AnsiColor, Style};
use log::{Level, LevelFilter, Log, Metadata, Record};
use serde::Serialize;
use serde_json::json;

use crate::exit;

/// Why a command ended early.
pub(crate) enum Failure {
    /// Something that the library reports.
    Error(Error),
    /// Output that could not be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// The result of a command: its exit code, or why it ended early.
pub(crate) type Outcome = Result<u8, Failure>;

/// Writes data to stdout.
pub(crate) fn data(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this is the door to the terminal")]
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    out.flush()
}

/// Writes a text to stdout, byte by byte; on a terminal it gets a line end if it has none.
pub(crate) fn text(text: &str) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this is the door to the terminal")]
    let ends = text.ends_with('\n') || !io::stdout().is_terminal();
    data(|out| {
        out.write_all(text.as_bytes())?;
        out.write_all(if ends { b"" } else { b"\n" })
    })
}

/// Writes a value to stdout as JSON.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    data(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

const HEADING: Style = Style::new().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const FAULT: Style = AnsiColor::Red.on_default().bold();

/// Tells something on stderr.
pub(crate) fn note(words: impl Display) {
    talk(format_args!("{NOTE}note{NOTE:#}: {words}"));
}

/// Warns of something on stderr.
pub(crate) fn warning(words: impl Display) {
    talk(format_args!("{WARNING}warning{WARNING:#}: {words}"));
}

/// Says a line on stderr under a heading of fixed width.
pub(crate) fn row(heading: &str, words: impl Display) {
    talk(format_args!("{HEADING}{heading:<10}{HEADING:#} {words}"));
}

fn talk(words: impl Display) {
    // If stderr is gone there is nobody left to tell.
    let _unheard = writeln!(anstream::stderr(), "{words}");
}

/// Says why a command ended, and returns its exit code. A reader that went away is not a failure.
pub(crate) fn report(failure: &Failure, as_json: bool) -> u8 {
    let error = match failure {
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return exit::OK,
        Failure::Output(error) => {
            talk(format_args!("{FAULT}error{FAULT:#}: cannot write the output: {error}"));
            return exit::OUTSIDE;
        }
        Failure::Error(error) => error,
    };
    let code = exit::code(error.kind());
    if as_json {
        talk(json_error(error, code));
    } else {
        let name = error.kind().name();
        talk(format_args!("{FAULT}error[{name}]{FAULT:#}: {error:#}"));
    }
    code
}

fn json_error(error: &Error, code: u8) -> serde_json::Value {
    let place = error
        .place()
        .map(|place| json!({"origin": place.origin, "line": place.line, "column": place.column}));
    json!({"error": {
        "kind": error.kind().name(),
        "message": error.message(),
        "cause": std::error::Error::source(error).map(ToString::to_string),
        "place": place,
        "hint": error.hint(),
        "exit_code": code,
    }})
}

/// Sends the library's log to stderr: warnings and notes always, the rest when asked for.
pub(crate) fn log_to_stderr(verbose: bool) {
    let level = if verbose { LevelFilter::Debug } else { LevelFilter::Info };
    if log::set_logger(&StderrLog).is_ok() {
        log::set_max_level(level);
    }
}

struct StderrLog;

impl Log for StderrLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("agentd")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        match record.level() {
            Level::Error | Level::Warn => warning(record.args()),
            Level::Info => note(record.args()),
            Level::Debug | Level::Trace => talk(format_args!("debug: {}", record.args())),
        }
    }

    fn flush(&self) {}
}
