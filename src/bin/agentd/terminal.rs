//! The one door to the terminal: data to stdout, talk to stderr, neither with anything that would drive a terminal.

use std::borrow::Cow;
use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd::Error;
use agentd::models::escape_ci_commands;
use agentd::secret::Secrets;
use agentd::text::terminal::filter_terminal_text;
use anstyle::{AnsiColor, Style};
use log::{Level, LevelFilter, Log, Metadata, Record};
use serde::Serialize;
use serde_json::json;
use terminal_size::terminal_size_of;
use unicode_width::UnicodeWidthChar;

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

/// Environment variables by which CI services say that output goes to their log.
const CI_VARIABLES: [&str; 3] = ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"];

/// Returns true if the runner of a CI service reads the output, and obeys commands in it.
fn is_ci_log() -> bool {
    static IS_CI_LOG: OnceLock<bool> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    *IS_CI_LOG.get_or_init(|| CI_VARIABLES.iter().any(is_set))
}

/// Returns true if a stream is redirected to a file, which no CI runner reads.
fn is_file(stream: impl AsFd) -> bool {
    let handle = stream.as_fd().try_clone_to_owned();
    handle.is_ok_and(|handle| {
        File::from(handle)
            .metadata()
            .is_ok_and(|found| found.is_file())
    })
}

/// Returns data without commands to a CI runner. Bytes that are not UTF-8 stay as they are.
fn without_ci_commands(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        escaped.extend_from_slice(escape_ci_commands(chunk.valid()).as_bytes());
        escaped.extend_from_slice(chunk.invalid());
    }
    escaped
}

/// Writes data to stdout: byte by byte, but on a terminal only what may be shown there, up to a line end, and without
/// commands to the runner in the log of a CI service.
pub(crate) fn data(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to the terminal"
    )]
    let mut out = BufWriter::new(io::stdout().lock());
    if out.get_ref().is_terminal() {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let shown = filter_terminal_text(&text);
        out.write_all(shown.as_bytes())?;
        out.write_all(if shown.is_empty() || shown.ends_with('\n') {
            b""
        } else {
            b"\n"
        })?;
    } else if is_ci_log() && !is_file(out.get_ref()) {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        out.write_all(&without_ci_commands(&bytes))?;
    } else {
        write(&mut out)?;
    }
    out.flush()
}

/// Writes a text to stdout.
pub(crate) fn text(text: &str) -> io::Result<()> {
    data(|out| out.write_all(text.as_bytes()))
}

/// Writes a value to stdout as JSON.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    data(|out| writeln!(out, "{}", json_for_log(&text)))
}

/// Writes a value to stdout as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value)?;
    data(|out| writeln!(out, "{}", json_for_log(&text)))
}

/// Returns JSON of the same value without commands to a CI runner. No line of JSON starts with `::`; `##` is only found
/// in strings, where an escape can stand in for the second sign.
fn json_for_log(text: &str) -> Cow<'_, str> {
    if is_ci_log() && text.contains("##") {
        Cow::Owned(text.replace("##", "#\\u0023"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Writes rows to stdout, each under a heading of fixed width.
pub(crate) fn rows(rows: &[(&str, String)]) -> io::Result<()> {
    data(|out| {
        for (heading, words) in rows {
            let words = words.replace('\n', "\n           ");
            writeln!(out, "{heading:<10} {words}")?;
        }
        Ok(())
    })
}

/// Writes a table to stdout, each column as wide as its widest cell.
pub(crate) fn table<const N: usize>(
    heads: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    let rows: Vec<[String; N]> = std::iter::once(heads.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    data(|out| {
        for row in &rows {
            let cells: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    })
}

/// Tells whether someone watches stderr on a terminal that can change a line.
pub(crate) fn talks_to_terminal() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary owns the terminal and knows the environment"
    )]
    let (terminal, dumb) = (
        io::stderr().is_terminal(),
        env::var_os("TERM").is_some_and(|term| term == "dumb"),
    );
    terminal && !dumb
}

/// The most columns of the lines that change, where the terminal does not say how wide it is.
const LIVE_WIDTH: u16 = 80;

/// How many lines stand on the terminal that will change.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Writes lines on the terminal over those before.
pub(crate) fn live_lines(lines: &[String]) {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to the terminal"
    )]
    let width = terminal_size_of(io::stderr()).map_or(LIVE_WIDTH, |(width, _)| width.0);
    let lines: Vec<String> = lines
        .iter()
        .map(|line| cut(line, usize::from(width).saturating_sub(1)))
        .collect();
    let taken_back = take_back(LIVE.swap(lines.len(), Ordering::Relaxed));
    live(format_args!("{taken_back}{}", lines.join("\r\n")));
}

/// Cuts a line to so many columns: one that is too long would leave its start behind when it changes.
fn cut(line: &str, mut left: usize) -> String {
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    shown(line.replace(['\n', '\t'], " "))
        .chars()
        .take_while(fits)
        .collect()
}

/// Removes the lines that change, if there are some.
pub(crate) fn clear_lines() {
    let lines = LIVE.swap(0, Ordering::Relaxed);
    if lines > 0 {
        live(take_back(lines));
    }
}

/// Returns what takes so many lines back: to the start of the first, and all from there on is gone.
fn take_back(lines: usize) -> String {
    let up = if lines > 1 {
        format!("\x1b[{}A", lines - 1)
    } else {
        String::new()
    };
    format!("\r{up}\x1b[J")
}

