//! Differences between a working tree and a commit, including those that an agent tries to hide.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::command::{RepositoryFolders, path_of};
use super::output::{EXECUTABLE_MODE, lossy, not_understood, split_at_tab};
use super::repository::Repository;
use super::stage::{IndexListing, MAX_SNAPSHOT_FILE_BYTES, OversizedFile};
use super::temp_repo::TempRepository;
use super::texts::next_blob;
use super::worktree::Worktree;
use crate::error::Result;
use crate::file;
use crate::ops::fs::MAX_FILE_BYTES;

/// A file that has changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ChangedFile {
    /// Path, with replacement characters for invalid UTF-8.
    pub path: String,
    /// Kind of the change to the file.
    pub status: FileStatus,
    /// True if the file is not text.
    pub binary: bool,
    /// Number of added lines; 0 for a binary file.
    pub added: u64,
    /// Number of removed lines; 0 for a binary file.
    pub removed: u64,
}

/// Kind of a file's change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    /// The file is new.
    Added,
    /// The content or the file type has changed.
    Modified,
    /// The file was removed.
    Removed,
    /// The path has changed, and possibly the content.
    Renamed {
        /// The earlier path.
        from: String,
    },
}

/// Limits of a diff, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DiffLimits {
    /// Maximum size of the diff of one file.
    pub file: u64,
    /// Maximum size of the whole diff.
    pub total: u64,
}

/// The changed files, and the diffs that fit in the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The unified diffs of all files that are shown.
    pub text: String,
    /// All files that have changed.
    pub files: Vec<ChangedFile>,
    /// Changed files whose diffs are not in `text`.
    pub left_out: Vec<LeftOut>,
}

/// A changed file whose diff is not shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Path, with replacement characters for invalid UTF-8.
    pub path: String,
    /// Reason why the diff is not shown.
    pub why: String,
    /// Kind of the file.
    pub kind: LeftOutKind,
}

/// Kind of a file that is not shown.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutKind {
    /// Text that is too long, or that may hold secrets.
    Text,
    /// Not text, and not executable.
    Binary,
    /// An executable file, text or binary.
    Executable,
    /// A git repository in the working tree that is not a submodule, so its files are not part of a commit.
    NestedRepository,
    /// A file that was not read because of its size; nothing else is known about it.
    Size,
}

/// Returns true for the path of a file that a diff omits.
type LeaveOut<'a> = &'a dyn Fn(&str) -> bool;

impl Worktree {
    /// Returns the files that differ from a commit, including untracked files.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn changed(&self, from: &str) -> Result<Vec<ChangedFile>> {
        let from = self.repository.resolve(from)?;
        self.snapshot(&from)?.changed(&from)
    }

    /// Returns the difference between a commit and the worktree, including untracked files.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn diff(&self, from: &str, limits: DiffLimits, leave_out: LeaveOut<'_>) -> Result<Diff> {
        let from = self.repository.resolve(from)?;
        self.snapshot(&from)?.diff(&from, limits, leave_out)
    }

    /// Takes a snapshot of the worktree, including untracked files, to compare it with several commits. `id` is the id
    /// of any commit of the repository; it only determines the hash function.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn snapshot(&self, id: &str) -> Result<Snapshot> {
        Snapshot::take(&self.checked()?, id, HiddenFlags::Shown)
    }

    /// Returns the difference between two commits. For a worktree without uncommitted changes this equals
    /// [`Self::diff`], but no file has to be staged.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn diff_of_commit(
        &self,
        commit: &str,
        from: &str,
        limits: DiffLimits,
        leave_out: LeaveOut<'_>,
    ) -> Result<Diff> {
        let from = self.repository.resolve(from)?;
        let scratch = TempRepository::new(&self.checked()?, &from)?;
        Snapshot {
            scratch,
            tree: commit.to_owned(),
            nested: Vec::new(),
            oversized: Vec::new(),
        }
        .diff(&from, limits, leave_out)
    }
}

