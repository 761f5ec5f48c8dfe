//! From arguments to what a prompt is asked for with.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentd::compose::Format;
use agentd::models::{AgentName, Mode, SessionId};
use agentd::orchestrator::Ask;
use agentd::{Error, ErrorKind, Result};

use crate::args::{Args, AskArgs};
use crate::project;

/// The longest text that is read from stdin.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Checks the arguments and reads the text.
pub(super) fn ask(args: &Args, given: &AskArgs, agent: Option<&str>, format: Format) -> Result<Ask> {
    let resolved =
        |paths: &[PathBuf]| paths.iter().map(|path| from_here(args, path)).collect::<Result<Vec<_>>>();
    Ok(Ask {
        agent: agent.map(AgentName::new).transpose()?,
        session: given.change.as_deref().map(SessionId::new).transpose()?,
        files: resolved(&given.files)?,
        artifacts: resolved(&given.artifacts)?,
        thoughts: given.thoughts.clone(),
        format,
        strict: given.strict,
        ..Ask::new(Mode::new(given.mode.as_str())?, text(&given.text)?)
    })
}

/// Returns a path as seen from the folder that the command was told to work in.
pub(super) fn from_here(args: &Args, path: &Path) -> Result<PathBuf> {
    Ok(if args.directory.is_some() { project::folder(args)?.join(path) } else { path.to_path_buf() })
}

fn text(given: &str) -> Result<String> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    Ok(stdin()?.trim_end_matches(['\n', '\r']).to_owned())
}

/// Reads stdin to its end, within a limit.
pub(super) fn stdin() -> Result<String> {
    let unusable = |message: &str| Error::new(ErrorKind::FileUnusable, message);
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the binary owns the terminal")]
    let read = io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| unusable("cannot read stdin").with_source(error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(unusable("the text on stdin is too large: over 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| unusable("the text on stdin is not UTF-8"))
}
