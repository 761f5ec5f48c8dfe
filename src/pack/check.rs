//! Turns `pack.yaml` into a checked pack, or reports every problem with its location.

use std::collections::{BTreeMap, HashMap, HashSet};

use indexmap::IndexMap;
use serde_saphyr::Location;

use super::delimiters::DelimiterLines;
use super::faults::Faults;
use super::layer::{Layer, LayerContent};
use super::manifest::{Manifest, ModeSpec, NextTarget, mode_hint};
use super::manifest_places::ManifestPlaces;
use super::problem::{NamedOperation, OperationRole, PackReport};
use super::search_path::{Prose, SearchPath};
use super::text::ProseText;
use super::{
    Pack, actions, check_commands, check_layers, check_process, check_prose, reply, state_file,
    template,
};
use crate::error::{ErrorKind, Place};
use crate::models::{
    ActionSpec, ArtifactSpec, Mode, OperationId, Permission, StateSpec, TurnResult,
};
use crate::text::yaml::{self, WithPlace};

/// Supported version of the `pack.yaml` format.
const SUPPORTED_FORMAT: u64 = 1;

/// Default number of times that a mode may be entered before the session stops for the user.
const DEFAULT_ROUNDS: u64 = 3;

/// Rule for the names of markers.
const MARKER_NAME_RULE: &str =
    "at most 64 lower-case letters, digits and `_`, starting with a letter";

/// Reads and checks a manifest and all files that it lists.
pub(super) fn check_pack(name: &str, prose: &Prose, places: &SearchPath) -> PackReport {
    let read = yaml::read(&prose.text, &prose.origin, 1, ErrorKind::PackInvalid);
    let manifest: Manifest = match read {
        Ok(manifest) => manifest,
        Err(error) => {
            let start = || Place::at_line(prose.origin.clone(), &prose.text, 1, 1);
            let place = error.place().cloned().unwrap_or_else(start);
            return PackReport::unreadable(&error, place);
        }
    };

    let manifest_places = ManifestPlaces::read(prose);
    let mut faults = Faults::new(prose);
    faults.check_head(name, &manifest);
    faults.check_tags(&manifest);
    check_layers::check_layers(&manifest, &mut faults);

    let mut texts = check_layers::read_texts(name, &manifest, places, &mut faults);
    let repair = faults.read_repair(name, &manifest, places);
    texts.extend(repair.iter().map(|text| (text.name.clone(), text.clone())));
    let actions = faults.read_actions(name, &manifest, places);
    let state = state_file::read_state(name, &manifest, places, &mut faults);
    check_layers::check_state_files(&manifest, &state, &mut faults);
    let artifacts = state_file::read_artifacts(name, &manifest, places, &state, &mut faults);
    let mut skeletons = BTreeMap::new();

    let has_template_layer = manifest
        .layers
        .iter()
        .any(|layer| layer.value.holds == LayerContent::Template);
    for (mode, spec) in &manifest.modes {
        faults.check_next(mode, &spec.value, spec.referenced, &manifest);
        faults.check_gate(spec, &manifest, &state, &artifacts);
        faults.check_edits(mode, &spec.value, spec.referenced);
        if has_template_layer {
            faults.check_templates(mode, &spec.value, spec.referenced, places);
        }
        faults.read_skeletons(name, &spec.value, spec.referenced, places, &mut skeletons);
    }

    faults.check_ends(&manifest);
    check_process::check_process(&manifest, &manifest_places, &actions, &mut faults);
    check_commands::check_commands(&manifest, &manifest_places, &state, &artifacts, &mut faults);
    check_prose::check_prose(
        &manifest,
        &manifest_places,
        &texts,
        &skeletons,
        places,
        &mut faults,
    );

    let operations = named_operations(&manifest, &manifest_places, &faults);
    if faults.has_errors() {
        return PackReport {
            pack: None,
            problems: faults.into_problems(),
            operations,
        };
    }

    let parts = PackParts {
        texts,
        repair,
        actions,
        skeletons,
        state,
        artifacts,
    };
    let pack = build_pack(manifest, prose, places, parts);
    PackReport {
        pack: Some(pack),
        problems: faults.into_problems(),
        operations,
    }
}

