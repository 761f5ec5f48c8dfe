//! An agent that is a command: started by its definition, contained, and listened to.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::contain::{self, Contained};
use super::listen::Listener;
use super::output::{OutputReader, STDERR};
use super::ready::Ready;
use super::{Call, Containment, Driver, Exit, ExitCause, Job, Limits, Running, Salvaged, Tools};
use crate::config::{AgentSpec, Agents, ArgumentValues, Environment, FailureRules, PromptDelivery};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{CallOutcome, Permission, Process, Reply};
use crate::secret::Secrets;

/// The file of a prompt that does not come by standard input.
const PROMPT_FILE: &str = "prompt.txt";

/// How much of the output is read at once.
const CHUNK: usize = 64 * 1024;

/// How much is read at one look while the command runs, so that what is said is handed on in small pieces.
const LOOK: usize = 256 * 1024;

/// An agent that is a command.
#[derive(Debug)]
pub struct CommandAgent {
    spec: AgentSpec,
    failures: FailureRules,
    environment: Environment,
    secrets: Secrets,
    guard: PathBuf,
    containment: Containment,
    /// Whether something of its definition was told.
    warned: AtomicBool,
}

impl CommandAgent {
    /// Returns the agent of a definition, which sees what it may of the environment.
    ///
    /// `guard` is the path of an agentd, or of a program whose `main` begins with `guard_main`.
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
            warned: AtomicBool::new(false),
        }
    }

    /// Returns its definition.
    pub(super) fn spec(&self) -> &AgentSpec {
        &self.spec
    }

    /// Returns what its command is started with.
    pub(super) fn job<'a>(
        &'a self,
        argv: &'a [String],
        cwd: &'a Path,
        folder: &'a Path,
        marker: &'a str,
        limits: Limits,
    ) -> Job<'a> {
        let (guard, env, containment) =
            (self.guard.as_path(), &self.environment.0, self.containment);
        Job {
            guard,
            argv,
            env,
            cwd,
            folder,
            marker,
            limits,
            containment,
        }
    }

    /// Removes the rules that find this outcome in the words of an agent.
    pub(super) fn without(mut self, outcome: &CallOutcome) -> Self {
        self.failures.ends.retain(|rule| rule.end != *outcome);
        self
    }

    fn reader(&self, limits: Limits) -> OutputReader<'_> {
        OutputReader {
            spec: &self.spec,
            failures: &self.failures,
            secrets: &self.secrets,
            limits,
        }
    }

    /// Returns the command and its arguments for a call.
    fn argv(&self, call: &Call<'_>, prompt_file: &Path) -> Result<Vec<String>> {
        let model = call.model.or(self.spec.model.as_deref());
        let cwd = whole(call.root)?;
        let blanks = ArgumentValues {
            model,
            prompt_file,
            cwd: &cwd,
            command: "",
        };
        let mut argv = Vec::new();
        for argument in &self.spec.argv {
            if argument.is_permissions() {
                argv.extend(self.permitted(call, &blanks)?);
            } else {
                argv.extend(argument.fill(&blanks)?);
            }
        }
        if self.spec.tools
            && self.spec.permissions.is_none()
            && call.permission == Permission::ReadOnly
        {
            self.warn_once("is not held to read-only: its definition has no `permissions`");
        }
        Ok(argv)
    }

    /// Returns the arguments that hold the command to the permission of a call.
    fn permitted(&self, call: &Call<'_>, blanks: &ArgumentValues<'_>) -> Result<Vec<String>> {
        let permissions = self.spec.permissions.as_ref();
        let without_tools = permissions.and_then(|given| given.no_tools.as_deref());
        let without_tools = without_tools.filter(|_| call.tools == Tools::None);
        let permitted = permissions.and_then(|given| given.arguments(call.permission));
        let arguments = without_tools.or(permitted).ok_or_else(|| {
            let message = format!(
                "`{}` cannot be held to the permission of this mode",
                self.spec.name
            );
            Error::new(ErrorKind::AgentUnusable, message).with_hint(
                "add its arguments under `permissions` in agents.yaml, or take another agent",
            )
        })?;
        let mut filled = Vec::new();
        for argument in arguments {
            filled.extend(argument.fill(blanks)?);
        }
        if call.permission == Permission::Edit && !call.commands.is_empty() {
            match permissions.and_then(|given| given.command.as_ref()) {
                Some(argument) => {
                    for command in call.commands {
                        filled.extend(argument.fill(&ArgumentValues { command, ..*blanks })?);
                    }
                }
                None => self.warn_once(
                    "cannot be allowed single commands: what it may run is its own rule",
                ),
            }
        }
        Ok(filled)
    }

    /// Tells something of the agent's definition, once.
    fn warn_once(&self, what: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            log::warn!("`{}` {what}", self.spec.name);
        }
    }

    /// Returns why the command does not take a prompt whole, if it does not.
    fn too_large(&self, prompt: &str) -> Option<Reply> {
        let characters = || prompt.chars().count() as u64;
        let bytes = prompt.len() as u64;
        let (has, most, what) = match (self.spec.max_characters, self.spec.max_bytes) {
            // No text has more characters than bytes.
            (Some(most), _) if bytes > most && characters() > most => {
                (characters(), most, "characters")
            }
            (_, Some(most)) if bytes > most => (bytes, most, "bytes"),
            _ => return None,
        };
        let detail = format!("the prompt has {has} {what}, it takes {most}, and nothing was sent");
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

    fn start(&self, call: &Call<'_>) -> Result<Box<dyn Running + '_>> {
        if let Some(refused) = self.too_large(call.prompt) {
            return Ok(Ready::boxed(refused));
        }
        let prompt_file = whole(call.folder)?.join(PROMPT_FILE);
        let argv = self.argv(call, &prompt_file)?;
        match self.spec.prompt {
            PromptDelivery::Stdin => contain::prepare(call.folder, call.prompt.as_bytes())?,
            PromptDelivery::File => {
                contain::prepare(call.folder, b"")?;
                let written = contain::create(&prompt_file)
                    .and_then(|mut file| file.write_all(call.prompt.as_bytes()));
                written.map_err(|cause| contain::unwritable(call.folder, cause))?;
            }
        }
        let job = self.job(&argv, call.root, call.folder, call.marker, call.limits);
        let contained = contain::launch(&job)?;
        let reader = self.reader(call.limits);
        let listening = Listening {
            stdout: None,
            listener: reader.listen(),
            folder: call.folder.to_path_buf(),
        };
        Ok(Box::new(Working {
            contained,
            reader,
            listening: Some(listening),
            rest: String::new(),
        }))
    }

    fn salvage(&self, folder: &Path, marker: &str) -> Result<Option<Salvaged>> {
        // Files of another call of the same name, such as one of a ledger that is gone, are not this one's.
        if contain::marker_of(folder).as_deref() != Some(marker) {
            return Ok(None);
        }
        let exit = match contain::exit_record(folder)? {
            Some(exit) if exit.cause == ExitCause::Ended => exit,
            // Whoever ended it, and why, there was nobody left to take it for an end.
            ended => Exit {
                code: None,
                signal: None,
                cause: ExitCause::Abandoned,
                left_behind: ended.as_ref().map_or(0, |exit| exit.left_behind),
                milliseconds: ended.map_or(0, |exit| exit.milliseconds),
            },
        };
        let reader = self.reader(Limits::default());
        let mut listening = Listening {
            stdout: None,
            listener: reader.listen(),
            folder: folder.to_path_buf(),
        };
        listening.finish()?;
        let reply = listening.reply(&reader, &exit)?;
        Ok(Some(Salvaged {
            reply,
            milliseconds: exit.milliseconds,
        }))
    }
}

/// A command at work.
struct Working<'a> {
    contained: Contained,
    reader: OutputReader<'a>,
    listening: Option<Listening<'a>>,
    /// What was said last, and not yet asked for.
    rest: String,
}