impl Repository {
    /// Returns the difference between a commit and the user's working tree. The repository is not modified.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn diff_of_tree(
        &self,
        from: &str,
        limits: DiffLimits,
        leave_out: LeaveOut<'_>,
    ) -> Result<Diff> {
        let from = self.resolve(from)?;
        Snapshot::take(&self.dir.guarded()?, &from, HiddenFlags::Kept)?
            .diff(&from, limits, leave_out)
    }
}

/// Handling of files with the flags `assume-unchanged` or `skip-worktree`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HiddenFlags {
    /// Respect the flags: the user has set them.
    Kept,
    /// Ignore the flags: an agent could hide its work with them.
    Shown,
}

/// The state of a working tree at one moment, as a git tree in a temporary object store. Dropping it removes the store.
#[derive(Debug)]
pub struct Snapshot {
    scratch: TempRepository,
    /// Id of the tree, or of a commit with that tree.
    tree: String,
    /// Nested repositories that are not submodules. They are not part of the tree.
    pub(super) nested: Vec<String>,
    /// Files that were not read because of their size. Their current content is not part of the tree.
    oversized: Vec<OversizedFile>,
}

/// Settings of commands that write temporary objects: compressing them would take most of the time.
const NO_COMPRESSION: [&str; 2] = ["core.compression=0", "core.looseCompression=0"];

impl Snapshot {
    fn take(dir: &RepositoryFolders, id: &str, hidden: HiddenFlags) -> Result<Self> {
        let scratch = TempRepository::new(dir, id)?;
        scratch.copy_index(&dir.git_dir.join("index"))?;

        let env = scratch.own_objects();
        let dir = NO_COMPRESSION
            .iter()
            .fold(dir.clone(), |dir, setting| dir.with_setting(setting));
        let listing = IndexListing::read(&dir, &env, MAX_SNAPSHOT_FILE_BYTES)?;
        if hidden == HiddenFlags::Shown {
            listing.show_hidden(&dir, &env)?;
        }
        listing.add_all(&dir, &env)?;
        let tree = dir.call(&["write-tree"]).env(&env).text()?;

        Ok(Self {
            scratch,
            tree,
            nested: listing.nested(),
            oversized: match hidden {
                HiddenFlags::Shown => listing.oversized().to_vec(),
                HiddenFlags::Kept => listing.oversized_and_visible(),
            },
        })
    }

    /// Returns the files that differ from a commit.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if the commit does not exist.
    pub fn changed(&self, from: &str) -> Result<Vec<ChangedFile>> {
        Ok(ComparedTrees::new(self, from)?.changed())
    }

    /// Returns the difference between a commit and the snapshot.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if the commit does not exist.
    pub fn diff(&self, from: &str, limits: DiffLimits, leave_out: LeaveOut<'_>) -> Result<Diff> {
        ComparedTrees::new(self, from)?.diff(limits, leave_out)
    }
}

/// A commit and a snapshot, and the files in which they differ.
struct ComparedTrees<'a> {
    snapshot: &'a Snapshot,
    from: &'a str,
    records: Vec<RawRecord>,
}

/// A changed file as `git diff-tree` prints it.
struct RawRecord {
    path: Vec<u8>,
    from: Option<Vec<u8>>,
    status: u8,
    /// Object ids before and after; all zeros if the file does not exist.
    ids: [String; 2],
    /// True if the file is executable before or after.
    is_executable: bool,
    is_binary: bool,
    added: u64,
    removed: u64,
}

impl RawRecord {
    fn changed(&self) -> ChangedFile {
        let status = match (self.status, &self.from) {
            (_, Some(from)) => FileStatus::Renamed { from: lossy(from) },
            (b'A', None) => FileStatus::Added,
            (b'D', None) => FileStatus::Removed,
            _ => FileStatus::Modified,
        };
        let Self {
            is_binary,
            added,
            removed,
            ..
        } = *self;
        ChangedFile {
            path: lossy(&self.path),
            status,
            binary: is_binary,
            added,
            removed,
        }
    }

