//! Switches of an agent: what of its own settings it may follow, each with a stated default.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::argument::Argument;
use super::{AgentSpec, Agents};
use crate::error::{Error, ErrorKind, Result};

/// Something that is on or off for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// What it is for, in a few words.
    pub about: String,
    /// Whether it is on unless the settings say otherwise.
    #[serde(default)]
    pub default: bool,
    /// What the command gets if it is on.
    #[serde(default)]
    pub on: Position,
    /// What the command gets if it is off.
    #[serde(default)]
    pub off: Position,
}

/// What a command gets in one position of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Arguments, in the place of the switch's blank.
    #[serde(default)]
    pub argv: Vec<Argument>,
    /// Variables.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Files of a project that it then follows.
    #[serde(default)]
    pub obeys: Vec<String>,
}

/// For each agent, what the settings say of its switches.
pub type Switches = BTreeMap<String, BTreeMap<String, bool>>;

impl Switch {
    /// Returns the arguments of both positions.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.on.argv.iter().chain(&self.off.argv)
    }
}

impl Agents {
    /// Returns these definitions with every switch set as the settings say, or to its default.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` for an agent or a switch that there is not.
    pub fn switched(mut self, settings: &Switches) -> Result<Self> {
        for (name, given) in settings {
            let Some(spec) = self.find(name) else {
                let known: Vec<&str> = self.all().map(|spec| spec.name.as_str()).collect();
                let message =
                    format!("the settings speak of the agent `{name}`, which is not described");
                return Err(Error::new(ErrorKind::ConfigInvalid, message)
                    .with_hint(format!("agents.yaml describes {}", known.join(", "))));
            };
            if let Some(unknown) = given
                .keys()
                .find(|switch| !spec.switches.contains_key(*switch))
            {
                let known: Vec<&str> = spec.switches.keys().map(String::as_str).collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                let message = format!("the agent `{name}` has no switch `{unknown}`");
                return Err(Error::new(ErrorKind::ConfigInvalid, message)
                    .with_hint(format!("its switches: {known}")));
            }
        }
        for spec in self.specs_mut() {
            let given = settings.get(&spec.name);
            spec.set_switches(|name| given.and_then(|given| given.get(name)).copied());
        }
        Ok(self)
    }
}

impl AgentSpec {
    /// Puts what each switch stands for into its place.
    fn set_switches(&mut self, given: impl Fn(&str) -> Option<bool>) {
        for (name, switch) in &mut self.switches {
            switch.default = given(name).unwrap_or(switch.default);
            let position = if switch.default {
                &switch.on
            } else {
                &switch.off
            };
            let blank = [format!("{{{name}}}")];
            self.argv = std::mem::take(&mut self.argv)
                .into_iter()
                .flat_map(|argument| {
                    if argument.0 == blank {
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
