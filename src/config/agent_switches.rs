//! Switches of an agent: sets of arguments and environment variables that the settings turn on or off.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::argument::Argument;
use super::{AgentSpec, Agents};
use crate::error::{Error, ErrorKind, Result};

/// A feature of an agent that is on or off.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Short description for users.
    pub about: String,
    /// True if the switch is on by default.
    #[serde(default)]
    pub default: bool,
    /// Additions to the command if the switch is on.
    #[serde(default)]
    pub on: SwitchPosition,
    /// Additions to the command if the switch is off.
    #[serde(default)]
    pub off: SwitchPosition,
}

/// Additions to a command in one position of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchPosition {
    /// Arguments that replace the placeholder of the switch.
    #[serde(default)]
    pub argv: Vec<Argument>,
    /// Environment variables to set, by name.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Project files whose instructions the agent then follows.
    #[serde(default)]
    pub obeys: Vec<String>,
}

/// Positions of switches in the settings, by agent and switch.
pub type Switches = BTreeMap<String, BTreeMap<String, bool>>;

impl Switch {
    /// Returns the arguments of both positions.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.on.argv.iter().chain(&self.off.argv)
    }
}

impl Agents {
    /// Applies every switch: in its position in the settings, or in its default position.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if the settings contain an unknown agent or switch.
    pub fn switched(mut self, settings: &Switches) -> Result<Self> {
        for (name, positions) in settings {
            let Some(spec) = self.find(name) else {
                let known: Vec<&str> = self.all().map(|spec| spec.name.as_str()).collect();
                let message = format!("unknown agent `{name}` under [agents] in the settings");
                return Err(
                    Error::new(ErrorKind::ConfigInvalid, message).with_hint(format!(
                        "known agents: {}; define others in agents.yaml",
                        known.join(", ")
                    )),
                );
            };
            if let Some(unknown) = positions
                .keys()
                .find(|switch| !spec.switches.contains_key(*switch))
            {
                let names: Vec<&str> = spec.switches.keys().map(String::as_str).collect();
                let known = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                let message = format!("agent `{name}` has no switch `{unknown}`");
                return Err(Error::new(ErrorKind::ConfigInvalid, message)
                    .with_hint(format!("switches of `{name}`: {known}")));
            }
        }

        for spec in self.specs_mut() {
            spec.set_switches(settings.get(&spec.name));
        }
        Ok(self)
    }
}

impl AgentSpec {
    /// Replaces the placeholder of each switch, and adds the variables and files of the switch. A switch that is not in
    /// `settings` has its default position. Afterwards, `default` of each switch is its actual position.
    fn set_switches(&mut self, settings: Option<&BTreeMap<String, bool>>) {
        for (name, switch) in &mut self.switches {
            let is_set_on = settings.and_then(|positions| positions.get(name)).copied();
            let is_on = is_set_on.unwrap_or(switch.default);
            switch.default = is_on;
            let position = if is_on { &switch.on } else { &switch.off };

            let placeholder = [format!("{{{name}}}")];
            self.argv = std::mem::take(&mut self.argv)
                .into_iter()
                .flat_map(|argument| {
                    if argument.0 == placeholder {
                        position.argv.clone()
                    } else {
                        vec![argument]
                    }
                })
                .collect();
            self.set.extend(position.set.clone());
            self.obeys.extend(position.obeys.clone());
        }
    }
}
