//! Artifacts as Markdown files: one section per field, which people may edit.
//!
//! A file has front matter with the artifact's key, a heading with its title, and a section of level 2 for each field.
//! Everything else in the file belongs to the user and is kept as it is.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;

use super::fs::{read_project_text, remove_file, write_text};
use crate::error::{Error, ErrorKind};

use crate::models::{ArtifactField, ArtifactSpec, heading_key, list_item};
use crate::text::markdown::{LineKind, markdown_lines};

/// Level of the headings of fields.
const FIELD_LEVEL: usize = 2;

/// Returns the values of the fields that a file has. Empty fields are not included.
#[must_use]
pub fn read_artifact(spec: &ArtifactSpec, text: &str) -> IndexMap<String, String> {
    let mut fields = IndexMap::new();
    for section in split_sections(text) {
        let Some(name) = section.title.and_then(|title| find_field(spec, title)) else {
            continue;
        };
        let body = unescape_headings(section.body.trim());
        if !body.is_empty() {
            // If a heading occurs twice, the first one is the field.
            fields.entry(name.to_owned()).or_insert(body);
        }
    }
    fields
}

/// Writes values of fields into the file of an artifact. An empty value removes the section of the field, and a file without
/// other content is removed.
///
/// # Errors
///
/// `FileUnusable` if the file cannot be read or written, or a value cannot be stored in it.
pub fn restore_artifact(
    root: &Path,
    path: &str,
    key: &str,
    spec: &ArtifactSpec,
    texts: &IndexMap<String, String>,
) -> crate::error::Result<()> {
    let current = read_project_text(root, path)?;
    let file = write_artifact(key, spec, current.as_deref(), texts)
        .map_err(|message| Error::new(ErrorKind::FileUnusable, format!("{path}: {message}")))?;
    if file.trim_end() == new_file(key, spec).trim_end() {
        return remove_file(root, path);
    }
    write_text(root, path, &file)
}

/// Returns the file of an artifact without fields.
fn new_file(key: &str, spec: &ArtifactSpec) -> String {
    format!("---\nartifact: {key}\n---\n\n# {}\n", spec.title)
}

/// Returns a file with new values for some of its fields; `current` is its current content, if it exists. An empty value
/// removes the section of the field.
///
/// # Errors
///
/// A message if a value would change the structure of the file, such as an unclosed code fence.
pub(super) fn write_artifact(
    key: &str,
    spec: &ArtifactSpec,
    current: Option<&str>,
    texts: &IndexMap<String, String>,
) -> Result<String, String> {
    let mut file = current.map_or_else(|| new_file(key, spec), str::to_owned);
    for (name, field) in &spec.fields {
        if let Some(text) = texts.get(name) {
            file = with_field(spec, &file, name, field, text);
        }
    }

    let mut expected = read_artifact(spec, current.unwrap_or_default());
    for (name, text) in texts {
        match text.trim() {
            "" => expected.shift_remove(name),
            text => expected.insert(name.clone(), text.to_owned()),
        };
    }
    let mut found = read_artifact(spec, &file);
    expected.sort_keys();
    found.sort_keys();
    if found == expected {
        Ok(file)
    } else {
        Err("the text cannot be stored as a section of the file".to_owned())
    }
}

/// Returns the text of a field from a value of an action. A list becomes one item per line; so does a string for a field
/// that is a list, if it is a JSON array or has a line for each item.
///
/// # Errors
///
/// A message for a value that is neither a string, a number, nor a list of these.
pub(super) fn field_text(field: &ArtifactField, value: &Value) -> Result<String, String> {
    let is_list = field.at_least.is_some();
    let text = match value {
        Value::Array(items) => return list_text(items),
        // A single item in a tag, such as `<rule>…</rule>`.
        Value::Object(fields) if is_list && fields.len() == 1 => {
            return fields
                .values()
                .next()
                .map_or(Ok(String::new()), |items| field_text(field, items));
        }
        value => single_text(value)?,
    };
    if !is_list {
        return Ok(text);
    }

    if let Ok(Value::Array(items)) = serde_json::from_str(&text) {
        return list_text(&items);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let has_items = text.lines().any(|line| list_item(line).is_some());
    Ok(lines
        .map(|line| match list_item(line) {
            Some(item) => format!("- {item}"),
            None if has_items => format!("  {line}"),
            None => format!("- {line}"),
        })
        .collect::<Vec<_>>()
        .join("\n"))
}

/// Returns a list as Markdown, one item per line.
fn list_text(items: &[Value]) -> Result<String, String> {
    let items: Vec<String> = items
        .iter()
        .map(|item| Ok(format!("- {}", single_text(item)?.replace('\n', "\n  "))))
        .collect::<Result<_, String>>()?;
    Ok(items.join("\n"))
}

fn single_text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.replace("\r\n", "\n").trim().to_owned()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) | Value::Null => {
            Err("expected a string or a list of strings".to_owned())
        }
    }
}

