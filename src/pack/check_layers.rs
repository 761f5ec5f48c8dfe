//! Checks the layers of a pack and reads their prose.

use std::collections::{BTreeMap, HashSet};

use super::actions::PLACEHOLDER;
use super::faults::Faults;
use super::file_at;
use super::layer::{Layer, LayerContent, file_for};
use super::manifest::Manifest;
use super::search_path::{SearchPath, is_plain_name};
use super::text::ProseText;
use crate::models::{Mode, RetentionClass, StateSpec, Tier};
use crate::text::yaml::WithPlace;

/// Facts for conditions of layers, in addition to the pack's variables.
const LAYER_FACTS: [&str; 9] = [
    "mode",
    "tier",
    "model",
    "agent",
    "xml_reliability",
    "instruction_following",
    "thinking_reminder",
    "nonce",
    "tools",
];

/// Maximum number of prose files of a pack.
const MAX_PROSE_FILES: usize = 1_000;

/// Maximum size of a pack's prose in bytes.
const MAX_PROSE_BYTES: usize = 16 * 1024 * 1024;

/// Checks the layers of a manifest: names, order, classes, keys, conditions and blocks.
pub(super) fn check_layers(manifest: &Manifest, faults: &mut Faults<'_>) {
    let mut ids = HashSet::new();
    let mut seen_contents = HashSet::new();
    let mut previous = None;
    for layer in &manifest.layers {
        let place = layer.referenced;
        let value = &layer.value;
        let is_valid_id = Mode::new(value.id.as_str()).is_ok();
        if !is_valid_id {
            let message = format!("invalid layer name {:?}; expected {}", value.id, Mode::RULE);
            faults.add(place, message);
        }

        if !ids.insert(&value.id) {
            faults.add(place, format!("duplicate layer `{}`", value.id));
        }

        if !matches!(value.holds, LayerContent::Text | LayerContent::Turn)
            && !seen_contents.insert(value.holds)
        {
            faults.add(
                place,
                format!("another layer already has `holds: {:?}`", value.holds).to_lowercase(),
            );
        }

        if value.holds == LayerContent::Knowledge && previous != Some(LayerContent::State) {
            faults.add(
                place,
                "the knowledge layer must directly follow the state layer, in which it is rendered",
            );
        }

        if let Some(message) = find_class_fault(value).or_else(|| find_file_fault(value)) {
            faults.add(place, format!("layer `{}`: {message}", value.id));
        }

        check_layer_rules(layer, manifest, faults);
        check_layer_names(layer, manifest, faults);
        previous = Some(value.holds);
    }

    let place = |layer: Option<&WithPlace<Layer>>| {
        layer.map_or(manifest.start.referenced, |layer| layer.referenced)
    };
    if manifest
        .layers
        .last()
        .is_none_or(|layer| layer.value.holds != LayerContent::Instructions)
    {
        faults.add(
            place(manifest.layers.last()),
            "the last layer must hold the instructions",
        );
    }

    if !seen_contents.contains(&LayerContent::Template)
        && manifest
            .layers
            .iter()
            .all(|l| l.value.holds != LayerContent::Text)
    {
        faults.add(
            place(manifest.layers.first()),
            "at least one layer must hold text or the template",
        );
    }
}

/// Checks that `state_file` of each layer is a field of the state.
pub(super) fn check_state_files(manifest: &Manifest, state: &StateSpec, faults: &mut Faults<'_>) {
    for layer in &manifest.layers {
        let Some(path) = &layer.value.state_file else {
            continue;
        };
        if let Err(message) = state.type_at(path) {
            let id = &layer.value.id;
            faults.add(
                layer.referenced,
                format!("layer `{id}`: `state_file`: {message}"),
            );
        }
    }
}

/// Checks the conditions of a layer and the variables that its `choose` names.
fn check_layer_rules(layer: &WithPlace<Layer>, manifest: &Manifest, faults: &mut Faults<'_>) {
    let place = layer.referenced;
    let value = &layer.value;

    let is_known = |name: &str, argument: Option<&str>| {
        argument.is_none()
            && (LAYER_FACTS.contains(&name)
                || manifest.variables.iter().any(|variable| variable == name))
    };
    value
        .conditions()
        .for_each(|condition| faults.check_condition(condition, is_known));
    for (name, fact) in value.choose.iter().flat_map(|choice| &choice.value.values) {
        let unknown = if !manifest.variables.contains(name) {
            format!("`{name}` is not in `variables`")
        } else if !is_known(fact, None) {
            format!("unknown fact `{fact}`")
        } else {
            continue;
        };

        let message = format!("layer `{}` sets `{name}` to `{fact}`: {unknown}", value.id);
        faults.add(place, message);
    }

    for name in value
        .choose
        .iter()
        .flat_map(|choice| choice.value.defaults.keys())
        .filter(|name| !manifest.variables.contains(*name))
    {
        let message = format!(
            "layer `{}` has a default for `{name}`, which is not in `variables`",
            value.id
        );
        faults.add(place, message);
    }
}

