//! A template: prose with placeholders, and what it says of itself.

use std::collections::BTreeSet;

use serde::Serialize;

use super::front_matter::{self, FrontMatter, VariableSpec};
use super::placeholder::{Token, tokens};
use super::source::{Owner, Prose};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::models::Mode;
use crate::models::yaml;

/// The most variables of a template.
const MOST_VARIABLES: usize = 100;

/// A template that was found and understood.
#[derive(Clone, Debug)]
pub struct Template {
    /// The file's name without `.md`, such as `BASE-plan`.
    pub name: String,
    /// The agent's part of the name, such as `BASE`.
    pub agent: String,
    /// The mode's part of the name.
    pub mode: Mode,
    /// Who it belongs to.
    pub owner: Owner,
    /// Where it was found, as people read it.
    pub origin: String,
    /// What it says of itself.
    pub front_matter: FrontMatter,
    /// The whole file.
    pub text: String,
    /// The offset in the file at which the prose starts.
    body_start: usize,
    /// The variables it uses, in order of first use, or those it lists.
    pub variables: Vec<VariableSpec>,
}

/// A template's metadata, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SystemTemplateMetadata {
    /// `GEMINI`, `CLAUDE`, `CODEX`, `BASE` or any other agent's file name.
    pub agent: String,
    /// The mode, such as `plan`.
    pub phase: String,
    /// List of variables detected/required in the template.
    pub variables: Vec<String>,
}

impl Template {
    /// Reads a template; `name` is its file's name without `.md`.
    ///
    /// # Errors
    ///
    /// `TemplateInvalid` with the place, for broken or contradicting front matter and for placeholders that a
    /// `variables` list does not name.
    pub fn read(name: &str, prose: &Prose) -> Result<Self> {
        let (agent, mode) = split_name(name).ok_or_else(|| {
            Error::new(ErrorKind::TemplateInvalid, format!("{name:?} is not a template's name"))
                .with_hint("templates are named AGENT-mode.md, like BASE-plan.md")
        })?;
        let cut = front_matter::split(&prose.text, &prose.origin)?;
        let front_matter = match cut.head {
            Some(head) => front_matter::read(head, &prose.origin)?,
            None => FrontMatter::default(),
        };
        let mut template = Self {
            name: name.to_owned(),
            agent: agent.to_owned(),
            mode,
            owner: prose.owner,
            origin: prose.origin.clone(),
            front_matter,
            text: prose.text.clone().into_owned(),
            body_start: prose.text.len() - cut.body.len(),
            variables: Vec::new(),
        };
        if template.body().trim().is_empty() {
            return Err(Error::new(ErrorKind::TemplateInvalid, format!("{} is empty", prose.origin))
                .with_hint("`agentd template show MODE --built-in` prints a shipped one to start from"));
        }
        template.check_names(cut.head.unwrap_or(""))?;
        template.variables = template.list_variables()?;
        Ok(template)
    }

    /// Returns the prose, placeholders included, without the front matter.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.body_start..]
    }

    /// Returns the metadata, as JSON shows it.
    #[must_use]
    pub fn metadata(&self) -> SystemTemplateMetadata {
        SystemTemplateMetadata {
            agent: self.agent.clone(),
            phase: self.mode.as_str().to_owned(),
            variables: self.variables.iter().map(|variable| variable.name.clone()).collect(),
        }
    }

    /// Returns the place in the file of an offset in the body.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        Place::at_offset(self.origin.clone(), &self.text, self.body_start + offset)
    }

    /// Tells whether a variable must have a value. One that no list names must.
    #[must_use]
    pub fn requires(&self, name: &str) -> bool {
        self.variables.iter().find(|variable| variable.name == name).is_none_or(|found| found.required)
    }

    fn check_names(&self, head: &str) -> Result<()> {
        let claims = [
            ("agent", &self.front_matter.agent, self.agent.as_str()),
            ("phase", &self.front_matter.phase, self.mode.as_str()),
        ];
        for (key, claim, fact) in claims {
            let Some(claim) = claim else { continue };
            if claim.value != fact {
                return Err(self
                    .invalid(format!("`{key}` says {:?}, the file's name says {fact:?}", claim.value))
                    .with_place(yaml::place(head, &self.origin, 2, claim.referenced))
                    .with_hint("rename the file or correct the front matter"));
            }
        }
        Ok(())
    }

    fn list_variables(&self) -> Result<Vec<VariableSpec>> {
        let listed = self.front_matter.variables.as_ref();
        let mut seen = BTreeSet::new();
        let mut detected = Vec::new();
        for token in tokens(self.body()) {
            let Token::Variable(name, offset) = token else { continue };
            if !seen.insert(name) {
                continue;
            }
            if seen.len() > MOST_VARIABLES {
                let message = format!("more than {MOST_VARIABLES} different placeholders");
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
            detected.push(VariableSpec { name: name.to_owned(), required: true });
        }
        Ok(listed.map_or(detected, |list| list.iter().map(|entry| entry.value.clone()).collect()))
    }

    fn invalid(&self, message: String) -> Error {
        Error::new(ErrorKind::TemplateInvalid, message)
    }
}

/// Cuts `BASE-plan` into agent and mode; `None` if it is not a template's name.
pub(super) fn split_name(name: &str) -> Option<(&str, Mode)> {
    let (agent, mode) = name.split_once('-')?;
    let upper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let usable = !agent.is_empty() && agent.bytes().all(upper);
    Some((agent, Mode::new(mode).ok().filter(|_| usable)?))
}
