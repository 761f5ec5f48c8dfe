//! Reads actions, in the protocol's form and as tool calls.

use serde_json::{Map, Value};

use super::fields::ActionFields;
use super::tag::{Attributes, CallForm, parse_attributes};
use crate::models::{Action, Grammar, ProblemCode};
use crate::text::lenient_json::parse_lenient_json;

/// Maximum size of an action's body.
const MAX_ACTION_BYTES: usize = 1024 * 1024;

/// Keys that hold the parameters of a tool call.
const ARGUMENT_KEYS: [&str; 5] = ["parameters", "params", "arguments", "input", "fields"];

/// Reads an action from the attributes of its tag and its body. Fails with the reason if the
/// request is unclear.
pub(super) fn read_action(
    call: CallForm,
    text: &str,
    body: &str,
    grammar: &Grammar,
) -> Result<(Action, Vec<ProblemCode>), String> {
    if body.len() > MAX_ACTION_BYTES {
        return Err("the action is too large: the limit is 1 MiB".to_owned());
    }
    if call == CallForm::Tool {
        return read_json_call(body, grammar);
    }

    let (name, attributes, body) = split_call(call, text, body, grammar)?;
    let name = name.ok_or("the action has no type")?;
    let spec = find_action_spec(&name, grammar)?;
    let fields = ActionFields::read(spec, &attributes, body)?;

    Ok((
        Action {
            name,
            values: fields.values,
            text: body.to_owned(),
            span: 0..0,
        },
        fields.problems,
    ))
}

/// Returns the name of an action; `None` if it is missing or unreadable.
pub(super) fn find_action_name(
    call: CallForm,
    text: &str,
    body: &str,
    grammar: &Grammar,
) -> Option<String> {
    if call == CallForm::Tool {
        let read = parse_lenient_json(body.trim())?;
        return Some(named_action(read.value.as_object()?)?.0.to_owned());
    }
    match split_call(call, text, body, grammar) {
        Ok((name, ..)) => name,
        Err(_) => parse_attributes(text)?
            .pairs
            .iter()
            .find(|(key, _)| matches!(*key, "type" | "name"))
            .map(|pair| pair.1.to_owned()),
    }
}

/// Returns true if an action of this name exists, in this mode or in another.
pub(super) fn is_known_action(name: &str, grammar: &Grammar) -> bool {
    grammar.actions.contains_key(name)
        || grammar.forbidden.iter().any(|forbidden| forbidden == name)
}

/// Name, remaining attributes and body of an action.
type CallParts<'a> = (Option<String>, Attributes<'a>, &'a str);

/// Splits an action into its name, its other attributes and its body.
fn split_call<'a>(
    call: CallForm,
    text: &'a str,
    body: &'a str,
    grammar: &Grammar,
) -> Result<CallParts<'a>, String> {
    if let CallForm::Named(index) = call {
        let name = grammar
            .actions
            .get_index(index)
            .map(|(name, _)| name.clone());
        return Ok((
            name,
            parse_attributes(text).ok_or("the opening tag is malformed")?,
            body,
        ));
    }

    if call == CallForm::Function {
        let name = text
            .trim()
            .strip_prefix('=')
            .map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
        return Ok((
            name.filter(|name| !name.is_empty()),
            Attributes::default(),
            body,
        ));
    }

    let mut read = parse_attributes(text).ok_or("the opening tag is malformed")?;
    let key = if call == CallForm::Invoke {
        "name"
    } else {
        "type"
    };
    let (type_values, others): (Vec<_>, Vec<_>) = read
        .pairs
        .iter()
        .copied()
        .partition(|(name, _)| name.eq_ignore_ascii_case(key));
    read.pairs = others;

    let mut values = type_values.into_iter().map(|(_, value)| value.trim());
    let name = values.next().filter(|name| !name.is_empty());
    if values.any(|other| Some(other) != name) {
        return Err("the action has two different types".to_owned());
    }

    let (inside, body) = split_inner_type(body, grammar, name);
    match (name, inside) {
        (Some(name), Some(inside)) if name != inside => {
            Err("the action has two different types".to_owned())
        }
        (name, inside) => Ok((name.or(inside).map(str::to_owned), read, body)),
    }
}

