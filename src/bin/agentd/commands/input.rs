//! Builds turn requests from command line arguments.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentd::compose::Variables;
use agentd::models::{AgentName, Mode, SessionId, StateDocument};
use agentd::orchestrator::{BlockContent, NamedBlock, TurnRequest, Workspace};
use agentd::{Error, ErrorKind, Result, ops};

use crate::args::{Args, AskArgs};
use crate::{project, terminal};

/// Maximum size in bytes of text on stdin.
const MAX_TEXT_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum size in bytes of a reply on stdin.
const MAX_REPLY_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Opens the project, and builds a request from the arguments, the instructions and the state file.
pub(super) fn read_request(args: &Args, given: &AskArgs) -> Result<(Workspace, TurnRequest)> {
    let resolve_paths = |paths: &[PathBuf]| {
        paths
            .iter()
            .map(|path| resolve_path(args, path))
            .collect::<Result<Vec<_>>>()
    };

    // The project is opened first: from then on its secrets are redacted, including those in errors about the state
    // file.
    let workspace = project::workspace(args, given.pack.as_deref())?;
    let state_document = match &given.state {
        Some(path) => {
            let path = resolve_path(args, path)?;
            Some(read_state_file(&workspace, &path)?)
        }
        None => None,
    };
    let request = TurnRequest {
        agent: given.agent.as_deref().map(AgentName::new).transpose()?,
        session: given.session.as_deref().map(SessionId::new).transpose()?,
        files: resolve_paths(&given.files)?,
        artifacts: resolve_paths(&given.artifacts)?,
        blocks: given
            .contexts
            .iter()
            .map(|context| parse_block(args, context))
            .collect::<Result<_>>()?,
        secret_files: given.force_secret_files,
        thoughts: given.thoughts.clone(),
        model: given.model.clone(),
        variables: parse_variables(&given.variables)?,
        strict: given.strict,
        format: given.format.map(Into::into),
        work: state_document,
        ..TurnRequest::new(Mode::new(given.mode.as_str())?, read_argument(&given.text)?)
    };
    check_state_mode(&workspace, &request)?;
    let mode = workspace.pack.resolved(&request.mode);
    Ok((workspace, TurnRequest { mode, ..request }))
}

/// Reads a state file. Its sections are those that the project's pack declares.
fn read_state_file(workspace: &Workspace, path: &Path) -> Result<StateDocument> {
    let text = ops::read_text(path)?;
    let pack = &workspace.pack;
    StateDocument::read(&text, &path.display().to_string(), &pack.state).map_err(|error| {
        error.with_hint(format!(
            "print the schema of state files with `agentd schema state --pack {}`",
            pack.name
        ))
    })
}

/// Checks that the mode of the state file is a mode of the pack. Prints a note if it differs from the mode of the request.
fn check_state_mode(workspace: &Workspace, request: &TurnRequest) -> Result<()> {
    let Some(mode) = request.work.as_ref().and_then(|work| work.mode.as_ref()) else {
        return Ok(());
    };
    let mode = workspace.pack.resolved(mode);
    workspace.pack.mode(&mode).map_err(|error| {
        let modes = error.hint().unwrap_or_default().to_owned();
        error.with_hint(format!("correct `mode` in the state file; {modes}"))
    })?;
    if mode != workspace.pack.resolved(&request.mode) {
        terminal::note(format_args!(
            "the state file has mode `{mode}`, but the prompt is for mode `{}`",
            request.mode
        ));
    }
    Ok(())
}

/// Parses `NAME=VALUE` pairs.
fn parse_variables(given: &[String]) -> Result<Variables> {
    let parse_pair = |text: &String| {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::NameInvalid,
                    format!("invalid variable {text:?}: expected NAME=VALUE"),
                )
                .with_hint("write `--set NAME=VALUE`, such as `--set depth=0`")
            })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    given.iter().map(parse_pair).collect()
}

/// Parses `NAME=TEXT` or `NAME=@FILE`. `NAME=@@TEXT` is the text `@TEXT`.
fn parse_block(args: &Args, given: &str) -> Result<NamedBlock> {
    let (name, value) = given
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::NameInvalid,
                format!("invalid --context {given:?}: expected NAME=TEXT or NAME=@FILE"),
            )
            .with_hint("write `--context NAME=TEXT` or `--context NAME=@FILE`, such as `--context task=@task.md`")
        })?;

    let content = match value.strip_prefix('@') {
        Some(text) if text.starts_with('@') => BlockContent::Text(text.to_owned()),
        Some("") => {
            let message = format!("invalid --context {name}=@: no file after `@`");
            return Err(Error::new(ErrorKind::NameInvalid, message)
                .with_hint(format!("write `--context {name}=@FILE`")));
        }
        Some(path) => BlockContent::File(resolve_path(args, Path::new(path))?),
        None => BlockContent::Text(value.to_owned()),
    };
    Ok(NamedBlock {
        name: name.to_owned(),
        content,
    })
}

/// Resolves a path of the command line against `--directory`.
pub(super) fn resolve_path(args: &Args, path: &Path) -> Result<PathBuf> {
    Ok(if args.directory.is_some() {
        project::folder(args)?.join(path)
    } else {
        path.to_path_buf()
    })
}

/// Returns an argument, or the text on stdin if the argument is `-`.
pub(super) fn read_argument(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    Ok(read_text_from_stdin()?
        .trim_end_matches(['\n', '\r'])
        .to_owned())
}

/// Reads UTF-8 text from stdin.
pub(super) fn read_text_from_stdin() -> Result<String> {
    let bytes = read_stdin(MAX_TEXT_BYTES)?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(unusable("text on stdin is too large: over 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| unusable("text on stdin is not UTF-8"))
}

/// Reads a reply from stdin. The reply need not be UTF-8.
pub(super) fn read_reply_from_stdin() -> Result<Vec<u8>> {
    let bytes = read_stdin(MAX_REPLY_BYTES)?;
    if bytes.len() as u64 > MAX_REPLY_BYTES {
        return Err(unusable("reply on stdin is too large: over 2 GiB"));
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

/// Returns true for a built-in agent and for one that `agents` defines, with or without a model.
pub(super) fn is_known_agent(agents: &agentd::config::Agents, name: &str) -> bool {
    agentd::agent::is_builtin(name) || agents.known(name).is_some()
}
