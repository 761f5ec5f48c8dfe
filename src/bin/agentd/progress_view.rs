//! Shows the progress of a run: as live lines if stderr is a terminal, as plain lines on stderr otherwise, and as JSON lines
//! on stdout with `--json`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use agentd::models::Mode;
use agentd::orchestrator::{ProgressEvent, ProgressReceiver, estimate_tokens};
use agentd::parse::{Grammar, Stream};

use crate::{humanize, terminal};

/// Interval between redraws on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Time after which the first progress note is printed without a terminal.
const FIRST_NOTE_AFTER: Duration = Duration::from_secs(5);

/// Interval between further progress notes.
const NOTE_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum number of message lines shown.
const MAX_MESSAGE_LINES: usize = 3;

/// Maximum size in bytes of the message that is kept.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Shows the progress events of a run.
pub(crate) struct View {
    is_json: bool,
    /// True if live lines can be redrawn, on a terminal.
    is_live: bool,
    /// Reply grammar of each mode, used to extract the message from a reply.
    grammars: BTreeMap<Mode, Grammar>,
    /// Grammar of the current turn.
    grammar: Grammar,
    /// Set once writing to stdout has failed.
    has_failed: Arc<AtomicBool>,
    /// Parser of the reply that is being received.
    stream: Option<Stream>,
    /// Name of the current turn or check.
    title: String,
    /// Start of the current call; `None` if no call is running.
    call_started: Option<Instant>,
    /// Time since the start of the call at which the next progress note is due.
    next_note: Duration,
    /// Bytes of the reply received so far.
    reply_bytes: u64,
    /// End of the message received so far.
    message: String,
}

impl View {
    pub(crate) fn new(json: bool, grammars: BTreeMap<Mode, Grammar>) -> Self {
        Self {
            is_json: json,
            is_live: !json && terminal::is_interactive(),
            grammars,
            grammar: Grammar::default(),
            has_failed: Arc::default(),
            stream: None,
            title: String::new(),
            call_started: None,
            next_note: FIRST_NOTE_AFTER,
            reply_bytes: 0,
            message: String::new(),
        }
    }

    /// Returns a flag that is set once writing to stdout has failed.
    pub(crate) fn failure_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_failed)
    }

    /// Shows events until the sender is dropped.
    pub(crate) fn show(mut self, events: &ProgressReceiver) -> io::Result<()> {
        let mut result = Ok(());
        loop {
            match events.recv_timeout(REDRAW_INTERVAL) {
                Ok(event) if self.is_json => {
                    // A closed stdout does not stop the turn.
                    result = result.and(terminal::print_json_line(&event));
                    self.has_failed.store(result.is_err(), Ordering::SeqCst);
                }
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.draw();
        }
        terminal::clear_live_lines();
        result
    }

    fn handle(&mut self, event: ProgressEvent) {
        match event {
            ProgressEvent::Recovered { what, .. } => what.iter().for_each(terminal::note),
            ProgressEvent::Started {
                session,
                turn,
                mode,
                agent,
                ..
            } => {
                self.title = format!("{session}/{turn} {mode} by {agent}");
                self.grammar = self.grammars.get(&mode).cloned().unwrap_or_default();
            }
            ProgressEvent::Called { .. } => {
                self.call_started = Some(Instant::now());
                self.next_note = FIRST_NOTE_AFTER;
                self.reply_bytes = 0;
                self.message.clear();
                self.stream = Some(Stream::new(&self.grammar));
            }
            ProgressEvent::AskingAgain {
                number,
                of,
                complaints,
            } => {
                terminal::note(format_args!(
                    "asking again ({number} of {of}): {}",
                    summarize(&complaints)
                ));
            }
            ProgressEvent::Said { text } => {
                self.reply_bytes += text.len() as u64;
                if let Some(stream) = self.stream.as_mut().filter(|_| self.is_live) {
                    self.message.push_str(&stream.push(text.as_bytes()));
                }
                // Only the last lines are shown, so the rest of a long message is dropped.
                let start = self
                    .message
                    .ceil_char_boundary(self.message.len().saturating_sub(MAX_MESSAGE_BYTES));
                self.message.drain(..start);
            }
            ProgressEvent::Waiting { seconds, why } => {
                self.call_started = None;
                let why = why.lines().last().unwrap_or_default();
                terminal::note(format_args!(
                    "the agent is rate limited ({why}); retrying in {}",
                    humanize::seconds(seconds)
                ));
            }
            ProgressEvent::Answered { .. } => self.call_started = None,
            ProgressEvent::Check {
                name, end: None, ..
            } => self.title = format!("check: {name}"),
            ProgressEvent::Check {
                name,
                end: Some(end),
                milliseconds,
                withheld,
            } => {
                print_check(&name, &end, milliseconds, &withheld);
            }
            // Steps are printed with the report; other events are not shown.
            _ => {}
        }
    }

    fn draw(&mut self) {
        let Some(call_started) = self.call_started else {
            return;
        };
        let elapsed = humanize::seconds(call_started.elapsed().as_secs());
        let tokens = estimate_tokens(self.reply_bytes);

        if self.is_live {
            let mut lines: Vec<String> = self
                .message
                .lines()
                .rev()
                .filter(|line| !line.trim().is_empty())
                .take(MAX_MESSAGE_LINES)
                .map(str::to_owned)
                .collect();
            lines.push(format!("{} · {elapsed} · ~{tokens} tokens", self.title));
            lines.reverse();
            terminal::show_live_lines(&lines);
        } else if !self.is_json && call_started.elapsed() >= self.next_note {
            self.next_note += NOTE_INTERVAL;
            terminal::note(format_args!(
                "{}: running for {elapsed}, about {tokens} tokens so far",
                self.title
            ));
        }
    }
}

/// Prints the result of a check, and the names of the variables that were withheld from it.
fn print_check(name: &str, end: &impl Display, milliseconds: u64, withheld: &[String]) {
    terminal::eprint_row(
        "check",
        format_args!("{name}: {end} in {}", humanize::duration(milliseconds)),
    );
    if withheld.is_empty() {
        return;
    }

    let names = withheld.join(", ");
    terminal::eprint_row(
        "withheld",
        format_args!("{names} (secret; to pass them to checks, list them in `env` under [review])"),
    );
}

/// Returns the first problem and the number of further ones.
fn summarize(problems: &[String]) -> String {
    let first = problems.first().map_or("", String::as_str);
    match problems.len() {
        0 | 1 => first.to_owned(),
        many => format!(
            "{first} (and {})",
            humanize::count(many as u64 - 1, "more problem")
        ),
    }
}