    /// Returns the entry of a file that is not shown and, if it was renamed, another one for its earlier path.
    fn left_out(&self, why: &str) -> impl Iterator<Item = LeftOut> + use<> {
        let kind = match (self.is_executable, self.is_binary) {
            (true, _) => LeftOutKind::Executable,
            (false, true) => LeftOutKind::Binary,
            (false, false) => LeftOutKind::Text,
        };
        let entry = LeftOut {
            path: lossy(&self.path),
            why: why.to_owned(),
            kind,
        };
        let entry_before_rename = |from| LeftOut {
            path: lossy(from),
            why: format!("it was renamed; {why}"),
            kind,
        };
        std::iter::once(entry).chain(self.from.as_deref().map(entry_before_rename))
    }

    /// Returns the number of diffs that git prints for the file: two if its type has changed, a removal and an
    /// addition.
    fn diffs(&self) -> usize {
        if self.status == b'T' { 2 } else { 1 }
    }
}

impl OversizedFile {
    fn changed(&self) -> ChangedFile {
        let status = if self.is_untracked {
            FileStatus::Added
        } else {
            FileStatus::Modified
        };
        ChangedFile {
            path: lossy(&self.path),
            status,
            binary: true,
            added: 0,
            removed: 0,
        }
    }

    fn left_out(&self) -> LeftOut {
        LeftOut {
            path: lossy(&self.path),
            why: format!("it is too large: {}", file::in_units(self.size)),
            kind: LeftOutKind::Size,
        }
    }
}

/// Subcommand and arguments of every diff.
const DIFF_ARGS: [&str; 7] = [
    "diff-tree",
    "-r",
    "--no-commit-id",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--submodule=short",
];

/// Setting of every diff: git treats larger files as binary.
const BIG_FILE_SETTING: &str = "core.bigFileThreshold=16m";

/// Argument that limits the number of files that are compared to find renames.
const RENAME_LIMIT: &str = "-l1000";

/// Maximum number of files in one `diff-tree` if all files together exceed `MAX_GROUP_BYTES`.
const MAX_GROUP_FILES: usize = 200;

/// Maximum size of the files in one `diff-tree`, in bytes.
const MAX_GROUP_BYTES: u64 = 32 * 1024 * 1024;

impl<'a> ComparedTrees<'a> {
    fn new(snapshot: &'a Snapshot, from: &'a str) -> Result<Self> {
        let call = snapshot
            .scratch
            .dir
            .call(&DIFF_ARGS)
            .setting(BIG_FILE_SETTING);
        let args = [
            "-z",
            "-M",
            RENAME_LIMIT,
            "--raw",
            "--no-abbrev",
            "--numstat",
            from,
            &snapshot.tree,
        ];
        let records = records(&call.args(args).ok()?)?;
        Ok(Self {
            snapshot,
            from,
            records,
        })
    }

    /// Returns all files that differ, including oversized files that were not read.
    fn changed(&self) -> Vec<ChangedFile> {
        let read = self.records.iter().map(RawRecord::changed);
        let is_unrecorded =
            |file: &&OversizedFile| !self.records.iter().any(|r| r.path == file.path);
        let unread = self.snapshot.oversized.iter().filter(is_unrecorded);
        read.chain(unread.map(OversizedFile::changed)).collect()
    }

