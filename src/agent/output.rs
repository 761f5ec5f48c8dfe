//! Builds a reply from an agent's output and exit. Exit code 0 alone does not mean success.

use super::failure;
use super::output_parser::{OutputParser, ParsedOutput};
use super::text::ClippedText;
use super::{CommandExit, ExitCause, Limits};
use crate::config::{AgentSpec, FailureRules, OutputKind};
use crate::models::{CallOutcome, Reply};
use crate::secret::Secrets;

/// Detail of a call whose folder was removed while it ran.
const REMOVED_MESSAGE: &str = "the call's folder in .agentd/calls was removed; the reply is lost";

/// Maximum size in bytes of the detail of a failed call.
const MAX_DETAIL_BYTES: usize = 2 * 1024;

/// Size of the end of stderr that is read.
pub(super) const MAX_STDERR_BYTES: usize = 64 * 1024;

/// Size of the chunks in which a long text is clipped.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads the output of an agent as a reply.
#[derive(Clone, Copy, Debug)]
pub struct OutputReader<'a> {
    /// Definition of the agent.
    pub spec: &'a AgentSpec,
    /// Rules that classify the failures of all agents.
    pub failures: &'a FailureRules,
    /// Secrets to redact.
    pub secrets: &'a Secrets,
    /// Limits of the call, which outcomes such as `TimedOut` report.
    pub limits: Limits,
}

impl<'a> OutputReader<'a> {
    /// Reads the complete output of an agent.
    #[must_use]
    pub fn read(&self, stdout: &[u8], stderr: &[u8], exit: &CommandExit) -> Reply {
        let mut parser = self.new_parser();
        parser.push(stdout);
        parser.finish();
        self.build_reply(parser.into_parsed(), stderr, exit)
    }

    pub(super) fn new_parser(&self) -> OutputParser<'a> {
        OutputParser::new(&self.spec.output, self.secrets)
    }

    /// Builds the reply from parsed stdout, the end of stderr and the exit.
    pub(super) fn build_reply(
        &self,
        parsed: ParsedOutput,
        stderr: &[u8],
        exit: &CommandExit,
    ) -> Reply {
        let stderr = self.last_stderr_lines(stderr);
        let is_text = self.spec.output.kind == OutputKind::Text;
        let error = match parsed.error.trim() {
            "" if is_text => last_part(&parsed.text),
            "" => last_part(&self.secrets.redact(&parsed.stray)),
            error => self.secrets.redact(error).into_owned(),
        };
        let end = self.determine_outcome(&parsed, &error, &stderr, exit);

        let mut text = parsed.text;
        match end {
            CallOutcome::OutputTooLarge { .. } => text = clip_text(&text),
            // Output that could not be parsed is shown as it is.
            CallOutcome::UnknownOutput | CallOutcome::Crashed { .. }
                if !is_text && text.trim().is_empty() =>
            {
                text = parsed.raw
            }
            _ => {}
        }

        let detail = match (&end, &exit.cause) {
            (CallOutcome::Ok, _) => String::new(),
            (_, ExitCause::NotStarted(why)) => why.clone(),
            (_, ExitCause::NotInstalled) => {
                format!("command `{}` not found", self.spec.command())
            }
            (_, ExitCause::Removed) => REMOVED_MESSAGE.to_owned(),
            _ if parsed.failed && !parsed.error.trim().is_empty() => first_part(&error),
            _ if stderr.trim().is_empty() && !is_text => error,
            _ => last_part(&stderr),
        };
        Reply {
            text,
            usage: parsed.usage,
            end,
            detail: detail.trim().to_owned(),
            left_behind: exit.left_behind,
            tool_calls: self.spec.output.tools.as_ref().map(|_| parsed.tool_calls),
        }
    }

    /// Returns the outcome of a call. The cause of its end decides first, then the exit code and reported failures, and
    /// finally the completeness of the output.
    fn determine_outcome(
        &self,
        parsed: &ParsedOutput,
        error: &str,
        stderr: &str,
        exit: &CommandExit,
    ) -> CallOutcome {
        match &exit.cause {
            ExitCause::NotInstalled => return CallOutcome::NotInstalled,
            ExitCause::NotStarted(_) | ExitCause::Removed => {
                return CallOutcome::Crashed {
                    code: None,
                    signal: None,
                };
            }
            ExitCause::Wall => {
                return CallOutcome::TimedOut {
                    idle: false,
                    seconds: self.limits.wall.as_secs(),
                };
            }
            ExitCause::Idle => {
                return CallOutcome::TimedOut {
                    idle: true,
                    seconds: self.limits.idle.as_secs(),
                };
            }
            ExitCause::Output => {
                return CallOutcome::OutputTooLarge {
                    limit: self.limits.output,
                };
            }
            ExitCause::Stopped => return CallOutcome::Stopped,
            ExitCause::Abandoned => return CallOutcome::Lost,
            ExitCause::Ended => {}
        }
        if let Some(signal) = exit.signal {
            return CallOutcome::Crashed {
                code: None,
                signal: Some(signal),
            };
        }

        let is_success_code = exit
            .code
            .is_some_and(|code| self.spec.output.exit_codes.contains(&code));
        if parsed.failed || !is_success_code {
            let rules = self.spec.ends.iter().chain(&self.failures.ends);
            let classified =
                failure::classify_failure(rules, self.failures, error, stderr, exit.code);
            return classified.unwrap_or(CallOutcome::Crashed {
                code: exit.code.filter(|_| !is_success_code),
                signal: None,
            });
        }

        if !parsed.recognised && !parsed.raw.trim().is_empty() {
            return CallOutcome::UnknownOutput;
        }
        if parsed.recognised && !parsed.ended {
            return CallOutcome::Cut;
        }
        if parsed.text.trim().is_empty() {
            CallOutcome::Empty
        } else {
            CallOutcome::Ok
        }
    }

    /// Returns the end of stderr in whole lines, with secrets redacted.
    fn last_stderr_lines(&self, stderr: &[u8]) -> String {
        let from = stderr.len().saturating_sub(MAX_STDERR_BYTES);
        let text = String::from_utf8_lossy(&stderr[from..]);
        let redacted = self.secrets.redact(&text);
        // The first line may be incomplete and start with the end of a secret, which would not be recognized.
        let is_truncated = stderr.len() >= MAX_STDERR_BYTES;
        let whole = if is_truncated {
            redacted.split_once('\n').map_or("", |(_, lines)| lines)
        } else {
            &redacted
        };
        whole.to_owned()
    }
}

/// Returns the start and the end of `text`, without copying all of it.
fn clip_text(text: &str) -> String {
    let mut clip = ClippedText::new(&Secrets::default());
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rest.ceil_char_boundary(CHUNK_BYTES));
        clip.push(chunk);
        rest = later;
    }
    clip.finish()
}

/// Returns the last [`MAX_DETAIL_BYTES`] of `text`, in whole lines if there are several.
fn last_part(text: &str) -> String {
    let text = text.trim_end();
    let cut = text.ceil_char_boundary(text.len().saturating_sub(MAX_DETAIL_BYTES));
    let line = text[cut..]
        .find('\n')
        .filter(|_| cut > 0)
        .map_or(cut, |line| cut + line + 1);
    text[line..].to_owned()
}

/// Returns the first [`MAX_DETAIL_BYTES`] of `text`.
fn first_part(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_DETAIL_BYTES)].to_owned()
}
