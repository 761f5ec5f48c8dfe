//! The fields of an action: as tags, attributes, JSON or YAML, each value of the type that its schema names.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::tag::Attributes;
use crate::error::ErrorKind;
use crate::models::{ActionSpec, Code, Parameter, ValueKind};
use crate::text::lenient_json::parse_lenient_json;
use crate::text::yaml;

/// The most fields of an action.
const MOST_FIELDS: usize = 100;

/// How deep objects may be nested.
const DEEPEST: usize = 8;

/// The longest name of an entity.
const LONGEST_ENTITY: usize = 9;

/// The largest body that is read as YAML.
const LARGEST_YAML: usize = 64 * 1024;

/// What an action holds, as far as it could be read.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The values of the parameters.
    pub(super) values: Map<String, Value>,
    /// What was tolerated.
    pub(super) problems: Vec<Code>,
}

/// A field's value as it is written.
enum Written<'a> {
    Text(&'a str),
    Value(Value),
}

impl Fields {
    /// Reads an action's fields; fails with the reason why it is not clear what is asked for.
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
                Some((name, parameter)) => fields.add(name, parameter, &Written::Text(value))?,
                None => fields.problems.push(Code::UnknownAttribute),
            }
        }
        fields.body(spec, body.trim())?;
        fields.complete(spec)
    }

    /// Takes an action's fields from a value, such as JSON.
    pub(super) fn from_values(
        spec: &ActionSpec,
        values: Map<String, Value>,
    ) -> Result<Self, String> {
        let mut fields = Self::default();
        fields.values(spec, values)?;
        fields.complete(spec)
    }

    fn body(&mut self, spec: &ActionSpec, body: &str) -> Result<(), String> {
        let listed = || "its body is not a list of fields".to_owned();
        if body.is_empty() {
            return Ok(());
        }
        if body.starts_with('{') {
            let read =
                parse_lenient_json(body).filter(|read| !read.is_cut && read.end == body.len());
            let Some(Value::Object(values)) = read.map(|read| read.value) else {
                return Err(listed());
            };
            return self.values(spec, values);
        }
        if body.starts_with('<') {
            return self.tags(spec, body);
        }
        let key = body.split([':', '\n']).next().unwrap_or_default().trim();
        if spec.parameters.contains_key(key) && body.len() < LARGEST_YAML {
            return self.values(spec, yaml_values(body).ok_or_else(listed)?);
        }
        Err(listed())
    }

    fn values(&mut self, spec: &ActionSpec, values: Map<String, Value>) -> Result<(), String> {
        for (name, value) in values {
            match spec.parameters.get(&name) {
                Some(parameter) => self.add(&name, parameter, &Written::Value(value))?,
                None => self.problems.push(Code::UnknownField),
            }
        }
        Ok(())
    }

    fn tags(&mut self, spec: &ActionSpec, body: &str) -> Result<(), String> {
        let mut rest = body;
        let mut seen: Vec<&str> = Vec::new();
        while !rest.is_empty() {
            if let Some(comment) = rest.strip_prefix("<!--") {
                let (_, after) = comment
                    .split_once("-->")
                    .ok_or("a comment in it is not closed")?;
                rest = after.trim_start();
                continue;
            }
            let Some(field) = field(rest) else {
                return Err(residue(rest));
            };
            if seen.contains(&field.name) {
                return Err(format!("`{}` stands twice", field.name));
            }
            if seen.len() >= MOST_FIELDS {
                return Err("it has too many fields".to_owned());
            }
            seen.push(field.name);
            let known = spec
                .parameters
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(field.name));
            match known {
                Some((name, parameter)) => {
                    let nested = matches!(parameter.kind, ValueKind::Object | ValueKind::Array);
                    let value = without_code_tags(field.value);
                    if !nested
                        && let Some(inner) = spec.parameters.keys().find(|n| holds(&value, n))
                    {
                        return Err(format!("`{inner}` stands inside `{}`", field.name));
                    }
                    self.add(name, parameter, &Written::Text(field.value))?;
                }
                None => self.problems.push(Code::UnknownField),
            }
            rest = field.rest.trim_start();
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        parameter: &Parameter,
        written: &Written<'_>,
    ) -> Result<(), String> {
        let value = match written {
            Written::Text(text) if is_partly_data(text) => {
                return Err(format!("`{name}` is CDATA in part"));
            }
            Written::Text(text) => {
                let (text, entities) = plain(text);
                if entities {
                    self.problems.push(Code::Entities);
                }
                match parameter.kind {
                    ValueKind::String => Some(Value::from(text.into_owned())),
                    kind => from_text(kind, parameter.items, &text, 0),
                }
            }
            Written::Value(value) => from_value(parameter.kind, parameter.items, value),
        };
        let value = value
            .and_then(|value| allowed(parameter, value))
            .ok_or_else(|| format!("`{name}` is not {}", expected(parameter)))?;
        if self.values.get(name).is_some_and(|known| *known != value) {
            return Err(format!("`{name}` is given two values"));
        }
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    /// Checks that nothing is missing.
    fn complete(self, spec: &ActionSpec) -> Result<Self, String> {
        let missing = |name: &str| {
            self.values
                .get(name)
                .is_none_or(|value| value.as_str() == Some(""))
        };
        let is_needed = |parameter: &Parameter| {
            parameter.required && parameter.unless.as_deref().is_none_or(missing)
        };
        let mut needed = spec
            .parameters
            .iter()
            .filter(|(_, parameter)| is_needed(parameter));
        match needed.find(|(name, _)| missing(name)).map(|(name, _)| name) {
            Some(name) => Err(format!("`{name}` is missing")),
            None => Ok(self),
        }
    }
}

