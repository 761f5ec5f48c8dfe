//! A unified diff, applied to a text: all of it, or nothing.

use diffy::{Line, Patch};
use memchr::memmem;

/// The most hunks of a diff: each is looked for in the whole text.
const MOST_HUNKS: usize = 1_000;

/// What stands for a file that is not there.
const NOTHING: &str = "/dev/null";

/// Returns what a diff makes of a text, `None` if it removes the file; or why it cannot be applied.
///
/// A hunk belongs where its lines stand, and they must stand in one place only. The numbers in its head do not count:
/// models rarely get them right, and by a wrong number a hunk would be put to the nearest lines that are alike.
pub(in crate::ops) fn apply_patch(
    target: &str,
    before: Option<&str>,
    diff: &str,
) -> Result<Option<String>, String> {
    let old = before.unwrap_or_default();
    let ends = LineEnds::of(old);
    let (text, diff) = (ends.taken_off(old), ends.taken_off(diff));
    let diff = recounted(&diff)?;
    let patch =
        Patch::from_str(&diff).map_err(|error| format!("the diff cannot be read: {error}"))?;
    let named = [patch.original(), patch.modified()].into_iter().flatten();
    if let Some(other) = named
        .into_iter()
        .find(|name| *name != NOTHING && !is_of(name, target))
    {
        return Err(format!("the diff is of another file, {other}"));
    }
    let (made, removed) = (
        patch.original() == Some(NOTHING),
        patch.modified() == Some(NOTHING),
    );
    match before {
        Some(_) if made => return Err("the diff makes a file that is there already".to_owned()),
        None if removed => return Err("there is no such file".to_owned()),
        _ => {}
    }
    let mut places = Vec::new();
    for (number, hunk) in (1..).zip(patch.hunks()) {
        let (mut old, mut new) = (String::new(), String::new());
        for line in hunk.lines() {
            match line {
                Line::Context(line) => [&mut old, &mut new]
                    .into_iter()
                    .for_each(|side| side.push_str(line)),
                Line::Delete(line) => old.push_str(line),
                Line::Insert(line) => new.push_str(line),
            }
        }
        let start = place(&text, &old).map_err(|reason| format!("hunk {number} {reason}"))?;
        places.push((start..start + old.len(), new, number));
    }
    places.sort_by_key(|(span, ..)| span.start);
    let mut out = String::with_capacity(text.len() + diff.len());
    let mut at = 0;
    for (span, new, number) in places {
        if span.start < at {
            return Err(format!("hunk {number} changes lines of another one"));
        }
        out.push_str(&text[at..span.start]);
        out.push_str(&new);
        at = span.end;
    }
    out.push_str(&text[at..]);
    match (removed, out.is_empty()) {
        (false, _) => Ok(Some(ends.put_on(&out))),
        (true, true) => Ok(None),
        (true, false) => Err("the diff removes the file, and leaves lines of it".to_owned()),
    }
}

/// Tells whether the head of a diff names a file: by its path, or the end of it.
fn is_of(name: &str, target: &str) -> bool {
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

/// Returns where the only lines of a text stand that are these.
fn place(text: &str, lines: &str) -> Result<usize, &'static str> {
    if lines.is_empty() {
        return if text.is_empty() {
            Ok(0)
        } else {
            Err("holds no line of the file, so its place is not clear")
        };
    }
    const NOWHERE: &str = "fits nowhere: its lines are not those of the file";
    // With the end of the line before it, whatever is found starts a line; and it is found where the line starts.
    let (text, lines) = (["\n", text].concat(), ["\n", lines].concat());
    if !lines.ends_with('\n') {
        // A line without an end is the last of the file.
        return if text.ends_with(&lines) {
            Ok(text.len() - lines.len())
        } else {
            Err(NOWHERE)
        };
    }
    let finder = memmem::Finder::new(&lines);
    let found = finder.find(text.as_bytes()).ok_or(NOWHERE)?;
    match finder.find(&text.as_bytes()[found + 1..]) {
        Some(_) => Err("fits in several places"),
        None => Ok(found),
    }
}

