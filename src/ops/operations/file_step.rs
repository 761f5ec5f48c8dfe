//! Steps that write or remove one file, shared by `files.write` and `files.edit`.

use std::io;
use std::path::Path;

use crate::models::{SessionId, StepResult};
use crate::ops::Step;
use crate::ops::fs::{MAX_FILE_BYTES, read_bytes, remove_entry, replace_file};
use crate::ops::step::TARGET_CHANGED;
use crate::store::blob_id;

/// Returns the current bytes of a file before it is written; `None` if the file does not exist.
///
/// A symlink on its path is an error even if it leads to a file of the project, because that file has another name, and
/// the rules for allowed targets were not applied to that name.
pub(super) fn current_bytes(root: &Path, relative: &str) -> io::Result<Option<Vec<u8>>> {
    read_bytes(root, relative, MAX_FILE_BYTES).map_err(io::Error::other)
}

/// Returns the result of a step without a session.
pub(super) fn no_session(step: &Step) -> StepResult {
    step.not_done("files are only written in a session; pass one with --change")
}

/// Writes or removes the file of a step.
pub(super) fn run_file_step(
    root: &Path,
    relative: &str,
    session: &SessionId,
    step: &Step,
) -> StepResult {
    match update_file(root, relative, session, step) {
        Ok(verb) => step.done(format!("{verb} {relative}")),
        Err(error) => {
            let verb = if step.content.is_some() {
                "write"
            } else {
                "remove"
            };
            step.not_done(format!("cannot {verb} {relative}: {error}"))
        }
    }
}

/// Writes or removes the file if its content has not changed since the step was planned. Does nothing if the file
/// already has the planned content, because an interrupted run has written it.
fn update_file(
    root: &Path,
    relative: &str,
    session: &SessionId,
    step: &Step,
) -> io::Result<&'static str> {
    let current = current_bytes(root, relative)?.map(|bytes| blob_id(&bytes));
    if current == step.after() {
        return Ok("left unchanged");
    }
    if current != step.before {
        return Err(io::Error::other(TARGET_CHANGED));
    }

    let Some(content) = &step.content else {
        remove_entry(root, relative)?;
        return Ok("removed");
    };
    replace_file(root, relative, content, session)?;
    Ok(if current.is_some() {
        "replaced"
    } else {
        "wrote"
    })
}