    fn diff(&self, limits: DiffLimits, leave_out: LeaveOut<'_>) -> Result<Diff> {
        let sizes = self.sizes()?;
        let mut diff = Diff {
            files: self.changed(),
            ..Diff::default()
        };
        let oversized: HashSet<&[u8]> = self
            .snapshot
            .oversized
            .iter()
            .map(|file| file.path.as_slice())
            .collect();

        let texts = self.disguised_texts(&sizes, limits)?;
        let mut shown = Vec::new();
        let mut disguised = Vec::new();
        for record in &self.records {
            // The tree has an earlier version of an oversized file.
            if oversized.contains(record.path.as_slice()) {
                continue;
            }
            let is_text = record
                .ids
                .iter()
                .all(|id| is_null_id(id) || texts.contains(id));
            match why_left_out(record, &sizes, leave_out, is_text) {
                Some(why) => diff.left_out.extend(record.left_out(&why)),
                None if record.is_binary => disguised.push(record),
                None => shown.push(record),
            }
        }

        let bytes: u64 = self
            .records
            .iter()
            .map(|record| size_of(record, &sizes))
            .sum();
        if bytes <= MAX_GROUP_BYTES {
            self.show_all(&shown, limits, &mut diff)?;
        } else {
            for group in groups(&shown, &sizes) {
                self.show(&group, &[], limits, &mut diff)?;
            }
        }
        for group in groups(&disguised, &sizes) {
            self.show(&group, &["--text"], limits, &mut diff)?;
        }

        let nested = self.snapshot.nested.iter().map(|path| LeftOut {
            path: path.clone(),
            why: "it is a separate git repository".to_owned(),
            kind: LeftOutKind::NestedRepository,
        });
        diff.left_out.extend(nested);
        let oversized = self.snapshot.oversized.iter().map(OversizedFile::left_out);
        diff.left_out.extend(oversized);
        Ok(diff)
    }

    /// Adds the diffs that fit in the limits, from one `diff-tree` of all changed files.
    fn show_all(&self, shown: &[&RawRecord], limits: DiffLimits, diff: &mut Diff) -> Result<()> {
        if shown.is_empty() {
            return Ok(());
        }
        // With the arguments of `new`, so that git detects the same renames.
        let has_renames = self.records.iter().any(|record| record.from.is_some());
        let renames: &[&str] = if has_renames {
            &["-M", RENAME_LIMIT]
        } else {
            &["--no-renames"]
        };
        let call = self
            .snapshot
            .scratch
            .dir
            .call(&DIFF_ARGS)
            .setting(BIG_FILE_SETTING);
        let output = call
            .arg("-p")
            .args(renames)
            .args([self.from, &self.snapshot.tree])
            .ok()?;

        let mut parts = split_diffs(&output).into_iter();
        let mut shown = shown.iter().copied().peekable();
        for record in &self.records {
            let text = next_text(record, &mut parts)?;
            if shown.next_if(|next| std::ptr::eq(*next, record)).is_some() {
                add_text(record, &text, limits, diff);
            }
        }
        match parts.next() {
            Some(_) => Err(not_understood("diff-tree")),
            None => Ok(()),
        }
    }

    /// Returns the ids of text files that git treats as binary: a NUL byte in a script, or an attribute of the
    /// repository, is enough to hide it from a reviewer.
    fn disguised_texts(&self, sizes: &Sizes, limits: DiffLimits) -> Result<HashSet<String>> {
        let binary = self.records.iter().filter(|record| record.is_binary);
        let mut input = String::new();
        let mut total = 0;
        for id in binary.flat_map(|record| &record.ids) {
            let Some(size) = sizes.get(id).filter(|size| **size <= limits.file) else {
                continue;
            };
            total += size;
            if total > MAX_GROUP_BYTES {
                break;
            }
            input.push_str(&format!("{id}\n"));
        }
        if input.is_empty() {
            return Ok(HashSet::new());
        }

        let output = self
            .snapshot
            .scratch
            .dir
            .call(&["cat-file", "--batch"])
            .input(input.as_str())
            .ok()?;
        let mut rest = output.as_slice();
        let mut texts = HashSet::new();
        for id in input.lines() {
            let size = sizes.get(id).copied().unwrap_or(0);
            let content =
                next_blob(&mut rest, id, size).ok_or_else(|| not_understood("cat-file"))?;
            if is_mostly_text(content) {
                texts.insert(id.to_owned());
            }
        }
        Ok(texts)
    }

