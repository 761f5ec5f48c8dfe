//! An agent that is a command: it is started from its definition, contained by a guard, and its output is parsed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::builtin::ReadyReply;
use super::contain::{self, GuardedProcess};
use super::output::{MAX_STDERR_BYTES, OutputReader};
use super::output_parser::OutputParser;
use super::{
    AgentCall, CommandExit, Containment, Driver, ExitCause, GuardedCommand, Limits, RecoveredCall,
    RunningCall, Tools,
};
use crate::config::{AgentSpec, Agents, ArgumentValues, Environment, FailureRules, PromptDelivery};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{CallOutcome, Permission, ProcessIdentity, Reply};
use crate::secret::Secrets;

/// Name of the prompt's file if the prompt is not written to stdin.
const PROMPT_FILE: &str = "prompt.txt";

/// Size of the read buffer for stdout.
const CHUNK_BYTES: usize = 64 * 1024;

/// Maximum number of bytes that are read per poll while the command runs, so that progress is shown in small steps.
const MAX_POLL_BYTES: usize = 256 * 1024;

/// An agent that is a command.
#[derive(Debug)]
pub struct CommandAgent {
    spec: AgentSpec,
    failures: FailureRules,
    environment: Environment,
    secrets: Secrets,
    guard: PathBuf,
    containment: Containment,
    /// True after the first warning about the definition; later ones are suppressed.
    has_warned: AtomicBool,
}

impl CommandAgent {
    /// Creates an agent from its definition. The agent gets only the environment variables that its definition allows.
    ///
    /// `guard` is the path of an agentd binary, or of a program whose `main` calls `guard_main` first.
    #[must_use]
    pub fn new(
        spec: &AgentSpec,
        agents: &Agents,
        environment: &Environment,
        secrets: &Secrets,
        guard: &Path,
        containment: Containment,
    ) -> Self {
        Self {
            spec: spec.clone(),
            failures: agents.failures().clone(),
            environment: agents.variables(spec, environment),
            secrets: secrets.clone(),
            guard: guard.to_path_buf(),
            containment,
            has_warned: AtomicBool::new(false),
        }
    }

    pub(super) fn spec(&self) -> &AgentSpec {
        &self.spec
    }

