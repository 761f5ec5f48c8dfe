//! System templates: prose for an agent and a mode.

use serde::Serialize;

use super::search_path::Prose;
use super::text::ProseText;
use crate::error::{Error, ErrorKind, Result};
use crate::models::Mode;
use crate::text::yaml;

/// A parsed system template.
#[derive(Clone, Debug)]
pub struct Template {
    /// Agent part of the name, such as `BASE`.
    pub agent: String,
    /// Mode part of the name.
    pub mode: Mode,
    /// File content; its name has no `.md`.
    pub text: ProseText,
}

/// A template's metadata, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SystemTemplateMetadata {
    /// `GEMINI`, `CLAUDE`, `CODEX`, `BASE` or the file name of any other agent.
    pub agent: String,
    /// Mode, such as `plan`.
    pub phase: String,
    /// Variables that the template uses, or those that its front matter lists.
    pub variables: Vec<String>,
}

impl Template {
    /// Parses a template; `name` is its file name without `.md`.
    ///
    /// # Errors
    ///
    /// `TemplateInvalid` with the location, for front matter that is broken or contradicts the file name, and for
    /// placeholders that a `variables` list does not name.
    pub fn read(name: &str, prose: &Prose) -> Result<Self> {
        let (agent, mode) = split_name(name).ok_or_else(|| {
            Error::new(
                ErrorKind::TemplateInvalid,
                format!("invalid template name {name:?}"),
            )
            .with_hint("templates are named AGENT-mode.md, such as BASE-plan.md")
        })?;

        let text = ProseText::read(name, prose).map_err(|error| match error.place() {
            Some(_) => error,
            None => error.with_hint(
                "start from a built-in template: `agentd template show MODE --built-in`",
            ),
        })?;
        let template = Self {
            agent: agent.to_owned(),
            mode,
            text,
        };
        template.check_names()?;

        Ok(template)
    }

    /// Returns the metadata for JSON output.
    #[must_use]
    pub fn metadata(&self) -> SystemTemplateMetadata {
        SystemTemplateMetadata {
            agent: self.agent.clone(),
            phase: self.mode.as_str().to_owned(),
            variables: self
                .text
                .variables
                .iter()
                .map(|variable| variable.name.clone())
                .collect(),
        }
    }

    fn check_names(&self) -> Result<()> {
        let front_matter = &self.text.front_matter;
        let claims = [
            ("agent", &front_matter.agent, self.agent.as_str()),
            ("phase", &front_matter.phase, self.mode.as_str()),
        ];
        for (key, claim, fact) in claims {
            let Some(claim) = claim else { continue };
            if claim.value != fact {
                let message = format!(
                    "`{key}` is {:?}, but the file name says {fact:?}",
                    claim.value
                );
                return Err(Error::new(ErrorKind::TemplateInvalid, message)
                    .with_place(yaml::place(
                        self.text.head(),
                        &self.text.origin,
                        2,
                        claim.referenced,
                    ))
                    .with_hint("rename the file or correct the front matter"));
            }
        }

        Ok(())
    }
}

/// Splits `BASE-plan` into agent and mode; `None` for an invalid template name.
pub(super) fn split_name(name: &str) -> Option<(&str, Mode)> {
    let (agent, mode) = name.split_once('-')?;
    let is_upper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    let is_valid_agent = !agent.is_empty() && agent.bytes().all(is_upper);
    Some((agent, Mode::new(mode).ok().filter(|_| is_valid_agent)?))
}
