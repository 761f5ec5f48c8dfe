//! All output of the program: data to stdout, messages to stderr.
//!
//! Text of agents and repositories passes through here, so terminal control sequences and commands to CI runners are
//! filtered out of both streams, and secrets are redacted on stderr.

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
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::exit;

/// Failure that ends a command.
pub(crate) enum Failure {
    /// Error of the library.
    Error(Error),
    /// stdout could not be written.
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

/// Result of a command: its exit code, or the failure that ended it.
pub(crate) type CommandResult = Result<u8, Failure>;

/// Environment variables that CI services set for the programs they run.
const CI_VARIABLES: [&str; 3] = ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"];

/// Returns true if a CI runner reads the output and executes workflow commands in it.
fn is_ci_log() -> bool {
    static IS_CI_LOG: OnceLock<bool> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());

    *IS_CI_LOG.get_or_init(|| CI_VARIABLES.iter().any(is_set))
}

/// Returns true if a stream is redirected to a file, which a CI runner does not read.
fn is_file(stream: impl AsFd) -> bool {
    let handle = stream.as_fd().try_clone_to_owned();
    handle.is_ok_and(|handle| {
        File::from(handle)
            .metadata()
            .is_ok_and(|metadata| metadata.is_file())
    })
}

/// Escapes commands to a CI runner. Bytes that are not UTF-8 are kept.
fn escape_ci_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        escaped.extend_from_slice(escape_ci_commands(chunk.valid()).as_bytes());
        escaped.extend_from_slice(chunk.invalid());
    }
    escaped
}

/// Writes data to stdout, byte for byte into a pipe or a file. On a terminal control sequences are filtered and a final
/// newline is added; in a CI log, commands to the runner are escaped.
pub(crate) fn write_data(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "all output goes through this file"
    )]
    let mut out = BufWriter::new(io::stdout().lock());

    if out.get_ref().is_terminal() {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let filtered = filter_terminal_text(&text);
        out.write_all(filtered.as_bytes())?;
        if !filtered.is_empty() && !filtered.ends_with('\n') {
            out.write_all(b"\n")?;
        }
    } else if is_ci_log() && !is_file(out.get_ref()) {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        out.write_all(&escape_ci_bytes(&bytes))?;
    } else {
        write(&mut out)?;
    }

    out.flush()
}

/// Prints text on stdout with [`write_data`].
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    write_data(|out| out.write_all(text.as_bytes()))
}

/// Prints a value on stdout as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    write_data(|out| writeln!(out, "{}", escape_json_for_ci(&text)))
}

/// Prints a value on stdout as one line of JSON.
pub(crate) fn print_json_line(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value)?;
    write_data(|out| writeln!(out, "{}", escape_json_for_ci(&text)))
}

/// Returns equivalent JSON without commands to a CI runner. No line of JSON starts with `::`, and `##` only occurs in
/// strings, where the second `#` can be written as an escape sequence.
fn escape_json_for_ci(text: &str) -> Cow<'_, str> {
    if is_ci_log() && text.contains("##") {
        Cow::Owned(text.replace("##", "#\\u0023"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Prints labelled rows on stdout. Further lines of a value are indented below its first line.
pub(crate) fn print_rows(rows: &[(&str, String)]) -> io::Result<()> {
    write_data(|out| {
        for (label, value) in rows {
            let value = value.replace('\n', "\n           ");
            writeln!(out, "{label:<LABEL_COLUMNS$} {value}")?;
        }
        Ok(())
    })
}

/// Prints a table on stdout, each column as wide as its widest cell. A table without rows prints nothing: the caller
/// prints a note that says what is missing.
pub(crate) fn print_table<const N: usize>(
    headings: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    let mut lines = vec![headings.map(str::to_owned)];
    lines.extend(rows);
    if lines.len() == 1 {
        return Ok(());
    }

    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| line[column].width());
        cells.max().unwrap_or_default()
    });

    write_data(|out| {
        for line in &lines {
            let cells = line.iter().zip(widths);
            let cells: Vec<String> = cells.map(|(cell, width)| pad(cell, width)).collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    })
}

/// Appends spaces to `text` until it takes `columns` columns of a terminal.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(missing))
}