    /// Adds the diffs of a group of files that fit in the limits.
    fn show(
        &self,
        group: &[&RawRecord],
        options: &[&str],
        limits: DiffLimits,
        diff: &mut Diff,
    ) -> Result<()> {
        let renames = if group.iter().any(|record| record.from.is_some()) {
            "-M"
        } else {
            "--no-renames"
        };
        let call = self
            .snapshot
            .scratch
            .dir
            .call(&DIFF_ARGS)
            .setting(BIG_FILE_SETTING)
            .literal();
        let call = call
            .args(options)
            .args(["-p", renames, self.from, &self.snapshot.tree, "--"]);

        let paths = group
            .iter()
            .flat_map(|record| [Some(&record.path), record.from.as_ref()])
            .flatten();
        let output = call.args(paths.map(|path| path_of(path))).ok()?;

        let mut parts = split_diffs(&output).into_iter();
        for record in group {
            let text = next_text(record, &mut parts)?;
            add_text(record, &text, limits, diff);
        }
        match parts.next() {
            Some(_) => Err(not_understood("diff-tree")),
            None => Ok(()),
        }
    }

    /// Returns the sizes of all objects in the records.
    fn sizes(&self) -> Result<Sizes> {
        let ids = self.records.iter().flat_map(|record| &record.ids);
        let input: String = ids.map(|id| format!("{id}\n")).collect();
        if input.is_empty() {
            return Ok(Sizes::new());
        }
        let output = self
            .snapshot
            .scratch
            .dir
            .call(&["cat-file", "--batch-check"])
            .input(input)
            .ok()?;
        let sizes = lossy(&output);
        Ok(sizes
            .lines()
            .filter_map(|line| {
                // Each line is `ID TYPE SIZE`.
                let mut fields = line.split(' ');
                Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
            })
            .collect())
    }
}

/// Sizes of objects in bytes, by id.
type Sizes = HashMap<String, u64>;

/// Returns the sum of a file's sizes before and after.
fn size_of(record: &RawRecord, sizes: &Sizes) -> u64 {
    record.ids.iter().filter_map(|id| sizes.get(id)).sum()
}

/// Returns true for the id of all zeros, by which git marks a file that does not exist.
fn is_null_id(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}

/// Returns true for UTF-8 text in which fewer than one byte in ten is a control character. Anything else that git
/// treats as binary is not shown.
fn is_mostly_text(content: &[u8]) -> bool {
    let is_control = |byte: &&u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    let controls = content.iter().filter(is_control).count();
    controls * 10 < content.len() && std::str::from_utf8(content).is_ok()
}

/// Returns the reason why the diff omits a file; `None` if it shows the file. `is_text` is true for a text file that git
/// treats as binary.
fn why_left_out(
    record: &RawRecord,
    sizes: &Sizes,
    leave_out: LeaveOut<'_>,
    is_text: bool,
) -> Option<String> {
    let mut names = [Some(&record.path), record.from.as_ref()]
        .into_iter()
        .flatten();
    let size = size_of(record, sizes);
    if names.any(|path| leave_out(&lossy(path))) {
        Some("its name suggests secrets".to_owned())
    } else if size > 2 * MAX_FILE_BYTES {
        Some(format!("it is too large: {}", file::in_units(size)))
    } else if record.is_binary && !is_text {
        let size = sizes.get(&record.ids[1]).copied().unwrap_or(0);
        Some(format!("it is a binary file of {}", file::in_units(size)))
    } else {
        None
    }
}

/// Splits files into groups, each of which is diffed by one command.
fn groups<'a>(records: &[&'a RawRecord], sizes: &Sizes) -> Vec<Vec<&'a RawRecord>> {
    // A renamed file is alone in its group, because git searches for renames among all files of a group.
    let is_renamed = |record: &RawRecord| record.from.is_some();
    let mut groups: Vec<Vec<&RawRecord>> = Vec::new();
    let mut bytes = 0;
    for &record in records {
        bytes += size_of(record, sizes);
        let last = groups.last_mut().filter(|group| {
            group.len() < MAX_GROUP_FILES
                && bytes < MAX_GROUP_BYTES
                && !is_renamed(record)
                && !is_renamed(group[0])
        });
        match last {
            Some(group) => group.push(record),
            None => {
                bytes = size_of(record, sizes);
                groups.push(vec![record]);
            }
        }
    }
    groups
}