    /// Describes a process of the agent's command for [`contain::launch`].
    pub(super) fn build_job<'a>(
        &'a self,
        argv: &'a [String],
        cwd: &'a Path,
        folder: &'a Path,
        marker: &'a str,
        limits: Limits,
    ) -> GuardedCommand<'a> {
        GuardedCommand {
            guard: &self.guard,
            argv,
            env: &self.environment.0,
            cwd,
            folder,
            marker,
            limits,
            containment: self.containment,
        }
    }

    /// Removes the rules that classify a failure as this outcome.
    pub(super) fn without_outcome(mut self, outcome: &CallOutcome) -> Self {
        self.failures.ends.retain(|rule| rule.end != *outcome);
        self
    }

    fn output_reader(&self, limits: Limits) -> OutputReader<'_> {
        OutputReader {
            spec: &self.spec,
            failures: &self.failures,
            secrets: &self.secrets,
            limits,
        }
    }

    /// Returns the command and its arguments for a call.
    fn build_argv(&self, call: &AgentCall<'_>, prompt_file: &Path) -> Result<Vec<String>> {
        let cwd = absolute_path(call.root)?;
        let values = ArgumentValues {
            model: call.model.or(self.spec.model.as_deref()),
            prompt_file,
            cwd: &cwd,
            command: "",
        };

        let mut argv = Vec::new();
        for argument in &self.spec.argv {
            if argument.is_permissions() {
                argv.extend(self.permission_arguments(call, &values)?);
            } else {
                argv.extend(argument.fill(&values)?);
            }
        }

        if self.spec.tools
            && self.spec.permissions.is_none()
            && call.permission == Permission::ReadOnly
        {
            self.warn_once("is not restricted to read-only: its definition has no `permissions`");
        }
        Ok(argv)
    }

    /// Returns the arguments that enforce the permission of a call.
    fn permission_arguments(
        &self,
        call: &AgentCall<'_>,
        values: &ArgumentValues<'_>,
    ) -> Result<Vec<String>> {
        let permissions = self.spec.permissions.as_ref();
        let without_tools = permissions
            .and_then(|permissions| permissions.no_tools.as_deref())
            .filter(|_| call.tools == Tools::None);
        let permitted = permissions.and_then(|permissions| permissions.arguments(call.permission));
        let arguments = without_tools.or(permitted).ok_or_else(|| {
            let calls = match call.permission {
                Permission::ReadOnly => "read-only calls",
                Permission::Edit => "calls that edit files",
            };
            let message = format!(
                "the definition of `{}` has no arguments for {calls}",
                self.spec.name
            );
            Error::new(ErrorKind::AgentUnusable, message).with_hint(
                "add them under `permissions` in agents.yaml, or choose another agent with --agent",
            )
        })?;

        let mut filled = Vec::new();
        for argument in arguments {
            filled.extend(argument.fill(values)?);
        }

        if call.permission == Permission::Edit && !call.commands.is_empty() {
            match permissions.and_then(|permissions| permissions.command.as_ref()) {
                Some(argument) => {
                    for command in call.commands {
                        filled.extend(argument.fill(&ArgumentValues { command, ..*values })?);
                    }
                }
                None => self.warn_once(
                    "has no `command` under `permissions`: the agent's own settings decide which commands it may run",
                ),
            }
        }
        Ok(filled)
    }

    /// Logs a warning about the agent's definition, unless one was logged before.
    fn warn_once(&self, warning: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            log::warn!("agent `{}` {warning}", self.spec.name);
        }
    }

    /// Returns a `TooLarge` reply if a prompt is longer than the command accepts.
    fn check_prompt_size(&self, prompt: &str) -> Option<Reply> {
        let characters = || prompt.chars().count() as u64;
        let bytes = prompt.len() as u64;
        let (size, max, unit) = match (self.spec.max_characters, self.spec.max_bytes) {
            // No text has more characters than bytes, so counting can often be skipped.
            (Some(max), _) if bytes > max && characters() > max => {
                (characters(), max, "characters")
            }
            (_, Some(max)) if bytes > max => (bytes, max, "bytes"),
            _ => return None,
        };
        let detail =
            format!("the prompt has {size} {unit}, but the limit is {max}; nothing was sent");
        Some(Reply {
            end: CallOutcome::TooLarge {
                tokens: None,
                limit: None,
            },
            detail,
            ..Reply::default()
        })
    }
}

impl Driver for CommandAgent {
    fn spends(&self) -> bool {
        true
    }

    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        if let Some(refusal) = self.check_prompt_size(call.prompt) {
            return Ok(ReadyReply::boxed(refusal));
        }

        let prompt_file = absolute_path(call.folder)?.join(PROMPT_FILE);
        let argv = self.build_argv(call, &prompt_file)?;
        match self.spec.prompt {
            PromptDelivery::Stdin => contain::prepare(call.folder, call.prompt.as_bytes())?,
            PromptDelivery::File => {
                contain::prepare(call.folder, b"")?;
                contain::create(&prompt_file)
                    .and_then(|mut file| file.write_all(call.prompt.as_bytes()))
                    .map_err(|cause| contain::unwritable(call.folder, cause))?;
            }
        }

        let job = self.build_job(&argv, call.root, call.folder, call.marker, call.limits);
        let contained = contain::launch(&job)?;
        let reader = self.output_reader(call.limits);
        let output = OutputFiles {
            stdout: None,
            parser: reader.new_parser(),
            folder: call.folder.to_path_buf(),
        };
        Ok(Box::new(RunningCommand {
            contained,
            reader,
            output: Some(output),
            rest: String::new(),
        }))
    }

    fn salvage(&self, folder: &Path, marker: &str) -> Result<Option<RecoveredCall>> {
        // The folder may hold the files of another call of the same name, for example from a deleted ledger.
        if contain::marker_of(folder).as_deref() != Some(marker) {
            return Ok(None);
        }

        let exit = match contain::exit_record(folder)? {
            Some(exit) if exit.cause == ExitCause::Ended => exit,
            // The guard ended the agent, or was killed itself. Either way the caller was gone, so the reply is lost.
            other => CommandExit {
                code: None,
                signal: None,
                cause: ExitCause::Abandoned,
                left_behind: other.as_ref().map_or(0, |exit| exit.left_behind),
                milliseconds: other.map_or(0, |exit| exit.milliseconds),
            },
        };

        let reader = self.output_reader(Limits::default());
        let mut output = OutputFiles {
            stdout: None,
            parser: reader.new_parser(),
            folder: folder.to_path_buf(),
        };
        output.finish()?;
        let reply = output.into_reply(&reader, &exit)?;
        Ok(Some(RecoveredCall {
            reply,
            milliseconds: exit.milliseconds,
        }))
    }
}

