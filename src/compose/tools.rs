//! Tools: definitions in JSON Schema, checked before they are sent anywhere.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};

/// The types that JSON Schema knows.
const TYPES: [&str; 7] = [
    "string", "integer", "number", "boolean", "array", "object", "null",
];

/// The deepest nesting of a schema.
const DEPTH: usize = 64;

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
        let Some(name) = tool
            .get("name")
            .and_then(Value::as_str)
            .filter(|name| is_name(name))
        else {
            return invalid(format!(
                "{} has no name of letters, digits, `_` and `-`",
                place()
            ));
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
        let draft = schema
            .get("$schema")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let old = ["draft-03", "draft-04", "draft-06", "draft-07", "2019-09"]
            .iter()
            .any(|old| draft.contains(old));
        if let Err((path, fault)) = (Checker {
            old,
            path: Vec::new(),
        })
        .object(schema)
        {
            return invalid(format!("`{name}`, at {path}: {fault}"));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

type Fault = (String, String);

struct Checker {
    /// Whether `items` may be a list: it could in drafts before 2020.
    old: bool,
    path: Vec<String>,
}

impl Checker {
    fn schema(&mut self, schema: &Value) -> Result<(), Fault> {
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(schema) => self.object(schema),
            _ => Err(self.fault("a schema is an object or a boolean")),
        }
    }

    fn object(&mut self, schema: &Map<String, Value>) -> Result<(), Fault> {
        if self.path.len() > DEPTH {
            return Err(self.fault("the schema is nested too deeply"));
        }
        for (keyword, value) in schema {
            self.path.push(keyword.clone());
            self.keyword(keyword, value)?;
            self.path.pop();
        }
        Ok(())
    }

    fn keyword(&mut self, keyword: &str, value: &Value) -> Result<(), Fault> {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                let Some(schemas) = value.as_object() else {
                    return Err(self.fault("this is not an object"));
                };
                for (name, schema) in schemas {
                    self.path.push(name.clone());
                    self.schema(schema)?;
                    self.path.pop();
                }
                Ok(())
            }
            "items" if self.old && value.is_array() => self.list(value),
            "items"
            | "additionalProperties"
            | "not"
            | "contains"
            | "propertyNames"
            | "if"
            | "then"
            | "else"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => self.schema(value),
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => self.list(value),
            _ if is_right(keyword, value) => Ok(()),
            _ => Err(self.fault("JSON Schema allows no such value here")),
        }
    }

    fn list(&mut self, value: &Value) -> Result<(), Fault> {
        match value.as_array().filter(|schemas| !schemas.is_empty()) {
            Some(schemas) => schemas.iter().try_for_each(|schema| self.schema(schema)),
            None => Err(self.fault("this is not a list of schemas")),
        }
    }

    fn fault(&self, message: &str) -> Fault {
        (self.path.join("/"), message.to_owned())
    }
}

/// Tells whether a keyword that holds no schemas has a value that it may have.
fn is_right(keyword: &str, value: &Value) -> bool {
    let names = |value: &Value| {
        value
            .as_array()
            .is_some_and(|names| names.iter().all(Value::is_string) && distinct(names))
    };
    let count = |value: &Value| {
        value
            .as_f64()
            .is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
    };
    match keyword {
        "type" => match value {
            Value::Array(types) => {
                !types.is_empty() && types.iter().all(is_type) && distinct(types)
            }
            value => is_type(value),
        },
        "required" => names(value),
        "dependentRequired" => value
            .as_object()
            .is_some_and(|lists| lists.values().all(names)),
        "enum" | "examples" => value.is_array(),
        "description" | "title" | "pattern" | "format" | "$ref" | "$id" | "$schema"
        | "$comment" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "contentMediaType"
        | "contentEncoding" => value.is_string(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => count(value),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        _ => true,
    }
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn distinct(values: &[Value]) -> bool {
    let texts: HashSet<String> = values.iter().map(Value::to_string).collect();
    texts.len() == values.len()
}
