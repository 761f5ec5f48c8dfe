//! Finds gaps and typos in the prose of a pack: markers, verdicts and actions that it does not mention, and misspelt
//! placeholders that would be sent as text.

use std::collections::BTreeMap;

use serde_saphyr::Location;

use super::actions::PLACEHOLDER;
use super::faults::Faults;
use super::file_at;
use super::layer::{Layer, LayerContent, file_for};
use super::manifest::{ActionUse, Manifest, ModeSpec};
use super::manifest_places::ManifestPlaces;
use super::placeholder::stray_placeholders;
use super::search_path::{Prose, SearchPath};
use super::text::ProseText;
use crate::models::{Format, Mode, OperationId, Tier};

/// Checks the prose of a pack.
pub(super) fn check_prose(
    manifest: &Manifest,
    at: &ManifestPlaces,
    texts: &BTreeMap<String, ProseText>,
    skeletons: &BTreeMap<String, Prose>,
    places: &SearchPath,
    faults: &mut Faults<'_>,
) {
    for text in texts.values() {
        check_placeholders(text, manifest, faults);
    }

    for (mode, spec) in &manifest.modes {
        for tier in Tier::ALL {
            let prose =
                ModeProse::collect(mode, &spec.value, tier, manifest, texts, skeletons, places);
            let has_gaps = prose.check(mode, &spec.value, spec.referenced, manifest, at, faults);
            // A gap is reported once, at the largest tier that has it.
            if has_gaps {
                break;
            }
        }
    }
}

/// Reports misspelt placeholders, which would be sent as text.
fn check_placeholders(text: &ProseText, manifest: &Manifest, faults: &mut Faults<'_>) {
    for stray in stray_placeholders(text.body()) {
        let name = stray.name;
        let is_variable = name == PLACEHOLDER
            || manifest.variables.iter().any(|variable| variable == name)
            || text.variables.iter().any(|variable| variable.name == name);
        if stray.is_closed && !is_variable {
            continue;
        }

        let message = if stray.is_closed {
            format!(
                "`{{{{{}}}}}` is not a placeholder and is sent as text",
                stray.inner
            )
        } else {
            format!("`{{{{{name}` is not closed and is sent as text")
        };
        faults.warn_at(
            text.place(stray.offset),
            message,
            format!("write {{{{{name}}}}}"),
        );
    }
}

/// The prose files in the prompt of a mode at a tier.
struct ModeProse<'a> {
    tier: Tier,
    bodies: Vec<String>,
    /// First file, at which missing prose is reported; `None` if the mode has no prose files.
    first: Option<&'a ProseText>,
}

impl<'a> ModeProse<'a> {
    fn collect(
        mode: &Mode,
        spec: &ModeSpec,
        tier: Tier,
        manifest: &Manifest,
        texts: &'a BTreeMap<String, ProseText>,
        skeletons: &BTreeMap<String, Prose>,
        places: &SearchPath,
    ) -> Self {
        let layers = manifest.layers.iter().map(|layer| &layer.value);
        let mut shown: Vec<&ProseText> = Vec::new();
        for layer in layers.clone() {
            let is_shown = layer.none_at.is_none_or(|none_at| tier > none_at);
            if is_shown {
                let files = files_of(layer, mode);
                shown.extend(files.iter().filter_map(|file| text_at(texts, file, tier)));
            }
        }

        let mut bodies: Vec<String> = shown.iter().map(|text| text.body().to_owned()).collect();
        bodies.extend(spec.request.clone());
        if layers
            .clone()
            .any(|layer| layer.holds == LayerContent::Template)
        {
            let template = places.find(&format!("templates/system/BASE-{mode}.md"));
            bodies.extend(template.ok().flatten().map(|prose| prose.text.into_owned()));
            let skeletons = spec.skeletons.iter().filter_map(|name| skeletons.get(name));
            bodies.extend(skeletons.map(|skeleton| skeleton.text.clone().into_owned()));
        }

        Self {
            tier,
            bodies,
            first: shown.first().copied(),
        }
    }

    fn contains(&self, text: &str) -> bool {
        self.bodies.iter().any(|body| body.contains(text))
    }

    /// Returns true if the prose contains a tag or one of its aliases.
    fn has_tag(&self, tag: &str, manifest: &Manifest) -> bool {
        let others = manifest
            .tags
            .iter()
            .filter(|(_, meaning)| meaning.value == tag)
            .map(|(name, _)| name.as_str());
        std::iter::once(tag)
            .chain(others)
            .any(|name| self.contains(&format!("<{name}")))
    }

