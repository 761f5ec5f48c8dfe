//! Finding a system template: the agent's own at every place, then BASE at every place.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::search_path::{Candidate, Owner, Places};
use super::template::Template;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Mode};

/// The folder of system templates, at every place.
const TEMPLATE_FOLDER: &str = "templates/system";

/// Finds templates and keeps what it has read. Sharing it between threads is cheap.
#[derive(Debug)]
pub struct Templates {
    places: Places,
    cache: RwLock<HashMap<(String, Mode), Arc<FoundTemplate>>>,
}

/// A template, and how it was found.
#[derive(Debug)]
pub struct FoundTemplate {
    /// The template that won.
    pub template: Template,
    /// Every place that was searched, in order; the last one is where the template is.
    pub searched: Vec<String>,
    /// Whether BASE stands in for the agent's own.
    pub fallback: bool,
    /// A BASE template of the project that an agent's template of lesser standing hides.
    pub shadowed: Option<String>,
}

/// A template file in a listing.
#[derive(Debug)]
pub struct ListedTemplate {
    /// The file's name without `.md`.
    pub name: String,
    /// Who it belongs to.
    pub owner: Owner,
    /// Where it is, as people read it.
    pub origin: String,
    /// Whether it is the one that is used under this name.
    pub active: bool,
    /// The template, or why it cannot be read.
    pub template: Result<Template>,
}

impl Templates {
    /// Makes a finder for some places.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self {
            places,
            cache: RwLock::default(),
        }
    }

    /// Returns the raw text of the template for an agent and a phase, without its front matter.
    ///
    /// # Errors
    ///
    /// Those of [`Templates::find`].
    pub fn load_system_template(&self, agent: &AgentName, phase: &Mode) -> Result<String> {
        Ok(self.find(agent, phase)?.template.text.body().to_owned())
    }

    /// Returns the template for an agent and a mode.
    ///
    /// # Errors
    ///
    /// `TemplateNotFound` naming every place searched, in order; `TemplateInvalid` or `FileUnusable` for a file that
    /// is there and cannot be used.
    pub fn find(&self, agent: &AgentName, mode: &Mode) -> Result<Arc<FoundTemplate>> {
        let key = (agent.file_stem(), mode.clone());
        if let Some(found) = self
            .cache
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
        {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.search(&key.0, mode)?);
        if found.fallback {
            log::debug!(
                "no {}-{mode}.md; falling back to {}",
                key.0,
                found.template.text.origin
            );
        }
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        cache.insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// Forgets what was read, so that files are read again.
    pub fn reload(&self) {
        self.cache
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Returns every template file at every place, sorted by name, the most important place first.
    #[must_use]
    pub fn list(&self) -> Vec<ListedTemplate> {
        let mut listing = Vec::new();
        for file in self.places.names_in(TEMPLATE_FOLDER) {
            // Other Markdown, such as a README, may lie beside them.
            let Some(name) = file.strip_suffix(".md").filter(|name| name.contains('-')) else {
                continue;
            };
            let mut active = true;
            for candidate in self.places.candidates(&format!("{TEMPLATE_FOLDER}/{file}")) {
                let Some(listed) = self.list_candidate(name, &candidate, active) else {
                    continue;
                };
                active = false;
                listing.push(listed);
            }
        }
        listing
    }

    fn list_candidate(
        &self,
        name: &str,
        candidate: &Candidate,
        active: bool,
    ) -> Option<ListedTemplate> {
        let template = match self.places.read(candidate) {
            Ok(None) => return None,
            Ok(Some(prose)) => Template::read(name, &prose),
            Err(error) => Err(error),
        };
        let origin = candidate.origin.clone();
        Some(ListedTemplate {
            name: name.to_owned(),
            owner: candidate.owner,
            origin,
            active,
            template,
        })
    }

    fn search(&self, stem: &str, mode: &Mode) -> Result<FoundTemplate> {
        let mut searched = Vec::new();
        let own = format!("{stem}-{mode}");
        let base = format!("BASE-{mode}");
        let names = if own == base {
            vec![&base]
        } else {
            vec![&own, &base]
        };
        for name in names {
            for candidate in self
                .places
                .candidates(&format!("{TEMPLATE_FOLDER}/{name}.md"))
            {
                searched.push(candidate.origin.clone());
                let Some(prose) = self.places.read(&candidate)? else {
                    continue;
                };
                let template = Template::read(name, &prose)?;
                let fallback = *name != own;
                let shadowed = if fallback {
                    None
                } else {
                    self.find_shadowed(&base, candidate.owner)
                };
                return Ok(FoundTemplate {
                    template,
                    searched,
                    fallback,
                    shadowed,
                });
            }
        }
        Err(not_found_error(stem, mode, &searched))
    }

    /// Returns the project's BASE template if a template of another owner won over it.
    fn find_shadowed(&self, base: &str, winner: Owner) -> Option<String> {
        if winner == Owner::Project {
            return None;
        }
        let candidates = self
            .places
            .candidates(&format!("{TEMPLATE_FOLDER}/{base}.md"));
        for candidate in candidates
            .iter()
            .filter(|candidate| candidate.owner == Owner::Project)
        {
            // One that cannot be read is shadowed all the same, and is no obstacle to the one that is used.
            if !matches!(self.places.peek(candidate), Ok(None)) {
                return Some(candidate.origin.clone());
            }
        }
        None
    }
}

fn not_found_error(stem: &str, mode: &Mode, searched: &[String]) -> Error {
    let places: String = searched
        .iter()
        .map(|place| format!("\n  {place}"))
        .collect();
    let message =
        format!("no system template for {stem} in mode {mode}; searched, in order:{places}");
    Error::new(ErrorKind::TemplateNotFound, message).with_hint(format!(
        "write templates/system/BASE-{mode}.md, or see `agentd template list`"
    ))
}
