//! Search for named pipes that git would wait for, and for huge files that it would read into memory.

use std::collections::VecDeque;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::wait::WaitEnd;
use crate::ops::fs::git_folders;

/// Files that git reads in the folders of a work tree.
const READ_IN_WORK_TREES: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Files of a folder `.git` that git reads into memory as a whole.
const READ_IN_GIT_DIRS: [&str; 4] = ["HEAD", "config", "exclude", "attributes"];

/// Maximum size of a file that git reads into memory as a whole.
const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;

/// Running time of a command after which the search begins.
const FIRST_SEARCH_AFTER: Duration = Duration::from_secs(1);

/// Longest time that the search takes at once; the command may exit meanwhile.
const MAX_SLICE: Duration = Duration::from_millis(10);

/// Searches a repository for named pipes, devices and huge files in place of files that git reads, while a git command
/// is slow.
///
/// Git blocks when it opens a pipe that nobody writes to. No check before the command can exclude that cheaply: it
/// would have to visit every folder, and a pipe can be created afterwards. Nearly all commands exit before the search
/// begins, so it costs them nothing.
pub(super) struct PipeSearch {
    work_tree: PathBuf,
    git_dirs: Vec<PathBuf>,
    /// Folders that are not searched yet.
    folders: VecDeque<Folder>,
    begun: Instant,
    /// Running time of the command at which the next search of all folders begins.
    next: Duration,
}

/// A folder to search.
enum Folder {
    /// Part of a work tree. Only files that git reads by their name count: other pipes can be the user's own.
    WorkTree(PathBuf),
    /// Part of a folder `.git`, in which no pipe belongs.
    GitDir(PathBuf),
}

impl PipeSearch {
    /// Prepares a search for a command that starts now. Without `git_dirs`, git looks for them from the work tree.
    pub(super) fn new(work_tree: &Path, git_dirs: &[PathBuf]) -> Self {
        Self {
            work_tree: work_tree.to_path_buf(),
            git_dirs: git_dirs.to_vec(),
            folders: VecDeque::new(),
            begun: Instant::now(),
            next: FIRST_SEARCH_AFTER,
        }
    }

    /// Continues the search for a moment if the command is slow.
    ///
    /// # Errors
    ///
    /// `Pipe` and `LargeFile` for the first one that it finds.
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
            // A folder that cannot be listed is left to the time limit.
            if let Ok(Some(stopped)) = self.search(&folder) {
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// Starts over with the top folders, none of which may be a pipe itself.
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

    /// Searches one folder, and adds those in it to the ones to search.
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
        .is_ok_and(|found| found.is_file() && found.len() > MAX_READ_BYTES)
}

/// Returns true for a path that leads to a named pipe or a character device.
fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| {
        let file_type = found.file_type();
        file_type.is_fifo() || file_type.is_char_device()
    })
}
