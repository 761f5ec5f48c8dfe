//! Checks that an action is allowed in the mode and has an operation.

use serde_json::{Map, Value};

use crate::models::{Action, Effect, Mode, UpdateFormat};
use crate::pack::{ActionUse, Pack, ParameterSource};

/// Returns the effect of an action, or the reason for rejecting it.
///
/// With `with` in the pack, the content is the operation's parameters as JSON. Otherwise the target is the parameter
/// `target`, by default the action's name, and the content is the parameter `content`, by default all parameters as JSON.
pub(super) fn permit_action(pack: &Pack, mode: &Mode, action: &Action) -> Result<Effect, String> {
    let name = action.name.as_str();
    if !pack.actions.contains_key(name) {
        return Err("unknown action".to_owned());
    }
    let Some(used) = pack.uses.get(name).filter(|used| used.modes.contains(mode)) else {
        return Err(format!("not allowed in mode `{mode}`"));
    };
    if !used.available {
        return Err("the action is not available yet".to_owned());
    }
    let Some(operation) = &used.operation else {
        return Err("the pack defines no operation for this action".to_owned());
    };

    let effect = |target: String, content: String| Effect {
        action: Some(name.to_owned()),
        operation: operation.clone(),
        target,
        content,
        format: UpdateFormat::Whole,
    };
    if !used.with.is_empty() {
        let input = Value::Object(operation_input(used, action));
        return Ok(effect(name.to_owned(), input.to_string()));
    }

    let text = |name: &str| {
        action.values.get(name).map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        })
    };
    let target = text("target").unwrap_or_else(|| name.to_owned());
    let content = text("content").unwrap_or_else(|| Value::from(action.values.clone()).to_string());
    Ok(effect(target, content))
}

/// Returns the parameters of the operation. A parameter that the action omits is not passed.
fn operation_input(used: &ActionUse, action: &Action) -> Map<String, Value> {
    used.with
        .iter()
        .filter_map(|(name, source)| {
            let value = match source {
                ParameterSource::Parameter(parameter) => action.values.get(parameter)?.clone(),
                ParameterSource::Value(value) => value.clone(),
            };
            Some((name.clone(), value))
        })
        .collect()
}
