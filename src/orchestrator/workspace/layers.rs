//! Settings, agent definitions and models. Each is layered: the shipped layer, then the user's, then the project's.

use crate::config::{Agents, Environment, Settings};
use crate::error::Result;
use crate::models::Catalogue;
use crate::pack::{AGENTS, Prose, SECRET_NAMES, SearchPath};

/// File name of the settings, in the project's `agentd/` and in the user's folder.
const SETTINGS_FILE: &str = "config.toml";

/// File name of agent definitions, in the same folders.
pub(super) const AGENTS_FILE: &str = "agents.yaml";

/// Loads the settings: the user's, overlaid by the project's.
///
/// # Errors
///
/// `ConfigInvalid` if a settings file is invalid; the error has its location.
pub fn load_settings(places: &SearchPath) -> Result<Settings> {
    let mut files = places.layers(SETTINGS_FILE)?.into_iter();
    files.try_fold(Settings::default(), |settings, file| {
        settings.overlaid(&file.text, &file.origin)
    })
}

/// Loads the model catalogue: the shipped models and those of the settings.
///
/// # Errors
///
/// `ConfigInvalid` for an invalid model in the settings.
pub fn load_catalogue(settings: &Settings) -> Result<Catalogue> {
    let mut catalogue = Catalogue::built_in()?.clone();
    for model in &settings.models {
        catalogue.add(model.clone())?;
    }
    Ok(catalogue)
}

/// Returns the names of the secret variables in an environment, before a project is opened. Invalid agent definitions
/// are ignored here; opening the project reports them.
#[must_use]
pub fn secret_variable_names(places: &SearchPath, environment: &Environment) -> Vec<String> {
    let files = places.layers(AGENTS_FILE).unwrap_or_default();
    let agents = overlay_agents(secret_name_rules(), &files);
    agents
        .unwrap_or_else(|_| secret_name_rules())
        .secrets(environment)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Parses the shipped agent definitions.
pub(super) fn shipped_agents() -> Result<Agents> {
    Agents::read(AGENTS, "built-in:data/agents.yaml")
}

/// Returns an empty set of agents with only the built-in name patterns for secret variables.
pub(super) fn secret_name_rules() -> Agents {
    Agents::default().with_secrets(SECRET_NAMES)
}

/// Overlays agent definitions with those in `files`; later files override earlier ones.
pub(super) fn overlay_agents(agents: Agents, files: &[Prose]) -> Result<Agents> {
    files.iter().try_fold(agents, |agents, file| {
        agents.overlaid(&file.text, &file.origin)
    })
}
