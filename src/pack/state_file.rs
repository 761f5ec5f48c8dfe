//! `state.yaml` and `artifacts.yaml`: the sections of a session's state, and the documents that a session produces.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_saphyr::Location;

use super::faults::Faults;
use super::manifest::Manifest;
use super::search_path::{Prose, SearchPath};
use crate::error::ErrorKind;
use crate::models::{
    ArtifactSpec, Mode, SectionSource, SectionSpec, SectionVisibility, StateSpec, heading_key,
    paths,
};
use crate::text::yaml::{self, WithPlace};

/// Pseudo-field of a section that holds artifacts: the list of completed fields.
const COMPLETED: &str = "completed";

/// Keys of a state document that are not sections with fields.
const RESERVED_SECTIONS: [&str; 4] = ["artifacts", "history", "knowledge", "mode"];

/// Format of `state.yaml`, with the locations of its parts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    sections: IndexMap<String, WithPlace<SectionSpec>>,
    #[serde(default)]
    minimal: IndexMap<String, WithPlace<String>>,
    #[serde(default)]
    modes: IndexMap<Mode, WithPlace<SectionVisibility>>,
}

/// Format of `artifacts.yaml`, with the locations of its parts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArtifactsFile {
    artifacts: IndexMap<String, WithPlace<ArtifactSpec>>,
}

/// Reads and checks `state.yaml`. A pack without one has a state without sections.
pub(super) fn read_state(
    pack: &str,
    manifest: &Manifest,
    places: &SearchPath,
    faults: &mut Faults<'_>,
) -> StateSpec {
    let Some((prose, file)) = read_file::<StateFile>(pack, "state.yaml", manifest, places, faults)
    else {
        return StateSpec::default();
    };
    let mut checker = FileChecker {
        prose: &prose,
        faults,
    };

    let mut held = HashSet::new();
    for (name, section) in &file.sections {
        checker.check_section(name, section);
        if let Some(source) = section.value.holds
            && !held.insert(format!("{source:?}"))
        {
            checker.add(
                section.referenced,
                format!("another section already has `holds: {source:?}`").to_lowercase(),
            );
        }
    }

    let spec = StateSpec {
        sections: without_places(file.sections),
        minimal: IndexMap::new(),
        modes: IndexMap::new(),
    };
    for (element, path) in &file.minimal {
        checker.check_element(path.referenced, element);
        let section = spec.sections.get(&path.value);
        let is_list_of_agentd = matches!(
            section.and_then(|section| section.holds),
            Some(SectionSource::Artifacts | SectionSource::Results)
        );
        if !is_list_of_agentd && let Err(message) = spec.type_at(&path.value) {
            checker.add(path.referenced, message);
        }
    }
    for (mode, visibility) in &file.modes {
        checker.check_visibility(mode, visibility, &spec, manifest);
    }

    StateSpec {
        minimal: without_places(file.minimal),
        modes: without_places(file.modes),
        ..spec
    }
}

/// Reads and checks `artifacts.yaml`. A pack without one has no artifacts.
pub(super) fn read_artifacts(
    pack: &str,
    manifest: &Manifest,
    places: &SearchPath,
    state: &StateSpec,
    faults: &mut Faults<'_>,
) -> IndexMap<String, ArtifactSpec> {
    let read = read_file::<ArtifactsFile>(pack, "artifacts.yaml", manifest, places, faults);
    let Some((prose, file)) = read else {
        return IndexMap::new();
    };
    let mut checker = FileChecker {
        prose: &prose,
        faults,
    };

    if let Some((_, first)) = file.artifacts.first()
        && state.section_holding(SectionSource::Artifacts).is_none()
    {
        checker.add(
            first.referenced,
            "state.yaml has no section with `holds: artifacts`, so no prompt lists the artifacts",
        );
    }

    let mut files = HashSet::new();
    for (name, artifact) in &file.artifacts {
        checker.check_artifact(name, artifact, manifest);
        if let Some(path) = &artifact.value.file
            && !files.insert(path.to_lowercase())
        {
            checker.add(
                artifact.referenced,
                format!("two artifacts have the file `{path}`"),
            );
        }
    }
    without_places(file.artifacts)
}

/// Reads a file of the pack. Returns `None` if it does not exist, or after adding a fault if it cannot be read or parsed.
fn read_file<T: DeserializeOwned>(
    pack: &str,
    name: &str,
    manifest: &Manifest,
    places: &SearchPath,
    faults: &mut Faults<'_>,
) -> Option<(Prose, T)> {
    let location = manifest.name.referenced;
    let prose = match places.find(&format!("packs/{pack}/{name}")) {
        Ok(prose) => prose?,
        Err(error) => {
            faults.add_error(location, &error);
            return None;
        }
    };
    match yaml::read(&prose.text, &prose.origin, 1, ErrorKind::PackInvalid) {
        Ok(file) => Some((prose, file)),
        Err(error) => {
            faults.add_error(location, &error);
            None
        }
    }
}

fn without_places<K: std::hash::Hash + Eq, V>(map: IndexMap<K, WithPlace<V>>) -> IndexMap<K, V> {
    map.into_iter()
        .map(|(key, value)| (key, value.value))
        .collect()
}

