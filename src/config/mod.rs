//! Settings: a text and its origin in, a typed value out. Where the text came from is the caller's business.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Place, Result};
use crate::models::{AgentName, Mode, ModelSpec, NoncePolicy};

/// The settings in force: defaults, overlaid by the user's file, the project's file and flags, in this order.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pack that is used unless another is named, if one is set.
    pub pack: Option<String>,
    /// Whether verdicts carry the nonce of their turn.
    pub verdict_nonce: NoncePolicy,
    /// Whether a missing mandatory variable is an error instead of a visible notice.
    pub strict: bool,
    /// The largest prompt, in bytes.
    pub max_prompt_bytes: usize,
    /// How much of the project's tree a prompt shows.
    pub structure: StructureLimits,
    /// The agent of each mode, where one is set.
    pub agents: BTreeMap<Mode, AgentName>,
    /// Models that are added to the catalogue.
    pub models: Vec<ModelSpec>,
}

/// How much of the project's tree a prompt shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructureLimits {
    /// The most entries of one folder.
    pub per_folder: usize,
    /// The most entries in all.
    pub total: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pack: None,
            verdict_nonce: NoncePolicy::default(),
            strict: false,
            max_prompt_bytes: 32 * 1024 * 1024,
            structure: StructureLimits { per_folder: 60, total: 400 },
            agents: BTreeMap::new(),
            models: Vec::new(),
        }
    }
}

/// A settings file as it is written. Any other key is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u64,
    pack: Option<String>,
    verdict_nonce: Option<NoncePolicy>,
    #[serde(default)]
    prompt: WrittenPrompt,
    #[serde(default)]
    structure: WrittenStructure,
    #[serde(default)]
    modes: BTreeMap<Mode, WrittenMode>,
    #[serde(default)]
    models: Vec<ModelSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrompt {
    strict: Option<bool>,
    max_bytes: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStructure {
    per_folder: Option<usize>,
    total: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMode {
    agent: Option<String>,
}

impl Settings {
    /// Returns these settings overlaid by those of a file.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place in the file.
    pub fn overlaid(mut self, text: &str, origin: &str) -> Result<Self> {
        let written: Written = toml::from_str(text).map_err(|error| invalid(text, origin, &error))?;
        if written.format != 1 {
            let message = format!("format {} is not understood; this program reads 1", written.format);
            return Err(Error::new(ErrorKind::ConfigInvalid, message).with_place(Place::at_offset(
                origin,
                text,
                text.find("format").unwrap_or(0),
            )));
        }
        self.pack = written.pack.or(self.pack);
        self.verdict_nonce = written.verdict_nonce.unwrap_or(self.verdict_nonce);
        self.strict = written.prompt.strict.unwrap_or(self.strict);
        self.max_prompt_bytes = written.prompt.max_bytes.unwrap_or(self.max_prompt_bytes);
        self.structure.per_folder = written.structure.per_folder.unwrap_or(self.structure.per_folder);
        self.structure.total = written.structure.total.unwrap_or(self.structure.total);
        self.models.extend(written.models);
        for (mode, settings) in written.modes {
            let Some(agent) = settings.agent else { continue };
            let place = || Place::at_offset(origin, text, text.find(&format!("{agent:?}")).unwrap_or(0));
            let agent = AgentName::new(agent.as_str())
                .map_err(|error| Error::new(ErrorKind::ConfigInvalid, error.message()).with_place(place()))?;
            self.agents.insert(mode, agent);
        }
        Ok(self)
    }
}

fn invalid(text: &str, origin: &str, error: &toml::de::Error) -> Error {
    let offset = error.span().map_or(0, |span| span.start);
    let message = error.message().lines().next().unwrap_or_default().to_owned();
    Error::new(ErrorKind::ConfigInvalid, message)
        .with_place(Place::at_offset(origin, text, offset))
        .with_hint("the file that `agentd init` writes explains the settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_overlay_earlier_ones_key_by_key() {
        let user = "format = 1\nverdict_nonce = \"require\"\n[modes.plan]\nagent = \"gemini\"\n[structure]\ntotal = 10\n";
        let settings = Settings::default()
            .overlaid(user, "user")
            .and_then(|user| user.overlaid("format = 1\n[prompt]\nstrict = true\n", "project"))
            .unwrap();
        assert!(settings.strict);
        assert_eq!(settings.verdict_nonce, NoncePolicy::Require);
        assert_eq!(Settings::default().verdict_nonce, NoncePolicy::Prefer);
        assert_eq!(settings.structure, StructureLimits { per_folder: 60, total: 10 });
        assert_eq!(settings.agents[&Mode::new("plan").unwrap()].as_str(), "gemini");
    }

    #[test]
    fn faults_are_placed() {
        let cases = [
            ("format = 1\nstrickt = true\n", 2),
            ("format = 1\nverdict_nonce = \"maybe\"\n", 2),
            ("format = 1\nverdict_nonce = true\n", 2),
            ("format = 1\n[modes.Plan]\nagent = \"x\"\n", 2),
            ("format = 1\n\n[modes.plan]\nagent = \"\"\n", 4),
            ("format = 2\n", 1),
            ("format = \n", 1),
            ("pack = \"sdd\"\n", 1),
        ];
        for (text, line) in cases {
            let error = Settings::default().overlaid(text, "config.toml").unwrap_err();
            assert_eq!(error.place().map(|place| place.line), Some(line), "{text}: {error:#}");
        }
    }
}
