//! Applies unified diffs to a string. If one hunk does not apply, none is applied.

use diffy::{Line, Patch};
use memchr::memmem;

/// Maximum number of hunks in a diff; each one is searched for in the whole text.
const MAX_HUNKS: usize = 1_000;

/// Path in a diff header for a file that does not exist.
const DEV_NULL: &str = "/dev/null";

/// Applies a diff to the content of a file. Returns `None` if the diff removes the file. The error is the reason why the
/// diff does not apply.
///
/// A hunk is placed by its lines, which must occur exactly once. The line numbers in its header are ignored: models
/// rarely get them right, and a wrong number would move a hunk to the nearest similar lines.
pub(in crate::ops) fn apply_patch(
    target: &str,
    before: Option<&str>,
    diff: &str,
) -> Result<Option<String>, String> {
    let old = before.unwrap_or_default();
    let endings = LineEndings::detect(old);
    let text = endings.normalize(old);
    let diff = with_counted_hunks(&endings.normalize(diff))?;
    let patch = Patch::from_str(&diff).map_err(|error| format!("malformed diff: {error}"))?;
    let mut names = [patch.original(), patch.modified()].into_iter().flatten();
    if let Some(other) = names.find(|name| *name != DEV_NULL && !names_file(name, target)) {
        return Err(format!("the diff is for another file: {other}"));
    }

    let is_creation = patch.original() == Some(DEV_NULL);
    let is_removal = patch.modified() == Some(DEV_NULL);
    match before {
        Some(_) if is_creation => {
            return Err("the diff creates a file that already exists".to_owned());
        }
        None if is_removal => {
            return Err("the diff deletes a file that does not exist".to_owned());
        }
        _ => {}
    }

    let mut places = Vec::new();
    for (number, hunk) in (1..).zip(patch.hunks()) {
        let mut old = String::new();
        let mut new = String::new();
        for line in hunk.lines() {
            match line {
                Line::Context(line) => [&mut old, &mut new]
                    .into_iter()
                    .for_each(|side| side.push_str(line)),
                Line::Delete(line) => old.push_str(line),
                Line::Insert(line) => new.push_str(line),
            }
        }
        let start = find_lines(&text, &old).map_err(|reason| format!("hunk {number} {reason}"))?;
        places.push((start..start + old.len(), new, number));
    }

    places.sort_by_key(|(span, ..)| span.start);
    let mut out = String::with_capacity(text.len() + diff.len());
    let mut at = 0;
    for (span, new, number) in places {
        if span.start < at {
            return Err(format!("hunk {number} overlaps another hunk"));
        }
        out.push_str(&text[at..span.start]);
        out.push_str(&new);
        at = span.end;
    }
    out.push_str(&text[at..]);

    match (is_removal, out.is_empty()) {
        (false, _) => Ok(Some(endings.restore(&out))),
        (true, true) => Ok(None),
        (true, false) => Err("the diff deletes the file but keeps some of its lines".to_owned()),
    }
}

/// Returns true if a path in a diff header means the target: the paths are equal, or one is the last part of the other.
fn names_file(name: &str, target: &str) -> bool {
    let name = name
        .strip_prefix("a/")
        .or_else(|| name.strip_prefix("b/"))
        .unwrap_or(name);
    name == target
        || target
            .strip_suffix(name)
            .is_some_and(|rest| rest.ends_with('/'))
        || name
            .strip_suffix(target)
            .is_some_and(|rest| rest.ends_with('/'))
}

/// Returns the offset of the only occurrence of `lines`, or the reason why there is none.
fn find_lines(text: &str, lines: &str) -> Result<usize, &'static str> {
    if lines.is_empty() {
        return if text.is_empty() {
            Ok(0)
        } else {
            Err("has no context lines, so its position in the file is unknown")
        };
    }
    const NOT_FOUND: &str = "does not apply: its lines are not in the file";
    // With a newline in front, the lines match only at the start of a line.
    let text = ["\n", text].concat();
    let lines = ["\n", lines].concat();
    if !lines.ends_with('\n') {
        // A line without a newline must be the last line of the file.
        return if text.ends_with(&lines) {
            Ok(text.len() - lines.len())
        } else {
            Err(NOT_FOUND)
        };
    }
    let finder = memmem::Finder::new(&lines);
    let start = finder.find(text.as_bytes()).ok_or(NOT_FOUND)?;
    match finder.find(&text.as_bytes()[start + 1..]) {
        Some(_) => Err("applies in several places"),
        None => Ok(start),
    }
}

