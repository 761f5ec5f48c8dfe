//! Fields of an action, written as tags, attributes, JSON or YAML, and converted to the types of
//! its schema.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::tag::Attributes;
use crate::error::ErrorKind;
use crate::models::{ActionSpec, Parameter, ProblemCode, ValueKind, list_item};
use crate::text::lenient_json::parse_lenient_json;
use crate::text::yaml;

/// Maximum number of fields of an action.
const MAX_FIELDS: usize = 100;

/// Maximum nesting of objects.
const MAX_DEPTH: usize = 8;

/// Maximum length of an entity name.
const MAX_ENTITY_BYTES: usize = 9;

/// Maximum size of a body that is read as YAML.
const MAX_YAML_BYTES: usize = 64 * 1024;

/// Values of an action, converted to the types of its parameters.
#[derive(Debug, Default)]
pub(super) struct ActionFields {
    /// Values by parameter name.
    pub(super) values: Map<String, Value>,
    /// Deviations that were tolerated.
    pub(super) problems: Vec<ProblemCode>,
}

/// Value of a field before conversion.
enum FieldValue<'a> {
    Text(&'a str),
    Value(Value),
}

impl ActionFields {
    /// Reads the fields of an action. Fails with the reason if the request is unclear.
    pub(super) fn read(
        spec: &ActionSpec,
        attributes: &Attributes<'_>,
        body: &str,
    ) -> Result<Self, String> {
        let mut fields = Self::default();

        for (name, value) in &attributes.pairs {
            let known = spec
                .parameters
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name));
            match known {
                Some((name, parameter)) => {
                    fields.add_value(name, parameter, &FieldValue::Text(value))?
                }
                None => fields.problems.push(ProblemCode::UnknownAttribute),
            }
        }

        fields.add_body(spec, body.trim())?;
        fields.require_complete(spec)
    }

    /// Converts the fields of an action from structured data, such as JSON.
    pub(super) fn from_values(
        spec: &ActionSpec,
        values: Map<String, Value>,
    ) -> Result<Self, String> {
        let mut fields = Self::default();
        fields.add_values(spec, values)?;
        fields.require_complete(spec)
    }

    /// Adds the fields of a body, which is JSON, tags or YAML.
    fn add_body(&mut self, spec: &ActionSpec, body: &str) -> Result<(), String> {
        let not_fields = || "the body is not a list of fields".to_owned();
        if body.is_empty() {
            return Ok(());
        }

        if body.starts_with('{') {
            let read =
                parse_lenient_json(body).filter(|read| !read.is_cut && read.end == body.len());
            let Some(Value::Object(values)) = read.map(|read| read.value) else {
                return Err(not_fields());
            };
            return self.add_values(spec, values);
        }

        if body.starts_with('<') {
            return self.add_tags(spec, body);
        }

        let key = body.split([':', '\n']).next().unwrap_or_default().trim();
        if spec.parameters.contains_key(key) && body.len() < MAX_YAML_BYTES {
            return self.add_values(spec, read_yaml_values(body).ok_or_else(not_fields)?);
        }
        Err(not_fields())
    }

    fn add_values(&mut self, spec: &ActionSpec, values: Map<String, Value>) -> Result<(), String> {
        for (name, value) in values {
            match spec.parameters.get(&name) {
                Some(parameter) => self.add_value(&name, parameter, &FieldValue::Value(value))?,
                None => self.problems.push(ProblemCode::UnknownField),
            }
        }
        Ok(())
    }

    fn add_tags(&mut self, spec: &ActionSpec, body: &str) -> Result<(), String> {
        let mut rest = body;
        let mut seen: Vec<&str> = Vec::new();
        while !rest.is_empty() {
            if let Some(comment) = rest.strip_prefix("<!--") {
                let (_, after) = comment
                    .split_once("-->")
                    .ok_or("the body contains an unclosed comment")?;
                rest = after.trim_start();
                continue;
            }

            let Some(field) = read_field(rest) else {
                return Err(describe_residue(rest));
            };
            if seen.contains(&field.name) {
                return Err(format!("duplicate field `{}`", field.name));
            }
            if seen.len() >= MAX_FIELDS {
                return Err(format!(
                    "too many fields: the limit is {MAX_FIELDS} per action"
                ));
            }

            seen.push(field.name);
            let known = spec
                .parameters
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(field.name));

            match known {
                Some((name, parameter)) => {
                    let nested = matches!(parameter.kind, ValueKind::Object | ValueKind::Array);
                    let value = remove_code_tags(field.value);
                    if !nested
                        && let Some(inner) =
                            spec.parameters.keys().find(|n| contains_tag(&value, n))
                    {
                        return Err(format!("`{inner}` is nested in `{}`", field.name));
                    }
                    self.add_value(name, parameter, &FieldValue::Text(field.value))?;
                }
                None => self.problems.push(ProblemCode::UnknownField),
            }

            rest = field.rest.trim_start();
        }
        Ok(())
    }

    /// Converts and stores one value. Fails if it does not fit its parameter or contradicts an earlier value.
    fn add_value(
        &mut self,
        name: &str,
        parameter: &Parameter,
        written: &FieldValue<'_>,
    ) -> Result<(), String> {
        let value = match written {
            FieldValue::Text(text) if is_partly_cdata(text) => {
                return Err(format!("`{name}` is only partly CDATA"));
            }
            FieldValue::Text(text) => {
                let (text, entities) = unwrap_text(text);
                if entities {
                    self.problems.push(ProblemCode::Entities);
                }
                match parameter.kind {
                    ValueKind::String => Some(Value::from(text.into_owned())),
                    kind => value_from_text(kind, parameter.items, &text, 0),
                }
            }
            FieldValue::Value(value) => convert_value(parameter.kind, parameter.items, value),
        };

        let value = value
            .and_then(|value| check_allowed(parameter, value))
            .ok_or_else(|| format!("`{name}` is not {}", describe_expected(parameter)))?;

        if self.values.get(name).is_some_and(|known| *known != value) {
            return Err(format!("`{name}` has two different values"));
        }
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Fails if a required field is missing or empty.
    fn require_complete(self, spec: &ActionSpec) -> Result<Self, String> {
        let is_missing = |name: &str| {
            self.values
                .get(name)
                .is_none_or(|value| value.as_str() == Some(""))
        };
        let is_needed = |parameter: &Parameter| {
            parameter.required && parameter.unless.as_deref().is_none_or(is_missing)
        };

        let mut needed = spec
            .parameters
            .iter()
            .filter(|(_, parameter)| is_needed(parameter));
        match needed
            .find(|(name, _)| is_missing(name))
            .map(|(name, _)| name)
        {
            Some(name) => Err(format!("`{name}` is missing")),
            None => Ok(self),
        }
    }
}