impl Running for Working<'_> {
    fn process(&self) -> Option<&Process> {
        Some(self.contained.process())
    }

    fn wait(&mut self, patience: Duration) -> Result<Option<Reply>> {
        let Some(exit) = self.contained.wait(patience)? else {
            return Ok(None);
        };
        let Some(mut listening) = self.listening.take() else {
            return Ok(None);
        };
        listening.finish()?;
        // What was too much need not be heard to its end.
        if exit.cause != ExitCause::Output {
            self.rest = listening.listener.said();
        }
        listening.reply(&self.reader, &exit).map(Some)
    }

    fn said(&mut self) -> String {
        let Some(listening) = &mut self.listening else {
            return std::mem::take(&mut self.rest);
        };
        // What cannot be read now is told by `wait`, which reads the rest.
        let _later = listening.catch_up(LOOK);
        listening.listener.said()
    }

    fn stop(&mut self, at_once: bool) {
        self.contained.stop(at_once);
    }
}

/// The files that a command writes, as far as they were read.
struct Listening<'a> {
    stdout: Option<File>,
    listener: Listener<'a>,
    folder: PathBuf,
}

impl Listening<'_> {
    /// Reads what was written since, and stops when so many bytes are read.
    fn catch_up(&mut self, enough: usize) -> Result<()> {
        let path = self.folder.join("stdout");
        let mut read = || -> io::Result<()> {
            let file = match &mut self.stdout {
                Some(file) => file,
                None => self.stdout.insert(contain::open(&path)?),
            };
            let mut bytes = vec![0; CHUNK];
            let mut all = 0;
            while all < enough {
                match file.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(count) => {
                        self.listener.push(&bytes[..count]);
                        all += count;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        match read() {
            // A command that is not there writes nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            read => read.map_err(|cause| unreadable(&path, cause)),
        }
    }

    /// Reads the rest.
    fn finish(&mut self) -> Result<()> {
        self.catch_up(usize::MAX)?;
        self.listener.finish();
        Ok(())
    }

    /// Returns the reply of a command that ended.
    fn reply(self, reader: &OutputReader<'_>, exit: &Exit) -> Result<Reply> {
        let path = self.folder.join("stderr");
        let stderr = match end_of(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            stderr => stderr.map_err(|cause| unreadable(&path, cause))?,
        };
        Ok(reader.reply(self.listener.heard(), &stderr, exit))
    }
}

/// Returns a path that means the same in every folder.
fn whole(path: &Path) -> Result<PathBuf> {
    absolute(path).map_err(|cause| {
        let message = format!("{} cannot be a folder of a call", path.display());
        Error::new(ErrorKind::AgentUnusable, message).with_source(cause)
    })
}

/// Reads the end of a file.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = contain::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(STDERR as u64)))?;
    let mut bytes = Vec::new();
    file.take(STDERR as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, cause: io::Error) -> Error {
    let message = format!("what the agent wrote, {}, cannot be read", path.display());
    Error::new(ErrorKind::FileUnusable, message).with_source(cause)
}
