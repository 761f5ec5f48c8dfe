//! Layer 5 of Prompt Builder: tools are JSON Schema, with a JSON Schema validator as the oracle.

use agentd::ErrorKind;
use agentd::compose::Variables;
use serde_json::{Value, json};

use crate::seeds::s3_builder::{body, builder, tool};

/// Checks whether tools with a parameter of each of these schemas are accepted, and that a
/// validator agrees.
fn check_parameters(accepted: bool, schemas: &[Value]) {
    let mut wrong = Vec::new();
    for schema in schemas {
        let schema = json!({"type": "object", "properties": {"p": schema}});
        assert_eq!(
            jsonschema::meta::is_valid(&schema),
            accepted,
            "JSON Schema disagrees: {schema}"
        );
        match builder().set_core_tools(vec![tool("t", schema.clone())]) {
            Ok(_) if accepted => {}
            Err(error) if !accepted => {
                assert_eq!(error.kind(), ErrorKind::ToolsInvalid, "{schema}")
            }
            _ => wrong.push(schema["properties"]["p"].to_string()),
        }
    }

    assert!(
        wrong.is_empty(),
        "accepted must be {accepted} for {}",
        wrong.join("  ")
    );
}

#[test]
fn layer_5_tools_are_returned_separately_from_the_prompt() {
    let tools = vec![
        tool("read_file", json!({"type": "object"})),
        tool("b", json!({"type": "object"})),
    ];
    let mut builder = builder();
    builder
        .set_identity("supervisor", Variables::new())
        .unwrap();
    builder.set_core_tools(tools.clone()).unwrap();
    assert_eq!(builder.build().unwrap(), (body("supervisor"), tools));
}

#[test]
fn set_tools_is_an_alias() {
    let (one, two) = (
        tool("one", json!({"type": "object"})),
        tool("two", json!({"type": "object"})),
    );
    let mut builder = builder();
    builder.set_core_tools(vec![one]).unwrap();
    builder.set_tools(vec![two.clone()]).unwrap();
    assert_eq!(builder.build().unwrap().1, [two]);
    assert_eq!(
        builder.set_tools(vec![json!({})]).unwrap_err().kind(),
        ErrorKind::ToolsInvalid
    );
}

#[test]
fn layer_5_tools_of_every_vendor_are_accepted() {
    let schema =
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tools = vec![
        tool("a", schema.clone()),
        json!({"name": "b", "parameters": schema}),
        json!({"type": "function", "function": {"name": "c", "parameters": schema}}),
    ];
    let mut builder = builder();
    builder.set_core_tools(tools.clone()).unwrap();
    assert_eq!(builder.build().unwrap().1, tools);
}

#[test]
fn layer_5_invalid_tools_are_refused_and_earlier_ones_stay() {
    let good = tool("good", json!({"type": "object"}));
    let mut builder = builder();
    builder.set_core_tools(vec![good.clone()]).unwrap();

    for bad in [
        json!("x"),
        json!([]),
        json!({}),
        json!({"name": "t"}),
        tool("", json!({"type": "object"})),
        tool("t", json!(3)),
    ] {
        let error = builder
            .set_core_tools(vec![good.clone(), bad.clone()])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ToolsInvalid, "{bad}");
    }

    assert_eq!(builder.build().unwrap().1, [good]);
}

#[test]
fn layer_5_json_schema_is_accepted() {
    check_parameters(
        true,
        &[
            json!(true),
            json!({}),
            json!({"type": "string", "minLength": 0, "maxLength": 9, "pattern": "^a", "format": "date"}),
            json!({"type": ["integer", "null"], "minimum": -1.5, "exclusiveMaximum": 3, "multipleOf": 0.5}),
            json!({"type": "array", "items": {"type": "number"}, "minItems": 1, "uniqueItems": true}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, true], "items": false}),
            json!({"type": "object", "required": [], "additionalProperties": {"type": "boolean"}}),
            json!({"type": "object", "patternProperties": {"^x": {"type": "null"}}, "maxProperties": 3}),
            json!({"anyOf": [{"type": "string"}, {"not": {"const": 3}}], "default": null}),
            json!({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"enum": [1, "a", null]}}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"oneOf": [{"type": "string"}]}}}),
            json!({"description": "d", "title": "t", "examples": [1], "deprecated": true, "x-own": {"type": 3}}),
        ],
    );
}

/// A JSON Schema keyword in the position of a name or a value is not a keyword.
#[test]
fn layer_5_names_and_values_are_not_keywords() {
    check_parameters(
        true,
        &[
            json!({"type": "object", "properties": {"type": {"type": "string"}, "required": {}, "enum": true}}),
            json!({"const": {"type": "nope"}}),
            json!({"enum": [{"type": 7}, {"required": "x"}]}),
            json!({"default": {"items": 3}, "examples": [{"properties": []}]}),
        ],
    );
}

#[test]
fn layer_5_invalid_json_schema_is_refused() {
    check_parameters(
        false,
        &[
            json!("string"),
            json!(null),
            json!([]),
            json!({"type": "str"}),
            json!({"type": []}),
            json!({"type": ["string", "string"]}),
            json!({"type": 3}),
            json!({"required": "path"}),
            json!({"required": true}),
            json!({"required": ["a", "a"]}),
            json!({"required": [1]}),
            json!({"enum": "a"}),
            json!({"description": 3}),
            json!({"minimum": "1"}),
            json!({"minLength": -1}),
            json!({"maxItems": 1.5}),
            json!({"uniqueItems": "yes"}),
            json!({"properties": ["a"]}),
            json!({"properties": {"a": "string"}}),
            json!({"items": "string"}),
            json!({"items": {"type": "str"}}),
            json!({"additionalProperties": "no"}),
            json!({"anyOf": []}),
            json!({"anyOf": {"type": "string"}}),
            json!({"allOf": [{"type": "string"}, {"oneOf": [{"type": "str"}]}]}),
            json!({"not": 3}),
            json!({"$defs": {"a": 3}}),
        ],
    );
}

#[test]
fn layer_5_numbers_that_json_schema_forbids_are_refused() {
    check_parameters(
        false,
        &[json!({"multipleOf": 0}), json!({"multipleOf": -2})],
    );
}

/// In JSON Schema, `1.0` is an integer.
#[test]
fn layer_5_integers_may_have_a_decimal_point() {
    check_parameters(true, &[json!({"minLength": 1.0}), json!({"maxItems": 3.0})]);
}

#[test]
fn layer_5_rare_json_schema_keywords_are_checked() {
    check_parameters(
        false,
        &[
            json!({"examples": "a"}),
            json!({"deprecated": "yes"}),
            json!({"readOnly": 1}),
            json!({"writeOnly": "no"}),
            json!({"$comment": 3}),
            json!({"$anchor": 3}),
            json!({"minContains": -1}),
            json!({"maxContains": "2"}),
            json!({"dependentRequired": {"a": "b"}}),
            json!({"dependentSchemas": {"a": 3}}),
            json!({"unevaluatedProperties": "no"}),
            json!({"unevaluatedItems": {"type": "str"}}),
            json!({"contentMediaType": 3}),
        ],
    );
}

/// A schema can name its draft. In draft 7 a list of items is a tuple.
#[test]
fn layer_5_named_schema_draft_is_respected() {
    let pair = json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}]});
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"p": pair}
    });
    assert!(jsonschema::meta::is_valid(&schema));
    assert!(builder().set_core_tools(vec![tool("t", schema)]).is_ok());
}