/// Takes the diff of a file from the diffs of all files: the next one, or the next two.
fn next_text<'a>(record: &RawRecord, parts: &mut impl Iterator<Item = &'a [u8]>) -> Result<String> {
    let parts: Vec<&[u8]> = parts.take(record.diffs()).collect();
    if parts.len() < record.diffs() {
        return Err(not_understood("diff-tree"));
    }
    Ok(lossy(&parts.concat()))
}

/// Adds the diff of a file if it fits in the limits; otherwise adds the file to those that are not shown.
fn add_text(record: &RawRecord, text: &str, limits: DiffLimits, diff: &mut Diff) {
    let text = &escape_nul(text);
    let size = text.len() as u64;
    let room = limits.total.saturating_sub(diff.text.len() as u64);
    if size <= limits.file.min(room) {
        diff.text.push_str(text);
        return;
    }
    let size_text = file::in_units(size);
    let why = if size > limits.file {
        format!("its diff is too large: {size_text}")
    } else {
        format!("the diffs of other files leave no room for its diff of {size_text}")
    };
    diff.left_out.extend(record.left_out(&why));
}

/// Returns a diff with NUL bytes shown as `\x00`, preceded by a line that says so.
fn escape_nul(text: &str) -> Cow<'_, str> {
    if !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!(
        "# NUL bytes of the next file are shown as \\x00\n{}",
        text.replace('\0', "\\x00")
    ))
}

/// Splits the output of `diff-tree -p` into its diffs. A content line cannot be mistaken for a diff header, because it
/// starts with a space or a sign.
fn split_diffs(output: &[u8]) -> Vec<&[u8]> {
    const START: &[u8] = b"diff --git ";
    let mut parts = Vec::new();
    let mut begun = 0;
    let mut at = 0;
    for line in output.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(START) && at > begun {
            parts.push(&output[begun..at]);
            begun = at;
        }
        at += line.len();
    }
    if at > begun {
        parts.push(&output[begun..at]);
    }
    parts
}

/// Parses the output of `--raw --numstat -z`, which lists all files twice, in the same order.
fn records(output: &[u8]) -> Result<Vec<RawRecord>> {
    let malformed = || not_understood("diff-tree");
    let mut parts = output.split(|&byte| byte == 0);

    let mut records = Vec::new();
    let mut next = parts.next();
    while let Some(meta) = next.and_then(|part| part.strip_prefix(b":")) {
        let meta = lossy(meta);
        let fields: Vec<&str> = meta.split(' ').collect();
        let [old_mode, new_mode, old, new, status] = fields[..] else {
            return Err(malformed());
        };

        let status = status.bytes().next().ok_or_else(malformed)?;
        let mut path = parts.next().ok_or_else(malformed)?.to_vec();
        let mut from = None;
        if matches!(status, b'R' | b'C') {
            from = Some(std::mem::replace(
                &mut path,
                parts.next().ok_or_else(malformed)?.to_vec(),
            ));
        }

        let ids = [old.to_owned(), new.to_owned()];
        let is_executable = [old_mode, new_mode].contains(&EXECUTABLE_MODE);
        records.push(RawRecord {
            path,
            from,
            status,
            ids,
            is_executable,
            is_binary: false,
            added: 0,
            removed: 0,
        });
        next = parts.next();
    }

    for record in &mut records {
        let counts = next.ok_or_else(malformed)?;
        let (added, rest) = split_at_tab(counts).ok_or_else(malformed)?;
        let (removed, path) = split_at_tab(rest).ok_or_else(malformed)?;

        // The path of a renamed file is empty, and the old and the new path follow.
        if path.is_empty() {
            parts.next();
        }
        let path = if path.is_empty() {
            parts.next().ok_or_else(malformed)?
        } else {
            path
        };
        if path != record.path {
            return Err(malformed());
        }

        record.is_binary = added == b"-";
        record.added = lossy(added).parse().unwrap_or(0);
        record.removed = lossy(removed).parse().unwrap_or(0);
        next = parts.next();
    }
    Ok(records)
}
