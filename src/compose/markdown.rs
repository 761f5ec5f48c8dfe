//! Renders structured data as Markdown.

use serde_json::Value;

/// Renders the fields of an object as a list, `- **key**: value`, with nested ones indented.
pub(super) fn list_fields(data: &serde_json::Map<String, Value>) -> String {
    let mut out = String::new();
    for (key, value) in data {
        write_field(&mut out, 0, Some(key), value);
    }
    out.trim_end().to_owned()
}

fn write_field(out: &mut String, depth: usize, key: Option<&str>, value: &Value) {
    out.push_str(&"  ".repeat(depth));
    out.push('-');
    if let Some(key) = key {
        out.push_str(" **");
        out.push_str(key);
        out.push_str("**:");
    }

    match value {
        Value::Object(fields) => {
            out.push('\n');
            fields
                .iter()
                .for_each(|(key, value)| write_field(out, depth + 1, Some(key), value));
        }
        Value::Array(items) => {
            out.push('\n');
            items
                .iter()
                .for_each(|item| write_field(out, depth + 1, None, item));
        }
        value => {
            let text = scalar_text(value);
            let mut lines = text.lines();
            out.push(' ');
            out.push_str(lines.next().unwrap_or_default());
            out.push('\n');
            for line in lines {
                out.push_str(&"  ".repeat(depth + 1));
                out.push_str(line);
                out.push('\n');
            }
        }
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}
