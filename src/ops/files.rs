//! The door to project files: reading with limits, writing whole files at once.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::beneath::{self, Missing, OpenFolder};
use super::step::TARGET_CHANGED;
use super::{Act, Operation, Site, Step, change};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::file;
use crate::models::{Effect, OperationId, SessionId, Started, StepResult, UpdateFormat};
use crate::store::blob_id;

/// The largest file that can be part of a prompt.
pub(super) const LARGEST: u64 = 16 * 1024 * 1024;

/// The largest reply that is read.
const LARGEST_REPLY: u64 = 2 * 1024 * 1024 * 1024;

/// Reads a text file that the user has named.
///
/// # Errors
///
/// `FileUnusable` if it is missing, or is not a readable text file of a sensible size.
pub fn read_text(path: &Path) -> Result<String> {
    file::read_text(path, LARGEST)?.ok_or_else(|| missing(path))
}

/// Reads the reply of an agent, whatever its bytes are.
///
/// # Errors
///
/// `FileUnusable` if it is missing, or is not a readable file.
pub fn read_reply(path: &Path) -> Result<Vec<u8>> {
    file::read_bytes(path, LARGEST_REPLY)?.ok_or_else(|| missing(path))
}

fn missing(path: &Path) -> Error {
    let shown = path.display().to_string();
    Error::new(
        ErrorKind::FileUnusable,
        format!("`{}` does not exist", shown.escape_debug()),
    )
    .with_hint("paths are relative to the current folder, or to the one given with -C")
}

/// Reads a text file of the project, which must not lead out of it; `None` if there is none.
///
/// # Errors
///
/// `FileUnusable` if something is there that cannot be used.
pub fn read_project_text(root: &Path, relative: &str) -> Result<Option<String>> {
    file::read_text_inside(root, &root.join(relative), LARGEST)
}

/// Writes a new file of the project, and its folder if need be; tells whether it did. An existing file is left alone.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written.
pub fn create_new(root: &Path, relative: &str, content: &str) -> Result<bool> {
    if root.join(relative).symlink_metadata().is_ok() {
        return Ok(false);
    }
    write_whole(root, relative, content, Existing::Keep, UNFINISHED)
        .map(|()| true)
        .map_err(|error| {
            Error::new(ErrorKind::FileUnusable, format!("cannot write {relative}"))
                .with_source(error)
        })
}

/// Removes what is no ordinary file where one belongs: a link, or a folder with all that is in it.
///
/// # Errors
///
/// `FileUnusable` if it cannot be removed.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
pub(super) fn clear_path(root: &Path, relative: &str) -> Result<()> {
    let path = root.join(relative);
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
        Ok(found) if found.is_symlink() => fs::remove_file(&path),
        _ => Ok(()),
    };
    removed.map_err(|error| {
        Error::new(ErrorKind::FileUnusable, format!("cannot remove {relative}")).with_source(error)
    })
}

/// Removes a file of the project, if it is there.
///
/// # Errors
///
/// `FileUnusable` if it cannot be removed.
pub(super) fn remove_file(root: &Path, relative: &str) -> Result<()> {
    match remove(root, relative) {
        Err(error) if !file::is_missing(&error) => Err(Error::new(
            ErrorKind::FileUnusable,
            format!("cannot remove {relative}"),
        )
        .with_source(error)),
        _ => Ok(()),
    }
}

/// Makes a folder, and those above it.
///
/// # Errors
///
/// `FileUnusable` if it cannot be made.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| {
        let message = format!(
            "cannot make the folder {}",
            path.display().to_string().escape_debug()
        );
        Error::new(ErrorKind::FileUnusable, message).with_source(error)
    })
}

/// Makes a new folder where temporary files go.
///
/// # Errors
///
/// `FileUnusable` if it cannot be made.
pub fn temporary_folder(prefix: &str) -> Result<PathBuf> {
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .map(tempfile::TempDir::keep)
        .map_err(|error| {
            Error::new(ErrorKind::FileUnusable, "no temporary folder can be made")
                .with_source(error)
        })
}

/// Makes a file of the project hold a text, whatever it held.
///
/// # Errors
///
/// `FileUnusable` if it cannot be written.
pub fn write_text(root: &Path, relative: &str, content: &str) -> Result<()> {
    write_whole(root, relative, content, Existing::Replace, UNFINISHED).map_err(|error| {
        Error::new(ErrorKind::FileUnusable, format!("cannot write {relative}")).with_source(error)
    })
}

/// What happens to a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Keep,
    Replace,
}

/// Writes a file so that a reader sees the old or the new text, never a part. No folder on the way may be a link.
fn write_whole(
    root: &Path,
    relative: &str,
    content: &str,
    existing: Existing,
    prefix: &str,
) -> io::Result<()> {
    let (folder, name) = OpenFolder::of(root, relative, Missing::Create)?;
    let mut unfinished = folder.create(prefix)?;
    unfinished.file.write_all(content.as_bytes())?;
    if let Some(permissions) = folder.permissions(name) {
        unfinished.set_permissions(permissions)?;
    }
    unfinished.file.sync_all()?;

    fail::point("writing").map_err(io::Error::other)?;
    match existing {
        Existing::Keep => unfinished.keep(name)?,
        Existing::Replace => unfinished.replace(name)?,
    }
    folder.sync()?;
    fail::point("written").map_err(io::Error::other)
}