/// Reads values from YAML; `None` if YAML would change their text, as it does with some numbers and
/// with comments.
pub(super) fn read_yaml_values(text: &str) -> Option<Map<String, Value>> {
    let values: Map<String, Value> =
        yaml::read(text, "the reply", 1, ErrorKind::PromptInvalid).ok()?;
    let has_comment = text
        .lines()
        .any(|line| line.trim_start().starts_with('#') || line.contains(" #"));

    let written = text
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(_, value)| value.trim()));

    let is_altered = |value: &str| {
        value.parse::<f64>().is_ok_and(|_| {
            value.parse::<i64>().is_err() || value.starts_with('0') && value.len() > 1
        }) || value.starts_with("0x")
            || value.starts_with("0o")
    };

    (!has_comment && !written.into_iter().any(is_altered)).then_some(values)
}

/// A field written as a tag, and the text after it.
struct TagField<'a> {
    name: &'a str,
    value: &'a str,
    rest: &'a str,
}

/// Reads the field at the start of a string: `<key>`, `<parameter name="key">` or `<parameter=key>`.
/// The closing tag of a field is the first one that is followed by another field or by the end.
fn read_field(text: &str) -> Option<TagField<'_>> {
    let inner = text.strip_prefix('<')?;
    let length = name_length(inner);
    let (tag, after) = inner.split_at(length);
    let end = memchr::memchr3(b'>', b'<', b'\n', after.as_bytes()).filter(|_| length > 0)?;
    let attributes = after[..end].trim();
    let body = after[end..].strip_prefix('>')?;

    // An odd number of quotes means that the `>` is inside a quoted value.
    if attributes.matches(['"', '\'']).count() % 2 == 1 {
        return None;
    }

    let (attributes, empty) = match attributes.strip_suffix('/') {
        Some(attributes) => (attributes.trim(), true),
        None => (attributes, false),
    };

    let name = match attributes.strip_prefix('=') {
        Some(name) => name.trim().trim_matches(['"', '\'']),
        // A namespace prefix, such as `ns:`, is ignored.
        None if attributes.is_empty() => tag.rsplit(':').next().unwrap_or(tag),
        None if ["parameter", "param", "field", "arg", "argument"].contains(&tag) => {
            super::tag::parse_attributes(attributes)?.get("name")?
        }
        None => tag,
    };

    if empty {
        return Some(TagField {
            name,
            value: "",
            rest: body,
        });
    }

    let (value, rest) = split_at_closer(body, tag)?;
    let unclear = contains_tag(value, tag) && !value.trim_start().starts_with("<![CDATA[");
    (!unclear).then_some(TagField { name, value, rest })
}

