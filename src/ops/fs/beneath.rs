//! Files below a folder, reached one name at a time so that no link leads elsewhere.
//!
//! A path that was checked can be another one when it is used: between the two, an agent or a check may replace a
//! folder by a link. Here every folder is opened by its handle, without following links, and files are created,
//! renamed and removed relative to the handle of their folder.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use crate::error::{Error, ErrorKind, Result};
use crate::file;

/// Numbers the files that this process has not finished writing.
static UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// Handling of folders on a path that do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingFolders {
    /// Fail with `NotFound`.
    Fail,
    /// Create them.
    Create,
}

/// A folder that is open, and stays the same one whatever its path leads to.
#[derive(Debug)]
pub(super) struct OpenFolder(OwnedFd);

impl OpenFolder {
    /// Opens the folder that holds a path below a root, and returns it with the last name of the path.
    pub(super) fn of<'a>(
        root: &Path,
        relative: &'a str,
        missing: MissingFolders,
    ) -> io::Result<(Self, &'a str)> {
        let (folders, name) = relative.rsplit_once('/').unwrap_or(("", relative));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Self(open(root, flags, Mode::empty())?);
        for name in folders.split('/').filter(|name| !name.is_empty()) {
            check_name(name)?;
            folder = folder.enter(name, missing)?;
        }
        check_name(name)?;
        Ok((folder, name))
    }

    /// Opens a folder in it.
    fn enter(&self, name: &str, missing: MissingFolders) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = match openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::ENOENT) if missing == MissingFolders::Create => {
                match mkdirat(&self.0, name, Mode::from_bits_truncate(0o777)) {
                    // Another process may have been faster.
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&self.0, name, flags, Mode::empty())
            }
            opened => opened,
        };
        match opened {
            Ok(folder) => Ok(Self(folder)),
            Err(_) if self.is(name, SFlag::S_IFLNK) => {
                Err(io::Error::other(format!("{name} is a link")))
            }
            Err(Errno::ENOTDIR) => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("{name} is not a folder"),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether a name in it is an entry of a kind. A link is not followed.
    fn is(&self, name: &str, kind: SFlag) -> bool {
        fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == kind)
    }

    /// Opens a file in it for reading; `None` if there is none. A pipe does not block.
    fn open(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::ENOENT) => Ok(None),
            Err(_) if self.is(name, SFlag::S_IFLNK) => {
                Err(io::Error::other(format!("{name} is a link")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file in it whose name starts with a prefix, with the permissions that any new file gets.
    pub(super) fn create(&self, prefix: &str) -> io::Result<UnfinishedFile<'_>> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        loop {
            let number = UNFINISHED.fetch_add(1, Ordering::Relaxed);
            let name = format!("{prefix}{}-{number}", process::id());
            match openat(
                &self.0,
                name.as_str(),
                flags,
                Mode::from_bits_truncate(0o666),
            ) {
                Ok(file) => {
                    return Ok(UnfinishedFile {
                        folder: self,
                        file: file.into(),
                        name: Some(name),
                    });
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the permissions of a regular file in it.
    pub(super) fn permissions(&self, name: &str) -> Option<Mode> {
        let found = fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_file = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        is_file.then(|| Mode::from_bits_truncate(found.st_mode))
    }

    /// Removes a file in it.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Flushes created, renamed and removed entries to disk, so that they survive a power loss.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::from(self.0.try_clone()?).sync_all()
    }
}

/// A file that does not have its name yet. Dropping it removes it.
#[derive(Debug)]
pub(super) struct UnfinishedFile<'a> {
    folder: &'a OpenFolder,
    pub(super) file: File,
    name: Option<String>,
}

impl UnfinishedFile<'_> {
    pub(super) fn set_permissions(&self, permissions: Mode) -> io::Result<()> {
        Ok(fchmod(&self.file, permissions)?)
    }

    /// Gives it a name, in the place of whatever has that name.
    pub(super) fn replace(mut self, name: &str) -> io::Result<()> {
        if let Some(unfinished) = &self.name {
            renameat(&self.folder.0, unfinished.as_str(), &self.folder.0, name)?;
            self.name = None;
        }
        Ok(())
    }

    /// Gives it a name that nothing has.
    pub(super) fn keep(self, name: &str) -> io::Result<()> {
        if let Some(unfinished) = &self.name {
            linkat(
                &self.folder.0,
                unfinished.as_str(),
                &self.folder.0,
                name,
                AtFlags::empty(),
            )?;
        }
        Ok(())
    }
}

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // One that stays is removed when the session goes on.
            let _stays = self.folder.remove(name);
        }
    }
}

/// Reads a file below a root; `None` if there is none.
///
/// # Errors
///
/// `FileUnusable` for a link on the path, and for anything but a regular file of at most `limit` bytes.
pub(in crate::ops) fn read_bytes(
    root: &Path,
    relative: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>> {
    let opened = OpenFolder::of(root, relative, MissingFolders::Fail)
        .and_then(|(folder, name)| folder.open(name));
    match opened {
        Ok(Some(opened)) => file::read_opened(&root.join(relative), opened, limit).map(Some),
        Ok(None) => Ok(None),
        Err(error) if file::is_missing(&error) => Ok(None),
        Err(error) => Err(Error::new(ErrorKind::FileUnusable, error.to_string())),
    }
}

/// Refuses names that cannot be an entry of a folder.
fn check_name(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") {
        return Err(io::Error::other(format!("`{name}` is not a file name")));
    }
    Ok(())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test makes the files that it needs"
)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder `inner` of a root that is replaced by a link to `outside` after it was opened.
    #[test]
    fn a_folder_that_becomes_a_link_after_it_was_opened_leads_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        for folder in [&root.join("inner"), &outside] {
            fs::write(folder.join("old"), "old").unwrap();
        }

        let (folder, name) = OpenFolder::of(&root, "inner/new", MissingFolders::Create).unwrap();
        fs::rename(root.join("inner"), root.join("moved")).unwrap();
        symlink(&outside, root.join("inner")).unwrap();
        let mut unfinished = folder.create(".part-").unwrap();
        unfinished.file.write_all(b"new").unwrap();
        unfinished.replace(name).unwrap();
        folder.create(".part-").unwrap().keep("kept").unwrap();
        folder.remove("old").unwrap();

        let names = |folder: &Path| file::names_in(folder).unwrap();
        assert_eq!(names(&outside), ["old"]);
        assert_eq!(names(&root.join("moved")), ["kept", "new"]);
        let refused = |relative| {
            OpenFolder::of(&root, relative, MissingFolders::Create)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refused("inner/new"), "inner is a link");
        assert!(
            read_bytes(&root, "inner/old", 100)
                .unwrap_err()
                .to_string()
                .contains("inner is a link")
        );
        assert_eq!(
            read_bytes(&root, "moved/new", 100).unwrap().unwrap(),
            b"new"
        );
        assert_eq!(refused("moved/../x"), "`..` is not a file name");
    }
}
