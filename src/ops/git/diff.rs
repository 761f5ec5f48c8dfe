//! Differences between a working tree and a commit, including those that an agent tries to hide.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::command::{RepositoryFolders, path_of};
use super::output::{lossy, not_understood, split_at_tab};
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
    /// Kind of the change.
    pub status: FileStatus,
    /// Set if it is not a text.
    pub binary: bool,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
}

/// Kind of a file's change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    /// It is new.
    Added,
    /// It has other content, or is of another kind.
    Modified,
    /// It was removed.
    Removed,
    /// It had another path, and perhaps other content.
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

/// The changed files, and the diffs that fit the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The unified diffs of all files that are shown.
    pub text: String,
    /// All files that have changed.
    pub files: Vec<ChangedFile>,
    /// The files that are not shown.
    pub left_out: Vec<LeftOut>,
}

/// A file that has changed and is not shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Path, with replacement characters for invalid UTF-8.
    pub path: String,
    /// The reason.
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
    /// A file that can be executed.
    Executable,
    /// A git repository in the work tree that is part of no commit.
    NestedRepository,
    /// A file that was not read because of its size, so that nothing else is known about it.
    Size,
}

/// Returns true for the path of a file that is left out of a diff.
type LeaveOut<'a> = &'a dyn Fn(&str) -> bool;

