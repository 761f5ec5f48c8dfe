//! `state.set`, `state.add` and `state.remove`: change a field or a list of the state document.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::state_step::{StateEffect, run_state_step};
use crate::error::Result;
use crate::models::{FieldType, ListSpec, OperationId, StateChange, StepResult};
use crate::ops::{Act, Operation, Site, Step};

/// Changes the state document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateOperation {
    /// Sets the value of a field.
    Set,
    /// Adds an item to a list, unless the list has it.
    Add,
    /// Removes a field's value, or an item of a list.
    Remove,
}

/// Input of the operations. For a list of items with keys, the other parameters are the keys of the item.
#[derive(Debug, Deserialize)]
struct ChangeInput {
    path: String,
    #[serde(default)]
    value: Option<Value>,
    #[serde(flatten)]
    keys: Map<String, Value>,
}

impl Operation for StateOperation {
    fn id(&self) -> OperationId {
        match self {
            Self::Set => OperationId::StateSet,
            Self::Add => OperationId::StateAdd,
            Self::Remove => OperationId::StateRemove,
        }
    }
}

impl Act for StateOperation {
    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        Ok(run_state_step(
            step,
            |input: &ChangeInput| &input.path,
            |input| change_state(*self, site, input),
        ))
    }
}

fn change_state(
    operation: StateOperation,
    site: &Site<'_>,
    input: ChangeInput,
) -> std::result::Result<StateEffect, String> {
    let path = input.path.clone();
    let current = site.document()?.value_at(&path).cloned();
    let kind = site.state_spec()?.type_at(&path)?;

    let to = match (operation, &kind) {
        (StateOperation::Set, FieldType::List(_)) => {
            return Err(format!("`{path}` is a list: add or remove items"));
        }
        (StateOperation::Set, kind) => {
            let value = input.value.ok_or("`value` is missing")?;
            Some(convert_value(kind, value).map_err(|message| format!("`{path}`: {message}"))?)
        }
        (StateOperation::Add, kind) => {
            let item = item_from_input(kind, input, &path)?;
            let mut items = items_of(current.as_ref());
            if !items.contains(&item) {
                items.push(item);
            }
            Some(Value::Array(items))
        }
        (StateOperation::Remove, FieldType::List(_) | FieldType::Words)
            if input.value.is_some() || !input.keys.is_empty() =>
        {
            let item = item_from_input(&kind, input, &path)?;
            let mut items = items_of(current.as_ref());
            let before = items.len();
            items.retain(|known| *known != item);
            if items.len() == before {
                return Err(format!("`{path}` has no such item"));
            }
            Some(Value::Array(items))
        }
        (StateOperation::Remove, _) => None,
    };

    let verb = match operation {
        StateOperation::Set => "set",
        StateOperation::Add => "added to",
        StateOperation::Remove => "removed from",
    };
    Ok(StateEffect {
        detail: format!("{verb} {path}"),
        change: StateChange {
            path,
            from: current,
            to,
        },
    })
}

/// Returns the items of a list; none if there is no list.
fn items_of(value: Option<&Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

/// Returns the item that an input describes.
fn item_from_input(
    kind: &FieldType,
    input: ChangeInput,
    path: &str,
) -> std::result::Result<Value, String> {
    let missing = || format!("`{path}`: `value` is missing");
    match kind {
        FieldType::Words => text_value(input.value.ok_or_else(missing)?),
        FieldType::List(list) if list.is_plain() => text_value(input.value.ok_or_else(missing)?),
        FieldType::List(list) => keyed_item(list, input.keys),
        FieldType::Text | FieldType::Number | FieldType::Boolean => {
            Err(format!("`{path}` is not a list"))
        }
    }
}

/// Returns an item with the keys that its list declares.
fn keyed_item(list: &ListSpec, keys: Map<String, Value>) -> std::result::Result<Value, String> {
    let mut item = Map::new();
    for (key, value) in keys {
        if !list.keys().any(|known| known == key) {
            return Err(format!("an item has no key `{key}`"));
        }
        item.insert(key, text_value(value)?);
    }
    for key in &list.attributes {
        if !item.contains_key(key) {
            return Err(format!("an item needs the key `{key}`"));
        }
    }
    Ok(Value::Object(item))
}

/// Returns a value as the type of a field.
fn convert_value(kind: &FieldType, value: Value) -> std::result::Result<Value, String> {
    match (kind, value) {
        (FieldType::Text, value) => text_value(value),
        (FieldType::Number, Value::Number(number)) => Ok(Value::Number(number)),
        (FieldType::Number, Value::String(text)) => {
            let number: std::result::Result<Value, _> = serde_json::from_str(text.trim());
            number
                .ok()
                .filter(Value::is_number)
                .ok_or_else(|| "expected a number".to_owned())
        }
        (FieldType::Boolean, Value::Bool(value)) => Ok(Value::Bool(value)),
        (FieldType::Boolean, Value::String(text)) => match text.trim() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err("expected true or false".to_owned()),
        },
        (FieldType::Words, Value::Array(items)) => items
            .into_iter()
            .map(text_value)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map(Value::Array),
        (FieldType::Words, value) => text_value(value).map(|word| Value::Array(vec![word])),
        (FieldType::Number, _) => Err("expected a number".to_owned()),
        (FieldType::Boolean, _) => Err("expected true or false".to_owned()),
        (FieldType::List(_), _) => Err("a list is changed item by item".to_owned()),
    }
}

/// Returns a string, number or boolean as a string.
fn text_value(value: Value) -> std::result::Result<Value, String> {
    match value {
        Value::String(text) => Ok(Value::String(text.trim().to_owned())),
        Value::Number(_) | Value::Bool(_) => Ok(Value::String(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("expected a string".to_owned()),
    }
}