fn live(words: impl Display) {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to the terminal"
    )]
    let mut out = io::stderr();
    let _unheard = write!(out, "{words}").and_then(|()| out.flush());
}

const HEADING: Style = Style::new().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const FAULT: Style = AnsiColor::Red.on_default().bold();

/// Tells something on stderr.
pub(crate) fn note(words: impl Display) {
    talk(format_args!("{NOTE}note{NOTE:#}: {}", shown(words)));
}

/// Warns of something on stderr.
pub(crate) fn warning(words: impl Display) {
    talk(format_args!(
        "{WARNING}warning{WARNING:#}: {}",
        shown(words)
    ));
}

/// Says something on stderr under a heading of fixed width; further lines of it stand beside the heading too.
pub(crate) fn row(heading: &str, words: impl Display) {
    let words = shown(words);
    let mut lines = words.lines();
    talk(format_args!(
        "{HEADING}{heading:<10}{HEADING:#} {}",
        lines.next().unwrap_or_default()
    ));
    // A line that began at the margin could pass for a row of ours.
    lines.for_each(|line| talk(format_args!("{:<10} {line}", "")));
}

/// What must not be seen, once it is known.
static SECRETS: OnceLock<Secrets> = OnceLock::new();

/// Keeps secrets out of all talk from here on: words of ours may quote what others wrote.
pub(crate) fn keep_back(secrets: &Secrets) {
    let _known = SECRETS.set(secrets.clone());
}

/// Returns words without secrets, and without what would drive a terminal or a CI runner: many were written by an agent,
/// or stand in a repository.
fn shown(words: impl Display) -> String {
    let words = words.to_string();
    // Control sequences go first: one could be in the middle of a secret.
    let words = filter_terminal_text(&words);
    let words = match SECRETS.get() {
        Some(secrets) => secrets.redact(&words),
        None => words,
    };
    if is_ci_log() {
        escape_ci_commands(&words).into_owned()
    } else {
        words.into_owned()
    }
}

/// Says words that are fit to be shown, in our own style.
fn talk(words: impl Display) {
    clear_lines();
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to the terminal"
    )]
    let mut out = anstream::stderr();
    // If stderr is gone there is nobody left to tell.
    let _unheard = writeln!(out, "{words}");
}

/// Tells whether a person can be asked: one who reads stderr and types.
pub(crate) fn can_ask() -> bool {
    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    let types = io::stdin().is_terminal();
    types && talks_to_terminal()
}

/// Asks a person; `None` if nothing was answered.
pub(crate) fn ask(question: &str) -> io::Result<Option<String>> {
    talk(format_args!("{NOTE}?{NOTE:#} {}", shown(question)));
    let mut line = String::new();
    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    io::stdin().read_line(&mut line)?;
    Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
}

/// Says why the command line cannot be understood, or the help that it asks for, and returns the exit code.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let clean = env::args_os().all(|arg| {
        matches!(
            filter_terminal_text(&arg.to_string_lossy()),
            Cow::Borrowed(_)
        )
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    if error.use_stderr() && env::args_os().any(|arg| arg == "--json") {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        talk(
            json!({"error": {"kind": "Usage", "message": shown(message), "exit_code": exit::USAGE}}),
        );
        return exit::USAGE;
    }
    if clean || !error.use_stderr() {
        // If nobody is left to tell, as with `--help | head`, that is no failure.
        let _unheard = error.print();
    } else {
        // The arguments stand between clap's own colours already, so those go with what is in the arguments.
        talk(shown(error.render()).trim_end());
    }
    if error.use_stderr() {
        exit::USAGE
    } else {
        exit::OK
    }
}

/// Says why a command ended, and returns its exit code. A reader that went away is not a failure.
pub(crate) fn report(failure: &Failure, as_json: bool) -> u8 {
    let error = match failure {
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return exit::OK,
        Failure::Output(error) => {
            talk(format_args!(
                "{FAULT}error{FAULT:#}: cannot write the output: {}",
                shown(error)
            ));
            return exit::OUTSIDE;
        }
        Failure::Error(error) => error,
    };
    let code = exit::code(error.kind());
    if as_json {
        talk(json_error(error, code));
    } else {
        let name = error.kind().name();
        talk(format_args!(
            "{FAULT}error[{name}]{FAULT:#}: {}",
            shown(format_args!("{error:#}"))
        ));
    }
    code
}

/// Returns an error as JSON. Its words are made fit to be shown one by one, so that it stays one line of JSON.
fn json_error(error: &Error, code: u8) -> serde_json::Value {
    let place = error.place().map(
        |place| json!({"origin": shown(&place.origin), "line": place.line, "column": place.column}),
    );
    json!({"error": {
        "kind": error.kind().name(),
        "message": shown(error.message()),
        "cause": std::error::Error::source(error).map(shown),
        "place": place,
        "hint": error.hint().map(shown),
        "exit_code": code,
    }})
}

/// Sends the library's log to stderr: warnings and notes always, the rest when asked for.
pub(crate) fn log_to_stderr(verbose: bool) {
    let level = if verbose {
        LevelFilter::Debug
    } else {
        LevelFilter::Info
    };
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
            Level::Debug | Level::Trace => talk(format_args!("debug: {}", shown(record.args()))),
        }
    }

    fn flush(&self) {}
}