/// Splits a string at the closing tag of a field: the first one that is followed by another field or
/// by the end.
fn split_at_closer<'a>(body: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
    let mut from = 0;
    while let Some(hit) = memchr::memchr(b'<', &body.as_bytes()[from..]) {
        let start = from + hit;
        from = start + 1;
        if !body[from..].starts_with('/') {
            continue;
        }
        from += 1;

        let inner = body[from..].trim_start();
        if !inner
            .get(..tag.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(tag))
        {
            continue;
        }

        let Some(rest) = inner[tag.len()..].trim_start().strip_prefix('>') else {
            continue;
        };

        let next = rest.trim_start();
        let opens = next
            .strip_prefix('<')
            .is_some_and(|next| name_length(next) > 0 || next.starts_with("!--"));
        if next.is_empty() || opens {
            return Some((&body[..start], rest));
        }
    }
    None
}

fn name_length(text: &str) -> usize {
    let length = text
        .bytes()
        .take_while(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':'))
        .count();
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        0
    } else {
        length
    }
}

/// Returns true if a string contains an opening or closing tag of this name.
fn contains_tag(text: &str, name: &str) -> bool {
    memchr::memchr_iter(b'<', text.as_bytes()).any(|at| {
        let inner = text[at + 1..].strip_prefix('/').unwrap_or(&text[at + 1..]);
        inner
            .get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
            && inner[name.len()..].starts_with(['>', ' ', '='])
    })
}

/// Removes each `<` right after a backtick, because `` `<id>` `` only mentions a tag.
fn remove_code_tags(value: &str) -> Cow<'_, str> {
    if value.contains("`<") {
        Cow::Owned(value.replace("`<", "`"))
    } else {
        Cow::Borrowed(value)
    }
}

fn describe_residue(rest: &str) -> String {
    let shown: String = rest.chars().take(40).collect();
    format!("unexpected text after the fields: {:?}", shown.trim())
}

/// Returns the text of a value without CDATA marks. Entities are decoded if the text contains no
/// `<`; the flag is true if they were.
fn unwrap_text(text: &str) -> (Cow<'_, str>, bool) {
    let text = text.trim();
    if let Some(inner) = text
        .strip_prefix("<![CDATA[")
        .and_then(|text| text.strip_suffix("]]>"))
    {
        return (Cow::Owned(inner.replace("]]><![CDATA[", "")), false);
    }

    let has = |byte| memchr::memchr(byte, text.as_bytes()).is_some();
    let escaped = has(b'&') && !has(b'<');
    match escaped.then(|| decode_entities(text)).flatten() {
        Some(text) => (Cow::Owned(text), true),
        None => (Cow::Borrowed(text), false),
    }
}

/// Returns true if a value starts with CDATA and continues with other text.
fn is_partly_cdata(text: &str) -> bool {
    let mut rest = text.trim();
    if !rest.starts_with("<![CDATA[") {
        return false;
    }

    while let Some((_, after)) = rest
        .strip_prefix("<![CDATA[")
        .and_then(|text| text.split_once("]]>"))
    {
        rest = after;
    }
    !rest.is_empty()
}

