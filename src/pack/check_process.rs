//! Finds dead parts of a process: actions that are never executed, gates that never open, patterns that match nothing.

use indexmap::IndexMap;
use serde_saphyr::Location;

use super::condition::ManifestRule;
use super::faults::Faults;
use super::manifest::{Manifest, ModeSpec};
use super::manifest_places::{ManifestPlaces, NO_OPERATION};
use super::rule::FactDomain;
use crate::models::{ActionSpec, ArtifactStatus, Mode, OperationId, Reliability, Tier};
use crate::text::glob::matches_path;

/// Checks the actions, gates, conditions and patterns of a manifest.
pub(super) fn check_process(
    manifest: &Manifest,
    places: &ManifestPlaces,
    actions: &IndexMap<String, ActionSpec>,
    faults: &mut Faults<'_>,
) {
    for name in manifest.actions.keys() {
        check_action(name, manifest, places, actions, faults);
    }

    for (mode, spec) in &manifest.modes {
        if let Some(gate) = &spec.value.gate {
            check_gate(mode, &spec.value, gate, manifest, faults);
        }
        check_patterns(mode, places, faults);
        check_updates(mode, &spec.value, spec.referenced, faults);
    }

    for layer in &manifest.layers {
        for condition in layer.value.conditions() {
            check_layer_condition(&layer.value.id, condition, manifest, faults);
        }
    }
}

/// Checks that an action can be requested and executed.
fn check_action(
    name: &str,
    manifest: &Manifest,
    places: &ManifestPlaces,
    actions: &IndexMap<String, ActionSpec>,
    faults: &mut Faults<'_>,
) {
    let used = &manifest.actions[name];
    let at = places.action(name);
    if used.value.modes.is_empty() {
        faults.warn(
            used.referenced,
            format!("no mode allows the action `{name}`"),
            "list the modes that may use it in `modes`, or remove the action",
        );
        return;
    }

    let Some(operation) = &used.value.operation else {
        if used.value.answers {
            faults.error(
                used.referenced,
                format!("action `{name}` sets `answers`, but has no `operation`"),
                "set its `operation`, or remove `answers`",
            );
        }
        let is_explicit = at
            .and_then(|at| at.operation.as_ref())
            .is_some_and(|operation| operation.value == NO_OPERATION);
        if !is_explicit {
            faults.warn(
                used.referenced,
                format!("action `{name}` has no operation, so every request for it is refused"),
                "set its `operation`, or write `operation: none` if requests are only recorded",
            );
        }
        return;
    };

    let place = at
        .and_then(|at| at.operation.as_ref())
        .map_or(used.referenced, |operation| operation.referenced);

    let is_known = |mode: &&Mode| manifest.modes.contains_key(*mode);
    let modes: Vec<&Mode> = used.value.modes.iter().filter(is_known).collect();
    let modes_without_operation: Vec<&Mode> = modes
        .iter()
        .copied()
        .filter(|mode| !manifest.modes[*mode].value.after.contains(operation))
        .collect();
    if !modes_without_operation.is_empty() && modes_without_operation.len() == modes.len() {
        faults.error(
            place,
            format!("action `{name}` is never executed: none of its modes runs `{operation}`"),
            format!(
                "add `{operation}` to `after` of {}",
                list_modes(&modes_without_operation)
            ),
        );
        return;
    }

    for mode in modes_without_operation {
        let place = at
            .and_then(|at| at.modes.iter().find(|placed| placed.value == mode.as_str()))
            .map_or(place, |placed| placed.referenced);
        faults.warn(
            place,
            format!(
                "action `{name}` is refused in mode `{mode}`, which does not run `{operation}`"
            ),
            format!("add `{operation}` to `after` of `{mode}`, or remove the mode from the action"),
        );
    }

    if *operation == OperationId::FilesWrite
        && let Some(action) = actions.get(name)
    {
        for mode in modes {
            check_target(
                name,
                action,
                mode,
                &manifest.modes[mode].value,
                place,
                faults,
            );
        }
    }
}

/// Checks that a mode may update every file that an action with `files.write` can write.
fn check_target(
    name: &str,
    action: &ActionSpec,
    mode: &Mode,
    spec: &ModeSpec,
    place: Location,
    faults: &mut Faults<'_>,
) {
    if !spec.after.contains(&OperationId::FilesWrite) {
        return;
    }

    let may_write = |target: &str| {
        spec.updates
            .iter()
            .any(|pattern| matches_path(pattern, target))
    };
    let hint = |target: &str| format!("add `{target}` to `updates` of `{mode}`");
    let Some(target) = action.parameters.get("target") else {
        if !may_write(name) {
            faults.error(
                place,
                format!(
                    "action `{name}` writes the file `{name}`, which mode `{mode}` may not update"
                ),
                format!("{}, or add a parameter `target` to the action", hint(name)),
            );
        }
        return;
    };

    for value in target.one_of.iter().filter(|value| !may_write(value)) {
        faults.warn(
            place,
            format!(
                "action `{name}` offers the target `{value}`, which mode `{mode}` may not update"
            ),
            hint(value),
        );
    }
}