impl Worktree {
    /// Returns the files that differ from a commit, those not known to git among them.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn changed(&self, from: &str) -> Result<Vec<ChangedFile>> {
        let from = self.repository.named(from)?;
        self.snapshot(&from)?.changed(&from)
    }

    /// Returns how the work tree differs from a commit, files not known to git among them.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn diff(&self, from: &str, limits: DiffLimits, leave_out: LeaveOut<'_>) -> Result<Diff> {
        let from = self.repository.named(from)?;
        self.snapshot(&from)?.diff(&from, limits, leave_out)
    }

    /// Takes a snapshot of the work tree as it is now, files not known to git among it, to be compared with several
    /// commits. `id` is the id of any commit of the repository.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn snapshot(&self, id: &str) -> Result<Snapshot> {
        Snapshot::take(&self.checked()?, id, HiddenFlags::Shown)
    }

    /// Returns how a commit differs from another, as [`Self::diff`] does for a work tree that holds that commit and
    /// nothing else. Nothing is staged for it.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn diff_of_commit(
        &self,
        commit: &str,
        from: &str,
        limits: DiffLimits,
        leave_out: LeaveOut<'_>,
    ) -> Result<Diff> {
        let from = self.repository.named(from)?;
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
    /// Returns how the user's own work tree differs from a commit; nothing in the repository is touched.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn diff_of_tree(
        &self,
        from: &str,
        limits: DiffLimits,
        leave_out: LeaveOut<'_>,
    ) -> Result<Diff> {
        let from = self.named(from)?;
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

/// A work tree as it was at one moment: a tree of git's in a temporary object store, which is removed with this value.
#[derive(Debug)]
pub struct Snapshot {
    scratch: TempRepository,
    /// The tree, or a commit that has it.
    tree: String,
    /// Repositories in the work tree that are no submodules, and are not part of the tree.
    pub(super) nested: Vec<String>,
    /// Files that were not read because of their size, and are not part of the tree.
    oversized: Vec<OversizedFile>,
}

/// Settings of a command whose objects are temporary: compressing them would take most of its time.
const NO_COMPRESSION: [&str; 2] = ["core.compression=0", "core.looseCompression=0"];

impl Snapshot {
    fn take(dir: &RepositoryFolders, id: &str, hidden: HiddenFlags) -> Result<Self> {
        let scratch = TempRepository::new(dir, id)?;
        scratch.copy_index(&dir.git_dir.join("index"))?;

        let place = scratch.own_objects();
        let dir = NO_COMPRESSION
            .iter()
            .fold(dir.clone(), |dir, setting| dir.with_setting(setting));
        let listing = IndexListing::read(&dir, &place, MAX_SNAPSHOT_FILE_BYTES)?;
        if hidden == HiddenFlags::Shown {
            listing.show_hidden(&dir, &place)?;
        }
        listing.add_all(&dir, &place)?;
        let tree = dir.call(&["write-tree"]).env(&place).text()?;

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
    /// `GitFailed`, also if there is no such commit.
    pub fn changed(&self, from: &str) -> Result<Vec<ChangedFile>> {
        Ok(ComparedTrees::new(self, from)?.changed())
    }

    /// Returns how the work tree differed from a commit.
    ///
    /// # Errors
    ///
    /// `GitFailed`, also if there is no such commit.
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

/// Difference of a file as git prints it.
struct RawRecord {
    path: Vec<u8>,
    from: Option<Vec<u8>>,
    status: u8,
    ids: [String; 2],
    /// Set if either side is executable.
    executable: bool,
    binary: bool,
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
            binary,
            added,
            removed,
            ..
        } = *self;
        ChangedFile {
            path: lossy(&self.path),
            status,
            binary,
            added,
            removed,
        }
    }

    /// Returns the entry of a file that is not shown, and that of the path that it was moved away from.
    fn left_out(&self, why: &str) -> impl Iterator<Item = LeftOut> + use<> {
        let kind = match (self.executable, self.binary) {
            (true, _) => LeftOutKind::Executable,
            (false, true) => LeftOutKind::Binary,
            (false, false) => LeftOutKind::Text,
        };
        let here = LeftOut {
            path: lossy(&self.path),
            why: why.to_owned(),
            kind,
        };
        let moved = |from| LeftOut {
            path: lossy(from),
            why: format!("it was renamed; {why}"),
            kind,
        };
        std::iter::once(here).chain(self.from.as_deref().map(moved))
    }

    /// Returns the number of diffs that git prints for it: two if its type has changed, a removal and an addition.
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

/// Arguments of every diff. Larger files count as binary.
const WORDS: [&str; 7] = [
    "diff-tree",
    "-r",
    "--no-commit-id",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--submodule=short",
];
const LARGE: &str = "core.bigFileThreshold=16m";

/// Maximum number of files in one `diff-tree` if all files together exceed `MAX_GROUP_BYTES`.
const MAX_GROUP_FILES: usize = 200;
const MAX_GROUP_BYTES: u64 = 32 * 1024 * 1024;

impl<'a> ComparedTrees<'a> {
    fn new(snapshot: &'a Snapshot, from: &'a str) -> Result<Self> {
        let call = snapshot.scratch.dir.call(&WORDS).setting(LARGE);
        let words = [
            "-z",
            "-M",
            "-l1000",
            "--raw",
            "--no-abbrev",
            "--numstat",
            from,
            &snapshot.tree,
        ];
        let records = records(&call.args(words).ok()?)?;
        Ok(Self {
            snapshot,
            from,
            records,
        })
    }

    /// Returns all files that differ, files that were not read among them.
    fn changed(&self) -> Vec<ChangedFile> {
        let read = self.records.iter().map(RawRecord::changed);
        let is_known = |file: &&OversizedFile| !self.records.iter().any(|r| r.path == file.path);
        let unread = self.snapshot.oversized.iter().filter(is_known);
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
            // The tree has the file as it was staged before.
            if oversized.contains(record.path.as_slice()) {
                continue;
            }
            let is_text = record
                .ids
                .iter()
                .all(|id| is_no_object(id) || texts.contains(id));
            match why_left_out(record, &sizes, leave_out, is_text) {
                Some(why) => diff.left_out.extend(record.left_out(&why)),
                None if record.binary => disguised.push(record),
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

    /// Adds the diffs that fit the limits, from one diff of all changed files.
    fn show_all(&self, shown: &[&RawRecord], limits: DiffLimits, diff: &mut Diff) -> Result<()> {
        if shown.is_empty() {
            return Ok(());
        }
        // As in `new`, so that git pairs the same files as renamed.
        let has_renames = self.records.iter().any(|record| record.from.is_some());
        let renames: &[&str] = if has_renames {
            &["-M", "-l1000"]
        } else {
            &["--no-renames"]
        };
        let call = self.snapshot.scratch.dir.call(&WORDS).setting(LARGE);
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

    /// Returns the ids of texts that git takes for binary: a NUL byte in a script, or an attribute of the
    /// repository, is enough for that, and would hide it from a reviewer.
    fn disguised_texts(&self, sizes: &Sizes, limits: DiffLimits) -> Result<HashSet<String>> {
        let binary = self.records.iter().filter(|record| record.binary);
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

    /// Adds the diffs of some files that fit the limits.
    fn show(
        &self,
        group: &[&RawRecord],
        words: &[&str],
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
            .call(&WORDS)
            .setting(LARGE)
            .literal();
        let call = call
            .args(words)
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

    /// Returns the sizes of all objects that the records name.
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
                let mut words = line.split(' ');
                Some((words.next()?.to_owned(), words.nth(1)?.parse().ok()?))
            })
            .collect())
    }
}

/// Sizes in bytes by the ids of objects.
type Sizes = HashMap<String, u64>;

/// Returns the size of a file before and after together.
fn size_of(record: &RawRecord, sizes: &Sizes) -> u64 {
    record.ids.iter().filter_map(|id| sizes.get(id)).sum()
}

/// Returns true for the id that git gives for a file that does not exist.
fn is_no_object(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}

/// Returns true for UTF-8 text in which fewer than one byte in ten is a control character. Anything else that git
/// takes for binary is not shown.
fn is_mostly_text(content: &[u8]) -> bool {
    let is_control = |byte: &&u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    let controls = content.iter().filter(is_control).count();
    controls * 10 < content.len() && std::str::from_utf8(content).is_ok()
}

/// Returns the reason why a file is not shown; `None` if it is. `is_text` is set for a text that git takes for binary.
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
    } else if record.binary && !is_text {
        let size = sizes.get(&record.ids[1]).copied().unwrap_or(0);
        Some(format!("it is binary: {}", file::in_units(size)))
    } else {
        None
    }
}

/// Groups the files that are diffed by one command.
fn groups<'a>(records: &[&'a RawRecord], sizes: &Sizes) -> Vec<Vec<&'a RawRecord>> {
    // Alone, as renames are looked for among the files of a group.
    let alone = |record: &RawRecord| record.from.is_some();
    let mut groups: Vec<Vec<&RawRecord>> = Vec::new();
    let mut bytes = 0;
    for &record in records {
        bytes += size_of(record, sizes);
        let last = groups.last_mut().filter(|group| {
            group.len() < MAX_GROUP_FILES
                && bytes < MAX_GROUP_BYTES
                && !alone(record)
                && !alone(group[0])
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

/// Returns the diff of a file: the next of all diffs, or the next two.
fn next_text<'a>(record: &RawRecord, parts: &mut impl Iterator<Item = &'a [u8]>) -> Result<String> {
    let parts: Vec<&[u8]> = parts.take(record.diffs()).collect();
    if parts.len() < record.diffs() {
        return Err(not_understood("diff-tree"));
    }
    Ok(lossy(&parts.concat()))
}

/// Adds the diff of a file if it fits the limits; otherwise the file is left out.
fn add_text(record: &RawRecord, text: &str, limits: DiffLimits, diff: &mut Diff) {
    let text = &escape_nul(text);
    let size = text.len() as u64;
    let room = limits.total.saturating_sub(diff.text.len() as u64);
    if size <= limits.file.min(room) {
        diff.text.push_str(text);
        return;
    }
    let why = if size > limits.file {
        "its diff is too large"
    } else {
        "the limit for all diffs is reached"
    };
    diff.left_out
        .extend(record.left_out(&format!("{why}: {}", file::in_units(size))));
}

/// Returns a diff with its NUL bytes as `\x00`, and a line before it that says so.
fn escape_nul(text: &str) -> Cow<'_, str> {
    if !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!(
        "# NUL bytes of the next file are shown as \\x00\n{}",
        text.replace('\0', "\\x00")
    ))
}