/// Checks the parts of one file and adds problems at their locations.
struct FileChecker<'a, 'f, 'p> {
    prose: &'a Prose,
    faults: &'f mut Faults<'p>,
}

impl FileChecker<'_, '_, '_> {
    fn add(&mut self, location: Location, message: impl Into<String>) {
        let place = yaml::place(&self.prose.text, &self.prose.origin, 1, location);
        self.faults.add_at(place, message.into());
    }

    /// Checks that a name can be an XML element.
    fn check_element(&mut self, location: Location, name: &str) {
        if !is_element_name(name) {
            self.add(
                location,
                format!("invalid name {name:?}; expected lowercase letters, digits and `_`"),
            );
        }
    }

    fn check_section(&mut self, name: &str, section: &WithPlace<SectionSpec>) {
        let location = section.referenced;
        let spec = &section.value;
        self.check_element(location, name);
        if RESERVED_SECTIONS.contains(&name) && spec.holds.is_none() {
            self.add(
                location,
                format!("`{name}` is reserved and cannot be a section"),
            );
        }
        for field in spec.fields.keys() {
            self.check_element(location, field);
        }

        let has_fields = !spec.fields.is_empty() || spec.other_fields;
        let kinds = [spec.holds.is_some(), has_fields, spec.list.is_some()];
        if kinds.into_iter().filter(|is_kind| *is_kind).count() != 1 {
            self.add(
                location,
                format!("section `{name}` needs exactly one of `fields`, `list` and `holds`"),
            );
        }
        let holds_artifacts = spec.holds == Some(SectionSource::Artifacts);
        if holds_artifacts && spec.element.is_none() {
            self.add(
                location,
                format!("section `{name}`: `holds: artifacts` needs `element`"),
            );
        }
        if !holds_artifacts && spec.element.is_some() {
            self.add(
                location,
                format!("section `{name}`: `element` is only for `holds: artifacts`"),
            );
        }

        let kept = spec.medium.iter().flatten().chain(&spec.summary);
        for field in kept {
            let is_known =
                spec.fields.contains_key(field) || (holds_artifacts && field == COMPLETED);
            if !is_known {
                self.add(location, format!("section `{name}` has no field `{field}`"));
            }
        }
    }

    fn check_visibility(
        &mut self,
        mode: &Mode,
        visibility: &WithPlace<SectionVisibility>,
        spec: &StateSpec,
        manifest: &Manifest,
    ) {
        let location = visibility.referenced;
        let value = &visibility.value;
        if !manifest.modes.contains_key(mode) {
            self.add(location, format!("pack.yaml has no mode `{mode}`"));
        }

        let names = value
            .shown
            .iter()
            .chain(&value.summarized)
            .chain(&value.omit);
        for name in names {
            if !spec.sections.contains_key(name) {
                self.add(location, format!("unknown section `{name}`"));
            }
        }
        for name in &value.summarized {
            let has_summary = spec.sections.get(name).is_none_or(|section| {
                section.holds == Some(SectionSource::Artifacts)
                    || section.list.is_some()
                    || !section.summary.is_empty()
            });
            if !has_summary {
                self.add(
                    location,
                    format!("section `{name}` has no `summary`, which lists the fields to show"),
                );
            }
        }
    }

    fn check_artifact(
        &mut self,
        name: &str,
        artifact: &WithPlace<ArtifactSpec>,
        manifest: &Manifest,
    ) {
        let location = artifact.referenced;
        let spec = &artifact.value;
        self.check_element(location, name);
        let expected_key = spec.not_started().key();
        if expected_key != name {
            self.add(
                location,
                format!(
                    "artifact `{name}` has the title {:?}, so its key must be `{expected_key}`",
                    spec.title
                ),
            );
        }

        if spec.title.contains('\n') {
            self.add(
                location,
                format!("the title of artifact `{name}` must be one line"),
            );
        }
        for mode in &spec.modes {
            if !manifest.modes.contains_key(mode) {
                self.add(location, format!("pack.yaml has no mode `{mode}`"));
            }
        }
        if let Some(file) = &spec.file {
            let is_markdown = file.ends_with(".md");
            if !is_markdown || !paths::is_plain_path(file) {
                self.add(
                    location,
                    format!("{file:?} is not the path of a Markdown file in the project"),
                );
            }
        }
        if spec.file.is_some() && spec.fields.is_empty() {
            self.add(
                location,
                format!("artifact `{name}` has a `file` but no `fields`"),
            );
        }
        if spec.file.is_none() && !spec.fields.is_empty() {
            self.add(
                location,
                format!("artifact `{name}` has `fields` but no `file`"),
            );
        }

        let mut titles = HashSet::new();
        for (field, described) in &spec.fields {
            self.check_element(location, field);
            if described.title.trim().is_empty() || described.title.contains('\n') {
                self.add(
                    location,
                    format!("field `{field}` needs a title of one line"),
                );
            }
            if !titles.insert(heading_key(&described.title)) {
                self.add(
                    location,
                    format!("two fields have the title {:?}", described.title),
                );
            }
        }
    }
}

/// Returns true if a name can be the name of an XML element and a key of a path.
pub(super) fn is_element_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}
