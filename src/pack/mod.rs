//! A process as data: modes, layers, templates, permissions and verdicts, all checked when it is loaded.

mod builtin;
mod check;
mod front_matter;
mod lint;
mod manifest;
mod placeholder;
mod source;
mod template;
mod templates;

use std::collections::BTreeMap;

pub(crate) use builtin::MISSING_VARIABLE;
use indexmap::IndexMap;

pub use builtin::{CONFIG_DRAFT, MODELS, PROJECT_DRAFT, names as builtin_names};
pub use front_matter::{FrontMatter, VariableSpec};
pub use lint::{Finding, lint};
pub use manifest::{Holds, Layer, ModeSpec, OperationName, Target};
pub use placeholder::{Token, tokens};
pub use source::{Candidate, Owner, Places, Prose};
pub use template::{SystemTemplateMetadata, Template};
pub use templates::{Found, Listed, Templates};

use crate::error::{Error, ErrorKind, Result};
use crate::models::Mode;

/// A process that was loaded and holds together.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The pack's name.
    pub name: String,
    /// What the process is for.
    pub description: String,
    /// Where its manifest was found, as people read it.
    pub origin: String,
    /// Who its manifest belongs to.
    pub owner: Owner,
    /// The mode a session starts in.
    pub start: Mode,
    /// The variables that are filled.
    pub variables: Vec<String>,
    /// The headings that every template of the pack must hold.
    pub sections: Vec<String>,
    /// The prompt's layers, in order.
    pub layers: Vec<Layer>,
    /// The modes, in order.
    pub modes: IndexMap<Mode, ModeSpec>,
    /// The skeletons, by name.
    pub skeletons: BTreeMap<String, Prose>,
}

impl Pack {
    /// Loads a pack and checks all of it.
    ///
    /// # Errors
    ///
    /// `PackNotFound` naming the places searched; `PackInvalid` with the place, naming every fault that was found.
    pub fn load(name: &str, places: &Places) -> Result<Self> {
        // A pack's name is part of a path, so it obeys the rule for names before any file is looked at.
        let name = Mode::new(name)
            .map_err(|_| Error::new(ErrorKind::NameInvalid, format!("{name:?} is not a pack's name")))?;
        let file = format!("packs/{name}/pack.yaml");
        let Some(prose) = places.find(&file)? else {
            let searched = places.candidates(&file);
            let list: String = searched.iter().map(|place| format!("\n  {}", place.origin)).collect();
            let shipped =
                builtin::names().filter_map(|file| file.strip_prefix("packs/")?.strip_suffix("/pack.yaml"));
            let shipped: Vec<_> = shipped.collect();
            return Err(Error::new(
                ErrorKind::PackNotFound,
                format!("no pack `{name}`; searched, in order:{list}"),
            )
            .with_hint(format!("shipped with the program: {}", shipped.join(", "))));
        };
        check::check(name.as_str(), &prose, places)
    }

    /// Returns a mode.
    ///
    /// # Errors
    ///
    /// `UnknownMode` naming the modes there are.
    pub fn mode(&self, mode: &Mode) -> Result<&ModeSpec> {
        self.modes.get(mode).ok_or_else(|| {
            let known: Vec<_> = self.modes.keys().map(Mode::as_str).collect();
            Error::new(ErrorKind::UnknownMode, format!("the pack `{}` has no mode `{mode}`", self.name))
                .with_hint(format!("its modes are {}", known.join(", ")))
        })
    }

    /// Returns the skeletons of a mode, in order.
    pub fn skeletons_of(&self, spec: &ModeSpec) -> impl Iterator<Item = &Prose> {
        spec.skeletons.iter().filter_map(|name| self.skeletons.get(name))
    }
}
