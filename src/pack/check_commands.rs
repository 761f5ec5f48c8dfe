//! Checks the commands that a pack declares for the user.

use indexmap::IndexMap;
use serde_json::Value;
use serde_saphyr::Location;

use super::command::{BUILT_IN_COMMANDS, CommandSpec, CommandStep};
use super::faults::Faults;
use super::layer::LayerContent;
use super::manifest::{Manifest, mode_hint};
use super::manifest_places::{CommandPlaces, CommandStepPlaces, ManifestPlaces};
use crate::models::{ArtifactSpec, ArtifactStatus, FieldType, ListSpec, OperationId, StateSpec};

/// Operations that commands can run: those that only change the state document.
const COMMAND_OPERATIONS: [OperationId; 5] = [
    OperationId::StateSet,
    OperationId::StateAdd,
    OperationId::StateRemove,
    OperationId::ArtifactStatus,
    OperationId::KnowledgeSave,
];

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Checks the names, descriptions, modes and steps of all commands.
pub(super) fn check_commands(
    manifest: &Manifest,
    places: &ManifestPlaces,
    state: &StateSpec,
    artifacts: &IndexMap<String, ArtifactSpec>,
    faults: &mut Faults<'_>,
) {
    let Some((_, first)) = manifest.commands.first() else {
        return;
    };
    let mut layers = manifest.layers.iter();
    if !layers.any(|layer| layer.value.holds == LayerContent::History) {
        faults.warn(
            first.referenced,
            "nothing runs the commands: the pack has no layer for earlier turns",
            "add a layer with `holds: history`, or remove `commands`",
        );
    }

    let inputs = InputRules { state, artifacts };
    for (name, command) in &manifest.commands {
        let place = command.referenced;
        let command_places = places.command(name);
        check_head(name, &command.value, place, faults);
        check_modes(
            name,
            &command.value,
            place,
            command_places,
            manifest,
            faults,
        );
        for (index, step) in command.value.steps.iter().enumerate() {
            let at = StepPlace {
                command: place,
                step: command_places.and_then(|places| places.steps.get(index)),
            };
            check_step(name, step, &inputs, &at, faults);
        }
    }
}

fn check_head(name: &str, command: &CommandSpec, place: Location, faults: &mut Faults<'_>) {
    if !is_command_name(name) {
        faults.error(
            place,
            format!("invalid command name {name:?}"),
            "use lower-case letters, digits and `-`, and start with a letter",
        );
    }
    if BUILT_IN_COMMANDS.contains(&name) {
        let built_in: Vec<String> = BUILT_IN_COMMANDS
            .iter()
            .map(|name| format!("/{name}"))
            .collect();
        faults.error(
            place,
            format!("`/{name}` is a built-in command"),
            format!("choose a name other than {}", built_in.join(", ")),
        );
    }

    let description = command.description.trim();
    if description.is_empty() || description.contains('\n') {
        faults.error(
            place,
            format!("the description of command `{name}` must be one line"),
            "`/help` shows it next to the name",
        );
    }
    if command.steps.is_empty() {
        faults.error(
            place,
            format!("command `{name}` has no steps"),
            "add a step to `steps`, such as `{operation: state.set, with: {path: project.title, value: A}}`",
        );
    }
}

fn check_modes(
    name: &str,
    command: &CommandSpec,
    place: Location,
    places: Option<&CommandPlaces>,
    manifest: &Manifest,
    faults: &mut Faults<'_>,
) {
    for (index, mode) in command.modes.iter().enumerate() {
        if manifest.modes.contains_key(mode) {
            continue;
        }
        let at = places.and_then(|places| places.modes.get(index));
        faults.error(
            at.map_or(place, |mode| mode.referenced),
            format!("command `{name}` lists the unknown mode `{mode}`"),
            mode_hint(manifest),
        );
    }
}

/// Places of a step in the manifest.
struct StepPlace<'a> {
    /// Place of the command, used if that of the step is unknown.
    command: Location,
    step: Option<&'a CommandStepPlaces>,
}

impl StepPlace<'_> {
    fn operation(&self) -> Location {
        self.step
            .map_or(self.command, |step| step.operation.referenced)
    }

    /// Returns the location of a parameter, or of the operation if the parameter is missing.
    fn parameter(&self, name: &str) -> Location {
        self.step
            .and_then(|step| step.with.get(name))
            .map_or_else(|| self.operation(), |value| value.referenced)
    }
}

fn check_step(
    name: &str,
    step: &CommandStep,
    inputs: &InputRules<'_>,
    at: &StepPlace<'_>,
    faults: &mut Faults<'_>,
) {
    let operation = &step.operation;
    if !COMMAND_OPERATIONS.contains(operation) {
        let allowed: Vec<&str> = COMMAND_OPERATIONS.iter().map(OperationId::as_str).collect();
        faults.error(
            at.operation(),
            format!("command `{name}` cannot run the operation `{operation}`"),
            format!("commands can run {}", allowed.join(", ")),
        );
        return;
    }

    if let Err(fault) = inputs.check(step) {
        faults.error(
            at.parameter(&fault.parameter),
            format!("`{operation}` of command `{name}`: {}", fault.message),
            fault.hint,
        );
    }
}

/// An error in the input of a step.
struct InputFault {
    parameter: String,
    message: String,
    hint: String,
}