/// Files of a pack, read and checked.
struct PackParts {
    texts: BTreeMap<String, ProseText>,
    repair: Option<ProseText>,
    actions: IndexMap<String, ActionSpec>,
    skeletons: BTreeMap<String, Prose>,
    state: StateSpec,
    artifacts: IndexMap<String, ArtifactSpec>,
}

/// Builds the pack from a manifest without errors.
fn build_pack(manifest: Manifest, prose: &Prose, places: &SearchPath, parts: PackParts) -> Pack {
    let layers: Vec<Layer> = manifest
        .layers
        .into_iter()
        .map(|layer| layer.value)
        .collect();
    Pack {
        delimiters: DelimiterLines::collect(
            &manifest.separator,
            &manifest.sections,
            &layers,
            &parts.texts,
        ),
        name: manifest.name.value,
        description: manifest.description,
        origin: prose.origin.clone(),
        owner: prose.owner,
        start: manifest.start.value,
        rendering: manifest.rendering,
        separator: manifest.separator,
        reserve: manifest.reserve,
        hysteresis: manifest.hysteresis.map(|percent| percent.value),
        rounds: manifest
            .rounds
            .map_or(DEFAULT_ROUNDS, |rounds| rounds.value),
        aliases: manifest
            .aliases
            .into_iter()
            .map(|(alias, mode)| (alias, mode.value))
            .collect(),
        variables: manifest.variables,
        sections: manifest.sections,
        markers: manifest
            .markers
            .into_iter()
            .map(|(name, values)| (name, values.value))
            .collect(),
        actions: parts.actions,
        uses: manifest
            .actions
            .into_iter()
            .map(|(name, used)| (name, used.value))
            .collect(),
        commands: manifest
            .commands
            .into_iter()
            .map(|(name, command)| (name, command.value))
            .collect(),
        state: parts.state,
        artifacts: parts.artifacts,
        layers,
        modes: manifest
            .modes
            .into_iter()
            .map(|(mode, spec)| (mode, spec.value))
            .collect(),
        skeletons: parts.skeletons,
        texts: parts.texts,
        places: places.clone(),
        prompts: None,
        tags: manifest
            .tags
            .into_iter()
            .map(|(alias, tag)| (alias, tag.value))
            .collect(),
        repair: parts.repair,
        action_lists: HashMap::new(),
    }
    .with_action_lists()
}

/// Returns every operation that modes, actions and gates use, with its location.
fn named_operations(
    manifest: &Manifest,
    places: &ManifestPlaces,
    faults: &Faults<'_>,
) -> Vec<NamedOperation> {
    let gates = manifest
        .modes
        .values()
        .filter_map(|spec| spec.value.gate.as_ref());
    let gate_operations = gates.flat_map(|gate| {
        gate.arguments("done")
            .filter_map(|name| Some((OperationId::new(name).ok()?, gate.location())))
            .map(|(operation, location)| (operation, OperationRole::Gate, location))
    });
    places
        .operations()
        .into_iter()
        .chain(gate_operations)
        .map(|(operation, role, location)| NamedOperation {
            operation,
            place: faults.place(location),
            role,
        })
        .collect()
}

