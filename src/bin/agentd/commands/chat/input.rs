//! Messages and commands on stdin.

use std::io::{self, BufRead, Read};

use agentd::{Error, ErrorKind, Result};

use crate::{signals, terminal};

/// Line before and after a message of several lines.
const BLOCK_MARK: &str = "\"\"\"";

/// Maximum size of a message in bytes.
const MAX_MESSAGE_BYTES: u64 = 16 * 1024 * 1024;

/// Something that the user typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput {
    Message(String),
    /// A line that starts with `/`.
    Command(String),
    End,
}

/// Reads messages and commands from stdin.
pub(super) struct InputReader {
    /// True if a prompt is shown before each message.
    prompts: bool,
}

impl InputReader {
    pub(super) fn new(prompts: bool) -> Self {
        Self { prompts }
    }

    /// Returns the next message or command. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if stdin cannot be read, is not UTF-8, or ends within a message of several lines.
    pub(super) fn next_input(&mut self) -> Result<ChatInput> {
        loop {
            let Some(line) = self.read_line("you> ")? else {
                return Ok(ChatInput::End);
            };
            let text = line.trim();
            if text == BLOCK_MARK {
                let block = self.read_block()?;
                if !block.trim().is_empty() {
                    return Ok(ChatInput::Message(block));
                }
            } else if text.starts_with('/') {
                return Ok(ChatInput::Command(text.to_owned()));
            } else if !text.is_empty() {
                return Ok(ChatInput::Message(text.to_owned()));
            }
        }
    }

    /// Reads lines up to the closing mark. If a line is invalid, the rest of the block is read and discarded.
    fn read_block(&mut self) -> Result<String> {
        let mut block = String::new();
        let mut first_error = None;
        loop {
            let line = match self.read_line("...> ") {
                Ok(Some(line)) => line,
                Ok(None) => {
                    let message = format!("the message has no closing {BLOCK_MARK}");
                    return Err(first_error.unwrap_or_else(|| unusable(message)));
                }
                // Reading again would fail again.
                Err(error) if std::error::Error::source(&error).is_some() => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            if line.trim() == BLOCK_MARK {
                let text = block.trim_end().to_owned();
                return first_error.map_or(Ok(text), Err);
            }

            if first_error.is_none() {
                block.push_str(&line);
            }
            if block.len() as u64 > MAX_MESSAGE_BYTES {
                block.clear();
                first_error = Some(unusable("the message is too large: over 16 MiB"));
            }
        }
    }

    /// Reads a line; `None` at the end of the input.
    fn read_line(&self, prompt: &str) -> Result<Option<String>> {
        if self.prompts {
            terminal::print_prompt(prompt);
        }
        let mut bytes = Vec::new();
        let read = signals::while_asking(|| {
            #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
            let mut stdin = io::stdin().lock();
            let mut start = stdin.by_ref().take(MAX_MESSAGE_BYTES + 1);
            start.read_until(b'\n', &mut bytes)?;
            if bytes.len() as u64 > MAX_MESSAGE_BYTES && !bytes.ends_with(b"\n") {
                stdin.skip_until(b'\n')?;
            }
            Ok(())
        });
        read.map_err(|error: io::Error| unusable("cannot read stdin").with_source(error))?;

        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() as u64 > MAX_MESSAGE_BYTES {
            return Err(unusable("the message is too large: over 16 MiB"));
        }
        let line = String::from_utf8(bytes).map_err(|_| unusable("the message is not UTF-8"))?;
        Ok(Some(line))
    }
}

fn unusable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::FileUnusable, message)
}
