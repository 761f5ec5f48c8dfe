//! The tree of a project's files as text for a prompt: breadth first, within limits, with counts of omitted entries.

use std::collections::{BinaryHeap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::config::StructureLimits;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::paths;
use crate::text::invisible::is_invisible;

/// Maximum size of a `.gitignore` that is read, in bytes.
const MAX_GITIGNORE_BYTES: u64 = 1024 * 1024;

/// Returns the project's tree, sorted by bytes, without files that the repository's `.gitignore` files exclude.
/// Ignore rules outside the repository are not read, so the same tree gives the same text on every machine.
///
/// Folders are opened level by level until the limit is reached, so a large tree costs no more than a small one.
///
/// # Errors
///
/// `FileUnusable` if the root cannot be listed.
pub fn structure(root: &Path, limits: StructureLimits) -> Result<String> {
    let mut tree = Tree {
        nodes: vec![Node::folder(OsString::new())],
        limits,
        shown: 0,
    };
    let root = root.canonicalize().map_err(|error| {
        Error::new(
            ErrorKind::FileUnusable,
            format!("cannot find `{}`", root.display()),
        )
        .with_source(error)
    })?;
    tree.fill(&root)?;
    Ok(tree.to_text())
}

/// Returns the first `max_entries` entries of the project's root; folders end with `/`.
///
/// # Errors
///
/// Those of [`structure`].
pub(in crate::ops) fn top_level(root: &Path, max_entries: usize) -> Result<Vec<String>> {
    let limits = StructureLimits {
        per_folder: max_entries,
        total: max_entries,
    };
    let mut tree = Tree {
        nodes: vec![Node::folder(OsString::new())],
        limits,
        shown: 0,
    };
    tree.fill(root)?;
    let shown = |node: &Node| match node.kind {
        NodeKind::Folder => format!("{}/", visible_name(&node.name)),
        NodeKind::File | NodeKind::Link(_) => visible_name(&node.name),
    };
    Ok(tree.nodes[0]
        .children
        .iter()
        .map(|&child| shown(&tree.nodes[child]))
        .collect())
}

struct Tree {
    nodes: Vec<Node>,
    limits: StructureLimits,
    shown: usize,
}

struct Node {
    name: OsString,
    kind: NodeKind,
    children: Vec<usize>,
    /// Number of entries of the folder that are omitted.
    left_out: usize,
    /// True if the folder was listed.
    is_opened: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NodeKind {
    File,
    Folder,
    Link(OsString),
}

impl Node {
    fn folder(name: OsString) -> Self {
        Self {
            name,
            kind: NodeKind::Folder,
            children: Vec::new(),
            left_out: 0,
            is_opened: false,
        }
    }
}

/// Ignore rules of a folder, and the index of the rules of its parent folder.
pub(in crate::ops) struct IgnoreRules {
    pub(in crate::ops) matcher: Gitignore,
    pub(in crate::ops) above: Option<usize>,
}

impl Tree {
    fn fill(&mut self, root: &Path) -> Result<()> {
        let mut rules = rules_above(root);
        let above = rules.len().checked_sub(1);
        let mut queue = VecDeque::from([(0, root.to_path_buf(), above)]);
        while let Some((index, path, above)) = queue.pop_front() {
            if self.shown >= self.limits.total {
                break;
            }
            rules.push(IgnoreRules {
                matcher: read_rules(root, &path),
                above,
            });
            let here = rules.len() - 1;
            let listing = match list(&path, &rules, here, self.limits.per_folder) {
                Ok(listing) => listing,
                Err(error) if index == 0 => {
                    let message = format!("cannot list the folder `{}`", path.display());
                    return Err(Error::new(ErrorKind::FileUnusable, message).with_source(error));
                }
                Err(_) => continue,
            };

            let room = self.limits.total - self.shown;
            let taken = listing.entries.len().min(room);
            self.nodes[index].is_opened = true;
            self.nodes[index].left_out = listing.count - taken;
            self.shown += taken;

            for (name, kind) in listing.entries.into_iter().take(taken) {
                let child = self.nodes.len();
                if kind == NodeKind::Folder {
                    queue.push_back((child, path.join(&name), Some(here)));
                }
                self.nodes.push(Node {
                    kind,
                    ..Node::folder(name)
                });
                self.nodes[index].children.push(child);
            }
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(0, 0, &mut out);

        let partial = self.nodes.iter().filter(|node| node.left_out > 0);
        let (folders, entries) = partial.fold((0, 0), |(folders, entries), node| {
            (folders + 1, entries + node.left_out)
        });
        let closed = self
            .nodes
            .iter()
            .filter(|node| node.kind == NodeKind::Folder && !node.is_opened)
            .count();

        if entries > 0 || closed > 0 {
            let _infallible = write!(
                out,
                "[not listed: {} in {}; not opened: {}; limits: {} per folder, {} in total]",
                counted(entries, "entry", "entries"),
                counted(folders, "folder", "folders"),
                counted(closed, "folder", "folders"),
                counted(self.limits.per_folder, "entry", "entries"),
                self.limits.total
            );
        }

        out.truncate(out.trim_end().len());
        if out.is_empty() {
            "(no files yet)".to_owned()
        } else {
            out
        }
    }

    /// Writes the children of a folder. The depth of the recursion is limited by the number of entries and by the
    /// maximum length of a path.
    fn write(&self, index: usize, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        for &child in &self.nodes[index].children {
            let node = &self.nodes[child];
            let name = visible_name(&node.name);
            let _infallible = match &node.kind {
                NodeKind::File => writeln!(out, "{indent}{name}"),
                NodeKind::Link(target) => {
                    writeln!(out, "{indent}{name} -> {}", visible_name(target))
                }
                NodeKind::Folder if node.is_opened => writeln!(out, "{indent}{name}/"),
                NodeKind::Folder => writeln!(out, "{indent}{name}/ (not opened)"),
            };
            self.write(child, depth + 1, out);
        }
        if self.nodes[index].left_out > 0 {
            let left_out = counted(self.nodes[index].left_out, "more entry", "more entries");
            let _infallible = writeln!(out, "{indent}({left_out})");
        }
    }
}

/// Returns a number with its noun, such as `1 folder` or `3 folders`.
fn counted(count: usize, singular: &str, plural: &str) -> String {
    let noun = if count == 1 { singular } else { plural };
    format!("{count} {noun}")
}

/// The first entries of a folder by name, and the number of all its entries.
struct Listing {
    entries: Vec<(OsString, NodeKind)>,
    count: usize,
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to project files"
)]
fn list(
    folder: &Path,
    rules: &[IgnoreRules],
    here: usize,
    max_entries: usize,
) -> std::io::Result<Listing> {
    let mut first = BinaryHeap::new();
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == ".git" || name == paths::LOCAL_FOLDER {
            continue;
        }

        let file_type = entry.file_type()?;
        if is_ignored(&entry.path(), file_type.is_dir(), rules, here) {
            continue;
        }

        count += 1;
        // Only the first names are kept, so that a folder with a million entries needs little memory.
        if first.len() < max_entries || first.peek().is_some_and(|(last, _)| name < *last) {
            let kind = if file_type.is_symlink() {
                NodeKind::Link(
                    fs::read_link(entry.path())
                        .map(PathBuf::into_os_string)
                        .unwrap_or_default(),
                )
            } else if file_type.is_dir() {
                NodeKind::Folder
            } else {
                NodeKind::File
            };
            first.push((name, kind));
            if first.len() > max_entries {
                first.pop();
            }
        }
    }
    Ok(Listing {
        entries: first.into_sorted_vec(),
        count,
    })
}

/// Returns true if the rules of a folder or of its parent folders ignore an entry. The nearest matching rule decides.
pub(in crate::ops) fn is_ignored(
    path: &Path,
    is_folder: bool,
    rules: &[IgnoreRules],
    here: usize,
) -> bool {
    let mut level = Some(here);
    while let Some(rules_here) = level.and_then(|index| rules.get(index)) {
        match rules_here.matcher.matched(path, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => level = rules_here.above,
        }
    }
    false
}

/// Returns the rules of the folders above a project that is a subfolder of a repository.
pub(in crate::ops) fn rules_above(root: &Path) -> Vec<IgnoreRules> {
    let is_repository = |folder: &&Path| folder.join(".git").exists();
    let Some(repository) = root.ancestors().find(is_repository) else {
        return Vec::new();
    };
    let mut above: Vec<&Path> = root
        .ancestors()
        .skip(1)
        .take_while(|path| path.starts_with(repository))
        .collect();
    above.reverse();
    let mut rules: Vec<IgnoreRules> = Vec::new();
    for folder in above {
        let nearest = rules.len().checked_sub(1);
        rules.push(IgnoreRules {
            matcher: read_rules(repository, folder),
            above: nearest,
        });
    }
    rules
}

pub(in crate::ops) fn read_rules(root: &Path, folder: &Path) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    match file::read_bytes_inside(root, &folder.join(".gitignore"), MAX_GITIGNORE_BYTES) {
        Ok(Some(bytes)) => {
            let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
            for line in bytes.split(|&b| b == b'\n') {
                // A rule that cannot be parsed is skipped, as git does.
                let _skipped =
                    builder.add_line(None, &translate_rule(&String::from_utf8_lossy(line)));
            }
        }
        Ok(None) => {}
        Err(error) => log::warn!("cannot read a .gitignore, continuing without it: {error}"),
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Translates a `.gitignore` rule for the matcher: git has no alternation in braces, and ignores a lone `!`.
fn translate_rule(line: &str) -> String {
    // One CR is part of the line ending. The matcher would trim a second one, which for git is part of the name.
    let line = line.strip_suffix('\r').unwrap_or(line);
    let line = line
        .strip_suffix('\r')
        .map_or_else(|| line.to_owned(), |name| format!("{name}[\r]"));
    if line.trim() == "!" {
        return String::new();
    }

    let classes = [
        ("[:alpha:]", "a-zA-Z"),
        ("[:digit:]", "0-9"),
        ("[:alnum:]", "a-zA-Z0-9"),
        ("[:upper:]", "A-Z"),
        ("[:lower:]", "a-z"),
        ("[:blank:]", " \t"),
        ("[:space:]", " \t\r\x0B\x0C"),
    ];
    let line = classes
        .iter()
        .fold(line, |line, (class, range)| line.replace(class, range));

    let mut rule = String::with_capacity(line.len());
    let mut is_escaped = false;
    let mut in_class = false;
    for c in line.chars() {
        if matches!(c, '{' | '}') && !is_escaped && !in_class {
            rule.push('\\');
        }
        rule.push(c);
        in_class = !is_escaped && (c == '[' || (in_class && c != ']'));
        is_escaped = c == '\\' && !is_escaped;
    }
    rule
}

/// Returns a file name with backslashes, invisible characters and invalid UTF-8 escaped, so that every byte is visible.
pub(in crate::ops) fn visible_name(name: &OsStr) -> String {
    let mut out = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
            if c.is_control() || c == '\\' || is_separator || is_invisible(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _infallible = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Returns a path with backslashes, invisible characters and invalid UTF-8 escaped.
#[must_use]
pub fn visible_path(path: &Path) -> String {
    visible_name(path.as_os_str())
}