impl Faults<'_> {
    fn check_head(&mut self, name: &str, manifest: &Manifest) {
        if manifest.format.value != SUPPORTED_FORMAT {
            let message = format!(
                "unsupported format {}; expected {SUPPORTED_FORMAT}",
                manifest.format.value
            );
            self.add(manifest.format.referenced, message);
        }

        if manifest.name.value != name {
            let message = format!(
                "`name` is {:?}, but the folder of the pack is {name:?}",
                manifest.name.value
            );
            self.add(manifest.name.referenced, message);
        }

        if !manifest.modes.contains_key(&manifest.start.value) {
            self.error(
                manifest.start.referenced,
                format!("`start` names the unknown mode `{}`", manifest.start.value),
                mode_hint(manifest),
            );
        }

        if let Some(percent) = manifest
            .hysteresis
            .as_ref()
            .filter(|percent| !(1..=100).contains(&percent.value))
        {
            let message = format!(
                "`hysteresis` is {}; expected a percentage from 1 to 100",
                percent.value
            );
            self.add(percent.referenced, message);
        }

        if let Some(rounds) = manifest
            .rounds
            .as_ref()
            .filter(|rounds| !(1..=100).contains(&rounds.value))
        {
            let message = format!(
                "`rounds` is {}; expected a number from 1 to 100",
                rounds.value
            );
            self.add(rounds.referenced, message);
        }

        for (mode, spec) in &manifest.modes {
            if matches!(mode.as_str(), "done" | "stop") {
                self.add(
                    spec.referenced,
                    format!("`{mode}` is reserved for the end of a process and cannot be a mode"),
                );
            }
        }

        for (alias, mode) in &manifest.aliases {
            if !manifest.modes.contains_key(&mode.value) {
                self.error(
                    mode.referenced,
                    format!(
                        "alias `{alias}` refers to the unknown mode `{}`",
                        mode.value
                    ),
                    mode_hint(manifest),
                );
                continue;
            }
            match Mode::new(alias.as_str()) {
                Err(_) => self.add(
                    mode.referenced,
                    format!("invalid alias {alias:?}; expected {}", Mode::RULE),
                ),
                Ok(alias) if manifest.modes.contains_key(&alias) => self.add(
                    mode.referenced,
                    format!("alias `{alias}` is already the name of a mode"),
                ),
                Ok(_) => {}
            }
        }

        self.check_markers(manifest);
    }

    /// Checks the names and the values of the pack's markers.
    fn check_markers(&mut self, manifest: &Manifest) {
        let is_word = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        for (marker, values) in &manifest.markers {
            let is_valid_name = Mode::new(marker.as_str()).is_ok() && is_word(marker);
            if !is_valid_name {
                let message =
                    format!("invalid marker name {marker:?}; expected {MARKER_NAME_RULE}");
                self.add(values.referenced, message);
            } else if reply::is_reserved(marker) {
                let message =
                    format!("invalid marker name {marker:?}: the tag has a meaning in every pack");
                self.add(values.referenced, message);
            }

            if values.value.is_empty() {
                self.add(
                    values.referenced,
                    format!("marker `{marker}` has no values"),
                );
            }
            for value in values.value.iter().filter(|value| !is_word(value)) {
                let message = format!(
                    "invalid value {value:?} of marker `{marker}`; expected letters, digits and `_`"
                );
                self.add(values.referenced, message);
            }
        }
    }

    fn read_actions(
        &mut self,
        pack: &str,
        manifest: &Manifest,
        places: &SearchPath,
    ) -> IndexMap<String, ActionSpec> {
        let Some((_, first)) = manifest.actions.first() else {
            return IndexMap::new();
        };
        let prose = places.find(&format!("packs/{pack}/actions.yaml"));
        let read = prose.and_then(|prose| {
            prose
                .map(|prose| actions::parse_actions(&prose.text, &prose.origin))
                .transpose()
        });
        let actions = match read {
            Ok(Some(actions)) => actions,
            Ok(None) => {
                self.add(first.referenced, "missing actions.yaml next to this file");
                return IndexMap::new();
            }
            Err(error) => {
                self.add_error(first.referenced, &error);
                return IndexMap::new();
            }
        };

        for (name, used) in &manifest.actions {
            if !is_field_name(name) {
                let message = format!("invalid action name {name:?}; expected {FIELD_NAME_RULE}");
                self.add(used.referenced, message);
            }
            let parameters = actions.get(name).map(|action| action.parameters.keys());
            for parameter in parameters
                .into_iter()
                .flatten()
                .filter(|parameter| !is_field_name(parameter))
            {
                let message = format!(
                    "invalid parameter name {parameter:?} of action `{name}`; expected {FIELD_NAME_RULE}"
                );
                self.add(used.referenced, message);
            }

            if !actions.contains_key(name) {
                self.add(
                    used.referenced,
                    format!("action `{name}` is not defined in actions.yaml"),
                );
            }

            for fault in actions
                .get(name)
                .into_iter()
                .flat_map(find_parameter_faults)
            {
                self.add(used.referenced, format!("action `{name}`: {fault}"));
            }

            for mode in used
                .value
                .modes
                .iter()
                .filter(|mode| !manifest.modes.contains_key(*mode))
            {
                self.error(
                    used.referenced,
                    format!("action `{name}` lists the unknown mode `{mode}`"),
                    mode_hint(manifest),
                );
            }
        }

        actions
    }

    /// Checks that required markers exist, and that the gate only uses facts of the session's state.
    fn check_gate(
        &mut self,
        spec: &WithPlace<ModeSpec>,
        manifest: &Manifest,
        state: &StateSpec,
        artifacts: &IndexMap<String, ArtifactSpec>,
    ) {
        let location = spec.referenced;
        let spec = &spec.value;

        for marker in spec
            .markers
            .iter()
            .filter(|marker| !manifest.markers.contains_key(*marker))
        {
            self.error(
                location,
                format!("unknown marker `{marker}`"),
                format!("define it under `markers` of the pack, as in `{marker}: [YES, NO]`"),
            );
        }

        let Some(gate) = &spec.gate else { return };
        self.check_condition(gate, |name, argument| match argument {
            None => {
                matches!(
                    name,
                    "verdict" | "failed" | "turns" | "mode_turns" | "percent"
                )
            }
            Some(argument) => {
                (name == "status" && is_status_key(argument, artifacts))
                    || (name == "state" && state.type_at(argument).is_ok())
                    || name == "done"
                    || (name == "marker" && manifest.markers.contains_key(argument))
            }
        });
    }

    /// Checks that a mode with `edits` has permission to edit, and that `edits` and the operation `files.edit` occur
    /// together.
    fn check_edits(&mut self, mode: &Mode, spec: &ModeSpec, location: Location) {
        if spec.edits.is_some() && spec.permission != Permission::Edit {
            self.add(
                location,
                format!("`edits` of mode `{mode}` needs `permission: edit`"),
            );
        }

        let runs_edit = spec.after.contains(&OperationId::FilesEdit);
        if spec.edits.is_some() && !runs_edit {
            self.add(
                location,
                format!("`edits` of mode `{mode}` needs `files.edit` in its `after`"),
            );
        }
        if runs_edit && spec.edits.is_none() {
            self.add(
                location,
                format!("`files.edit` in `after` of mode `{mode}` needs `edits`"),
            );
        }
    }

    /// Checks that an end, `done` or `stop`, can be reached from every mode.
    fn check_ends(&mut self, manifest: &Manifest) {
        // Search backwards from the modes that can end the process, so that each mode and each edge is visited once.
        let mut from: HashMap<&Mode, Vec<&Mode>> = HashMap::new();
        let mut waiting = Vec::new();
        for (mode, spec) in &manifest.modes {
            for target in spec.value.next.values() {
                match target {
                    NextTarget::Done | NextTarget::Stop => waiting.push(mode),
                    NextTarget::Mode(target) => from.entry(target).or_default().push(mode),
                }
            }
        }

        let mut ending: HashSet<&Mode> = HashSet::new();
        while let Some(mode) = waiting.pop() {
            if ending.insert(mode) {
                waiting.extend(from.remove(mode).into_iter().flatten());
            }
        }

        // An edge to an unknown mode is already reported; do not report its consequences.
        let is_known = |target: &NextTarget| match target {
            NextTarget::Mode(mode) => manifest.modes.contains_key(mode),
            NextTarget::Done | NextTarget::Stop => true,
        };
        if !manifest
            .modes
            .values()
            .all(|spec| spec.value.next.values().all(is_known))
        {
            return;
        }

        let stuck: Vec<&Mode> = manifest
            .modes
            .keys()
            .filter(|mode| !ending.contains(mode))
            .collect();
        if let Some(spec) = stuck.first().and_then(|mode| manifest.modes.get(*mode)) {
            let names: Vec<_> = stuck.iter().map(|mode| format!("`{mode}`")).collect();
            let message = format!(
                "endless loop: {} cannot reach `done` or `stop`",
                names.join(", ")
            );
            self.add(spec.referenced, message);
        }
    }

    fn check_next(
        &mut self,
        mode: &Mode,
        spec: &ModeSpec,
        location: Location,
        manifest: &Manifest,
    ) {
        if let Some(judged) = spec
            .judges
            .as_ref()
            .filter(|judged| !manifest.modes.contains_key(*judged))
        {
            self.error(
                location,
                format!("`judges` of mode `{mode}` names the unknown mode `{judged}`"),
                mode_hint(manifest),
            );
        }

        if let Some(revised) = spec
            .revise
            .as_ref()
            .filter(|revised| !manifest.modes.contains_key(*revised))
        {
            self.error(
                location,
                format!("`revise` of mode `{mode}` names the unknown mode `{revised}`"),
                mode_hint(manifest),
            );
        }

        let is_possible = |result: TurnResult| match result {
            TurnResult::Otherwise => true,
            TurnResult::Failed => spec.task_status || !spec.evidence.is_empty(),
            TurnResult::Verdict(verdict) => spec.verdicts.contains(&verdict),
        };
        self.check_evidence(mode, spec, location, is_possible);
        for operation in spec.needs_person.keys() {
            let runs = |spec: &ModeSpec| {
                spec.before
                    .iter()
                    .chain(&spec.after)
                    .any(|run| run == operation)
            };
            if !manifest.modes.values().any(|spec| runs(&spec.value)) {
                let message = format!(
                    "`needs_person` of mode `{mode}` names `{operation}`, which no mode runs"
                );
                self.add(location, message);
            }
        }

        for (result, target) in &spec.next {
            if !is_possible(*result) {
                self.add(
                    location,
                    format!("`next` of mode `{mode}` names `{result}`, which is not a possible result of the mode"),
                );
            }

            if let NextTarget::Mode(target) = target
                && !manifest.modes.contains_key(target)
            {
                self.error(
                    location,
                    format!("`next` of mode `{mode}` names the unknown mode `{target}`"),
                    format!("{}; `done` and `stop` end the process", mode_hint(manifest)),
                );
            }
        }

        let covers_all_verdicts = spec.verdict_required
            && spec
                .verdicts
                .iter()
                .all(|verdict| spec.next.contains_key(&TurnResult::Verdict(*verdict)));
        if !covers_all_verdicts && !spec.next.contains_key(&TurnResult::Otherwise) {
            self.add(
                location,
                format!("`next` of mode `{mode}` does not cover all results; add `otherwise`"),
            );
        }

        if spec.verdict_required && spec.verdicts.is_empty() {
            self.add(
                location,
                format!("mode `{mode}` requires a verdict but allows none"),
            );
        }
    }

    /// Checks that `evidence` names operations that the mode runs and results that its turns can have, and that `documents`
    /// only names files that replies may update.
    fn check_evidence(
        &mut self,
        mode: &Mode,
        spec: &ModeSpec,
        location: Location,
        is_possible: impl Fn(TurnResult) -> bool,
    ) {
        for (operation, outcomes) in &spec.evidence {
            let mut runs = spec.before.iter().chain(&spec.after);
            if !runs.any(|run| run == operation) {
                let message = format!(
                    "`evidence` of mode `{mode}` names `{operation}`, which the mode does not run"
                );
                self.add(location, message);
            }

            for result in outcomes.values().filter(|result| !is_possible(**result)) {
                let message = format!(
                    "`evidence` of mode `{mode}` names `{result}`, which is not a possible result of the mode"
                );
                self.add(location, message);
            }
        }

        for pattern in spec
            .documents
            .keys()
            .filter(|pattern| !spec.updates.contains(pattern))
        {
            self.add(
                location,
                format!(
                    "`documents` of mode `{mode}` names `{pattern}`, which is not in its `updates`"
                ),
            );
        }
    }

    fn check_templates(
        &mut self,
        mode: &Mode,
        spec: &ModeSpec,
        location: Location,
        places: &SearchPath,
    ) {
        if !spec
            .templates
            .iter()
            .any(|name| *name == format!("BASE-{mode}"))
        {
            self.add(
                location,
                format!("`templates` of mode `{mode}` does not include `BASE-{mode}`"),
            );
        }

        for name in &spec.templates {
            if template::split_name(name).is_none_or(|(_, template_mode)| template_mode != *mode) {
                self.add(
                    location,
                    format!("`{name}` is not a template of mode `{mode}`"),
                );
            } else if !places.has(&format!("templates/system/{name}.md")) {
                // An existing file that cannot be read is reported with its reason when it is used.
                self.add(location, format!("unknown template `{name}`"));
            }
        }
    }

    fn read_skeletons(
        &mut self,
        pack: &str,
        spec: &ModeSpec,
        location: Location,
        places: &SearchPath,
        texts: &mut BTreeMap<String, Prose>,
    ) {
        for name in &spec.skeletons {
            let is_valid_name = Mode::new(name.as_str()).is_ok();
            if !is_valid_name {
                let message = format!("invalid skeleton name {name:?}; expected {}", Mode::RULE);
                self.add(location, message);
                continue;
            }
            match places.find(&format!("packs/{pack}/skeletons/{name}.md")) {
                Ok(Some(prose)) => {
                    texts.insert(name.clone(), prose);
                }
                Ok(None) => {
                    let message = format!("unknown skeleton `{name}`: missing skeletons/{name}.md");
                    self.add(location, message);
                }
                Err(error) => self.add(location, format!("skeleton `{name}`: {error}")),
            }
        }
    }
}