/// Decodes entities once; `None` if an `&` does not start an entity.
pub(super) fn decode_entities(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest.as_bytes()) {
        let before = &rest[..at];
        let after = &rest[at + 1..];
        let end = after
            .bytes()
            .take(MAX_ENTITY_BYTES + 1)
            .position(|b| b == b';')?;
        let read = decode_entity(&after[..end])?;

        out.push_str(before);
        out.push(read);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

/// Returns the character of an entity; `None` if its name is unknown.
fn decode_entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some('\u{A0}'),
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// Converts a string to a type; `None` if it does not fit the type.
fn value_from_text(
    kind: ValueKind,
    items: Option<ValueKind>,
    text: &str,
    depth: usize,
) -> Option<Value> {
    match kind {
        ValueKind::String => Some(Value::from(text)),
        ValueKind::Integer => text.parse::<i64>().ok().map(Value::from),
        ValueKind::Number => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from),
        ValueKind::Boolean => text
            .to_ascii_lowercase()
            .parse::<bool>()
            .ok()
            .map(Value::from),
        ValueKind::Array if text.is_empty() => Some(Value::Array(Vec::new())),
        ValueKind::Array | ValueKind::Object if text.starts_with('<') => {
            read_nested(kind, items, text, depth)
        }
        ValueKind::Array if items == Some(ValueKind::String) && !text.starts_with(['[', '{']) => {
            Some(list_from_text(text))
        }
        ValueKind::Array | ValueKind::Object => {
            let read =
                parse_lenient_json(text).filter(|read| !read.is_cut && read.end == text.len())?;
            convert_value(kind, items, &read.value)
        }
    }
}

/// Returns the items of a list without brackets: one on each line, with or without a bullet, or separated by commas.
fn list_from_text(text: &str) -> Value {
    let separator = if text.contains('\n') { '\n' } else { ',' };
    text.split(separator)
        .map(str::trim)
        .map(|item| list_item(item).unwrap_or(item).trim_matches(['"', '`']))
        .filter(|item| !item.is_empty())
        .collect()
}

/// Reads a list or an object written as tags: one per item or field. An inner object whose tags all have the same name,
/// such as `<rule>…</rule><rule>…</rule>`, is a list.
fn read_nested(
    kind: ValueKind,
    items: Option<ValueKind>,
    text: &str,
    depth: usize,
) -> Option<Value> {
    if depth >= MAX_DEPTH {
        return None;
    }

    let mut fields: Vec<(&str, Value)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let field = read_field(rest)?;
        let (inner, _) = unwrap_text(field.value);
        let object_inside = kind == ValueKind::Object && inner.starts_with('<');
        let inner_kind = if object_inside {
            ValueKind::Object
        } else {
            items.unwrap_or(ValueKind::String)
        };
        let value = value_from_text(inner_kind, None, &inner, depth + 1)?;
        fields.push((field.name, value));
        rest = field.rest.trim_start();
    }

    let has_one_name = fields.windows(2).all(|pair| pair[0].0 == pair[1].0);
    let is_inner_list = depth > 0 && fields.len() > 1 && has_one_name;
    if kind == ValueKind::Array || is_inner_list {
        return Some(fields.into_iter().map(|(_, value)| value).collect());
    }

    let number = fields.len();
    let object: Map<String, Value> = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    // A name that occurs twice is ambiguous.
    (object.len() == number).then_some(Value::Object(object))
}

/// Converts a value to a type; `None` if the value does not fit the type.
fn convert_value(kind: ValueKind, items: Option<ValueKind>, value: &Value) -> Option<Value> {
    match (kind, value) {
        // Other numbers may have lost their original spelling.
        (ValueKind::String, Value::Number(number)) if number.is_i64() => {
            Some(Value::from(number.to_string()))
        }
        (ValueKind::Array, Value::Array(list)) => {
            let has_item_kind = |item: &Value| items.is_none_or(|kind| has_kind(kind, item));
            list.iter().all(has_item_kind).then(|| value.clone())
        }
        (kind, Value::String(text)) => {
            value_from_text(kind, items, text.trim(), 0).map(|read| match kind {
                ValueKind::String => value.clone(),
                _ => read,
            })
        }
        (kind, value) => has_kind(kind, value).then(|| value.clone()),
    }
}

/// Returns true if a value has a type without conversion.
fn has_kind(kind: ValueKind, value: &Value) -> bool {
    match kind {
        ValueKind::String => value.is_string(),
        ValueKind::Integer => value.is_i64() || value.is_u64(),
        ValueKind::Number => value.is_number(),
        ValueKind::Boolean => value.is_boolean(),
        ValueKind::Array => value.is_array(),
        ValueKind::Object => value.is_object(),
    }
}