/// Returns true if stderr is a terminal on which lines can be redrawn.
pub(crate) fn is_interactive() -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");

    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    let is_terminal = io::stderr().is_terminal();

    is_terminal && !is_dumb
}

/// Columns of live lines if the width of the terminal is unknown.
const DEFAULT_LIVE_COLUMNS: u16 = 80;

/// Number of live lines on the terminal, which the next output replaces.
static LIVE_LINES: AtomicUsize = AtomicUsize::new(0);

/// Shows live lines on the terminal in place of the previous ones.
pub(crate) fn show_live_lines(lines: &[String]) {
    #[expect(
        clippy::disallowed_methods,
        reason = "all output goes through this file"
    )]
    let width = terminal_size_of(io::stderr()).map_or(DEFAULT_LIVE_COLUMNS, |(width, _)| width.0);
    let lines: Vec<String> = lines
        .iter()
        .map(|line| truncate_to_width(line, usize::from(width).saturating_sub(1)))
        .collect();

    let previous = LIVE_LINES.swap(lines.len(), Ordering::Relaxed);
    let erase = erase_lines_sequence(previous);
    write_live(format_args!("{erase}{}", lines.join("\r\n")));
}

/// Truncates a line to a number of columns. A line that wraps could not be erased whole.
fn truncate_to_width(line: &str, mut left: usize) -> String {
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    sanitize(line.replace(['\n', '\t'], " "))
        .chars()
        .take_while(fits)
        .collect()
}

/// Erases the live lines, if there are any.
pub(crate) fn clear_live_lines() {
    let lines = LIVE_LINES.swap(0, Ordering::Relaxed);
    if lines > 0 {
        write_live(erase_lines_sequence(lines));
    }
}

/// Returns the escape sequence that erases the last `lines` lines.
fn erase_lines_sequence(lines: usize) -> String {
    let up = if lines > 1 {
        format!("\x1b[{}A", lines - 1)
    } else {
        String::new()
    };
    format!("\r{up}\x1b[J")
}

/// Writes to stderr without a newline.
fn write_live(text: impl Display) {
    #[expect(
        clippy::disallowed_methods,
        reason = "all output goes through this file"
    )]
    let mut out = io::stderr();
    let _unwritable = write!(out, "{text}").and_then(|()| out.flush());
}

/// Width of the labels of rows on stdout and stderr.
const LABEL_COLUMNS: usize = 10;

const LABEL_STYLE: Style = Style::new().bold();
const NOTE_STYLE: Style = AnsiColor::Cyan.on_default().bold();
const WARNING_STYLE: Style = AnsiColor::Yellow.on_default().bold();
const ERROR_STYLE: Style = AnsiColor::Red.on_default().bold();

/// Prints a note on stderr.
pub(crate) fn note(text: impl Display) {
    eprint_line(format_args!(
        "{NOTE_STYLE}note{NOTE_STYLE:#}: {}",
        sanitize(text)
    ));
}

/// Prints a warning on stderr.
pub(crate) fn warning(text: impl Display) {
    eprint_line(format_args!(
        "{WARNING_STYLE}warning{WARNING_STYLE:#}: {}",
        sanitize(text)
    ));
}

/// Prints a labelled row on stderr. Further lines of the value are indented, so that text of an agent cannot imitate a
/// row of the program.
pub(crate) fn eprint_row(label: &str, value: impl Display) {
    let value = sanitize(value);
    let mut lines = value.lines();

    eprint_line(format_args!(
        "{LABEL_STYLE}{label:<LABEL_COLUMNS$}{LABEL_STYLE:#} {}",
        lines.next().unwrap_or_default()
    ));
    for line in lines {
        eprint_line(format_args!("{:<LABEL_COLUMNS$} {line}", ""));
    }
}

/// Secrets of the project; unset until the project is open.
static SECRETS: OnceLock<Secrets> = OnceLock::new();

/// Redacts secrets in everything that is printed on stderr from now on: messages may quote files and agents.
pub(crate) fn set_redactions(secrets: &Secrets) {
    let _already_set = SECRETS.set(secrets.clone());
}

