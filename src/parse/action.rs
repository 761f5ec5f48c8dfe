//! The body of an action: named fields, and nothing beside them.

use crate::models::Action;

/// The most fields of an action.
const MOST_FIELDS: usize = 100;

/// Reads an action; fails with the reason why it is not clear what is asked for.
pub(super) fn read(name: Option<&str>, body: &str) -> Result<Action, &'static str> {
    let Some(name) = name.filter(|name| !name.trim().is_empty()) else {
        return Err("it names no type, or not clearly");
    };
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut rest = body.trim();
    while !rest.is_empty() {
        if fields.len() >= MOST_FIELDS {
            return Err("it has too many fields");
        }
        let (field, value, after) = field(rest).ok_or("its body is not a list of fields")?;
        if fields.iter().any(|(known, _)| known == field) {
            return Err("a field stands twice");
        }
        fields.push((field.to_owned(), value.trim().to_owned()));
        rest = after.trim_start();
    }
    Ok(Action { name: name.trim().to_owned(), fields, text: body.to_owned() })
}

/// Cuts off the field that a text starts with: its name, its value and what follows. A field of the same name inside
/// the value leaves its end unclear.
fn field(text: &str) -> Option<(&str, &str, &str)> {
    let inner = text.strip_prefix('<')?;
    let length = inner.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
    let (name, after) = inner.split_at(length);
    let body = after.strip_prefix('>').filter(|_| length > 0)?;
    let closer = format!("</{name}>");
    let (value, rest) = body.split_once(&closer)?;
    (!value.contains(&format!("<{name}>"))).then_some((name, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_fields_are_an_action() {
        let read = |body| read(Some("save"), body).map(|action| action.fields);
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(
            read("\n <key> a </key>\n<value>x < y</value>\n"),
            Ok(vec![field("key", "a"), field("value", "x < y")])
        );
        for body in
            ["text", "<key>a</key> and more", "<key>a", "<key>a</key><key>b</key>", "<k e>a</k e>", "<>a</>"]
        {
            assert!(read(body).is_err(), "{body}");
        }
        assert!(read("<key><key>a</key></key>").is_err());
        assert!(super::read(None, "").is_err() && super::read(Some(" "), "").is_err());
    }
}
