//! JSON Schema by its shape: whether the known keywords have values of the right kind.

use serde_json::{Map, Value};

/// What the value of a keyword must be.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Number,
    Count,
    List,
    Names,
    Type,
    Schema,
    Schemas,
    SchemaOrSchemas,
    NamedSchemas,
}

/// The keywords, by what their value must be. Others are not looked at: a schema may have any.
const KEYWORDS: [(Shape, &[&str]); 11] = [
    (
        Shape::Text,
        &[
            "$schema",
            "$id",
            "$ref",
            "title",
            "description",
            "format",
            "pattern",
        ],
    ),
    (
        Shape::Flag,
        &["uniqueItems", "readOnly", "writeOnly", "deprecated"],
    ),
    (
        Shape::Number,
        &[
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ],
    ),
    (
        Shape::Count,
        &[
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
        ],
    ),
    (Shape::List, &["enum", "examples"]),
    (Shape::Names, &["required"]),
    (Shape::Type, &["type"]),
    (
        Shape::Schema,
        &[
            "additionalProperties",
            "propertyNames",
            "contains",
            "not",
            "if",
            "then",
            "else",
        ],
    ),
    (Shape::Schemas, &["allOf", "anyOf", "oneOf", "prefixItems"]),
    (Shape::SchemaOrSchemas, &["items"]),
    (
        Shape::NamedSchemas,
        &["properties", "patternProperties", "$defs", "definitions"],
    ),
];

const TYPES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// Tells whether a value is meant as a schema, and not as an example of data.
pub(super) fn is_schema(value: &Value) -> bool {
    const SIGNS: [&str; 8] = [
        "$schema",
        "$ref",
        "$defs",
        "definitions",
        "properties",
        "allOf",
        "anyOf",
        "oneOf",
    ];
    let Value::Object(map) = value else {
        return false;
    };
    SIGNS.iter().any(|sign| map.contains_key(*sign)) || map.get("type").is_some_and(is_type)
}

/// Finds the first thing that is wrong with a schema, and where it stands in it.
pub(super) fn fault(value: &Value) -> Option<String> {
    let (path, message) = schema(value)?;
    let path: Vec<&str> = path.into_iter().rev().collect();
    Some(if path.is_empty() {
        message.to_owned()
    } else {
        format!("`{}` {message}", path.join("."))
    })
}

/// A path from the inside out, and what is wrong at its end.
type Found<'a> = Option<(Vec<&'a str>, &'static str)>;

fn schema(value: &Value) -> Found<'_> {
    match value {
        Value::Bool(_) => None,
        Value::Object(map) => keywords(map),
        _ => Some((Vec::new(), "is not a schema: an object, true or false")),
    }
}

fn keywords(map: &Map<String, Value>) -> Found<'_> {
    map.iter().find_map(|(key, value)| {
        let (shape, _) = KEYWORDS
            .iter()
            .find(|(_, keys)| keys.contains(&key.as_str()))?;
        let (mut path, message) = shape.fault(value)?;
        path.push(key);
        Some((path, message))
    })
}

impl Shape {
    fn fault(self, value: &Value) -> Found<'_> {
        let must = |holds: bool, message| (!holds).then_some((Vec::new(), message));
        let list = value.as_array();
        match self {
            Self::Text => must(value.is_string(), "is not a text"),
            Self::Flag => must(value.is_boolean(), "is not true or false"),
            Self::Number => must(value.is_number(), "is not a number"),
            Self::Count => must(value.is_u64(), "is not a count"),
            Self::List => must(list.is_some(), "is not a list"),
            Self::Names => must(
                list.is_some_and(|all| all.iter().all(Value::is_string)),
                "is not a list of names",
            ),
            Self::Type => must(is_type(value), "names no type of JSON Schema"),
            Self::Schema => schema(value),
            Self::Schemas => match list {
                Some(all) if !all.is_empty() => all.iter().find_map(schema),
                _ => must(false, "is not a list of schemas"),
            },
            Self::SchemaOrSchemas => {
                list.map_or_else(|| schema(value), |all| all.iter().find_map(schema))
            }
            Self::NamedSchemas => match value.as_object() {
                Some(map) => map.iter().find_map(|(name, value)| {
                    let (mut path, message) = schema(value)?;
                    path.push(name);
                    Some((path, message))
                }),
                None => must(false, "is not an object of schemas"),
            },
        }
    }
}

fn is_type(value: &Value) -> bool {
    let is_name = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_name),
        _ => is_name(value),
    }
}
