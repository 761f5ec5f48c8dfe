//! Tools: definitions in JSON Schema, checked before they are sent anywhere.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};

/// The types that JSON Schema knows.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// The deepest nesting of a schema.
const DEPTH: usize = 32;

/// Checks tools: each has a name of its own, and its parameters are the JSON Schema of an object.
///
/// # Errors
///
/// `ToolsInvalid` naming the tool, the place in its schema, and the fault.
pub fn check_tools(tools: &[Value]) -> Result<()> {
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let place = || format!("tool {}", index + 1);
        let invalid = |message: String| Err(Error::new(ErrorKind::ToolsInvalid, message));
        // Some vendors wrap a tool once more.
        let tool = tool.get("function").unwrap_or(tool);
        let Some(name) = tool.get("name").and_then(Value::as_str).filter(|name| is_name(name)) else {
            return invalid(format!("{} has no name of letters, digits, `_` and `-`", place()));
        };
        if !names.insert(name) {
            return invalid(format!("two tools are called `{name}`"));
        }
        let schema = tool.get("input_schema").or_else(|| tool.get("parameters"));
        let Some(schema) = schema.and_then(Value::as_object) else {
            return invalid(format!("`{name}` has no `input_schema` or `parameters`"));
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return invalid(format!("the parameters of `{name}` are not of type object"));
        }
        if let Err((path, fault)) = check_object(schema, &mut Vec::new()) {
            return invalid(format!("`{name}`, at {path}: {fault}"));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

type Fault = (String, String);

fn check(schema: &Value, path: &mut Vec<String>) -> Result<(), Fault> {
    match schema {
        Value::Bool(_) => Ok(()),
        Value::Object(schema) => check_object(schema, path),
        _ => Err(fault(path, "a schema is an object or a boolean")),
    }
}

fn check_object(schema: &Map<String, Value>, path: &mut Vec<String>) -> Result<(), Fault> {
    if path.len() > DEPTH {
        return Err(fault(path, "the schema is nested too deeply"));
    }
    for (keyword, value) in schema {
        path.push(keyword.clone());
        check_keyword(keyword, value, path)?;
        path.pop();
    }
    Ok(())
}

fn check_keyword(keyword: &str, value: &Value, path: &mut Vec<String>) -> Result<(), Fault> {
    let right = match keyword {
        "type" => match value {
            Value::Array(types) => !types.is_empty() && types.iter().all(is_type) && distinct(types),
            value => is_type(value),
        },
        "required" => {
            value.as_array().is_some_and(|names| names.iter().all(Value::is_string) && distinct(names))
        }
        "enum" => value.as_array().is_some_and(|values| !values.is_empty() && distinct(values)),
        "description" | "title" | "pattern" | "format" | "$ref" | "$id" | "$schema" => value.is_string(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "uniqueItems" => value.is_boolean(),
        "properties" | "patternProperties" | "$defs" | "definitions" => {
            let Some(schemas) = value.as_object() else { return Err(fault(path, "this is not an object")) };
            for (name, schema) in schemas {
                path.push(name.clone());
                check(schema, path)?;
                path.pop();
            }
            true
        }
        "items" | "additionalProperties" | "not" | "contains" | "propertyNames" | "if" | "then" | "else" => {
            return check(value, path);
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
            let Some(schemas) = value.as_array().filter(|schemas| !schemas.is_empty()) else {
                return Err(fault(path, "this is not a list of schemas"));
            };
            return schemas.iter().try_for_each(|schema| check(schema, path));
        }
        _ => true,
    };
    if right { Ok(()) } else { Err(fault(path, "JSON Schema allows no such value here")) }
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn distinct(values: &[Value]) -> bool {
    let texts: HashSet<String> = values.iter().map(Value::to_string).collect();
    texts.len() == values.len()
}

fn fault(path: &[String], message: &str) -> Fault {
    (path.join("/"), message.to_owned())
}
