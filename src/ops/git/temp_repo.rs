//! A temporary repository that shares the objects of another repository, but not its settings.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::command::{RepositoryFolders, failed};
use crate::error::Result;
use crate::file;

/// Attributes that disable filters: the files that a merge writes here are not used.
const ATTRIBUTES: &str = "* !filter\n";

/// Length of a SHA-256 object id in hexadecimal digits.
const SHA256_ID_LENGTH: usize = 64;

/// A temporary repository with an empty working tree and its own index.
#[derive(Debug)]
pub(super) struct TempRepository {
    folder: TempDir,
    /// The folders that its commands use.
    pub(super) dir: RepositoryFolders,
}

impl TempRepository {
    /// Creates a temporary repository that can read all objects of `source`. `id` is any object id in
    /// `source`; its length determines the hash function.
    pub(super) fn new(source: &RepositoryFolders, id: &str) -> Result<Self> {
        Self::make(source, id)
            .map_err(|error| failed("cannot create a temporary repository").with_source(error))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to git, and the folder is our own"
    )]
    fn make(source: &RepositoryFolders, id: &str) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let git_dir = folder.path().join("git");
        for name in ["git/objects/info", "git/refs", "git/info", "tree"] {
            fs::create_dir_all(folder.path().join(name))?;
        }

        let config = match id.len() {
            SHA256_ID_LENGTH => {
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
            }
            _ => "[core]\n\trepositoryformatversion = 0\n",
        };

        fs::write(git_dir.join("HEAD"), "ref: refs/heads/none\n")?;
        fs::write(git_dir.join("config"), config)?;
        fs::write(git_dir.join("info/attributes"), ATTRIBUTES)?;
        fs::write(
            git_dir.join("objects/info/alternates"),
            quoted(&source.common.join("objects")),
        )?;

        let work_tree = folder.path().join("tree");
        let mut dir = RepositoryFolders::new(&source.git, &git_dir, &git_dir, &work_tree);
        dir.borrows_from.push(source.common.clone());
        Ok(Self { folder, dir })
    }

    /// Copies an index to the temporary repository, if the index exists.
    ///
    /// The copy keeps the modification time of the original. Git compares it with those of the files: a file that was
    /// written at the same moment as the index may have changed since, so git reads it.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to git, and the folder is our own"
    )]
    pub(super) fn copy_index(&self, from: &Path) -> Result<()> {
        let copy = || {
            let mut original = file::open(from)?;
            let mut copy = fs::File::create(self.index())?;
            io::copy(&mut original, &mut copy)?;
            copy.set_modified(original.metadata()?.modified()?)
        };
        match copy() {
            Err(error) if !file::is_missing(&error) => {
                Err(failed("cannot copy git's index").with_source(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the path of the index.
    pub(super) fn index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    /// Returns the variables that make a command use this index.
    pub(super) fn own_index(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("GIT_INDEX_FILE", self.index())]
    }

    /// Returns the variables that make a command of another repository use this index, and write new objects here.
    pub(super) fn own_objects(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("GIT_INDEX_FILE", self.index()),
            ("GIT_OBJECT_DIRECTORY", self.dir.git_dir.join("objects")),
        ]
    }
}

/// Returns a path as a line of `objects/info/alternates`, quoted for git.
fn quoted(path: &Path) -> Vec<u8> {
    let mut line = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', byte]),
            b'\n' => line.extend(*b"\\n"),
            _ => line.push(byte),
        }
    }
    line.extend(*b"\"\n");
    line
}