/// Returns a diff with correct line counts in its hunk headers. Before the first hunk, only the lines `---` and `+++`
/// are kept.
fn with_counted_hunks(diff: &str) -> Result<String, String> {
    let mut out = String::with_capacity(diff.len() + 64);
    let mut lines = diff.split_inclusive('\n').peekable();
    while let Some(line) = lines.next_if(|line| !line.starts_with("@@")) {
        if line.starts_with("--- ") || line.starts_with("+++ ") {
            out.push_str(line);
        }
    }

    let mut number = 0;
    let mut old_at = 1;
    let mut new_at = 1;
    while lines.next().is_some() {
        number += 1;
        if number > MAX_HUNKS {
            return Err(format!("the diff has more than {MAX_HUNKS} hunks"));
        }

        let mut body: Vec<&str> = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("@@")) {
            body.push(line);
        }

        // An empty line is an empty context line; at the end of a hunk, it only separates the diff from the closing
        // tag.
        while body.pop_if(|line| *line == "\n").is_some() {}

        let mut old = 0;
        let mut new = 0;
        for line in &body {
            match line.as_bytes() {
                [b' ' | b'\n', ..] => {
                    old += 1;
                    new += 1;
                }
                [b'-', ..] => old += 1,
                [b'+', ..] => new += 1,
                [b'\\', ..] => {}
                _ => {
                    return Err(format!(
                        "hunk {number} has a line that starts with neither ` `, `-` nor `+`"
                    ));
                }
            }
        }

        out.push_str(&format!("@@ -{old_at},{old} +{new_at},{new} @@\n"));
        old_at += old;
        new_at += new;
        out.extend(body);
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }

    if number == 0 {
        Err("the diff has no hunks".to_owned())
    } else {
        Ok(out)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEndings {
    Lf,
    CrLf,
    /// Both kinds, or carriage returns inside of lines: these are compared like any other character.
    Mixed,
}

impl LineEndings {
    fn detect(text: &str) -> Self {
        let pairs = memmem::find_iter(text.as_bytes(), b"\r\n").count();
        let returns = memchr::memchr_iter(b'\r', text.as_bytes()).count();
        let newlines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        match (returns, newlines) {
            (0, _) => Self::Lf,
            (returns, newlines) if returns == pairs && newlines == pairs => Self::CrLf,
            _ => Self::Mixed,
        }
    }

    fn normalize(self, text: &str) -> String {
        if self == Self::Mixed {
            text.to_owned()
        } else {
            text.replace("\r\n", "\n")
        }
    }

    fn restore(self, text: &str) -> String {
        if self == Self::CrLf {
            text.replace('\n', "\r\n")
        } else {
            text.to_owned()
        }
    }
}

/// Returns new content with the line endings of the content that it replaces.
pub(in crate::ops) fn with_line_endings_of(before: &str, text: &str) -> String {
    let endings = LineEndings::detect(before);
    endings.restore(&endings.normalize(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "one\ntwo\nthree\ntwo\n";

    fn applied(diff: &str) -> Result<Option<String>, String> {
        apply_patch("a.txt", Some(OLD), diff)
    }

    #[test]
    fn a_hunk_is_placed_by_its_lines_and_not_by_its_numbers() {
        let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -90,7 +1 @@\n two\n-three\n+3\n";
        assert_eq!(applied(diff), Ok(Some("one\ntwo\n3\ntwo\n".to_owned())));
        assert_eq!(
            applied("@@ ... @@\n-one\n+1\n"),
            Ok(Some("1\ntwo\nthree\ntwo\n".to_owned()))
        );
    }

    #[test]
    fn a_hunk_without_one_clear_place_is_refused() {
        let reason = |diff: &str| applied(diff).unwrap_err();
        assert!(reason("@@ -2 +2 @@\n-two\n+2\n").contains("several places"));
        assert!(reason("@@ -1 +1 @@\n-four\n+4\n").contains("does not apply"));
        assert!(reason("@@ -1 +1 @@\n+zero\n").contains("no context lines"));
        assert!(
            reason("@@ -1,2 +1 @@\n-one\n two\n@@ -2,2 +2 @@\n-two\n three\n")
                .contains("overlaps another hunk")
        );
        assert!(reason("one\n").contains("no hunk"));
        assert!(reason("@@ -1 +1 @@\none\n").contains("neither"));
    }

    #[test]
    fn the_header_of_a_diff_must_name_the_file() {
        for name in ["a.txt", "a/a.txt", "b/a.txt", "src/a.txt"] {
            assert!(names_file(name, "a.txt"), "{name}");
        }
        assert!(names_file("lib/a.txt", "src/lib/a.txt"));
        for name in ["b.txt", "xa.txt", "a.txt/b"] {
            assert!(!names_file(name, "a.txt"), "{name}");
        }
        let other = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+1\n";
        assert!(applied(other).unwrap_err().contains("another file"));
    }

    #[test]
    fn files_are_created_and_removed_by_the_null_device() {
        let create = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+one\n";
        assert_eq!(
            apply_patch("a.txt", None, create),
            Ok(Some("one\n".to_owned()))
        );
        assert!(applied(create).is_err(), "it exists");

        let remove = "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n";
        assert_eq!(apply_patch("a.txt", Some("one\n"), remove), Ok(None));
        assert!(
            applied(remove)
                .unwrap_err()
                .contains("keeps some of its lines")
        );
        assert!(
            apply_patch("a.txt", None, remove).is_err(),
            "it does not exist"
        );
    }

    #[test]
    fn line_endings_of_the_file_are_kept() {
        let diff = "@@ -1 +1 @@\n-one\n+1\n";
        assert_eq!(
            apply_patch("a", Some("one\r\ntwo\r\n"), diff),
            Ok(Some("1\r\ntwo\r\n".to_owned()))
        );
        assert_eq!(with_line_endings_of("a\r\n", "b\nc\n"), "b\r\nc\r\n");
        assert_eq!(with_line_endings_of("a\n", "b\r\n"), "b\n");
        assert_eq!(
            with_line_endings_of("a\r\nb\n", "c\r\nd\n"),
            "c\r\nd\n",
            "mixed line endings are text"
        );

        let lone = "@@ -1 +0,0 @@\n-\r\n\\ No newline at end of file\n";
        assert_eq!(
            apply_patch("a", Some("\r"), lone),
            Ok(Some(String::new())),
            "a lone carriage return is text"
        );
    }
}