/// Returns a diff whose hunks count their lines right, without what stands before them.
fn recounted(diff: &str) -> Result<String, String> {
    let mut out = String::with_capacity(diff.len() + 64);
    let mut lines = diff.split_inclusive('\n').peekable();
    while let Some(line) = lines.next_if(|line| !line.starts_with("@@")) {
        if line.starts_with("--- ") || line.starts_with("+++ ") {
            out.push_str(line);
        }
    }
    let (mut number, mut old_at, mut new_at) = (0, 1, 1);
    while lines.next().is_some() {
        number += 1;
        if number > MOST_HUNKS {
            return Err(format!("the diff has more than {MOST_HUNKS} hunks"));
        }
        let mut body: Vec<&str> = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("@@")) {
            body.push(line);
        }
        // An empty line is a blank one that stays; at the end it is the space before the closing tag.
        while body.pop_if(|line| *line == "\n").is_some() {}
        let (mut old, mut new) = (0, 0);
        for line in &body {
            match line.as_bytes() {
                [b' ' | b'\n', ..] => (old, new) = (old + 1, new + 1),
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
        (old_at, new_at) = (old_at + old, new_at + new);
        out.extend(body);
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    if number == 0 {
        Err("the diff has no hunk".to_owned())
    } else {
        Ok(out)
    }
}

/// How the lines of a text end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
    /// Both kinds, or carriage returns that end no line: they are compared like any other character.
    Mixed,
}

impl LineEnds {
    fn of(text: &str) -> Self {
        let pairs = memmem::find_iter(text.as_bytes(), b"\r\n").count();
        let returns = memchr::memchr_iter(b'\r', text.as_bytes()).count();
        let newlines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        match (returns, newlines) {
            (0, _) => Self::Lf,
            (returns, newlines) if returns == pairs && newlines == pairs => Self::CrLf,
            _ => Self::Mixed,
        }
    }

    fn taken_off(self, text: &str) -> String {
        if self == Self::Mixed {
            text.to_owned()
        } else {
            text.replace("\r\n", "\n")
        }
    }

    fn put_on(self, text: &str) -> String {
        if self == Self::CrLf {
            text.replace('\n', "\r\n")
        } else {
            text.to_owned()
        }
    }
}

/// Returns a text with the line ends of the one whose place it takes.
pub(in crate::ops) fn with_line_ends_of(before: &str, text: &str) -> String {
    let ends = LineEnds::of(before);
    ends.put_on(&ends.taken_off(text))
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
        assert!(reason("@@ -1 +1 @@\n-four\n+4\n").contains("fits nowhere"));
        assert!(reason("@@ -1 +1 @@\n+zero\n").contains("no line of the file"));
        assert!(
            reason("@@ -1,2 +1 @@\n-one\n two\n@@ -2,2 +2 @@\n-two\n three\n")
                .contains("another one")
        );
        assert!(reason("one\n").contains("no hunk"));
        assert!(reason("@@ -1 +1 @@\none\n").contains("neither"));
    }

    #[test]
    fn the_head_of_a_diff_must_name_the_file() {
        for name in ["a.txt", "a/a.txt", "b/a.txt", "src/a.txt"] {
            assert!(is_of(name, "a.txt"), "{name}");
        }
        assert!(is_of("lib/a.txt", "src/lib/a.txt"));
        for name in ["b.txt", "xa.txt", "a.txt/b"] {
            assert!(!is_of(name, "a.txt"), "{name}");
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
        assert!(applied(remove).unwrap_err().contains("leaves lines"));
        assert!(
            apply_patch("a.txt", None, remove).is_err(),
            "it does not exist"
        );
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        let diff = "@@ -1 +1 @@\n-one\n+1\n";
        assert_eq!(
            apply_patch("a", Some("one\r\ntwo\r\n"), diff),
            Ok(Some("1\r\ntwo\r\n".to_owned()))
        );
        assert_eq!(with_line_ends_of("a\r\n", "b\nc\n"), "b\r\nc\r\n");
        assert_eq!(with_line_ends_of("a\n", "b\r\n"), "b\n");
        assert_eq!(
            with_line_ends_of("a\r\nb\n", "c\r\nd\n"),
            "c\r\nd\n",
            "mixed ends are text"
        );

        let lone = "@@ -1 +0,0 @@\n-\r\n\\ No newline at end of file\n";
        assert_eq!(
            apply_patch("a", Some("\r"), lone),
            Ok(Some(String::new())),
            "a lone carriage return is text"
        );
    }
}
