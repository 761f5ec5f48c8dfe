//! Whether an action may be carried out: allowed in the mode, and in keeping with its schema.

use serde_json::{Map, Value};

use crate::models::{Action, ActionSpec, Effect, Mode, Parameter, ValueKind};
use crate::pack::Pack;

/// Returns the effect of an action, or why it may not have one.
pub(super) fn permit(pack: &Pack, mode: &Mode, action: &Action) -> Result<Effect, String> {
    let name = action.name.as_str();
    let Some((_, spec)) = pack.actions_of(mode).find(|(known, _)| known.as_str() == name) else {
        let known = pack.actions.contains_key(name);
        return Err(if known {
            format!("`{mode}` may not use it")
        } else {
            "there is no such action".to_owned()
        });
    };
    let values = values(spec, action)?;
    let Some(operation) = pack.uses.get(name).and_then(|used| used.operation.as_ref()) else {
        return Err("the pack names no operation that carries it out".to_owned());
    };
    let text = |name: &str| {
        values.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    Ok(Effect {
        operation: operation.as_str().to_owned(),
        target: text("target").unwrap_or_else(|| name.to_owned()),
        content: text("content").unwrap_or_else(|| Value::from(values.clone()).to_string()),
    })
}

/// Returns the values of an action's parameters, each of the type that its schema names.
fn values(spec: &ActionSpec, action: &Action) -> Result<Map<String, Value>, String> {
    let mut values = Map::new();
    for (name, text) in &action.fields {
        let Some(parameter) = spec.parameters.get(name) else {
            return Err(format!("it has no parameter `{name}`"));
        };
        let value =
            value(parameter, text).ok_or_else(|| format!("`{name}` is not {}", expected(parameter)))?;
        values.insert(name.clone(), value);
    }
    let missing =
        spec.parameters.iter().find(|(name, parameter)| parameter.required && !values.contains_key(*name));
    match missing {
        Some((name, _)) => Err(format!("`{name}` is missing")),
        None => Ok(values),
    }
}

/// Reads a value of a parameter's type; `None` if it is none.
fn value(parameter: &Parameter, text: &str) -> Option<Value> {
    let value = match parameter.kind {
        ValueKind::String => Value::from(text),
        ValueKind::Integer => Value::from(text.parse::<i64>().ok()?),
        ValueKind::Number => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from)?,
        ValueKind::Boolean => Value::from(text.parse::<bool>().ok()?),
        ValueKind::Array => {
            let items = serde_json::from_str::<Vec<Value>>(text).ok()?;
            let right = |item: &Value| parameter.items.is_none_or(|kind| is_of(kind, item));
            Value::from(items.iter().all(right).then_some(items)?)
        }
        ValueKind::Object => serde_json::from_str::<Value>(text).ok().filter(Value::is_object)?,
    };
    let allowed = parameter.one_of.is_empty() || parameter.one_of.iter().any(|one| one == text);
    allowed.then_some(value)
}

fn is_of(kind: ValueKind, value: &Value) -> bool {
    match kind {
        ValueKind::String => value.is_string(),
        ValueKind::Integer => value.is_i64() || value.is_u64(),
        ValueKind::Number => value.is_number(),
        ValueKind::Boolean => value.is_boolean(),
        ValueKind::Array => value.is_array(),
        ValueKind::Object => value.is_object(),
    }
}

fn expected(parameter: &Parameter) -> String {
    if parameter.one_of.is_empty() {
        return format!("of the type {}", parameter.kind.name());
    }
    format!("one of {}", parameter.one_of.join(", "))
}