/// Reads values from YAML, if all of them are written as they are meant: numbers and comments would lose letters.
pub(super) fn yaml_values(text: &str) -> Option<Map<String, Value>> {
    let values: Map<String, Value> =
        yaml::read(text, "the reply", 1, ErrorKind::PromptInvalid).ok()?;
    let comment = text
        .lines()
        .any(|line| line.trim_start().starts_with('#') || line.contains(" #"));
    let plain = text
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(_, value)| value.trim()));
    let altered = |value: &str| {
        value.parse::<f64>().is_ok_and(|_| {
            value.parse::<i64>().is_err() || value.starts_with('0') && value.len() > 1
        }) || value.starts_with("0x")
            || value.starts_with("0o")
    };
    (!comment && !plain.into_iter().any(altered)).then_some(values)
}

/// A field as a tag: its name, its value and what follows.
struct Field<'a> {
    name: &'a str,
    value: &'a str,
    rest: &'a str,
}

/// Cuts off the field that a text starts with: `<key>`, `<parameter name="key">` or `<parameter=key>`. It is closed
/// where another field or the end follows.
fn field(text: &str) -> Option<Field<'_>> {
    let inner = text.strip_prefix('<')?;
    let length = name_length(inner);
    let (tag, after) = inner.split_at(length);
    let end = memchr::memchr3(b'>', b'<', b'\n', after.as_bytes()).filter(|_| length > 0)?;
    let attributes = after[..end].trim();
    let body = after[end..].strip_prefix('>')?;
    // A bracket in quotes does not end the tag.
    if attributes.matches(['"', '\'']).count() % 2 == 1 {
        return None;
    }
    let (attributes, empty) = match attributes.strip_suffix('/') {
        Some(attributes) => (attributes.trim(), true),
        None => (attributes, false),
    };
    let name = match attributes.strip_prefix('=') {
        Some(name) => name.trim().trim_matches(['"', '\'']),
        // A prefix, such as `ns:`, says nothing.
        None if attributes.is_empty() => tag.rsplit(':').next().unwrap_or(tag),
        None if ["parameter", "param", "field", "arg", "argument"].contains(&tag) => {
            super::tag::attributes(attributes)?.get("name")?
        }
        None => tag,
    };
    if empty {
        return Some(Field {
            name,
            value: "",
            rest: body,
        });
    }
    let (value, rest) = closed(body, tag)?;
    let unclear = holds(value, tag) && !value.trim_start().starts_with("<![CDATA[");
    (!unclear).then_some(Field { name, value, rest })
}

/// Splits a text at the closer of a field: the first behind which another field or the end follows.
fn closed<'a>(body: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
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

/// Tells whether a text holds a tag of a name, opening or closing.
fn holds(text: &str, name: &str) -> bool {
    memchr::memchr_iter(b'<', text.as_bytes()).any(|at| {
        let inner = text[at + 1..].strip_prefix('/').unwrap_or(&text[at + 1..]);
        inner
            .get(..name.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(name))
            && inner[name.len()..].starts_with(['>', ' ', '='])
    })
}