/// Returns the problems of an action's parameters: aliases of unknown values, references to unknown parameters, and an
/// example that does not fit them.
fn find_parameter_faults(action: &ActionSpec) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, parameter) in &action.parameters {
        for value in parameter
            .aliases
            .keys()
            .filter(|value| !parameter.one_of.contains(value))
        {
            faults.push(format!(
                "`aliases` of `{name}` names `{value}`, which is not in its `enum`"
            ));
        }

        for other in parameter
            .unless
            .iter()
            .filter(|other| !action.parameters.contains_key(*other))
        {
            faults.push(format!(
                "`unless` of `{name}` names the unknown parameter `{other}`"
            ));
        }

        let is_missing = parameter.required
            && parameter.unless.is_none()
            && !action.example.is_empty()
            && !action.example.contains_key(name);
        if is_missing {
            faults.push(format!("`example` has no value for `{name}`"));
        }
    }

    for name in action
        .example
        .keys()
        .filter(|name| !action.parameters.contains_key(*name))
    {
        faults.push(format!("`example` names the unknown parameter `{name}`"));
    }

    faults
}

/// Rule for the names of actions and parameters.
const FIELD_NAME_RULE: &str = "at most 64 letters, digits and `_`, not starting with a digit";

/// Returns true for a valid name of an action or a parameter, which replies use as a tag or an attribute.
fn is_field_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns true for the key of a declared artifact, or for any valid key if the pack declares no artifacts.
fn is_status_key(key: &str, artifacts: &IndexMap<String, ArtifactSpec>) -> bool {
    artifacts.contains_key(key) || (artifacts.is_empty() && state_file::is_element_name(key))
}