/// Checks that the gate of a mode can open.
fn check_gate(
    mode: &Mode,
    spec: &ModeSpec,
    gate: &ManifestRule,
    manifest: &Manifest,
    faults: &mut Faults<'_>,
) {
    let Ok(rule) = gate.rule() else { return };
    let can_run = |operation: &str| {
        let mut listed = spec.before.iter().chain(&spec.after).chain(&spec.finish);
        // Files are only written where `updates` allows it.
        let can_write = !spec.updates.is_empty() || operation != OperationId::FilesWrite.as_str();
        can_write && listed.any(|id| id.as_str() == operation)
    };
    let domain = |name: &str, argument: Option<&str>| match (name, argument) {
        ("turns" | "mode_turns", None) => FactDomain::number(1.0, f64::INFINITY),
        ("percent", None) => FactDomain::number(0.0, 100.0),
        ("failed", None) => FactDomain::one_of(["true", "false"]),
        ("verdict", None) => FactDomain::one_of(spec.verdicts.iter().map(|verdict| verdict.name())),
        ("status", Some(_)) => FactDomain::one_of(ArtifactStatus::ALL.map(ArtifactStatus::name)),
        ("done", Some(operation)) if can_run(operation) => FactDomain::number(1.0, f64::INFINITY),
        ("done", Some(_)) => FactDomain::Unknown,
        ("marker", Some(marker)) => match manifest.markers.get(marker) {
            Some(values) => FactDomain::one_of(values.value.iter().map(String::as_str)),
            None => FactDomain::Anything,
        },
        _ => FactDomain::Anything,
    };

    let reach = rule.reach(&domain);
    let gate_at = gate.location();
    let missing: Vec<&str> = gate
        .arguments("done")
        .filter(|operation| !can_run(operation))
        .collect();

    for operation in &missing {
        let is_listed = spec.after.iter().any(|id| id.as_str() == *operation);
        let reason = if is_listed {
            "but the mode has no `updates`"
        } else {
            "but the mode does not run it"
        };
        let message = format!("the gate of `{mode}` needs done(\"{operation}\"), {reason}");
        let hint = if is_listed {
            format!("`updates` of `{mode}` must list the files that replies may write")
        } else {
            format!(
                "add `{operation}` to `after` of `{mode}`, or name an operation that the mode runs"
            )
        };

        if reach.can_hold {
            faults.warn(gate_at, message, hint);
        } else {
            faults.error(
                gate_at,
                format!("{message}, so the process never leaves the mode"),
                hint,
            );
        }
    }

    // Comparisons with an operation of `missing` are already reported.
    for comparison in reach.impossible.iter().filter(|comparison| {
        let is_about = |operation: &&str| comparison.contains(&format!("done(\"{operation}\")"));
        !missing.iter().any(is_about)
    }) {
        let hint =
            "docs/reference/packs.md lists the values of facts; a number never equals a string";
        if reach.can_hold {
            faults.warn(gate_at, format!("`{comparison}` is never true"), hint);
        } else {
            let message = format!("the gate of `{mode}` never opens: `{comparison}` is never true");
            faults.error(gate_at, message, hint);
        }
    }
}

/// Checks that the condition of a layer can hold.
fn check_layer_condition(
    layer: &str,
    condition: &ManifestRule,
    manifest: &Manifest,
    faults: &mut Faults<'_>,
) {
    let Ok(rule) = condition.rule() else { return };
    let domain = |name: &str, _: Option<&str>| {
        if manifest.variables.iter().any(|variable| variable == name) {
            return FactDomain::Supplied;
        }

        match name {
            "mode" => FactDomain::one_of(manifest.modes.keys().map(Mode::as_str)),
            "tier" => FactDomain::one_of(Tier::ALL.map(Tier::name)),
            "xml_reliability" | "instruction_following" => FactDomain::one_of(
                [
                    Reliability::Low,
                    Reliability::Medium,
                    Reliability::High,
                    Reliability::VeryHigh,
                ]
                .map(Reliability::name),
            ),
            "thinking_reminder" => FactDomain::one_of(["on", "off"]),
            "nonce" | "tools" => FactDomain::one_of(["on"]),
            _ => FactDomain::Anything,
        }
    };

    for comparison in rule.reach(&domain).impossible {
        faults.warn(
            condition.location(),
            format!("`{comparison}` in layer `{layer}` is never true"),
            "docs/reference/packs.md lists the values of facts; numbers are written without quotes",
        );
    }
}

/// Checks that the patterns of a mode can match a file.
fn check_patterns(mode: &Mode, places: &ManifestPlaces, faults: &mut Faults<'_>) {
    let Some(at) = places.mode(mode) else { return };
    for pattern in &at.updates {
        if !pattern.value.split('/').all(is_update_segment) {
            faults.error(
                pattern.referenced,
                format!(
                    "`updates` of mode `{mode}`: {:?} matches no target",
                    pattern.value
                ),
                "write a path in the session's folder, like `notes.md` or `specs/*.md`",
            );
        }
    }

    for pattern in &at.artifacts {
        let (folder, name) = pattern
            .value
            .rsplit_once('/')
            .unwrap_or(("", &pattern.value));
        if folder.contains('*') || name.is_empty() || pattern.value.starts_with('/') {
            faults.error(
                pattern.referenced,
                format!(
                    "`artifacts` of mode `{mode}`: {:?} matches no file",
                    pattern.value
                ),
                "write a path inside the session's folder, with `*` only in the file name",
            );
        }
    }
}

/// Returns true if a segment of a pattern can match a segment of a plain relative path.
fn is_update_segment(segment: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'*');
    !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(is_plain)
}

/// Checks that a mode with `updates` runs `files.write`.
fn check_updates(mode: &Mode, spec: &ModeSpec, place: Location, faults: &mut Faults<'_>) {
    if !spec.updates.is_empty() && !spec.after.contains(&OperationId::FilesWrite) {
        faults.error(
            place,
            format!(
                "`updates` of mode `{mode}` has no effect: the mode does not run `files.write`"
            ),
            format!("add `files.write` to `after` of `{mode}`"),
        );
    }
}

fn list_modes(modes: &[&Mode]) -> String {
    let names: Vec<String> = modes.iter().map(|mode| format!("`{mode}`")).collect();
    names.join(", ")
}