impl InputFault {
    fn new(parameter: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            parameter: parameter.to_owned(),
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Declarations of the pack that the inputs of steps refer to.
struct InputRules<'a> {
    state: &'a StateSpec,
    artifacts: &'a IndexMap<String, ArtifactSpec>,
}

impl InputRules<'_> {
    /// Returns the first error in the input of a step.
    fn check(&self, step: &CommandStep) -> Result<(), InputFault> {
        match &step.operation {
            OperationId::StateSet => self.check_set(step),
            OperationId::StateAdd => self.check_item(step),
            OperationId::StateRemove if step.with.len() > 1 => self.check_item(step),
            OperationId::StateRemove => self.field_type(step).map(drop),
            OperationId::ArtifactStatus => self.check_status(step),
            _ => check_fact(step),
        }
    }

    fn check_set(&self, step: &CommandStep) -> Result<(), InputFault> {
        refuse_unknown(step, &["path", "value"])?;
        let kind = self.field_type(step)?;
        let value = step.with.get("value").ok_or_else(|| missing("value"))?;
        if let FieldType::List(_) = kind {
            let hint = "use `state.add` or `state.remove`";
            return Err(InputFault::new("path", "the field is a list", hint));
        }
        if !fits_type(value, &kind) {
            let message = format!("the field cannot have the value {value}");
            let hint = format!("the field is of type {}", type_name(&kind));
            return Err(InputFault::new("value", message, hint));
        }
        Ok(())
    }

    /// Checks an item that a step adds to a list or removes from it.
    fn check_item(&self, step: &CommandStep) -> Result<(), InputFault> {
        match self.field_type(step)? {
            FieldType::List(list) if !list.is_plain() => check_item_keys(step, &list),
            FieldType::List(_) | FieldType::Words => {
                refuse_unknown(step, &["path", "value"])?;
                let value = step.with.get("value").ok_or_else(|| missing("value"))?;
                match is_scalar(value) {
                    true => Ok(()),
                    false => Err(InputFault::new(
                        "value",
                        "an item is a single text",
                        "add each item with a step",
                    )),
                }
            }
            FieldType::Text | FieldType::Number | FieldType::Boolean => Err(InputFault::new(
                "path",
                "the field is not a list",
                "use `state.set`, or `state.remove` with `path` alone",
            )),
        }
    }

    fn check_status(&self, step: &CommandStep) -> Result<(), InputFault> {
        refuse_unknown(step, &["artifact", "status"])?;
        let artifact = required_text(step, "artifact")?;
        if !self.artifacts.contains_key(artifact) {
            let known: Vec<&str> = self.artifacts.keys().map(String::as_str).collect();
            let hint = match known.as_slice() {
                [] => "declare it in artifacts.yaml".to_owned(),
                known => format!("artifacts.yaml declares {}", known.join(", ")),
            };
            let message = format!("unknown artifact `{artifact}`");
            return Err(InputFault::new("artifact", message, hint));
        }

        let status = required_text(step, "status")?;
        if ArtifactStatus::from_name(status).is_none() {
            let known = ArtifactStatus::ALL.map(ArtifactStatus::name);
            let message = format!("unknown status `{status}`");
            let hint = format!("expected {}", known.join(", "));
            return Err(InputFault::new("status", message, hint));
        }
        Ok(())
    }

    /// Returns the type of the field that `path` names.
    fn field_type(&self, step: &CommandStep) -> Result<FieldType, InputFault> {
        let path = required_text(step, "path")?;
        self.state.type_at(path).map_err(|message| {
            InputFault::new(
                "path",
                message,
                "state.yaml declares sections and their fields",
            )
        })
    }
}

/// Checks the input of `knowledge.save`.
fn check_fact(step: &CommandStep) -> Result<(), InputFault> {
    refuse_unknown(step, &["category", "key", "value", "source"])?;
    for parameter in ["category", "key", "value"] {
        required_text(step, parameter)?;
    }
    Ok(())
}

/// Checks an item of a list whose items have keys.
fn check_item_keys(step: &CommandStep, list: &ListSpec) -> Result<(), InputFault> {
    let keys: Vec<&str> = ["path"].into_iter().chain(list.keys()).collect();
    refuse_unknown(step, &keys)?;
    for key in &list.attributes {
        required_text(step, key)?;
    }
    Ok(())
}

fn refuse_unknown(step: &CommandStep, known: &[&str]) -> Result<(), InputFault> {
    match step
        .with
        .keys()
        .find(|name| !known.contains(&name.as_str()))
    {
        None => Ok(()),
        Some(name) => {
            let message = format!("unknown parameter `{name}`");
            let hint = format!("expected {}", known.join(", "));
            Err(InputFault::new(name, message, hint))
        }
    }
}

/// Returns a parameter that must be a string and not blank.
fn required_text<'a>(step: &'a CommandStep, parameter: &str) -> Result<&'a str, InputFault> {
    let text = step.text(parameter).filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| missing(parameter))
}

fn missing(parameter: &str) -> InputFault {
    InputFault::new(
        parameter,
        format!("`{parameter}` is missing"),
        format!("add `{parameter}` to `with`"),
    )
}

fn fits_type(value: &Value, kind: &FieldType) -> bool {
    match kind {
        FieldType::Text => is_scalar(value),
        FieldType::Number => value.is_number(),
        FieldType::Boolean => value.is_boolean(),
        FieldType::Words => match value {
            Value::Array(words) => words.iter().all(is_scalar),
            word => is_scalar(word),
        },
        FieldType::List(_) => false,
    }
}

fn is_scalar(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

fn type_name(kind: &FieldType) -> &'static str {
    match kind {
        FieldType::Text => "text",
        FieldType::Number => "number",
        FieldType::Boolean => "boolean",
        FieldType::Words => "words",
        FieldType::List(_) => "list",
    }
}

fn is_command_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= MAX_NAME_CHARS
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_allowed)
}