/// Returns a value in the spelling that its parameter defines; `None` if the parameter does not
/// allow the value.
fn check_allowed(parameter: &Parameter, value: Value) -> Option<Value> {
    if parameter.one_of.is_empty() {
        return Some(value);
    }
    match value.as_str().and_then(|text| parameter.known_value(text)) {
        Some(known) => Some(Value::from(known)),
        None => parameter.other_values.then_some(value),
    }
}

fn describe_expected(parameter: &Parameter) -> String {
    if parameter.one_of.is_empty() {
        return format!("of type {}", parameter.kind.name());
    }
    format!("one of {}", parameter.one_of.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_a_tag_a_named_parameter_or_an_empty_element() {
        let read = |text: &'static str| {
            read_field(text).map(|field| (field.name, field.value, field.rest))
        };

        assert_eq!(read("<key>a</key><b>"), Some(("key", "a", "<b>")));
        assert_eq!(read("<ns:key>a</ns:key>"), Some(("key", "a", "")));
        assert_eq!(
            read("<parameter name=\"key\">a</parameter>"),
            Some(("key", "a", ""))
        );
        assert_eq!(read("<parameter=key>a</parameter>"), Some(("key", "a", "")));
        assert_eq!(read("<key/>rest"), Some(("key", "", "rest")));

        assert_eq!(read("key: a"), None, "no tag");
        assert_eq!(
            read("<1key>a</1key>"),
            None,
            "a name does not start with a digit"
        );
        assert_eq!(read("<key>a"), None, "not closed");
        assert_eq!(
            read("<key a=\">\">a</key>"),
            None,
            "a bracket inside quotes"
        );
        assert_eq!(
            read("<key>a <key>b</key>"),
            None,
            "a second opening tag inside the value"
        );
    }

    #[test]
    fn a_closing_tag_counts_where_another_field_or_the_end_follows() {
        assert_eq!(split_at_closer("a</key>", "key"), Some(("a", "")));
        assert_eq!(
            split_at_closer("a</ KEY >\n<next>", "key"),
            Some(("a", "\n<next>"))
        );
        assert_eq!(
            split_at_closer("a</key> is quoted</key>", "key"),
            Some(("a</key> is quoted", ""))
        );
        assert_eq!(
            split_at_closer("a</keys></key><!-- note -->", "key"),
            Some(("a</keys>", "<!-- note -->"))
        );
        assert_eq!(split_at_closer("a</other>", "key"), None);
    }

    #[test]
    fn entities_are_decoded_once_or_not_at_all() {
        assert_eq!(
            decode_entities("a &lt;b&gt; &amp;lt; &quot;&apos;").as_deref(),
            Some("a <b> &lt; \"'")
        );
        assert_eq!(
            decode_entities("&#65;&#x42;&nbsp;").as_deref(),
            Some("AB\u{A0}")
        );
        for text in ["R&D", "&unknown;", "&#xD800;", "&;", "&#x110000;"] {
            assert_eq!(decode_entities(text), None, "{text}");
        }
    }

    #[test]
    fn cdata_is_taken_off_only_around_a_whole_value() {
        assert_eq!(unwrap_text(" <![CDATA[a < b]]> "), ("a < b".into(), false));
        assert_eq!(
            unwrap_text("<![CDATA[a ]]]]><![CDATA[> b]]>"),
            ("a ]]> b".into(), false)
        );
        assert_eq!(unwrap_text("a &amp; b"), ("a & b".into(), true));
        assert_eq!(
            unwrap_text("<b>a &amp; b</b>"),
            ("<b>a &amp; b</b>".into(), false)
        );

        assert!(is_partly_cdata("<![CDATA[a]]> and more"));
        assert!(!is_partly_cdata("<![CDATA[a]]><![CDATA[b]]>"));
        assert!(!is_partly_cdata("more <![CDATA[a]]>"));
    }

    #[test]
    fn a_text_is_converted_to_the_type_of_its_parameter() {
        let read = |kind, text| value_from_text(kind, None, text, 0);

        assert_eq!(read(ValueKind::Integer, "12"), Some(json!(12)));
        assert_eq!(read(ValueKind::Integer, "1.5"), None);
        assert_eq!(read(ValueKind::Number, "1.5"), Some(json!(1.5)));
        assert_eq!(read(ValueKind::Number, "NaN"), None);
        assert_eq!(read(ValueKind::Boolean, "True"), Some(json!(true)));
        assert_eq!(read(ValueKind::Boolean, "yes"), None);
        assert_eq!(read(ValueKind::Array, "[1, 2"), None, "cut off");
        assert_eq!(read(ValueKind::Object, "{a: 1}"), Some(json!({"a": 1})));
        assert_eq!(
            read(ValueKind::Object, "<a>1</a><b><c>2</c></b>"),
            Some(json!({"a": "1", "b": {"c": "2"}}))
        );
        assert_eq!(
            read(ValueKind::Object, "<a>1</a><a>2</a>"),
            None,
            "a key twice"
        );
        assert_eq!(
            read(ValueKind::Object, "<a><i>1</i><i>2</i></a>"),
            Some(json!({"a": ["1", "2"]}))
        );
        assert_eq!(
            read(ValueKind::Object, "<a><i>1</i><j>3</j><i>2</i></a>"),
            None,
            "an inner key twice"
        );
        for text in ["a, b", "- a\n- b", "\"a\"\n b \n", "1. a\n2. b"] {
            assert_eq!(
                value_from_text(ValueKind::Array, Some(ValueKind::String), text, 0),
                Some(json!(["a", "b"])),
                "{text:?}"
            );
        }
        assert_eq!(
            read(ValueKind::Array, "<i>a</i><i>b</i>"),
            Some(json!(["a", "b"]))
        );
        let items = value_from_text(
            ValueKind::Array,
            Some(ValueKind::Integer),
            "<i>1</i><i>x</i>",
            0,
        );
        assert_eq!(items, None, "an item of another type");
    }

    #[test]
    fn nested_tags_are_read_down_to_a_fixed_depth() {
        // A tag inside another tag of the same name would be unclear, so each level has its own name.
        let nested_by = |depth: usize| {
            (0..depth).fold("1".to_owned(), |inner, level| {
                format!("<t{level}>{inner}</t{level}>")
            })
        };
        assert!(value_from_text(ValueKind::Object, None, &nested_by(MAX_DEPTH), 0).is_some());
        assert_eq!(
            value_from_text(ValueKind::Object, None, &nested_by(MAX_DEPTH + 1), 0),
            None
        );
    }

    #[test]
    fn a_value_of_an_enum_is_read_in_any_case_and_by_its_aliases() {
        let spec: ActionSpec = serde_json::from_value(json!({
            "description": "x",
            "parameters": {
                "size": {"type": "string", "enum": ["big", "small"], "aliases": {"big": ["large"]}},
                "colour": {"type": "string", "enum": ["red"], "other_values": true},
                "text": {"type": "string", "required": true, "unless": "size"},
            },
        }))
        .unwrap();
        let read = |body: &str| {
            ActionFields::read(&spec, &Attributes::default(), body)
                .map(|fields| Value::from(fields.values))
        };

        assert_eq!(read("<size>**BIG**</size>"), Ok(json!({"size": "big"})));
        assert_eq!(read("{\"size\": \"Large\"}"), Ok(json!({"size": "big"})));
        assert_eq!(
            read("<size>huge</size>"),
            Err("`size` is not one of big, small".to_owned())
        );
        assert_eq!(
            read("<text>a</text><colour>Blue</colour>"),
            Ok(json!({"text": "a", "colour": "Blue"}))
        );
        assert_eq!(
            read("<colour>red</colour>"),
            Err("`text` is missing".to_owned())
        );
        assert_eq!(
            read("<text>the `<size>` of it</text>"),
            Ok(json!({"text": "the `<size>` of it"}))
        );
        assert_eq!(
            read("<text>the <size> of it</text>"),
            Err("`size` is nested in `text`".to_owned())
        );
    }

    #[test]
    fn yaml_that_would_change_a_value_is_not_read() {
        assert_eq!(
            read_yaml_values("key: a\nvalue: two words"),
            json!({"key": "a", "value": "two words"})
                .as_object()
                .cloned()
        );
        for text in [
            "key: 1.0",
            "key: 007",
            "key: 0x1f",
            "key: a # b",
            "# a\nkey: b",
            "key: a\nkey: b",
        ] {
            assert_eq!(read_yaml_values(text), None, "{text}");
        }
    }
}