/// A command that is running.
struct RunningCommand<'a> {
    contained: GuardedProcess,
    reader: OutputReader<'a>,
    /// `None` after `wait` has returned the reply.
    output: Option<OutputFiles<'a>>,
    /// Last part of the reply, which `said` has not returned yet.
    rest: String,
}

impl RunningCall for RunningCommand<'_> {
    fn process(&self) -> Option<&ProcessIdentity> {
        Some(self.contained.process())
    }

    fn wait(&mut self, patience: Duration) -> Result<Option<Reply>> {
        let Some(exit) = self.contained.wait(patience)? else {
            return Ok(None);
        };
        let Some(mut output) = self.output.take() else {
            return Ok(None);
        };

        output.finish()?;
        // Output beyond the limit is not shown.
        if exit.cause != ExitCause::Output {
            self.rest = output.parser.take_new_text();
        }
        output.into_reply(&self.reader, &exit).map(Some)
    }

    fn said(&mut self) -> String {
        let Some(output) = &mut self.output else {
            return std::mem::take(&mut self.rest);
        };
        // A read error is ignored here: `wait` reads the rest of the output and reports the error.
        let _later = output.read_new(MAX_POLL_BYTES);
        output.parser.take_new_text()
    }

    fn stop(&mut self, at_once: bool) {
        self.contained.stop(at_once);
    }
}

/// Output files of a command, and the parser of their content so far.
struct OutputFiles<'a> {
    /// File with the stdout of the command; `None` until it is opened by the first read.
    stdout: Option<File>,
    parser: OutputParser<'a>,
    folder: PathBuf,
}

impl OutputFiles<'_> {
    /// Parses new content of stdout; stops after `max_bytes`, rounded up to whole chunks.
    fn read_new(&mut self, max_bytes: usize) -> Result<()> {
        let path = self.folder.join("stdout");
        match self.read_chunks(&path, max_bytes) {
            // A command that could not be started has no stdout.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(|cause| unreadable(&path, cause)),
        }
    }

    fn read_chunks(&mut self, path: &Path, max_bytes: usize) -> io::Result<()> {
        let file = match &mut self.stdout {
            Some(file) => file,
            None => self.stdout.insert(contain::open(path)?),
        };

        let mut chunk = vec![0; CHUNK_BYTES];
        let mut total = 0;
        while total < max_bytes {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    self.parser.push(&chunk[..count]);
                    total += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Parses the rest of stdout.
    fn finish(&mut self) -> Result<()> {
        self.read_new(usize::MAX)?;
        self.parser.finish();
        Ok(())
    }

    /// Returns the reply of a command that has ended.
    fn into_reply(self, reader: &OutputReader<'_>, exit: &CommandExit) -> Result<Reply> {
        let path = self.folder.join("stderr");
        let stderr = match read_end(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            stderr => stderr.map_err(|cause| unreadable(&path, cause))?,
        };
        Ok(reader.build_reply(self.parser.into_parsed(), &stderr, exit))
    }
}

fn absolute_path(path: &Path) -> Result<PathBuf> {
    absolute(path).map_err(|cause| {
        let message = format!("cannot make the path `{}` absolute", path.display());
        Error::new(ErrorKind::AgentUnusable, message).with_source(cause)
    })
}

/// Reads the last [`MAX_STDERR_BYTES`] bytes of a file.
fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = contain::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(
        length.saturating_sub(MAX_STDERR_BYTES as u64),
    ))?;
    let mut bytes = Vec::new();
    file.take(MAX_STDERR_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, cause: io::Error) -> Error {
    let message = format!("cannot read the agent's output `{}`", path.display());
    Error::new(ErrorKind::FileUnusable, message).with_source(cause)
}
