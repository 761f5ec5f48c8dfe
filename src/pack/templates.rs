//! Finds system templates: first the agent's template in every search location, then BASE in every search location.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::search_path::{Candidate, ProseOwner, SearchPath};
use super::template::Template;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Mode};

/// Folder of system templates in every search location.
const TEMPLATE_FOLDER: &str = "templates/system";

/// Finds system templates and caches them. Can be shared between threads.
#[derive(Debug)]
pub struct Templates {
    places: SearchPath,
    cache: RwLock<HashMap<(String, Mode), Arc<FoundTemplate>>>,
}

/// A template and the details of its search.
#[derive(Debug)]
pub struct FoundTemplate {
    /// First template found.
    pub template: Template,
    /// All paths that were searched, in order; the last one has the template.
    pub searched: Vec<String>,
    /// True if BASE is used because the agent has no template.
    pub fallback: bool,
    /// BASE template of the project that is hidden by an agent's template from another owner.
    pub shadowed: Option<String>,
}

/// A template file in a listing.
#[derive(Debug)]
pub struct ListedTemplate {
    /// File name without `.md`.
    pub name: String,
    /// Owner of the file.
    pub owner: ProseOwner,
    /// Location, for display.
    pub origin: String,
    /// True if it takes precedence over the others with this name.
    pub active: bool,
    /// Template, or the error of reading it.
    pub template: Result<Template>,
}

impl Templates {
    /// Returns a finder for a search path.
    #[must_use]
    pub fn new(places: SearchPath) -> Self {
        Self {
            places,
            cache: RwLock::default(),
        }
    }

    /// Returns the raw text of the template for an agent and a phase, without front matter.
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
    /// `TemplateNotFound` with all paths searched, in order; `TemplateInvalid` or `FileUnusable` for a file that exists
    /// and cannot be used.
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

    /// Clears the cache, so that files are read again.
    pub fn reload(&self) {
        self.cache
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Returns all template files in all search locations, sorted by name and then by precedence.
    #[must_use]
    pub fn list(&self) -> Vec<ListedTemplate> {
        let mut listing = Vec::new();
        for file in self.places.names_in(TEMPLATE_FOLDER) {
            // The folder may have other Markdown, such as a README.
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
        let agent_name = format!("{stem}-{mode}");
        let base = format!("BASE-{mode}");
        let names = if agent_name == base {
            vec![&base]
        } else {
            vec![&agent_name, &base]
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
                let fallback = *name != agent_name;
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

    /// Returns the origin of the project's BASE template if a template of another owner takes precedence over it.
    fn find_shadowed(&self, base: &str, winner: ProseOwner) -> Option<String> {
        if winner == ProseOwner::Project {
            return None;
        }

        let candidates = self
            .places
            .candidates(&format!("{TEMPLATE_FOLDER}/{base}.md"));
        for candidate in candidates
            .iter()
            .filter(|candidate| candidate.owner == ProseOwner::Project)
        {
            // An unreadable file is shadowed, too, and does not prevent the use of the other.
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
        format!("no system template for {stem} in mode `{mode}`; searched, in order:{places}");
    Error::new(ErrorKind::TemplateNotFound, message).with_hint(format!(
        "write templates/system/BASE-{mode}.md, or see `agentd template list`"
    ))
}
