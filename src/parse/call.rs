//! Actions in the forms that agents know: the protocol's own, and those of tool calls.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::tag::{Attributes, Call, attributes};
use crate::models::{Action, Code, Grammar};
use crate::text::lenient_json::parse_lenient_json;

/// The largest action.
const LARGEST: usize = 1024 * 1024;

/// Where tool calls keep their parameters.
const ARGUMENTS: [&str; 5] = ["parameters", "params", "arguments", "input", "fields"];

/// Reads an action from its tag's attributes and what stands between its tags; fails with the reason why it is not
/// clear what is asked for.
pub(super) fn read(
    call: Call,
    text: &str,
    body: &str,
    grammar: &Grammar,
) -> Result<(Action, Vec<Code>), String> {
    if body.len() > LARGEST {
        return Err("it is too large".to_owned());
    }
    if call == Call::Tool {
        return read_json(body, grammar);
    }
    let (name, attributes, body) = parts(call, text, body, grammar)?;
    let name = name.ok_or("it names no type, or not clearly")?;
    let spec = known(&name, grammar)?;
    let fields = Fields::read(spec, &attributes, body)?;
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

/// Returns the name of an action, as far as it can be read.
pub(super) fn name(call: Call, text: &str, body: &str, grammar: &Grammar) -> Option<String> {
    if call == Call::Tool {
        let read = parse_lenient_json(body.trim())?;
        return Some(named(read.value.as_object()?)?.0.to_owned());
    }
    match parts(call, text, body, grammar) {
        Ok((name, ..)) => name,
        Err(_) => attributes(text)?
            .pairs
            .iter()
            .find(|(key, _)| matches!(*key, "type" | "name"))
            .map(|pair| pair.1.to_owned()),
    }
}

/// Tells whether there is an action of a name, in this mode or in another.
pub(super) fn is_known(name: &str, grammar: &Grammar) -> bool {
    grammar.actions.contains_key(name)
        || grammar.forbidden.iter().any(|forbidden| forbidden == name)
}

type Parts<'a> = (Option<String>, Attributes<'a>, &'a str);

/// Splits an action into its name, its other attributes and its body.
fn parts<'a>(
    call: Call,
    text: &'a str,
    body: &'a str,
    grammar: &Grammar,
) -> Result<Parts<'a>, String> {
    if let Call::Named(index) = call {
        let name = grammar
            .actions
            .get_index(index)
            .map(|(name, _)| name.clone());
        return Ok((
            name,
            attributes(text).ok_or("its opening tag cannot be read")?,
            body,
        ));
    }
    if call == Call::Function {
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
    let mut read = attributes(text).ok_or("its opening tag cannot be read")?;
    let key = if call == Call::Invoke { "name" } else { "type" };
    let (own, others): (Vec<_>, Vec<_>) = read
        .pairs
        .iter()
        .copied()
        .partition(|(name, _)| name.eq_ignore_ascii_case(key));
    read.pairs = others;
    let mut values = own.into_iter().map(|(_, value)| value.trim());
    let name = values.next().filter(|name| !name.is_empty());
    if values.any(|other| Some(other) != name) {
        return Err("it is given two types".to_owned());
    }
    let (inside, body) = inner_type(body, grammar, name);
    match (name, inside) {
        (Some(name), Some(inside)) if name != inside => Err("it is given two types".to_owned()),
        (name, inside) => Ok((name.or(inside).map(str::to_owned), read, body)),
    }
}

/// Cuts off `<type>` at the start of a body, unless the action has a parameter of that name.
fn inner_type<'a>(
    body: &'a str,
    grammar: &Grammar,
    name: Option<&str>,
) -> (Option<&'a str>, &'a str) {
    let spec = name.and_then(|name| grammar.actions.get(name));
    let cut = || -> Option<(&'a str, &'a str)> {
        let inner = body.trim_start().strip_prefix("<type>")?;
        inner
            .split_once("</type>")
            .map(|(value, rest)| (value.trim(), rest))
    };
    match cut().filter(|_| spec.is_none_or(|spec| !spec.parameters.contains_key("type"))) {
        Some((inside, rest)) if !inside.contains('<') => (Some(inside), rest),
        _ => (None, body),
    }
}

fn known<'a>(name: &str, grammar: &'a Grammar) -> Result<&'a crate::models::ActionSpec, String> {
    grammar.actions.get(name).ok_or_else(|| {
        if grammar.forbidden.iter().any(|forbidden| forbidden == name) {
            "this mode may not use it".to_owned()
        } else {
            "there is no such action".to_owned()
        }
    })
}

fn read_json(body: &str, grammar: &Grammar) -> Result<(Action, Vec<Code>), String> {
    let text = body.trim();
    let read = parse_lenient_json(text).filter(|read| !read.is_cut && read.end == text.len());
    match read.map(|read| read.value) {
        Some(Value::Object(object)) => from_object(&object, text, grammar),
        _ => Err("it is no tool call that can be read".to_owned()),
    }
}

/// Tells whether an object has the form of an action or a tool call.
pub(super) fn is_call(object: &Map<String, Value>, grammar: &Grammar) -> bool {
    named(object).is_some_and(|(name, _)| is_known(name, grammar))
}

/// Returns the name of an action in an object, and the key under which it stands.
pub(super) fn named(object: &Map<String, Value>) -> Option<(&str, &'static str)> {
    let object = match object.get("function") {
        Some(Value::Object(function)) => function,
        _ => object,
    };
    let keys = ["type", "name", "action", "tool", "function"];
    keys.into_iter().find_map(|key| {
        let name = object
            .get(key)?
            .as_str()
            .filter(|name| *name != "function" && *name != "tool_use")?;
        Some((name, key))
    })
}

/// Reads an action from an object: `{"type": …, …}`, `{"name": …, "arguments": …}` and the like.
pub(super) fn from_object(
    object: &Map<String, Value>,
    text: &str,
    grammar: &Grammar,
) -> Result<(Action, Vec<Code>), String> {
    let (name, key) = named(object).ok_or("it names no type, or not clearly")?;
    let spec = known(name, grammar)?;
    let object = match object.get("function") {
        Some(Value::Object(function)) => function,
        _ => object,
    };
    let nested = ARGUMENTS
        .iter()
        .find(|key| object.contains_key(**key) && !spec.parameters.contains_key(**key));
    let mut values = match nested.map(|key| &object[*key]) {
        Some(Value::Object(values)) => values.clone(),
        Some(Value::String(text)) => {
            let read = parse_lenient_json(text)
                .filter(|read| !read.is_cut && read.end == text.trim_end().len());
            match read.map(|read| read.value) {
                Some(Value::Object(values)) => values,
                _ => return Err("its arguments cannot be read".to_owned()),
            }
        }
        Some(_) => return Err("its arguments cannot be read".to_owned()),
        None => object.clone(),
    };
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
    let fields = Fields::from_values(spec, values)?;
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