/// Checks that the modes and the blocks that a layer lists exist.
fn check_layer_names(layer: &WithPlace<Layer>, manifest: &Manifest, faults: &mut Faults<'_>) {
    let place = layer.referenced;
    let value = &layer.value;

    for mode in value
        .adds
        .keys()
        .filter(|mode| !manifest.modes.contains_key(*mode))
    {
        faults.add(
            place,
            format!(
                "layer `{}` adds text to the unknown mode `{mode}`",
                value.id
            ),
        );
    }

    let mut blocks = HashSet::new();
    for name in &value.blocks {
        let is_valid_name = Mode::new(name.as_str()).is_ok();
        if !is_valid_name {
            faults.add(
                place,
                format!("invalid block name {name:?}; expected {}", Mode::RULE),
            );
        } else if !blocks.insert(name) {
            faults.add(place, format!("duplicate block `{name}`"));
        }
    }
}

/// Returns the problem with a layer's class, or with a key that does not fit its content, if there is one.
fn find_class_fault(layer: &Layer) -> Option<&'static str> {
    let is_elastic = layer.class == RetentionClass::Elastic;
    match layer.holds {
        LayerContent::Instructions | LayerContent::Template
            if layer.class != RetentionClass::Pinned =>
        {
            Some("`class` must be `pinned`, because the layer is never truncated")
        }
        LayerContent::Instructions if layer.when.is_some() => {
            Some("`when` is not allowed, because every prompt has instructions")
        }
        LayerContent::State | LayerContent::Turn
            if !matches!(
                layer.class,
                RetentionClass::Pinned | RetentionClass::Required
            ) && !is_elastic =>
        {
            Some("`class` must be `pinned` or `required`")
        }
        LayerContent::Template
        | LayerContent::Text
        | LayerContent::State
        | LayerContent::Knowledge
        | LayerContent::Project
            if layer.heading.is_some() =>
        {
            Some("`heading` is not allowed; write the heading into the text")
        }
        LayerContent::History | LayerContent::Knowledge if !is_elastic => {
            Some("`class` must be `elastic`, because the content grows")
        }
        LayerContent::Text | LayerContent::State | LayerContent::Project | LayerContent::Turn
            if is_elastic =>
        {
            Some("only history, knowledge, artifacts, files and thoughts can be elastic")
        }
        _ if !is_elastic
            && (layer.floor.is_some() || layer.cap.is_some() || layer.items.is_some()) =>
        {
            Some("`floor`, `cap` and `items` are only for `class: elastic`")
        }
        _ if layer.holds != LayerContent::Instructions && !layer.prefix.is_empty() => {
            Some("`prefix` is only for `holds: instructions`")
        }
        _ if layer.holds.context_kind().is_some() && !names_its_items(layer) => {
            Some("`heading` must contain `{name}` with a word before it")
        }
        _ if layer.holds != LayerContent::Artifacts && !layer.blocks.is_empty() => {
            Some("`blocks` is only for `holds: artifacts`")
        }
        _ if layer.holds != LayerContent::Knowledge && !layer.keep.is_empty() => {
            Some("`keep` is only for `holds: knowledge`")
        }
        _ if layer.holds != LayerContent::Artifacts && layer.mode_artifacts => {
            Some("`mode_artifacts` is only for `holds: artifacts`")
        }
        _ if layer.holds != LayerContent::Files && layer.state_file.is_some() => {
            Some("`state_file` is only for `holds: files`")
        }
        _ if layer.has_session_items() && (!is_elastic || layer.when.is_some()) => {
            Some("`mode_artifacts` and `state_file` need `class: elastic`, and no `when`")
        }
        _ => None,
    }
}

/// Returns true if a layer has no heading, or one with a word before `{name}`, which distinguishes it from other headings.
fn names_its_items(layer: &Layer) -> bool {
    layer.heading.as_ref().is_none_or(|heading| {
        let before = heading
            .split_once("{name}")
            .map_or("", |(before, _)| before);
        before.contains(char::is_alphanumeric)
    })
}

