//! Arguments of a command and their placeholders, such as `{model}`.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Deserializer, de};

use crate::error::{Error, ErrorKind, Result};

/// An argument, or several that belong together. All of them are omitted if one contains `{model}` and no model is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument(pub Vec<String>);

/// Values of the placeholders.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentValues<'a> {
    /// Value of `{model}`; if `None`, arguments with this placeholder are omitted.
    pub model: Option<&'a str>,
    /// Value of `{prompt_file}`.
    pub prompt_file: &'a Path,
    /// Value of `{cwd}`.
    pub cwd: &'a Path,
    /// Value of `{command}`.
    pub command: &'a str,
}

/// Placeholder for the arguments of a permission.
const PERMISSIONS_PLACEHOLDER: &str = "{permissions}";

impl Argument {
    /// Replaces the placeholders. Returns no arguments if one contains `{model}` and no model is set.
    ///
    /// # Errors
    ///
    /// `AgentUnusable` for a path that is not UTF-8.
    pub fn fill(&self, values: &ArgumentValues<'_>) -> Result<Vec<String>> {
        let texts = self
            .0
            .iter()
            .map(|text| fill_text(text, values))
            .collect::<Result<Option<Vec<_>>>>();
        texts.map(Option::unwrap_or_default)
    }

    /// Returns true if the argument is the placeholder `{permissions}`.
    #[must_use]
    pub fn is_permissions(&self) -> bool {
        self.0 == [PERMISSIONS_PLACEHOLDER]
    }

    /// Returns true if the argument contains a placeholder of this name.
    pub(super) fn has_placeholder(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|text| split_placeholders(text).contains(&ArgumentSegment::Placeholder(name)))
    }

    /// Returns a message about the first unknown placeholder; `None` if there is none. `{command}` is valid only if
    /// `in_command` is true, which means in `command` of `permissions`.
    pub(super) fn find_problem(
        &self,
        is_switch: &impl Fn(&str) -> bool,
        in_command: bool,
    ) -> Option<String> {
        if self.is_permissions() {
            return None;
        }
        if let [text] = &self.0[..]
            && let [
                ArgumentSegment::Text(""),
                ArgumentSegment::Placeholder(name),
                ArgumentSegment::Text(""),
            ] = split_placeholders(text)[..]
            && is_switch(name)
        {
            return None;
        }
        let segments = self.0.iter().flat_map(|text| split_placeholders(text));
        segments.into_iter().find_map(|segment| match segment {
            ArgumentSegment::Text(_)
            | ArgumentSegment::Placeholder("model" | "prompt_file" | "cwd") => None,
            ArgumentSegment::Placeholder("command") if in_command => None,
            ArgumentSegment::Placeholder("permissions") => Some(format!(
                "`{PERMISSIONS_PLACEHOLDER}` must be a separate argument"
            )),
            ArgumentSegment::Placeholder(name) => Some(format!("unknown placeholder `{{{name}}}`")),
        })
    }
}

/// A part of an argument's text.
#[derive(Debug, PartialEq, Eq)]
enum ArgumentSegment<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

/// Splits `text` at its placeholders: names of lower-case letters and `_` in braces. Other braces are plain text.
fn split_placeholders(text: &str) -> Vec<ArgumentSegment<'_>> {
    let mut segments = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        let name = &text[open + 1..];
        let end = name
            .find(|c: char| !c.is_ascii_lowercase() && c != '_')
            .unwrap_or(name.len());
        at = open + 1;
        if end > 0 && name[end..].starts_with('}') {
            segments.extend([
                ArgumentSegment::Text(&text[from..open]),
                ArgumentSegment::Placeholder(&name[..end]),
            ]);
            at = open + end + 2;
            from = at;
        }
    }
    segments.push(ArgumentSegment::Text(&text[from..]));
    segments
}

/// Replaces the placeholders of `text` in one pass; `None` if it contains `{model}` and no model is set.
fn fill_text(text: &str, values: &ArgumentValues<'_>) -> Result<Option<String>> {
    let mut filled = String::new();
    for segment in split_placeholders(text) {
        match segment {
            ArgumentSegment::Text(text) => filled.push_str(text),
            ArgumentSegment::Placeholder("model") => match values.model {
                Some(model) => filled.push_str(model),
                None => return Ok(None),
            },
            ArgumentSegment::Placeholder("prompt_file") => {
                filled.push_str(path_text(values.prompt_file)?)
            }
            ArgumentSegment::Placeholder("command") => filled.push_str(values.command),
            // Only `{cwd}` is left: definitions with an unknown placeholder are refused.
            ArgumentSegment::Placeholder(_) => filled.push_str(path_text(values.cwd)?),
        }
    }
    Ok(Some(filled))
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        let message = format!(
            "the path `{}` is not UTF-8",
            path.display().to_string().escape_debug()
        );
        Error::new(ErrorKind::AgentUnusable, message)
    })
}

/// Deserializes one string, or a list of strings.
pub(super) struct OneOrMoreTexts;

impl<'de> de::Visitor<'de> for OneOrMoreTexts {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings; quote numbers and booleans")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = items.next_element()? {
            texts.push(text);
        }
        Ok(texts)
    }
}

impl<'de> Deserialize<'de> for Argument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMoreTexts).map(Self)
    }
}
