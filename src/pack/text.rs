//! A prose file of a pack: what it says of itself, its body, and the variables in it.

use std::collections::BTreeSet;

use super::front_matter::{self, FrontMatter, VariableSpec};
use super::placeholder::{Token, tokens};
use super::search_path::{Owner, Prose};
use crate::error::{Error, ErrorKind, Place, Result};

/// The most variables of a text.
const MAX_VARIABLES: usize = 100;

/// A prose file that was found and understood.
#[derive(Clone, Debug)]
pub struct Text {
    /// The file's name, such as `BASE-plan` or `modes/architect.md`.
    pub name: String,
    /// Who it belongs to.
    pub owner: Owner,
    /// Where it was found, as people read it.
    pub origin: String,
    /// What it says of itself.
    pub front_matter: FrontMatter,
    /// The whole file.
    pub file: String,
    /// The offset in the file at which the prose starts.
    body_start: usize,
    /// Whether no placeholder stands in it, not even an escaped one.
    plain: bool,
    /// The variables it uses, in order of first use, or those it lists.
    pub variables: Vec<VariableSpec>,
}

impl Text {
    /// Reads a prose file.
    ///
    /// # Errors
    ///
    /// `TemplateInvalid` with the place, for broken front matter, for a file without prose, and for placeholders that
    /// a `variables` list does not name.
    pub fn read(name: &str, prose: &Prose) -> Result<Self> {
        let cut = front_matter::split_file(&prose.text, &prose.origin)?;
        let front_matter = match cut.yaml {
            Some(head) => front_matter::parse_front_matter(head, &prose.origin)?,
            None => FrontMatter::default(),
        };
        let mut text = Self {
            name: name.to_owned(),
            owner: prose.owner,
            origin: prose.origin.clone(),
            front_matter,
            file: prose.text.clone().into_owned(),
            body_start: prose.text.len() - cut.body.len(),
            plain: !cut.body.contains("{{"),
            variables: Vec::new(),
        };
        if text.body().trim().is_empty() {
            return Err(text.invalid(format!("{} is empty", prose.origin)));
        }
        text.variables = text.list_variables()?;
        Ok(text)
    }

    /// Returns the prose, placeholders included, without the front matter.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.file[self.body_start..]
    }

    /// Tells whether the text says the same whatever it is filled with.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns the head, without its fences; empty if there is none.
    pub(super) fn head(&self) -> &str {
        front_matter::split_file(&self.file, &self.origin)
            .ok()
            .and_then(|cut| cut.yaml)
            .unwrap_or_default()
    }

    /// Returns the place in the file of an offset in the body.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        Place::at_offset(self.origin.clone(), &self.file, self.body_start + offset)
    }

    /// Tells whether a variable must have a value. One that no list names must.
    #[must_use]
    pub fn requires(&self, name: &str) -> bool {
        self.variables
            .iter()
            .find(|variable| variable.name == name)
            .is_none_or(|found| found.required)
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
                let message = format!("more than {MAX_VARIABLES} different placeholders");
                return Err(self.invalid(message).with_place(self.place(offset)));
            }
            if listed.is_some_and(|list| list.iter().all(|entry| entry.value.name != name)) {
                return Err(self
                    .invalid(format!("{{{{{name}}}}} is not in the list of variables"))
                    .with_place(self.place(offset))
                    .with_hint(format!(
                        "add {name} to `variables`, or write \\{{{{{name}}}}} to mean the text"
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
