//! Access to files below a folder that no symlink can redirect.
//!
//! A path can change between its check and its use: in between, an agent or a check may replace a folder with a
//! symlink. Here every folder is opened relative to the handle of its parent, without following symlinks, and files are
//! created, renamed and removed relative to the handle of their folder.

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

/// Number in the name of the next temporary file of this process.
static NEXT_UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// Handling of folders on a path that do not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingFolders {
    /// Fail with `NotFound`.
    Fail,
    /// Create them.
    Create,
}

/// An open folder. It stays the same folder even if its path is replaced.
#[derive(Debug)]
pub(super) struct OpenFolder(OwnedFd);

impl OpenFolder {
    /// Opens the parent folder of a path below a root, and returns it with the last component of the path.
    pub(super) fn open_parent<'a>(
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

    /// Opens a subfolder.
    fn enter(&self, name: &str, missing: MissingFolders) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = match openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::ENOENT) if missing == MissingFolders::Create => {
                match mkdirat(&self.0, name, Mode::from_bits_truncate(0o777)) {
                    // Another process may have created it first.
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&self.0, name, flags, Mode::empty())
            }
            opened => opened,
        };
        match opened {
            Ok(folder) => Ok(Self(folder)),
            Err(_) if self.has_type(name, SFlag::S_IFLNK) => {
                Err(io::Error::other(format!("`{name}` is a symlink")))
            }
            Err(Errno::ENOTDIR) => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("`{name}` is not a folder"),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if an entry of the folder has a file type. A symlink is not followed.
    fn has_type(&self, name: &str, kind: SFlag) -> bool {
        fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind)
    }

    /// Opens a file in the folder for reading; `None` if it does not exist. Opening a named pipe does not block.
    fn open(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::ENOENT) => Ok(None),
            Err(_) if self.has_type(name, SFlag::S_IFLNK) => {
                Err(io::Error::other(format!("`{name}` is a symlink")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a temporary file in the folder, with default permissions and a name that starts with a prefix.
    pub(super) fn create(&self, prefix: &str) -> io::Result<UnfinishedFile<'_>> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        loop {
            let number = NEXT_UNFINISHED.fetch_add(1, Ordering::Relaxed);
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

    /// Returns the permissions of a regular file in the folder; `None` for anything else.
    pub(super) fn permissions(&self, name: &str) -> Option<Mode> {
        let stat = fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_file = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
        is_file.then(|| Mode::from_bits_truncate(stat.st_mode))
    }

    /// Removes a file in the folder.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Flushes created, renamed and removed entries to disk, so that they survive a power loss.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::from(self.0.try_clone()?).sync_all()
    }
}

/// A temporary file that does not have its final name yet. It is removed when dropped.
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

    /// Renames the file; an existing file with that name is replaced.
    pub(super) fn replace(mut self, name: &str) -> io::Result<()> {
        if let Some(unfinished) = &self.name {
            renameat(&self.folder.0, unfinished.as_str(), &self.folder.0, name)?;
            self.name = None;
        }
        Ok(())
    }

    /// Renames the file; fails if the name already exists.
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
            // A file that cannot be removed now is removed when the session continues.
            let _ignored = self.folder.remove(name);
        }
    }
}

/// Reads a file below a root; `None` if it does not exist.
///
/// # Errors
///
/// `FileUnusable` for a symlink on the path, and for anything but a regular file of at most `limit` bytes.
pub(in crate::ops) fn read_bytes(
    root: &Path,
    relative: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>> {
    let opened = OpenFolder::open_parent(root, relative, MissingFolders::Fail)
        .and_then(|(folder, name)| folder.open(name));
    match opened {
        Ok(Some(opened)) => file::read_opened(&root.join(relative), opened, limit).map(Some),
        Ok(None) => Ok(None),
        Err(error) if file::is_missing(&error) => Ok(None),
        Err(error) => Err(Error::new(ErrorKind::FileUnusable, error.to_string())),
    }
}

/// Fails for names that cannot be an entry of a folder.
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

    /// A folder `inner` of a root that is replaced with a symlink to `outside` after it was opened.
    #[test]
    fn a_folder_that_becomes_a_link_after_it_was_opened_leads_nowhere_else() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        for folder in [&root.join("inner"), &outside] {
            fs::write(folder.join("old"), "old").unwrap();
        }

        let (folder, name) =
            OpenFolder::open_parent(&root, "inner/new", MissingFolders::Create).unwrap();
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
            OpenFolder::open_parent(&root, relative, MissingFolders::Create)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(refused("inner/new"), "`inner` is a symlink");
        assert!(
            read_bytes(&root, "inner/old", 100)
                .unwrap_err()
                .to_string()
                .contains("`inner` is a symlink")
        );
        assert_eq!(
            read_bytes(&root, "moved/new", 100).unwrap().unwrap(),
            b"new"
        );
        assert_eq!(refused("moved/../x"), "`..` is not a file name");
    }
}