/// A part of a file: the text before the first heading, or a heading of level 1 or 2 with its text.
struct FileSection<'a> {
    /// Title of a heading of level 2.
    title: Option<&'a str>,
    /// Text after the heading.
    body: &'a str,
    /// Offset at which the section starts.
    start: usize,
    /// Offset at which the body starts.
    body_start: usize,
}

/// Splits a file at its headings of level 1 and 2 outside of code fences.
fn split_sections(text: &str) -> Vec<FileSection<'_>> {
    let mut starts = vec![(0, 0, None)];
    for line in markdown_lines(text, 1) {
        if let LineKind::Heading(level, title) = line.kind
            && level <= FIELD_LEVEL
        {
            let after = text[line.start..]
                .find('\n')
                .map_or(text.len(), |end| line.start + end + 1);
            starts.push((line.start, after, (level == FIELD_LEVEL).then_some(title)));
        }
    }

    let ends = starts.iter().skip(1).map(|(start, ..)| *start);
    let ends: Vec<usize> = ends.chain([text.len()]).collect();
    starts
        .into_iter()
        .zip(ends)
        .map(|((start, body_start, title), end)| FileSection {
            title,
            body: &text[body_start..end],
            start,
            body_start,
        })
        .collect()
}

/// Returns the field with the title of a heading; `None` if there is no such field.
fn find_field<'s>(spec: &'s ArtifactSpec, title: &str) -> Option<&'s str> {
    let wanted = heading_key(title);
    spec.fields
        .iter()
        .find(|(_, field)| heading_key(&field.title) == wanted)
        .map(|(name, _)| name.as_str())
}

/// Returns the file with the text of one field replaced, removed if the text is empty, or added after the fields that come
/// before it.
fn with_field(
    spec: &ArtifactSpec,
    file: &str,
    name: &str,
    field: &ArtifactField,
    text: &str,
) -> String {
    let body = escape_headings(text.trim());
    let sections = split_sections(file);
    let is_field = |section: &&FileSection<'_>, wanted: &str| {
        section.title.and_then(|title| find_field(spec, title)) == Some(wanted)
    };

    if let Some(section) = sections.iter().find(|section| is_field(section, name)) {
        let end = section.body_start + section.body.len();
        let rest = &file[end..];
        if body.is_empty() {
            let before = &file[..section.start];
            let is_last = rest.is_empty();
            return match is_last {
                true => format!("{}\n", before.trim_end()),
                false => format!("{before}{rest}"),
            };
        }
        let gap = if rest.is_empty() { "" } else { "\n" };
        return format!("{}\n{body}\n{gap}{rest}", &file[..section.body_start]);
    }

    if body.is_empty() {
        return file.to_owned();
    }

    // The new section comes before the first field that follows it in the pack.
    let later: Vec<&String> = spec
        .fields
        .keys()
        .skip_while(|known| *known != name)
        .skip(1)
        .collect();
    let position = sections
        .iter()
        .find(|section| later.iter().any(|later| is_field(section, later)))
        .map_or(file.len(), |section| section.start);
    let heading = match field.percent {
        Some(percent) => format!("## {} ({percent} %)", field.title),
        None => format!("## {}", field.title),
    };
    let (before, after) = file.split_at(position);
    let gap = if after.is_empty() { "" } else { "\n" };
    format!("{}\n\n{heading}\n\n{body}\n{gap}{after}", before.trim_end())
}

/// Escapes headings of level 1 and 2 with a backslash, so that they do not start a section. A line that looks
/// like an escaped heading gets one more backslash.
fn escape_headings(text: &str) -> String {
    map_lines(text, |line| {
        let is_heading = matches!(line.kind, LineKind::Heading(level, _) if level <= FIELD_LEVEL);
        let (indent, rest) = line.text.split_at(line.indent());
        if is_heading || (!line.is_code() && is_escaped_heading(rest)) {
            format!("{indent}\\{rest}")
        } else {
            line.text.to_owned()
        }
    })
}

