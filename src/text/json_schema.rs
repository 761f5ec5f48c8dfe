//! Validation of JSON Schema documents: every known keyword must have a value of the right type.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

/// Drafts of JSON Schema that the check distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaDraft {
    /// Draft 7 and the drafts up to 2019-09, in which `items` may be a list of schemas.
    Draft07,
    /// Draft 2020-12, in which `items` must be one schema.
    Draft2020,
}

/// First fault of a schema, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaFault {
    /// Keywords and names from the root to the fault.
    path: Vec<String>,
    /// A predicate, such as `must be a number`.
    message: &'static str,
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "the root {}", self.message);
        }
        write!(f, "`{}` {}", self.path.join("."), self.message)
    }
}

/// Kinds of values that a keyword may have.
#[derive(Clone, Copy, Debug)]
enum KeywordShape {
    Text,
    Flag,
    Number,
    PositiveNumber,
    Count,
    List,
    Names,
    NameLists,
    Type,
    Schema,
    Schemas,
    SchemaOrTuple,
    NamedSchemas,
}

/// Known keywords by the kind of their value. Other keywords are allowed and not checked.
const KEYWORDS: [(KeywordShape, &[&str]); 13] = [
    (
        KeywordShape::Text,
        &[
            "$schema",
            "$id",
            "$ref",
            "$anchor",
            "$dynamicRef",
            "$dynamicAnchor",
            "$comment",
            "title",
            "description",
            "format",
            "pattern",
            "contentMediaType",
            "contentEncoding",
        ],
    ),
    (
        KeywordShape::Flag,
        &["uniqueItems", "readOnly", "writeOnly", "deprecated"],
    ),
    (
        KeywordShape::Number,
        &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
    ),
    (KeywordShape::PositiveNumber, &["multipleOf"]),
    (
        KeywordShape::Count,
        &[
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minContains",
            "maxContains",
            "minProperties",
            "maxProperties",
        ],
    ),
    (KeywordShape::List, &["enum", "examples"]),
    (KeywordShape::Names, &["required"]),
    (KeywordShape::NameLists, &["dependentRequired"]),
    (KeywordShape::Type, &["type"]),
    (
        KeywordShape::Schema,
        &[
            "additionalProperties",
            "unevaluatedProperties",
            "unevaluatedItems",
            "propertyNames",
            "contains",
            "contentSchema",
            "not",
            "if",
            "then",
            "else",
        ],
    ),
    (
        KeywordShape::Schemas,
        &["allOf", "anyOf", "oneOf", "prefixItems"],
    ),
    (KeywordShape::SchemaOrTuple, &["items"]),
    (
        KeywordShape::NamedSchemas,
        &[
            "properties",
            "patternProperties",
            "dependentSchemas",
            "$defs",
            "definitions",
        ],
    ),
];

const TYPE_NAMES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// Maximum number of keywords and names from the root to a keyword.
const MAX_DEPTH: usize = 64;