/// Returns a value without tags that directly follow a backtick: `` `<id>` `` speaks of a tag and is none.
fn without_code_tags(value: &str) -> Cow<'_, str> {
    if value.contains("`<") {
        Cow::Owned(value.replace("`<", "`"))
    } else {
        Cow::Borrowed(value)
    }
}

fn residue(rest: &str) -> String {
    let shown: String = rest.chars().take(40).collect();
    format!("what follows is no field of it: {:?}", shown.trim())
}

/// Returns a value's text without CDATA marks, and with its entities read if all of it is escaped; tells whether it was.
fn plain(text: &str) -> (Cow<'_, str>, bool) {
    let text = text.trim();
    if let Some(inner) = text
        .strip_prefix("<![CDATA[")
        .and_then(|text| text.strip_suffix("]]>"))
    {
        return (Cow::Owned(inner.replace("]]><![CDATA[", "")), false);
    }
    let has = |byte| memchr::memchr(byte, text.as_bytes()).is_some();
    let escaped = has(b'&') && !has(b'<');
    match escaped.then(|| unescaped(text)).flatten() {
        Some(text) => (Cow::Owned(text), true),
        None => (Cow::Borrowed(text), false),
    }
}

/// Tells whether a value starts with CDATA and goes on with something else.
fn is_partly_data(text: &str) -> bool {
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

/// Returns a text with its entities read, once; `None` if an `&` in it starts no entity.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest.as_bytes()) {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let end = after
            .bytes()
            .take(LONGEST_ENTITY + 1)
            .position(|b| b == b';')?;
        let read = entity(&after[..end])?;
        out.push_str(before);
        out.push(read);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

/// Returns the character that an entity stands for.
fn entity(name: &str) -> Option<char> {
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

/// Reads a value of a type from a text; `None` if it is none.
fn from_text(kind: ValueKind, items: Option<ValueKind>, text: &str, depth: usize) -> Option<Value> {
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
        ValueKind::Array | ValueKind::Object if text.starts_with('<') => {
            nested(kind, items, text, depth)
        }
        ValueKind::Array | ValueKind::Object => {
            let read =
                parse_lenient_json(text).filter(|read| !read.is_cut && read.end == text.len())?;
            from_value(kind, items, &read.value)
        }
    }
}

/// Reads a list or an object that is written as tags: an item or a field each.
fn nested(kind: ValueKind, items: Option<ValueKind>, text: &str, depth: usize) -> Option<Value> {
    if depth >= DEEPEST {
        return None;
    }
    let mut list = Vec::new();
    let mut object = Map::new();
    let mut rest = text;
    while !rest.is_empty() {
        let field = field(rest)?;
        let (inner, _) = plain(field.value);
        let object_inside = kind == ValueKind::Object && inner.starts_with('<');
        let inner_kind = if object_inside {
            ValueKind::Object
        } else {
            items.unwrap_or(ValueKind::String)
        };
        let value = from_text(inner_kind, None, &inner, depth + 1)?;
        match kind {
            ValueKind::Array => list.push(value),
            _ if object.insert(field.name.to_owned(), value).is_some() => return None,
            _ => {}
        }
        rest = field.rest.trim_start();
    }
    Some(if kind == ValueKind::Array {
        Value::from(list)
    } else {
        Value::from(object)
    })
}

/// Returns a value as one of a type; `None` if it is none.
fn from_value(kind: ValueKind, items: Option<ValueKind>, value: &Value) -> Option<Value> {
    match (kind, value) {
        // Of other numbers, the letters are lost.
        (ValueKind::String, Value::Number(number)) if number.is_i64() => {
            Some(Value::from(number.to_string()))
        }
        (ValueKind::Array, Value::Array(list)) => {
            let right = |item: &Value| items.is_none_or(|kind| is_of(kind, item));
            list.iter().all(right).then(|| value.clone())
        }
        (kind, Value::String(text)) => {
            from_text(kind, items, text.trim(), 0).map(|read| match kind {
                ValueKind::String => value.clone(),
                _ => read,
            })
        }
        (kind, value) => is_of(kind, value).then(|| value.clone()),
    }
}

/// Tells whether a value is of a type as it stands.
fn is_of(kind: ValueKind, value: &Value) -> bool {
    match kind {
        ValueKind::String => value.is_string(),
        ValueKind::Integer => value.is_i64() || value.is_u64(),
        ValueKind::Number => value.is_number(),
        ValueKind::Boolean => value.is_boolean(),
        ValueKind::Array => value.is_array(),
        ValueKind::Object => value.is_object(),
    }
}

/// Returns a value as its parameter spells it; `None` if it is none that the parameter may have.
fn allowed(parameter: &Parameter, value: Value) -> Option<Value> {
    if parameter.one_of.is_empty() {
        return Some(value);
    }
    match value.as_str().and_then(|text| parameter.known_value(text)) {
        Some(known) => Some(Value::from(known)),
        None => parameter.other_values.then_some(value),
    }
}

fn expected(parameter: &Parameter) -> String {
    if parameter.one_of.is_empty() {
        return format!("of the type {}", parameter.kind.name());
    }
    format!("one of {}", parameter.one_of.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_a_tag_a_named_parameter_or_an_empty_element() {
        let read =
            |text: &'static str| field(text).map(|field| (field.name, field.value, field.rest));

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
        assert_eq!(closed("a</key>", "key"), Some(("a", "")));
        assert_eq!(closed("a</ KEY >\n<next>", "key"), Some(("a", "\n<next>")));
        assert_eq!(
            closed("a</key> is quoted</key>", "key"),
            Some(("a</key> is quoted", ""))
        );
        assert_eq!(
            closed("a</keys></key><!-- note -->", "key"),
            Some(("a</keys>", "<!-- note -->"))
        );
        assert_eq!(closed("a</other>", "key"), None);
    }

    #[test]
    fn entities_are_decoded_once_or_not_at_all() {
        assert_eq!(
            unescaped("a &lt;b&gt; &amp;lt; &quot;&apos;").as_deref(),
            Some("a <b> &lt; \"'")
        );
        assert_eq!(unescaped("&#65;&#x42;&nbsp;").as_deref(), Some("AB\u{A0}"));
        for text in ["R&D", "&unknown;", "&#xD800;", "&;", "&#x110000;"] {
            assert_eq!(unescaped(text), None, "{text}");
        }
    }

    #[test]
    fn cdata_is_taken_off_only_around_a_whole_value() {
        assert_eq!(plain(" <![CDATA[a < b]]> "), ("a < b".into(), false));
        assert_eq!(
            plain("<![CDATA[a ]]]]><![CDATA[> b]]>"),
            ("a ]]> b".into(), false)
        );
        assert_eq!(plain("a &amp; b"), ("a & b".into(), true));
        assert_eq!(
            plain("<b>a &amp; b</b>"),
            ("<b>a &amp; b</b>".into(), false)
        );

        assert!(is_partly_data("<![CDATA[a]]> and more"));
        assert!(!is_partly_data("<![CDATA[a]]><![CDATA[b]]>"));
        assert!(!is_partly_data("more <![CDATA[a]]>"));
    }

    #[test]
    fn a_text_is_converted_to_the_type_of_its_parameter() {
        let read = |kind, text| from_text(kind, None, text, 0);

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
            read(ValueKind::Array, "<i>a</i><i>b</i>"),
            Some(json!(["a", "b"]))
        );
        let items = from_text(
            ValueKind::Array,
            Some(ValueKind::Integer),
            "<i>1</i><i>x</i>",
            0,
        );
        assert_eq!(items, None, "an item of another type");
    }

    #[test]
    fn nested_tags_are_read_down_to_a_fixed_depth() {
        // A tag inside one of the same name would be unclear, so each has its own.
        let nested_by = |depth: usize| {
            (0..depth).fold("1".to_owned(), |inner, level| {
                format!("<t{level}>{inner}</t{level}>")
            })
        };
        assert!(from_text(ValueKind::Object, None, &nested_by(DEEPEST), 0).is_some());
        assert_eq!(
            from_text(ValueKind::Object, None, &nested_by(DEEPEST + 1), 0),
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
            Fields::read(&spec, &Attributes::default(), body)
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
            Err("`size` stands inside `text`".to_owned())
        );
    }

    #[test]
    fn yaml_that_would_change_a_value_is_not_read() {
        assert_eq!(
            yaml_values("key: a\nvalue: two words"),
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
            assert_eq!(yaml_values(text), None, "{text}");
        }
    }
}
