//! Arguments of a command, and the blanks in them.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Deserializer, de};

use crate::error::{Error, ErrorKind, Result};

/// An argument, or several that belong together. They are left out if `{model}` stands in them and none is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument(pub Vec<String>);

/// What the blanks of arguments are filled with.
#[derive(Clone, Copy, Debug)]
pub struct Blanks<'a> {
    /// `{model}`.
    pub model: Option<&'a str>,
    /// `{prompt_file}`.
    pub prompt_file: &'a Path,
    /// `{cwd}`.
    pub cwd: &'a Path,
    /// `{command}`.
    pub command: &'a str,
}

/// The blank that stands for the arguments of a permission.
const PERMISSIONS: &str = "{permissions}";

impl Argument {
    /// Returns the arguments with their blanks filled; none if they are to be left out.
    ///
    /// # Errors
    ///
    /// `AgentUnusable` for a path that is not UTF-8.
    pub fn filled(&self, blanks: &Blanks<'_>) -> Result<Vec<String>> {
        let texts = self
            .0
            .iter()
            .map(|text| fill(text, blanks))
            .collect::<Result<Option<Vec<_>>>>();
        texts.map(Option::unwrap_or_default)
    }

    /// Tells whether it stands for the arguments of a permission.
    #[must_use]
    pub fn is_permissions(&self) -> bool {
        self.0 == [PERMISSIONS]
    }

    /// Tells whether a blank stands in it.
    pub(super) fn names(&self, blank: &str) -> bool {
        self.0
            .iter()
            .any(|text| pieces(text).contains(&Piece::Blank(blank)))
    }

    /// Returns what is wrong with it, in words. `{command}` is known only where a command is allowed.
    pub(super) fn fault(
        &self,
        is_switch: &impl Fn(&str) -> bool,
        in_command: bool,
    ) -> Option<String> {
        if self.is_permissions() {
            return None;
        }
        if let [text] = &self.0[..]
            && let [Piece::Text(""), Piece::Blank(name), Piece::Text("")] = pieces(text)[..]
            && is_switch(name)
        {
            return None;
        }
        let blanks = self.0.iter().flat_map(|text| pieces(text));
        blanks.into_iter().find_map(|piece| match piece {
            Piece::Text(_) | Piece::Blank("model" | "prompt_file" | "cwd") => None,
            Piece::Blank("command") if in_command => None,
            Piece::Blank("permissions") => {
                Some(format!("`{PERMISSIONS}` must be an argument of its own"))
            }
            Piece::Blank(name) => Some(format!("`{{{name}}}` is no blank that is known here")),
        })
    }
}

/// A part of an argument.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Blank(&'a str),
}

/// Splits a text at its blanks: names of small letters in braces.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(open) = text[at..].find('{').map(|open| at + open) {
        let name = &text[open + 1..];
        let end = name
            .find(|c: char| !c.is_ascii_lowercase() && c != '_')
            .unwrap_or(name.len());
        at = open + 1;
        if end > 0 && name[end..].starts_with('}') {
            pieces.extend([Piece::Text(&text[from..open]), Piece::Blank(&name[..end])]);
            at = open + end + 2;
            from = at;
        }
    }
    pieces.push(Piece::Text(&text[from..]));
    pieces
}

/// Fills the blanks of a text in one pass; `None` if it needs a model and none is known.
fn fill(text: &str, blanks: &Blanks<'_>) -> Result<Option<String>> {
    let mut filled = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Blank("model") => match blanks.model {
                Some(model) => filled.push_str(model),
                None => return Ok(None),
            },
            Piece::Blank("prompt_file") => filled.push_str(utf8(blanks.prompt_file)?),
            Piece::Blank("command") => filled.push_str(blanks.command),
            Piece::Blank(_) => filled.push_str(utf8(blanks.cwd)?),
        }
    }
    Ok(Some(filled))
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        let message = format!(
            "`{}` cannot be an argument: it is not UTF-8",
            path.display().to_string().escape_debug()
        );
        Error::new(ErrorKind::AgentUnusable, message)
    })
}

/// Reads one text, or a list of them.
pub(super) struct OneOrMore;

impl<'de> de::Visitor<'de> for OneOrMore {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts; a number or true needs quotes")
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
        deserializer.deserialize_any(OneOrMore).map(Self)
    }
}
