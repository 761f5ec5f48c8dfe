//! The live view of a run: lines that change on a terminal, plain lines elsewhere, JSON lines if asked for.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use agentd::models::Mode;
use agentd::orchestrator::{ProgressEvent, ProgressReceiver, estimate_tokens};
use agentd::parse::{Grammar, Stream};

use crate::terminal;

/// How often the lines on a terminal change.
const TICK: Duration = Duration::from_millis(200);

/// When a run that is not watched on a terminal first says that it still goes on, and how often then.
const FIRST: Duration = Duration::from_secs(5);
const STILL: Duration = Duration::from_secs(30);

/// How many lines of the message are shown.
const LINES: usize = 3;

/// How much of them is kept, in bytes.
const LONGEST: usize = 4096;

/// The live view of a run.
pub(crate) struct View {
    json: bool,
    terminal: bool,
    /// Grammar of each mode's replies: it says which part of a reply is its message.
    grammars: BTreeMap<Mode, Grammar>,
    /// Grammar of the current turn.
    grammar: Grammar,
    /// Set once stdout cannot be written to any more.
    has_failed: Arc<AtomicBool>,
    stream: Option<Stream>,
    head: String,
    called: Option<Instant>,
    next: Duration,
    bytes: u64,
    message: String,
}

impl View {
    pub(crate) fn new(json: bool, grammars: BTreeMap<Mode, Grammar>) -> Self {
        Self {
            json,
            terminal: !json && terminal::talks_to_terminal(),
            grammars,
            grammar: Grammar::default(),
            has_failed: Arc::default(),
            stream: None,
            head: String::new(),
            called: None,
            next: FIRST,
            bytes: 0,
            message: String::new(),
        }
    }

    /// Returns a flag that is set once stdout cannot be written to any more.
    pub(crate) fn failure_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_failed)
    }

    /// Shows events until there are no more.
    pub(crate) fn show(mut self, events: &ProgressReceiver) -> io::Result<()> {
        let mut result = Ok(());
        loop {
            match events.recv_timeout(TICK) {
                Ok(event) if self.json => {
                    // A turn goes on even if nobody reads its progress any more.
                    result = result.and(terminal::json_line(&event));
                    self.has_failed.store(result.is_err(), Ordering::SeqCst);
                }
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.draw();
        }
        terminal::clear_lines();
        result
    }

    fn take(&mut self, event: ProgressEvent) {
        match event {
            ProgressEvent::Recovered { what, .. } => what.iter().for_each(terminal::note),
            ProgressEvent::Started {
                session,
                turn,
                mode,
                agent,
                ..
            } => {
                self.head = format!("{session}/{turn} {mode} by {agent}");
                self.grammar = self.grammars.get(&mode).cloned().unwrap_or_default();
            }
            ProgressEvent::Called { .. } => {
                self.called = Some(Instant::now());
                self.next = FIRST;
                self.bytes = 0;
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
                    summary(&complaints)
                ));
            }
            ProgressEvent::Said { text } => {
                self.bytes += text.len() as u64;
                if let Some(stream) = self.stream.as_mut().filter(|_| self.terminal) {
                    self.message.push_str(&stream.push(text.as_bytes()));
                }
                // Of a long message the last lines are shown, so the rest need not be kept.
                let start = self
                    .message
                    .ceil_char_boundary(self.message.len().saturating_sub(LONGEST));
                self.message.drain(..start);
            }
            ProgressEvent::Waiting { seconds, why } => {
                self.called = None;
                let why = why.lines().last().unwrap_or_default();
                terminal::note(format_args!(
                    "the agent is rate limited ({why}); it is called again in {seconds} s"
                ));
            }
            ProgressEvent::Answered { .. } => self.called = None,
            ProgressEvent::Check {
                name, end: None, ..
            } => self.head = format!("check: {name}"),
            ProgressEvent::Check {
                name,
                end: Some(end),
                milliseconds,
                withheld,
            } => {
                terminal::row(
                    "check",
                    format_args!(
                        "{name}: {end} in {}.{} s",
                        milliseconds / 1000,
                        milliseconds / 100 % 10
                    ),
                );
                if !withheld.is_empty() {
                    let names = withheld.join(", ");
                    terminal::row(
                        "withheld",
                        format_args!("{names} (secret; `env` under [review] lets checks see them)"),
                    );
                }
            }
            // Steps are part of the report, and other events are none of the display.
            _ => {}
        }
    }

    fn draw(&mut self) {
        let Some(called) = self.called else { return };
        let seconds = called.elapsed().as_secs();
        let tokens = estimate_tokens(self.bytes);
        if self.terminal {
            let mut lines: Vec<String> = self
                .message
                .lines()
                .rev()
                .filter(|line| !line.trim().is_empty())
                .take(LINES)
                .map(str::to_owned)
                .collect();
            lines.push(format!("{} · {seconds} s · ~{tokens} tokens", self.head));
            lines.reverse();
            terminal::live_lines(&lines);
        } else if !self.json && called.elapsed() >= self.next {
            self.next += STILL;
            terminal::note(format_args!(
                "{}: {seconds} s, about {tokens} tokens so far",
                self.head
            ));
        }
    }
}

/// Returns the first of several complaints, and how many follow.
fn summary(complaints: &[String]) -> String {
    let first = complaints.first().map_or("", String::as_str);
    match complaints.len() {
        0 | 1 => first.to_owned(),
        many => format!("{first} (and {} more)", many - 1),
    }
}
