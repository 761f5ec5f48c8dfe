//! From `pack.yaml` as written to a pack that holds together: every fault is found, each with its place.

use std::collections::BTreeMap;

use serde_saphyr::Location;

use super::manifest::{Holds, Manifest, ModeSpec, Target};
use super::source::{Places, Prose};
use super::{Pack, template};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::models::{Mode, ReviewResult, yaml};

/// The newest form of `pack.yaml` that is understood.
const FORMAT: u64 = 1;

/// Reads and checks a manifest.
pub(super) fn check(name: &str, prose: &Prose, places: &Places) -> Result<Pack> {
    let manifest: Manifest = yaml::read(&prose.text, &prose.origin, 1, ErrorKind::PackInvalid)?;
    let mut faults = Faults { prose, found: Vec::new() };
    faults.check_head(name, &manifest);
    faults.check_layers(&manifest);
    let mut skeletons = BTreeMap::new();
    for (mode, spec) in &manifest.modes {
        faults.check_next(mode, &spec.value, spec.referenced, &manifest);
        faults.check_templates(mode, &spec.value, spec.referenced, places);
        faults.read_skeletons(name, &spec.value, spec.referenced, places, &mut skeletons);
    }
    faults.into_result()?;
    Ok(Pack {
        name: manifest.name.value,
        description: manifest.description,
        origin: prose.origin.clone(),
        owner: prose.owner,
        start: manifest.start.value,
        variables: manifest.variables,
        sections: manifest.sections,
        layers: manifest.layers.into_iter().map(|layer| layer.value).collect(),
        modes: manifest.modes.into_iter().map(|(mode, spec)| (mode, spec.value)).collect(),
        skeletons,
    })
}

/// The faults found so far.
struct Faults<'a> {
    prose: &'a Prose,
    found: Vec<(Place, String)>,
}

impl Faults<'_> {
    fn add(&mut self, location: Location, message: impl Into<String>) {
        let place = yaml::place(&self.prose.text, &self.prose.origin, 1, location);
        self.found.push((place, message.into()));
    }

    fn check_head(&mut self, name: &str, manifest: &Manifest) {
        if manifest.format.value != FORMAT {
            let message =
                format!("format {} is not understood; this program reads {FORMAT}", manifest.format.value);
            self.add(manifest.format.referenced, message);
        }
        if manifest.name.value != name {
            let message =
                format!("the pack is called {:?} and lies in the folder {name:?}", manifest.name.value);
            self.add(manifest.name.referenced, message);
        }
        if !manifest.modes.contains_key(&manifest.start.value) {
            self.add(manifest.start.referenced, format!("there is no mode `{}`", manifest.start.value));
        }
    }

    fn check_layers(&mut self, manifest: &Manifest) {
        let held: Vec<Holds> = manifest.layers.iter().map(|layer| layer.value.holds).collect();
        for (index, layer) in manifest.layers.iter().enumerate() {
            let holds = layer.value.holds;
            if held[..index].contains(&holds) {
                self.add(layer.referenced, format!("two layers hold {holds:?}").to_lowercase());
            }
        }
        if held.first() != Some(&Holds::Template) || held.last() != Some(&Holds::Instructions) {
            let message = "the first layer holds the template, and the last one the instructions";
            self.add(
                manifest.layers.first().map_or(manifest.start.referenced, |layer| layer.referenced),
                message,
            );
        }
    }

    fn check_next(&mut self, mode: &Mode, spec: &ModeSpec, location: Location, manifest: &Manifest) {
        for (result, target) in &spec.next {
            let verdict = result.parse::<ReviewResult>().ok();
            let known = result == "otherwise"
                || (result == "FAILED" && spec.task_status)
                || verdict.is_some_and(|verdict| spec.verdicts.contains(&verdict));
            if !known {
                self.add(
                    location,
                    format!("`next` of mode `{mode}` names {result}, which no turn of it can have"),
                );
            }
            if let Target::Mode(target) = target
                && !manifest.modes.contains_key(target)
            {
                self.add(location, format!("`next` of mode `{mode}` leads to `{target}`, which is no mode"));
            }
        }
        let total = spec.verdict_required
            && spec.verdicts.iter().all(|verdict| spec.next.contains_key(verdict.name()));
        if !total && !spec.next.contains_key("otherwise") {
            self.add(location, format!("`next` of mode `{mode}` leaves a result open; add `otherwise`"));
        }
        if spec.verdict_required && spec.verdicts.is_empty() {
            self.add(location, format!("mode `{mode}` requires a verdict and allows none"));
        }
    }

    fn check_templates(&mut self, mode: &Mode, spec: &ModeSpec, location: Location, places: &Places) {
        if !spec.templates.iter().any(|name| *name == format!("BASE-{mode}")) {
            self.add(location, format!("mode `{mode}` does not name BASE-{mode} among its templates"));
        }
        for name in &spec.templates {
            if template::split_name(name).is_none_or(|(_, named)| named != *mode) {
                self.add(location, format!("{name} is not a template of mode `{mode}`"));
            } else if matches!(places.find(&format!("templates/system/{name}.md")), Ok(None)) {
                // A file that is there and cannot be read is named, with its reason, when it is used.
                self.add(location, format!("there is no template {name}"));
            }
        }
    }

    fn read_skeletons(
        &mut self,
        pack: &str,
        spec: &ModeSpec,
        location: Location,
        places: &Places,
        texts: &mut BTreeMap<String, Prose>,
    ) {
        for name in &spec.skeletons {
            if Mode::new(name.as_str()).is_err() {
                self.add(location, format!("{name:?} is not a skeleton's name"));
                continue;
            }
            match places.find(&format!("packs/{pack}/skeletons/{name}.md")) {
                Ok(Some(prose)) => {
                    texts.insert(name.clone(), prose);
                }
                Ok(None) => self.add(location, format!("there is no skeleton `{name}`")),
                Err(error) => self.add(location, format!("the skeleton `{name}`: {error}")),
            }
        }
    }

    fn into_result(self) -> Result<()> {
        let mut faults = self.found.into_iter();
        let Some((place, message)) = faults.next() else { return Ok(()) };
        let more: String = faults.map(|(place, message)| format!("\n  {place}: {message}")).collect();
        let message = if more.is_empty() { message } else { format!("{message}; and also:{more}") };
        Err(Error::new(ErrorKind::PackInvalid, message).with_place(place))
    }
}
