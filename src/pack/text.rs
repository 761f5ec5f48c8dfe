//! A prose file of a pack: front matter, body and variables.

use std::collections::BTreeSet;

use super::front_matter::{self, FrontMatter, VariableSpec};
use super::placeholder::{Token, tokens};
use super::search_path::{Prose, ProseOwner};
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum number of variables of a prose file.
const MAX_VARIABLES: usize = 100;

/// A parsed prose file.
#[derive(Clone, Debug)]
pub struct ProseText {
    /// File name, such as `BASE-plan` or `modes/architect.md`.
    pub name: String,
    /// Owner of the file.
    pub owner: ProseOwner,
    /// Location, for display.
    pub origin: String,
    /// Parsed front matter.
    pub front_matter: FrontMatter,
    /// Content of the whole file.
    pub file: String,
    /// Offset of the body in the file.
    body_start: usize,
    /// True if the body has no placeholder, not even an escaped one.
    is_plain: bool,
    /// Variables in order of first use, or those of the front matter if it lists any.
    pub variables: Vec<VariableSpec>,
}

impl ProseText {
    /// Parses a prose file.
    ///
    /// # Errors
    ///
    /// `TemplateInvalid` with the location, for broken front matter, for a file without prose, and for placeholders that
    /// a `variables` list does not name.
    pub fn read(name: &str, prose: &Prose) -> Result<Self> {
        let split = front_matter::split_file(&prose.text, &prose.origin)?;
        let front_matter = match split.yaml {
            Some(head) => front_matter::parse_front_matter(head, &prose.origin)?,
            None => FrontMatter::default(),
        };
        let mut text = Self {
            name: name.to_owned(),
            owner: prose.owner,
            origin: prose.origin.clone(),
            front_matter,
            file: prose.text.clone().into_owned(),
            body_start: prose.text.len() - split.body.len(),
            is_plain: !split.body.contains("{{"),
            variables: Vec::new(),
        };

        if text.body().trim().is_empty() {
            return Err(text.invalid(format!("{} is empty", prose.origin)));
        }

        text.variables = text.list_variables()?;
        Ok(text)
    }

    /// Returns the text without front matter; placeholders are not filled.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.file[self.body_start..]
    }

    /// Returns true if the text has no placeholders.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the front matter without its fences; empty if there is none.
    pub(super) fn head(&self) -> &str {
        front_matter::split_file(&self.file, &self.origin)
            .ok()
            .and_then(|split| split.yaml)
            .unwrap_or_default()
    }

    /// Converts an offset in the body to a location in the file.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        Place::at_offset(self.origin.clone(), &self.file, self.body_start + offset)
    }

    /// Returns true if a variable must have a value. A variable that is not listed must have one.
    #[must_use]
    pub fn requires(&self, name: &str) -> bool {
        self.variables
            .iter()
            .find(|variable| variable.name == name)
            .is_none_or(|variable| variable.required)
    }

    fn list_variables(&self) -> Result<Vec<VariableSpec>> {
        let listed = self.front_matter.variables.as_ref();

        let mut seen = BTreeSet::new();
        let mut detected = Vec::new();
        for token in tokens(self.body()) {
            let Token::Variable(name, offset) = token else {
                continue;
            };
            if !seen.insert(name) {
                continue;
            }

            if seen.len() > MAX_VARIABLES {
                let message =
                    format!("the file has more than {MAX_VARIABLES} different placeholders");
                return Err(self.invalid(message).with_place(self.place(offset)));
            }

            if listed.is_some_and(|list| list.iter().all(|entry| entry.value.name != name)) {
                return Err(self
                    .invalid(format!("{{{{{name}}}}} is not in the list `variables`"))
                    .with_place(self.place(offset))
                    .with_hint(format!(
                        "add {name} to `variables`, or write \\{{{{{name}}}}} to send it as text"
                    )));
            }

            detected.push(VariableSpec {
                name: name.to_owned(),
                required: true,
            });
        }

        Ok(listed.map_or(detected, |list| {
            list.iter().map(|entry| entry.value.clone()).collect()
        }))
    }

    fn invalid(&self, message: String) -> Error {
        Error::new(ErrorKind::TemplateInvalid, message)
    }
}