/// Reverses [`escape_headings`].
fn unescape_headings(text: &str) -> String {
    map_lines(text, |line| {
        let (indent, rest) = line.text.split_at(line.indent());
        if !line.is_code() && is_escaped_heading(rest) {
            format!("{indent}{}", &rest[1..])
        } else {
            line.text.to_owned()
        }
    })
}

/// Returns true for backslashes before a `#`.
fn is_escaped_heading(text: &str) -> bool {
    text.starts_with('\\') && text.trim_start_matches('\\').starts_with('#')
}

fn map_lines(
    text: &str,
    map: impl Fn(&crate::text::markdown::MarkdownLine<'_>) -> String,
) -> String {
    let lines: Vec<String> = markdown_lines(text, 1).iter().map(map).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ArtifactSpec {
        serde_json::from_value(serde_json::json!({
            "title": "Theme",
            "file": "theme.md",
            "fields": {
                "question": {"title": "Question"},
                "answer": {"title": "Answer", "percent": 50},
                "rules": {"title": "Rules", "at_least": 2},
            },
        }))
        .unwrap()
    }

    fn texts(pairs: &[(&str, &str)]) -> IndexMap<String, String> {
        pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn new_file_has_front_matter_and_sections_in_order() {
        let file = write_artifact(
            "theme",
            &spec(),
            None,
            &texts(&[("answer", "Yes."), ("question", "Can she trust?")]),
        )
        .unwrap();
        assert_eq!(
            file,
            "---\nartifact: theme\n---\n\n# Theme\n\n## Question\n\nCan she trust?\n\n\
             ## Answer (50 %)\n\nYes.\n"
        );
    }

    #[test]
    fn text_of_the_user_is_kept() {
        let current = "# My notes\n\nKeep me.\n\n## answer\n\nNo.\n\n## Other\n\nMine.\n";
        let file = write_artifact(
            "theme",
            &spec(),
            Some(current),
            &texts(&[("answer", "Yes.")]),
        )
        .unwrap();
        assert_eq!(
            file,
            "# My notes\n\nKeep me.\n\n## answer\n\nYes.\n\n## Other\n\nMine.\n"
        );
        let file = write_artifact("theme", &spec(), Some(&file), &texts(&[("question", "Q?")]));
        assert_eq!(
            file.unwrap(),
            "# My notes\n\nKeep me.\n\n## Question\n\nQ?\n\n## answer\n\nYes.\n\n## Other\n\nMine.\n"
        );
    }

    #[test]
    fn headings_in_a_text_do_not_forge_fields() {
        let forged = "Fine.\n\n## Answer\n\nforged\n\\# kept";
        let file = write_artifact("theme", &spec(), None, &texts(&[("question", forged)])).unwrap();
        let fields = read_artifact(&spec(), &file);
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["question"]);
        assert_eq!(fields["question"], forged);
    }

    #[test]
    fn every_text_reads_back_as_it_was_written() {
        for text in [
            "  ## Indented\nmore",
            "\\# escaped\n\\\\## twice",
            "```\n\\# in code\n## also\n```\nafter",
            "- one\n  ## in an item",
        ] {
            let text = text.trim();
            let file = write_artifact("theme", &spec(), None, &texts(&[("question", text)]));
            let fields = read_artifact(&spec(), &file.unwrap());
            assert_eq!(fields["question"], text);
        }
    }

    #[test]
    fn unclosed_fence_is_refused() {
        let current = "## Answer\n\nYes.\n";
        let written = write_artifact(
            "theme",
            &spec(),
            Some(current),
            &texts(&[("question", "```\nopen")]),
        );
        assert!(written.is_err(), "{written:?}");
    }

    #[test]
    fn list_becomes_items() {
        let rules = &spec().fields["rules"];
        let text = field_text(rules, &serde_json::json!(["one", "two\nlines", 3])).unwrap();
        assert_eq!(text, "- one\n- two\n  lines\n- 3");
        for same in [
            "[\"one\", \"two\"]",
            "one\ntwo\n",
            "- one\n- two",
            "1. one\n   2. two",
            "\n      - one\r\n      - two\n",
        ] {
            let text = field_text(rules, &serde_json::json!(same)).unwrap();
            assert_eq!(text, "- one\n- two", "{same:?}");
        }
        assert!(spec().fields["rules"].is_filled_by(&text));
        assert!(!spec().fields["rules"].is_filled_by("- one\n- TBD"));
        let tags = serde_json::json!({"rule": ["one", "two"]});
        assert_eq!(field_text(rules, &tags).unwrap(), "- one\n- two");
        assert!(field_text(rules, &serde_json::json!({"a": 1, "b": 2})).is_err());
    }
}