/// Removes what writes that were interrupted have left: in the session's folder, and beside what was to be edited.
pub fn sweep(site: &Site<'_>, planned: &[Step]) {
    let Some(session) = site.session else { return };
    let mut waiting = vec![site.root.join(change::folder(session))];
    while let Some(folder) = waiting.pop() {
        waiting.extend(sweep_folder(&folder, UNFINISHED));
    }
    let folders: BTreeSet<PathBuf> = planned
        .iter()
        .filter(|planned| planned.operation == OperationId::FilesEdit)
        .filter_map(|planned| Some(site.root.join(&planned.target).parent()?.to_path_buf()))
        .collect();
    // Others may be writing there, too.
    folders
        .iter()
        .for_each(|folder| drop(sweep_folder(folder, &unfinished(session))));
}

/// Removes the files of a folder whose names start like this, and returns the folders in it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
fn sweep_folder(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for name in file::names_in(folder).unwrap_or_default() {
        let path = folder.join(&name);
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        if found.is_dir() {
            folders.push(path);
        } else if name.to_string_lossy().starts_with(prefix) {
            // One that cannot be removed does no harm.
            let _stays = fs::remove_file(path);
        }
    }
    folders
}

/// What the name of a file starts with that is not written yet.
const UNFINISHED: &str = ".agentd-unfinished-";

/// Returns what the name of such a file of a session starts with, and of no other.
fn unfinished(session: &SessionId) -> String {
    format!("{UNFINISHED}{session}~")
}

/// `files.write`: writes updates into the session's folder.
pub(super) struct Write;

impl Operation for Write {
    fn id(&self) -> OperationId {
        OperationId::FilesWrite
    }
}

impl Act for Write {
    fn plan_effect(
        &self,
        site: &Site<'_>,
        effect: Effect,
        started: &Started,
        earlier: Option<&Step>,
    ) -> Step {
        let Some(session) = site.session else {
            return Step::on_request(effect, None);
        };
        let path = relative(session, &effect.target);
        // What cannot be read now is told when it is to be written.
        let now = || current(site.root, &path).ok().flatten();
        let before = match (earlier, &started.targets) {
            (Some(earlier), _) => earlier.after(),
            (None, Some(targets)) => targets.get(&effect.target).cloned(),
            (None, None) => now().map(|bytes| blob_id(&bytes)),
        };
        match (effect.format, earlier) {
            (UpdateFormat::Whole, _) => Step::on_request(effect, before),
            (UpdateFormat::Diff, Some(earlier)) => {
                Step::updating(effect, earlier.content.as_deref(), before)
            }
            (UpdateFormat::Diff, None) => Step::updating_bytes(effect, now(), before),
        }
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        Ok(match site.session {
            None => planned.settled(false, UNNAMED.to_owned()),
            Some(session) => settle(
                site.root,
                &relative(session, &planned.target),
                session,
                planned,
            ),
        })
    }
}

fn relative(session: &SessionId, target: &str) -> String {
    format!("{}/{target}", change::folder(session))
}

/// What becomes of an effect without a session.
pub(super) const UNNAMED: &str = "nothing is written without a session; name one with --change";

/// Returns the bytes of a file of the project that is to be written; `None` if there is none. A link on its path is an
/// error, wherever that leads: the file has another name.
pub(super) fn current(root: &Path, relative: &str) -> io::Result<Option<Vec<u8>>> {
    beneath::read_bytes(root, relative, LARGEST).map_err(io::Error::other)
}

/// Makes a file hold what is planned, and tells what became of that.
pub(super) fn settle(
    root: &Path,
    relative: &str,
    session: &SessionId,
    planned: &Step,
) -> StepResult {
    match make(root, relative, session, planned) {
        Ok(words) => planned.settled(true, format!("{words} {relative}")),
        Err(error) => planned.settled(false, format!("cannot write {relative}: {error}")),
    }
}

/// Writes or removes a file if it still holds what it held when this was decided, or does nothing if that was done.
fn make(
    root: &Path,
    relative: &str,
    session: &SessionId,
    planned: &Step,
) -> io::Result<&'static str> {
    let now = current(root, relative)?.map(|bytes| blob_id(&bytes));
    if now == planned.after() {
        return Ok("left unchanged");
    }
    if now != planned.before {
        return Err(io::Error::other(TARGET_CHANGED));
    }
    match &planned.content {
        Some(content) => {
            write_whole(
                root,
                relative,
                content,
                Existing::Replace,
                &unfinished(session),
            )?;
            Ok(if now.is_some() { "replaced" } else { "wrote" })
        }
        None => remove(root, relative).map(|()| "removed"),
    }
}

/// Removes a file. No folder on the way may be a link.
fn remove(root: &Path, relative: &str) -> io::Result<()> {
    let (folder, name) = OpenFolder::of(root, relative, Missing::Fail)?;
    fail::point("writing").map_err(io::Error::other)?;
    folder.remove(name)?;
    folder.sync()?;
    fail::point("written").map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Several changes of one project may make `agentd/changes` at the same moment.
    #[test]
    fn folders_that_several_make_at_once_are_made_by_all() {
        for _ in 0..50 {
            let root = tempfile::tempdir().unwrap();
            let barrier = Barrier::new(8);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        barrier.wait();
                        OpenFolder::of(root.path(), "agentd/changes/a/specs/x", Missing::Create)
                            .unwrap();
                    });
                }
            });
        }
    }
}