/// Splits `<type>` off the start of a body, unless the action has a parameter of that name.
fn split_inner_type<'a>(
    body: &'a str,
    grammar: &Grammar,
    name: Option<&str>,
) -> (Option<&'a str>, &'a str) {
    let spec = name.and_then(|name| grammar.actions.get(name));
    let split_type = || -> Option<(&'a str, &'a str)> {
        let inner = body.trim_start().strip_prefix("<type>")?;
        inner
            .split_once("</type>")
            .map(|(value, rest)| (value.trim(), rest))
    };

    match split_type().filter(|_| spec.is_none_or(|spec| !spec.parameters.contains_key("type"))) {
        Some((inside, rest)) if !inside.contains('<') => (Some(inside), rest),
        _ => (None, body),
    }
}

/// Returns the schema of an action, or the reason why this mode has none.
fn find_action_spec<'a>(
    name: &str,
    grammar: &'a Grammar,
) -> Result<&'a crate::models::ActionSpec, String> {
    grammar.actions.get(name).ok_or_else(|| {
        if grammar.forbidden.iter().any(|forbidden| forbidden == name) {
            "not allowed in this mode".to_owned()
        } else {
            "unknown action".to_owned()
        }
    })
}

fn read_json_call(body: &str, grammar: &Grammar) -> Result<(Action, Vec<ProblemCode>), String> {
    let text = body.trim();
    let read = parse_lenient_json(text).filter(|read| !read.is_cut && read.end == text.len());
    match read.map(|read| read.value) {
        Some(Value::Object(object)) => read_action_object(&object, text, grammar),
        _ => Err("the tool call is not a complete JSON object".to_owned()),
    }
}

/// Returns true if an object has the form of a known action or tool call.
pub(super) fn is_call(object: &Map<String, Value>, grammar: &Grammar) -> bool {
    named_action(object).is_some_and(|(name, _)| is_known_action(name, grammar))
}

/// Returns the name of an action in an object, and the key that holds it.
pub(super) fn named_action(object: &Map<String, Value>) -> Option<(&str, &'static str)> {
    let object = match object.get("function") {
        Some(Value::Object(function)) => function,
        _ => object,
    };

    // OpenAI writes `"type": "function"` and Anthropic `"type": "tool_use"`; the name is then under another key.
    let keys = ["type", "name", "action", "tool", "function"];
    keys.into_iter().find_map(|key| {
        let name = object
            .get(key)?
            .as_str()
            .filter(|name| *name != "function" && *name != "tool_use")?;
        Some((name, key))
    })
}

/// Reads an action from an object, such as `{"type": …, …}` or `{"name": …, "arguments": …}`.
pub(super) fn read_action_object(
    object: &Map<String, Value>,
    text: &str,
    grammar: &Grammar,
) -> Result<(Action, Vec<ProblemCode>), String> {
    let (name, key) = named_action(object).ok_or("the action has no type")?;
    let spec = find_action_spec(name, grammar)?;

    let object = match object.get("function") {
        Some(Value::Object(function)) => function,
        _ => object,
    };

    let nested = ARGUMENT_KEYS
        .iter()
        .find(|key| object.contains_key(**key) && !spec.parameters.contains_key(**key));

    let mut values = match nested.map(|key| &object[*key]) {
        Some(Value::Object(values)) => values.clone(),
        Some(Value::String(text)) => {
            let read = parse_lenient_json(text)
                .filter(|read| !read.is_cut && read.end == text.trim_end().len());
            match read.map(|read| read.value) {
                Some(Value::Object(values)) => values,
                _ => return Err("the arguments are not a complete JSON object".to_owned()),
            }
        }
        Some(_) => return Err("the arguments are not a complete JSON object".to_owned()),
        None => object.clone(),
    };

    // Without nested arguments, the object mixes parameters with the keys of the call itself.
    if nested.is_none() {
        ["type", "name", "action", "tool", "id"]
            .iter()
            .filter(|other| **other != key)
            .for_each(|other| {
                if !spec.parameters.contains_key(*other) {
                    values.shift_remove(*other);
                }
            });
        values.shift_remove(key);
    }

    let fields = ActionFields::from_values(spec, values)?;

    Ok((
        Action {
            name: name.to_owned(),
            values: fields.values,
            text: text.to_owned(),
            span: 0..0,
        },
        fields.problems,
    ))
}
