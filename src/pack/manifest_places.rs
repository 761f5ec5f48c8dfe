//! Line and column of values in `pack.yaml` whose types do not record them.

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Location;

use super::problem::OperationRole;
use super::search_path::Prose;
use crate::error::ErrorKind;
use crate::models::{Mode, OperationId};
use crate::text::yaml::{self, WithPlace};

/// Value of `operation` for an action whose requests are recorded but never executed.
pub(super) const NO_OPERATION: &str = "none";

/// Parts of a manifest that problems refer to.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ManifestPlaces {
    #[serde(default)]
    actions: IndexMap<String, ActionPlaces>,
    #[serde(default)]
    commands: IndexMap<String, CommandPlaces>,
    #[serde(default)]
    modes: IndexMap<String, ModePlaces>,
}

/// Places of one action.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ActionPlaces {
    #[serde(default)]
    pub(super) modes: Vec<WithPlace<String>>,
    #[serde(default)]
    pub(super) operation: Option<WithPlace<String>>,
}

/// Places of one command.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CommandPlaces {
    #[serde(default)]
    pub(super) modes: Vec<WithPlace<String>>,
    #[serde(default)]
    pub(super) steps: Vec<CommandStepPlaces>,
}

/// Places of one step of a command.
#[derive(Debug, Deserialize)]
pub(super) struct CommandStepPlaces {
    pub(super) operation: WithPlace<String>,
    #[serde(default)]
    pub(super) with: IndexMap<String, WithPlace<IgnoredAny>>,
}

/// Places of one mode.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ModePlaces {
    #[serde(default)]
    pub(super) artifacts: Vec<WithPlace<String>>,
    #[serde(default)]
    pub(super) updates: Vec<WithPlace<String>>,
    #[serde(default)]
    pub(super) markers: Vec<WithPlace<String>>,
    #[serde(default)]
    before: Vec<WithPlace<String>>,
    #[serde(default)]
    after: Vec<WithPlace<String>>,
    #[serde(default)]
    finish: Vec<WithPlace<String>>,
}

impl ManifestPlaces {
    /// Reads the locations in a manifest that was already parsed without an error.
    pub(super) fn read(prose: &Prose) -> Self {
        yaml::read(&prose.text, &prose.origin, 1, ErrorKind::PackInvalid).unwrap_or_default()
    }

    /// Returns the locations of the parts of the action with this name.
    pub(super) fn action(&self, name: &str) -> Option<&ActionPlaces> {
        self.actions.get(name)
    }

    /// Returns the locations of the parts of the command with this name.
    pub(super) fn command(&self, name: &str) -> Option<&CommandPlaces> {
        self.commands.get(name)
    }

    /// Returns the locations of the parts of the mode with this name.
    pub(super) fn mode(&self, mode: &Mode) -> Option<&ModePlaces> {
        self.modes.get(mode.as_str())
    }

    /// Returns the operations that modes and actions use, each with its location.
    pub(super) fn operations(&self) -> Vec<(OperationId, OperationRole, Location)> {
        let modes = self.modes.values();
        let before = modes
            .clone()
            .flat_map(|mode| &mode.before)
            .map(|name| (name, OperationRole::Before));

        let after = modes
            .flat_map(|mode| mode.after.iter().chain(&mode.finish))
            .map(|name| (name, OperationRole::After));
        let actions = self.actions.values();
        let requested = actions
            .filter_map(|action| action.operation.as_ref())
            .map(|name| (name, OperationRole::Action));

        before
            .chain(after)
            .chain(requested)
            .filter_map(|(name, role)| {
                let operation = OperationId::new(name.value.as_str()).ok()?;
                Some((operation, role, name.referenced))
            })
            .collect()
    }
}
