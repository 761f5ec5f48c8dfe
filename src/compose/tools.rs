//! Checks tool definitions before they are sent.

use std::collections::HashSet;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::text::json_schema::{SchemaDraft, check_schema};

/// Checks that each tool has a unique name and that its parameters are the JSON Schema of an object.
///
/// # Errors
///
/// `ToolsInvalid` with the tool, the location in its schema, and the problem.
pub fn check_tools(tools: &[Value]) -> Result<()> {
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let number = index + 1;
        let invalid = |message: String| Err(Error::new(ErrorKind::ToolsInvalid, message));

        // Some vendors wrap the definition in `function`.
        let tool = tool.get("function").unwrap_or(tool);
        let Some(name) = tool.get("name").and_then(Value::as_str) else {
            return invalid(format!("tool {number} has no name"));
        };
        if !is_tool_name(name) {
            return invalid(format!(
                "tool {number} has the invalid name {name:?}; expected 1 to 64 letters, digits, `_` and `-`"
            ));
        }
        if !names.insert(name) {
            return invalid(format!("duplicate tool `{name}`"));
        }

        let schema = tool.get("input_schema").or_else(|| tool.get("parameters"));
        let Some(schema) = schema.filter(|schema| schema.is_object()) else {
            return invalid(format!(
                "tool `{name}` needs an `input_schema` or `parameters` that is an object"
            ));
        };
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return invalid(format!(
                "the parameters of tool `{name}` must have the type `object`"
            ));
        }

        if let Err(fault) = check_schema(schema, SchemaDraft::Draft2020) {
            return invalid(format!(
                "the parameters of tool `{name}` are not valid JSON Schema: {fault}"
            ));
        }
    }

    Ok(())
}

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}