/// Returns true if a value looks like a schema, not like example data.
pub(crate) fn looks_like_schema(value: &Value) -> bool {
    const SCHEMA_KEYWORDS: [&str; 8] = [
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
    SCHEMA_KEYWORDS
        .iter()
        .any(|keyword| map.contains_key(*keyword))
        || map.get("type").is_some_and(is_type)
}

/// Checks a schema. `draft` applies if the schema has no `$schema`.
///
/// # Errors
///
/// Returns the first fault.
pub(crate) fn check_schema(schema: &Value, draft: SchemaDraft) -> Result<(), SchemaFault> {
    let uri = schema.get("$schema").and_then(Value::as_str);
    let mut checker = SchemaChecker {
        draft: uri.map_or(draft, draft_from_uri),
        path: Vec::new(),
    };
    checker.check_schema(schema)
}

/// Returns the draft that the URI in `$schema` identifies.
fn draft_from_uri(uri: &str) -> SchemaDraft {
    let is_old = ["draft-03", "draft-04", "draft-06", "draft-07", "2019-09"]
        .iter()
        .any(|old| uri.contains(old));
    if is_old {
        SchemaDraft::Draft07
    } else {
        SchemaDraft::Draft2020
    }
}

struct SchemaChecker {
    draft: SchemaDraft,
    path: Vec<String>,
}

impl SchemaChecker {
    fn check_schema(&mut self, schema: &Value) -> Result<(), SchemaFault> {
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(keywords) => self.check_keywords(keywords),
            _ => self.fail("is not a schema; expected an object, true or false"),
        }
    }

    fn check_keywords(&mut self, keywords: &Map<String, Value>) -> Result<(), SchemaFault> {
        if self.path.len() > MAX_DEPTH {
            return self.fail("is nested too deeply");
        }
        for (keyword, value) in keywords {
            let entry = KEYWORDS
                .iter()
                .find(|(_, names)| names.contains(&keyword.as_str()));
            if let Some((shape, _)) = entry {
                self.path.push(keyword.clone());
                self.check_keyword(*shape, value)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    fn check_keyword(&mut self, shape: KeywordShape, value: &Value) -> Result<(), SchemaFault> {
        match shape {
            KeywordShape::Text => self.require(value.is_string(), "must be a string"),
            KeywordShape::Flag => self.require(value.is_boolean(), "must be true or false"),
            KeywordShape::Number => self.require(value.is_number(), "must be a number"),
            KeywordShape::PositiveNumber => self.require(
                value.as_f64().is_some_and(|number| number > 0.0),
                "must be a number greater than zero",
            ),
            KeywordShape::Count => {
                self.require(is_count(value), "must be an integer of at least 0")
            }
            KeywordShape::List => self.require(value.is_array(), "must be a list"),
            KeywordShape::Names => self.require(
                are_distinct_names(value),
                "must be a list of distinct strings",
            ),
            KeywordShape::NameLists => self.require(
                value
                    .as_object()
                    .is_some_and(|lists| lists.values().all(are_distinct_names)),
                "must be an object whose values are lists of distinct strings",
            ),
            KeywordShape::Type => self.require(
                is_type(value),
                "must be a JSON Schema type, or a list of distinct ones",
            ),
            KeywordShape::Schema => self.check_schema(value),
            KeywordShape::Schemas => self.check_schemas(value),
            KeywordShape::SchemaOrTuple
                if self.draft == SchemaDraft::Draft07 && value.is_array() =>
            {
                self.check_schemas(value)
            }
            KeywordShape::SchemaOrTuple => self.check_schema(value),
            KeywordShape::NamedSchemas => self.check_named_schemas(value),
        }
    }

    fn check_schemas(&mut self, value: &Value) -> Result<(), SchemaFault> {
        match value.as_array() {
            Some(schemas) if !schemas.is_empty() => schemas
                .iter()
                .try_for_each(|schema| self.check_schema(schema)),
            _ => self.fail("must be a non-empty list of schemas"),
        }
    }

    fn check_named_schemas(&mut self, value: &Value) -> Result<(), SchemaFault> {
        let Some(schemas) = value.as_object() else {
            return self.fail("must be an object whose values are schemas");
        };
        for (name, schema) in schemas {
            self.path.push(name.clone());
            self.check_schema(schema)?;
            self.path.pop();
        }
        Ok(())
    }

    fn require(&self, is_valid: bool, message: &'static str) -> Result<(), SchemaFault> {
        if is_valid { Ok(()) } else { self.fail(message) }
    }

    fn fail(&self, message: &'static str) -> Result<(), SchemaFault> {
        Err(SchemaFault {
            path: self.path.clone(),
            message,
        })
    }
}

/// Returns true for non-negative whole numbers, including `1.0`.
fn is_count(value: &Value) -> bool {
    value
        .as_f64()
        .is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
}

fn is_type(value: &Value) -> bool {
    let is_name = |value: &Value| {
        value
            .as_str()
            .is_some_and(|name| TYPE_NAMES.contains(&name))
    };
    match value {
        Value::Array(names) => {
            !names.is_empty() && names.iter().all(is_name) && are_distinct_names(value)
        }
        _ => is_name(value),
    }
}

/// Returns true for a list of distinct strings.
fn are_distinct_names(value: &Value) -> bool {
    let mut seen = HashSet::new();
    value.as_array().is_some_and(|names| {
        let mut names = names.iter().map(Value::as_str);
        names.all(|name| name.is_some_and(|name| seen.insert(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::SchemaDraft::{Draft07, Draft2020};
    use super::*;
    use serde_json::json;

    /// Tools and specs once had different checkers, which did not agree on these schemas. The expected results follow the
    /// meta-schemas: that of draft 7 for specs, and that of the later draft for keywords that draft 7 does not define.
    #[test]
    fn tools_and_specs_are_checked_alike() {
        for (schema, is_valid) in [
            (json!({"multipleOf": 0}), false),
            (json!({"multipleOf": -2}), false),
            (json!({"minLength": 1.0}), true),
            (json!({"maxItems": 1.5}), false),
            (json!({"minContains": -1}), false),
            (json!({"required": ["a", "a"]}), false),
            (json!({"type": ["string", "string"]}), false),
            (json!({"dependentRequired": {"a": "b"}}), false),
            (json!({"dependentSchemas": {"a": 3}}), false),
            (json!({"unevaluatedProperties": "no"}), false),
            (json!({"unevaluatedItems": {"type": "str"}}), false),
            (json!({"contentSchema": 1}), false),
            (json!({"$comment": 3}), false),
            (json!({"$anchor": 3}), false),
            (json!({"contentMediaType": 3}), false),
            (json!({"items": []}), false),
        ] {
            for draft in [Draft07, Draft2020] {
                assert_eq!(check_schema(&schema, draft).is_ok(), is_valid, "{schema}");
            }
        }
    }

    #[test]
    fn items_may_be_a_list_in_old_drafts_only() {
        let pair = |uri: Option<&str>| {
            let mut schema = json!({"items": [{"type": "string"}, true]});
            if let Some(uri) = uri {
                schema["$schema"] = uri.into();
            }
            schema
        };
        let draft_07 = pair(Some("http://json-schema.org/draft-07/schema#"));
        let draft_2020 = pair(Some("https://json-schema.org/draft/2020-12/schema"));

        assert!(check_schema(&pair(None), Draft07).is_ok());
        assert!(check_schema(&pair(None), Draft2020).is_err());
        assert!(check_schema(&draft_07, Draft2020).is_ok());
        assert!(check_schema(&draft_2020, Draft07).is_err());
    }

    #[test]
    fn a_fault_has_its_path() {
        let fault = |schema: Value| check_schema(&schema, Draft2020).unwrap_err().to_string();
        assert_eq!(
            fault(json!({"properties": {"a": {"items": {"type": "str"}}}})),
            "`properties.a.items.type` must be a JSON Schema type, or a list of distinct ones"
        );
        assert_eq!(
            fault(json!(3)),
            "the root is not a schema; expected an object, true or false"
        );

        let deep = (0..200).fold(json!({}), |schema, _| json!({"not": schema}));
        assert!(fault(deep).ends_with("is nested too deeply"));
    }

    #[test]
    fn schemas_are_distinguished_from_data() {
        for schema in [
            json!({"type": "object"}),
            json!({"$ref": "#"}),
            json!({"anyOf": []}),
        ] {
            assert!(looks_like_schema(&schema), "{schema}");
        }
        for data in [
            json!({"type": "invoice"}),
            json!({"name": "x"}),
            json!([]),
            json!(true),
        ] {
            assert!(!looks_like_schema(&data), "{data}");
        }
    }
}