/// Splits an output of diffs. No line of a file's content can start one, as each starts with a sign.
fn split_diffs(output: &[u8]) -> Vec<&[u8]> {
    const START: &[u8] = b"diff --git ";
    let mut parts = Vec::new();
    let (mut begun, mut at) = (0, 0);
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

/// Parses the output of `--raw --numstat -z`: all files twice, in the same order.
fn records(output: &[u8]) -> Result<Vec<RawRecord>> {
    let broken = || not_understood("diff-tree");
    let mut parts = output.split(|&byte| byte == 0);
    let mut records = Vec::new();
    let mut next = parts.next();
    while let Some(meta) = next.and_then(|part| part.strip_prefix(b":")) {
        let meta = lossy(meta);
        let words: Vec<&str> = meta.split(' ').collect();
        let [old_mode, new_mode, old, new, status] = words[..] else {
            return Err(broken());
        };
        let status = status.bytes().next().ok_or_else(broken)?;
        let mut path = parts.next().ok_or_else(broken)?.to_vec();
        let mut from = None;
        if matches!(status, b'R' | b'C') {
            from = Some(std::mem::replace(
                &mut path,
                parts.next().ok_or_else(broken)?.to_vec(),
            ));
        }
        let ids = [old.to_owned(), new.to_owned()];
        let executable = [old_mode, new_mode].contains(&"100755");
        records.push(RawRecord {
            path,
            from,
            status,
            ids,
            executable,
            binary: false,
            added: 0,
            removed: 0,
        });
        next = parts.next();
    }
    for record in &mut records {
        let counts = next.ok_or_else(broken)?;
        let (added, rest) = split_at_tab(counts).ok_or_else(broken)?;
        let (removed, path) = split_at_tab(rest).ok_or_else(broken)?;
        if path.is_empty() {
            parts.next();
        }
        let path = if path.is_empty() {
            parts.next().ok_or_else(broken)?
        } else {
            path
        };
        if path != record.path {
            return Err(broken());
        }
        record.binary = added == b"-";
        record.added = lossy(added).parse().unwrap_or(0);
        record.removed = lossy(removed).parse().unwrap_or(0);
        next = parts.next();
    }
    Ok(records)
}
