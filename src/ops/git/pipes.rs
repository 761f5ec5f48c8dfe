//! Search for named pipes that would block git, and for huge files that git would read into memory.

use std::collections::VecDeque;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::wait::WaitEnd;
use crate::ops::fs::git_folders;

/// Files that git reads in the folders of a working tree.
const READ_IN_WORK_TREES: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Files of a `.git` folder that git reads into memory as a whole.
const READ_IN_GIT_DIRS: [&str; 4] = ["HEAD", "config", "exclude", "attributes"];

/// Maximum size of a file that git reads into memory as a whole, in bytes.
pub(super) const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;

/// Running time of a command after which the search starts.
const FIRST_SEARCH_AFTER: Duration = Duration::from_secs(1);

/// Maximum duration of one slice of the search. Between two slices, the caller checks if the command has exited.
const MAX_SLICE: Duration = Duration::from_millis(10);

/// Searches a repository for named pipes, devices and huge files in place of files that git reads, while a slow git
/// command is running.
///
/// Git blocks when it opens a named pipe without a writer. A check before the command would be slow, because it would
/// have to visit every folder, and incomplete, because a pipe can be created afterwards. Nearly all commands exit
/// before the search starts, so it costs them nothing.
pub(super) struct PipeSearch {
    work_tree: PathBuf,
    git_dirs: Vec<PathBuf>,
    /// Folders that remain to be searched.
    folders: VecDeque<Folder>,
    begun: Instant,
    /// Running time of the command after which the next search of all folders starts.
    next: Duration,
}

/// A folder to search.
enum Folder {
    /// Part of a working tree. Only files that git opens by name are checked: other pipes can be the user's own.
    WorkTree(PathBuf),
    /// Part of a `.git` folder, which must not contain a pipe.
    GitDir(PathBuf),
}

impl PipeSearch {
    /// Prepares a search for a command that starts now. If `git_dirs` is empty, the git folders of
    /// the working tree are searched.
    pub(super) fn new(work_tree: &Path, git_dirs: &[PathBuf]) -> Self {
        Self {
            work_tree: work_tree.to_path_buf(),
            git_dirs: git_dirs.to_vec(),
            folders: VecDeque::new(),
            begun: Instant::now(),
            next: FIRST_SEARCH_AFTER,
        }
    }

    /// Runs one slice of the search if the command is slow.
    ///
    /// # Errors
    ///
    /// `Pipe` or `LargeFile` for the first such file that is found.
    pub(super) fn advance(&mut self) -> Result<(), WaitEnd> {
        let running = self.begun.elapsed();
        if self.folders.is_empty() {
            if running < self.next {
                return Ok(());
            }
            self.next = running * 2;
            self.start()?;
        }

        let slice = Instant::now();
        while slice.elapsed() < MAX_SLICE
            && let Some(folder) = self.folders.pop_front()
        {
            // A folder that cannot be listed is skipped; the timeout of the command still applies.
            if let Ok(Some(stopped)) = self.search(&folder) {
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// Restarts the search at the top folders. Fails if a `.git` folder is a pipe itself.
    fn start(&mut self) -> Result<(), WaitEnd> {
        let git_dirs = if self.git_dirs.is_empty() {
            git_folders(&self.work_tree)
        } else {
            self.git_dirs.clone()
        };
        for git_dir in git_dirs {
            if is_pipe(&git_dir) {
                return Err(WaitEnd::Pipe(git_dir));
            }
            self.folders.push_back(Folder::GitDir(git_dir));
        }
        self.folders
            .push_back(Folder::WorkTree(self.work_tree.clone()));
        Ok(())
    }

    /// Searches one folder, and queues its subfolders.
    #[expect(clippy::disallowed_methods, reason = "this is the door to git")]
    fn search(&mut self, folder: &Folder) -> io::Result<Option<WaitEnd>> {
        let (Folder::WorkTree(path) | Folder::GitDir(path)) = folder;
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let file_type = entry.file_type()?;
            if file_type.is_dir() {
                self.folders.push_back(folder.child(&entry));
            } else if !file_type.is_file() && folder.is_read(&entry) && is_pipe(&entry.path()) {
                return Ok(Some(WaitEnd::Pipe(entry.path())));
            } else if folder.is_read_whole(&entry) && is_huge(&entry.path()) {
                return Ok(Some(WaitEnd::LargeFile(entry.path())));
            }
        }
        Ok(None)
    }
}

impl Folder {
    fn child(&self, entry: &DirEntry) -> Self {
        match self {
            Self::WorkTree(_) if entry.file_name() != ".git" => Self::WorkTree(entry.path()),
            _ => Self::GitDir(entry.path()),
        }
    }

    /// Returns true for an entry that git may open.
    fn is_read(&self, entry: &DirEntry) -> bool {
        let name = entry.file_name();
        match self {
            Self::WorkTree(_) => READ_IN_WORK_TREES.iter().any(|read| name == *read),
            Self::GitDir(_) => true,
        }
    }

    /// Returns true for an entry that git may read into memory as a whole.
    fn is_read_whole(&self, entry: &DirEntry) -> bool {
        let name = entry.file_name();
        match self {
            Self::WorkTree(_) => self.is_read(entry),
            Self::GitDir(_) => READ_IN_GIT_DIRS.iter().any(|read| name == *read),
        }
    }
}

fn is_huge(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() > MAX_READ_BYTES)
}

/// Returns true for a named pipe, a character device, or a symlink to one.
fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| {
        let file_type = metadata.file_type();
        file_type.is_fifo() || file_type.is_char_device()
    })
}