/// Returns `text` without secrets, terminal control sequences and commands to a CI runner. Messages often quote an agent
/// or a file of the repository.
fn sanitize(text: impl Display) -> String {
    let text = text.to_string();

    // Control sequences are removed first: one could be in the middle of a secret.
    let visible = filter_terminal_text(&text);
    let redacted = match SECRETS.get() {
        Some(secrets) => secrets.redact(&visible),
        None => visible,
    };

    if is_ci_log() {
        escape_ci_commands(&redacted).into_owned()
    } else {
        redacted.into_owned()
    }
}

/// Prints an already sanitized line on stderr; it may contain only the program's own styles.
fn eprint_line(line: impl Display) {
    clear_live_lines();
    #[expect(
        clippy::disallowed_methods,
        reason = "all output goes through this file"
    )]
    let mut out = anstream::stderr();
    // A closed stderr does not fail the command.
    let _unwritable = writeln!(out, "{line}");
}

/// Returns true if questions can be asked: stdin and stderr are a terminal.
pub(crate) fn can_ask() -> bool {
    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    let can_type = io::stdin().is_terminal();
    can_type && is_interactive()
}

/// Prints the prompt of an input line on stderr, without a newline.
pub(crate) fn print_prompt(prompt: &str) {
    write_live(prompt);
}

/// Asks a question on the terminal. Returns `None` if the answer is empty.
pub(crate) fn ask_question(question: &str) -> io::Result<Option<String>> {
    eprint_line(format_args!(
        "{NOTE_STYLE}?{NOTE_STYLE:#} {}",
        sanitize(question)
    ));
    let mut line = String::new();
    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    io::stdin().read_line(&mut line)?;
    Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
}

/// Prints a usage error, or the help that was requested, and returns the exit code.
pub(crate) fn print_usage_error(error: &clap::Error) -> u8 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let is_clean = env::args_os().all(|arg| {
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
        eprint_line(
            json!({"error": {"kind": "Usage", "message": sanitize(message), "exit_code": exit::USAGE}}),
        );
        return exit::USAGE;
    }

    if is_clean || !error.use_stderr() {
        // A closed pipe, as with `--help | head`, does not fail the command.
        let _unwritable = error.print();
    } else {
        // The rendered text mixes clap's colours with the arguments, so both are filtered.
        eprint_line(sanitize(error.render()).trim_end());
    }

    if error.use_stderr() {
        exit::USAGE
    } else {
        exit::OK
    }
}

/// Prints the error of a command, and returns its exit code. A closed pipe on stdout is not an error.
pub(crate) fn print_failure(failure: &Failure, as_json: bool) -> u8 {
    let error = match failure {
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return exit::OK,
        Failure::Output(error) => {
            eprint_line(format_args!(
                "{ERROR_STYLE}error{ERROR_STYLE:#}: cannot write to stdout: {}",
                sanitize(error)
            ));
            return exit::OUTSIDE;
        }
        Failure::Error(error) => error,
    };

    let code = exit::code_for(error.kind());
    if as_json {
        eprint_line(json_error(error, code));
    } else {
        let name = error.kind().name();
        eprint_line(format_args!(
            "{ERROR_STYLE}error[{name}]{ERROR_STYLE:#}: {}",
            sanitize(format_args!("{error:#}"))
        ));
    }
    code
}

/// Returns an error as JSON. Each string is sanitized separately, so that the result stays one line of valid JSON.
fn json_error(error: &Error, code: u8) -> serde_json::Value {
    let place = error.place().map(
        |place| json!({"origin": sanitize(&place.origin), "line": place.line, "column": place.column}),
    );
    json!({"error": {
        "kind": error.kind().name(),
        "message": sanitize(error.message()),
        "cause": std::error::Error::source(error).map(sanitize),
        "place": place,
        "hint": error.hint().map(sanitize),
        "exit_code": code,
    }})
}

/// Prints log records of the library on stderr: warnings and notes always, debug records with `--verbose`.
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
            Level::Debug | Level::Trace => {
                eprint_line(format_args!("debug: {}", sanitize(record.args())))
            }
        }
    }

    fn flush(&self) {}
}
