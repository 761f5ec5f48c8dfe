//! From arguments to what a prompt is asked for with.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentd::compose::Variables;
use agentd::models::{AgentName, Mode, SessionId, Work};
use agentd::orchestrator::{BlockContent, NamedBlock, TurnRequest, Workspace};
use agentd::{Error, ErrorKind, Result, ops};

use crate::args::{Args, AskArgs};
use crate::{project, terminal};

/// The longest text that is read from stdin.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The longest reply that is read from stdin.
const LONGEST_REPLY: u64 = 2 * 1024 * 1024 * 1024;

/// Checks the arguments, reads the text and the state, and opens the project.
pub(super) fn ask(args: &Args, given: &AskArgs) -> Result<(Workspace, TurnRequest)> {
    let resolved = |paths: &[PathBuf]| {
        paths
            .iter()
            .map(|path| from_here(args, path))
            .collect::<Result<Vec<_>>>()
    };
    // First of all: what must not be seen is known from here on, also in what is said of a state file.
    let workspace = project::workspace(args, given.pack.as_deref())?;
    let work = match &given.state {
        Some(path) => {
            let path = from_here(args, path)?;
            Some(Work::read(
                &ops::read_text(&path)?,
                &path.display().to_string(),
            )?)
        }
        None => None,
    };
    let ask = TurnRequest {
        agent: given.agent.as_deref().map(AgentName::new).transpose()?,
        session: given.session.as_deref().map(SessionId::new).transpose()?,
        files: resolved(&given.files)?,
        artifacts: resolved(&given.artifacts)?,
        blocks: given
            .contexts
            .iter()
            .map(|context| named_block(args, context))
            .collect::<Result<_>>()?,
        secret_files: given.force_secret_files,
        thoughts: given.thoughts.clone(),
        model: given.model.clone(),
        variables: variables(&given.variables)?,
        strict: given.strict,
        format: given.format.map(Into::into),
        work,
        ..TurnRequest::new(Mode::new(given.mode.as_str())?, text(&given.text)?)
    };
    check_mode(&workspace, &ask)?;
    let mode = workspace.pack.resolved(&ask.mode);
    Ok((workspace, TurnRequest { mode, ..ask }))
}

/// The mode of a state file is one of the pack; if it is not the one that is asked for, that is told.
fn check_mode(workspace: &Workspace, ask: &TurnRequest) -> Result<()> {
    let Some(mode) = ask.work.as_ref().and_then(|work| work.mode.as_ref()) else {
        return Ok(());
    };
    let mode = workspace.pack.resolved(mode);
    workspace.pack.mode(&mode).map_err(|error| {
        let modes = error.hint().unwrap_or_default().to_owned();
        error.with_hint(format!("the state file names it under `mode`; {modes}"))
    })?;
    if mode != workspace.pack.resolved(&ask.mode) {
        terminal::note(format_args!(
            "the state file is in mode `{mode}`; the prompt is for `{}`",
            ask.mode
        ));
    }
    Ok(())
}

/// Reads `NAME=VALUE` pairs.
fn variables(given: &[String]) -> Result<Variables> {
    let pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::NameInvalid,
                    format!("{text:?} does not set a variable"),
                )
                .with_hint("write `--set NAME=VALUE`, like `--set depth=0`")
            })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    given.iter().map(pair).collect()
}

/// Reads `NAME=TEXT` or `NAME=@FILE`; `@@` at the start of a text is one `@`.
fn named_block(args: &Args, given: &str) -> Result<NamedBlock> {
    let (name, value) = given
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::NameInvalid,
                format!("--context {given:?} has no `=` with a name before it"),
            )
            .with_hint("write `--context NAME=TEXT` or `--context NAME=@FILE`, like `--context task=@task.md`")
        })?;

    let content = match value.strip_prefix('@') {
        Some(text) if text.starts_with('@') => BlockContent::Text(text.to_owned()),
        Some("") => {
            let message = format!("--context {name}=@ names no file");
            return Err(Error::new(ErrorKind::NameInvalid, message)
                .with_hint(format!("write `--context {name}=@FILE`")));
        }
        Some(path) => BlockContent::File(from_here(args, Path::new(path))?),
        None => BlockContent::Text(value.to_owned()),
    };
    Ok(NamedBlock {
        name: name.to_owned(),
        content,
    })
}

/// Returns a path as seen from the folder that the command was told to work in.
pub(super) fn from_here(args: &Args, path: &Path) -> Result<PathBuf> {
    Ok(if args.directory.is_some() {
        project::folder(args)?.join(path)
    } else {
        path.to_path_buf()
    })
}

/// Returns a text as it was given, or stdin for `-`.
pub(super) fn text(given: &str) -> Result<String> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    Ok(stdin()?.trim_end_matches(['\n', '\r']).to_owned())
}

/// Reads stdin to its end, within a limit.
pub(super) fn stdin() -> Result<String> {
    let bytes = read_stdin(LONGEST)?;
    if bytes.len() as u64 > LONGEST {
        return Err(unusable("the text on stdin is too large: over 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| unusable("the text on stdin is not UTF-8"))
}

/// Reads a reply from stdin, whatever its bytes are.
pub(super) fn stdin_bytes() -> Result<Vec<u8>> {
    let bytes = read_stdin(LONGEST_REPLY)?;
    if bytes.len() as u64 > LONGEST_REPLY {
        return Err(unusable("the reply on stdin is too large: over 2 GiB"));
    }
    Ok(bytes)
}

fn read_stdin(limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    let read = io::stdin().lock().take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|error| unusable("cannot read stdin").with_source(error))?;
    Ok(bytes)
}

fn unusable(message: &str) -> Error {
    Error::new(ErrorKind::FileUnusable, message)
}

/// Returns true if an agent can be asked.
pub(super) fn is_known(agents: &agentd::config::Agents, name: &str) -> bool {
    agentd::agent::is_builtin(name) || agents.known(name).is_some()
}