/// Returns the problem with the keys that list the files of a layer; `None` if they are valid.
fn find_file_fault(layer: &Layer) -> Option<&'static str> {
    let text_keys = usize::from(layer.text.is_some()) + usize::from(!layer.choose.is_empty());
    let turn_keys = usize::from(layer.user.is_some()) + usize::from(layer.assistant.is_some());
    match layer.holds {
        LayerContent::Text if text_keys != 1 => Some("either `text` or `choose` is required"),
        LayerContent::Turn if turn_keys != 2 => Some("`user` and `assistant` are required"),
        LayerContent::Text if turn_keys > 0 => {
            Some("`user` and `assistant` are only for `holds: turn`")
        }
        LayerContent::Text => None,
        LayerContent::Instructions if text_keys == 0 && turn_keys == 0 => None,
        _ if text_keys > 0 || !layer.adds.is_empty() => {
            Some("`text`, `choose` and `adds` are only for `holds: text`")
        }
        LayerContent::Turn => None,
        _ if turn_keys > 0 => Some("`user` and `assistant` are only for `holds: turn`"),
        _ => None,
    }
}

/// Reads the prose of the layers for every mode and tier.
pub(super) fn read_texts(
    pack: &str,
    manifest: &Manifest,
    places: &SearchPath,
    faults: &mut Faults<'_>,
) -> BTreeMap<String, ProseText> {
    let mut texts = BTreeMap::new();
    let mut bytes = 0;
    let mut lookups = 0;
    for layer in &manifest.layers {
        for (file, location) in layer.value.placed_files() {
            if !is_prose_file_name(file) {
                faults.add(
                    location,
                    format!("invalid file name {file:?}; expected a path inside the pack that ends with `.md`"),
                );
                continue;
            }

            let files: Vec<String> = if file.contains("{mode}") {
                manifest
                    .modes
                    .keys()
                    .map(|mode| file_for(file, mode))
                    .collect()
            } else {
                vec![file.to_owned()]
            };

            for (file, tier) in files
                .iter()
                .flat_map(|file| Tier::ALL.map(|tier| (file, tier)))
            {
                let name = file_at(file, tier);
                if texts.contains_key(&name) {
                    continue;
                }

                lookups += 1;
                let prose = places.find(&format!("packs/{pack}/{name}"));
                match prose.and_then(|prose| {
                    prose
                        .map(|prose| ProseText::read(&name, &prose))
                        .transpose()
                }) {
                    Ok(Some(text)) => {
                        bytes += text.file.len();
                        check_variables(&text, manifest, faults);
                        texts.insert(name, text);
                    }
                    Ok(None) if tier == Tier::Full => {
                        faults.add(location, format!("missing file `{name}`"))
                    }
                    Ok(None) => {}
                    Err(error) => faults.add_error(location, &error),
                }

                // Each file is looked up under one name per tier; most exist under one name only.
                let has_too_many_files =
                    texts.len() > MAX_PROSE_FILES || lookups > Tier::ALL.len() * MAX_PROSE_FILES;
                if has_too_many_files {
                    let message = format!("the pack uses more than {MAX_PROSE_FILES} prose files");
                    faults.add(location, message);
                    return texts;
                }
                if bytes > MAX_PROSE_BYTES {
                    let message = format!("the pack's prose exceeds {MAX_PROSE_BYTES} bytes");
                    faults.add(location, message);
                    return texts;
                }
            }
        }
    }

    texts
}

/// Checks that every placeholder is a variable of the pack or of the text.
fn check_variables(text: &ProseText, manifest: &Manifest, faults: &mut Faults<'_>) {
    for variable in &text.variables {
        // Placeholders of a prose file that lists its variables are checked when the file is parsed.
        let has_own_list = text.front_matter.variables.is_some();
        let is_known = has_own_list
            || variable.name == PLACEHOLDER
            || manifest.variables.contains(&variable.name);
        if !is_known {
            let offset = text
                .body()
                .find(&format!("{{{{{}}}}}", variable.name))
                .unwrap_or(0);
            let message = format!("`{}` is not a variable of the pack", variable.name);
            let hint = format!("add `{}` to `variables` of the pack", variable.name);
            faults.error_at(text.place(offset), message, hint);
        }
    }
}

/// Returns true for a valid path of a prose file: plain segments that cannot leave the pack's folder, ending in `.md`.
pub(super) fn is_prose_file_name(name: &str) -> bool {
    name.len() <= 200
        && name.ends_with(".md")
        && name.replace("{mode}", "mode").split('/').all(is_plain_name)
}