    /// Reports markers, verdicts and actions that the prose does not mention; returns true if one is missing.
    fn check(
        &self,
        mode: &Mode,
        spec: &ModeSpec,
        place: Location,
        manifest: &Manifest,
        at: &ManifestPlaces,
        faults: &mut Faults<'_>,
    ) -> bool {
        let at_tier = match self.tier {
            Tier::Full => String::new(),
            tier => format!(" at the {} tier", tier.name()),
        };
        let mut has_gaps = false;
        for marker in &spec.markers {
            let Some(values) = manifest.markers.get(marker) else {
                continue;
            };
            if self.has_tag(marker, manifest) {
                continue;
            }

            has_gaps = true;
            let place = at
                .mode(mode)
                .and_then(|at| at.markers.iter().find(|placed| placed.value == *marker))
                .map_or(place, |placed| placed.referenced);
            let example = values.value.first().map_or("…", String::as_str);
            faults.warn(
                place,
                format!("mode `{mode}` requires the marker `{marker}`, but its prompt does not ask for it{at_tier}"),
                format!("add `<{marker}>{example}</{marker}>` to the mode's prompt"),
            );
        }

        if spec.verdict_required && !self.has_tag("review", manifest) {
            has_gaps = true;
            faults.warn(
                place,
                format!(
                    "mode `{mode}` requires a verdict, but its prompt does not ask for one{at_tier}"
                ),
                "add `<review>{{VERDICTS}}</review>` to the mode's prompt",
            );
        }

        if spec.task_status && !self.has_tag("task_status", manifest) {
            has_gaps = true;
            faults.warn(
                place,
                format!("mode `{mode}` reads the status of tasks, but its prompt does not ask for it{at_tier}"),
                "add `<task_status id=\"1.1\">COMPLETED</task_status>` to the mode's prompt",
            );
        }

        // Not `||`: actions are checked in any case.
        has_gaps | self.check_actions(mode, place, &at_tier, manifest, faults)
    }

    /// Reports actions of the mode that its prompt does not mention; returns true if there is one.
    fn check_actions(
        &self,
        mode: &Mode,
        place: Location,
        at_tier: &str,
        manifest: &Manifest,
        faults: &mut Faults<'_>,
    ) -> bool {
        // With the format `tools`, actions are sent as JSON Schema.
        if manifest.rendering == Format::Tools || self.contains(&format!("{{{{{PLACEHOLDER}}}}}")) {
            return false;
        }

        // Findings are also read from the documents of a reply, so the prompt need not mention the action for them.
        let has_documents = !manifest.modes[mode].value.updates.is_empty();
        let is_optional =
            |used: &ActionUse| has_documents && used.operation == Some(OperationId::FindingsNote);
        let unmentioned: Vec<&str> = manifest
            .actions
            .iter()
            .filter(|(_, used)| used.value.modes.contains(mode) && !is_optional(&used.value))
            .map(|(name, _)| name.as_str())
            .filter(|name| {
                !self.contains(&format!("\"{name}\"")) && !self.contains(&format!("`{name}`"))
            })
            .collect();

        if unmentioned.is_empty() {
            return false;
        }

        let message = format!(
            "the prompt of mode `{mode}` does not mention these actions{at_tier}: {}",
            unmentioned.join(", ")
        );
        let hint = format!("add {{{{{PLACEHOLDER}}}}} to the mode's prompt");
        match self.first {
            Some(text) => faults.warn_at(text.place(0), message, hint),
            None => faults.warn(place, message, hint),
        }

        true
    }
}

/// Returns the prose files that a layer may add to the prompt of a mode, whatever its conditions.
fn files_of(layer: &Layer, mode: &Mode) -> Vec<String> {
    let direct = [&layer.text, &layer.user, &layer.assistant]
        .into_iter()
        .flatten()
        .map(|file| file.value.as_str());
    let chosen = layer.choose.iter().map(|choice| choice.value.text.as_str());
    let added = layer
        .adds
        .get(mode)
        .into_iter()
        .flatten()
        .map(|file| file.value.as_str());

    direct
        .chain(chosen)
        .chain(added)
        .map(|file| file_for(file, mode))
        .collect()
}

/// Returns the text of a file for a tier, or else for the next larger tier that has one.
fn text_at<'a>(
    texts: &'a BTreeMap<String, ProseText>,
    file: &str,
    tier: Tier,
) -> Option<&'a ProseText> {
    Tier::ALL
        .into_iter()
        .rev()
        .filter(|other| *other >= tier)
        .find_map(|tier| texts.get(&file_at(file, tier)))
}
