//! Values that only copy a placeholder or an example of the prompt.

use memchr::memmem;

use serde_json::Value;

use super::context::Context;
use super::scan::{FoundEffect, Kind};
use crate::models::{Action, Grammar, ValueKind};

/// Words that stand for a value in examples.
const WORDS: [&str; 12] = [
    "text",
    "name",
    "value",
    "key",
    "string",
    "content",
    "id",
    "query",
    "title",
    "action_name",
    "example",
    "string_value",
];

/// The actions that the prompt shows as examples.
pub(super) struct Examples<'a> {
    texts: Vec<&'a str>,
}

impl<'a> Examples<'a> {
    /// Finds the examples of a prompt, if any action is there to be compared with them.
    pub(super) fn of(context: &Context<'a>, effects: &[FoundEffect]) -> Self {
        let actions = effects
            .iter()
            .any(|effect| matches!(effect.kind, Kind::Action(_)));
        let texts = context.ours.iter().chain(&context.sent).filter(|_| actions);
        Self {
            texts: texts.copied().collect(),
        }
    }

    /// Returns why an action is only a copy.
    pub(super) fn copied(&self, action: &Action, grammar: &Grammar) -> Option<String> {
        let spec = grammar.actions.get(&action.name)?;
        // Of values that are chosen from a list, two are often the same.
        let free = |name: &str| {
            let parameter = spec.parameters.get(name);
            parameter.is_some_and(|p| p.kind == ValueKind::String && p.one_of.is_empty())
        };
        let values = || {
            action
                .values
                .iter()
                .filter(|(name, _)| free(name))
                .filter_map(|(name, value)| Some((name, value.as_str()?)))
        };
        if let Some((name, value)) = action.values.iter().find(|(_, value)| holds_blank(value)) {
            return Some(format!("`{name}` is a placeholder: {value}"));
        }
        let shows = |name: &str, value: &str| self.shows(&action.name, name, value);
        let word = |value: &str| WORDS.iter().any(|word| word.eq_ignore_ascii_case(value));
        if let Some((name, value)) =
            values().find(|(name, value)| word(value) && shows(name, value))
        {
            return Some(format!("`{name}` is the prompt's placeholder: {value:?}"));
        }
        let mut found = values().peekable();
        (found.peek().is_some() && found.all(|(name, value)| shows(name, value)))
            .then(|| "its values are those of an example in the prompt".to_owned())
    }

    /// Tells whether an example of an action in the prompt has a value.
    fn shows(&self, action: &str, name: &str, value: &str) -> bool {
        let field = format!("<{name}>{value}</{name}>");
        let names = [format!("\"{action}\""), format!("'{action}'")];
        self.texts.iter().any(|text| shown_in(text, &field, &names))
    }
}

/// Tells whether a field stands in an action of one of several quoted names; a text is read once, however often the
/// field stands in it.
fn shown_in(text: &str, field: &str, names: &[String]) -> bool {
    let mut openers = memmem::find_iter(text.as_bytes(), "<action").peekable();
    let (mut open, mut named) = (None, false);
    // Up to where the action that is open was looked at.
    let mut seen = 0;
    memmem::find_iter(text.as_bytes(), field.as_bytes()).any(|at| {
        let before = open;
        while let Some(next) = openers.next_if(|next| next + "<action".len() <= at) {
            open = Some(next);
        }
        let Some(start) = open else { return false };
        if open != before {
            let tag = text[start..at].split('>').next().unwrap_or_default();
            named = names.iter().any(|name| tag.contains(name));
            seen = start;
        }
        named &= memmem::find(&text.as_bytes()[seen..at], b"</action>").is_none();
        seen = at;
        named
    })
}

/// Tells whether a text in a value holds no value at all.
fn holds_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => is_blank(text),
        Value::Array(items) => items.iter().any(holds_blank),
        Value::Object(object) => object.values().any(holds_blank),
        _ => false,
    }
}

/// Tells texts that hold no value at all: `...`, `…`, `{{NAME}}`, `[name]`.
pub(super) fn is_blank(value: &str) -> bool {
    let value = value.trim();
    let wrapped = |open: &str, close: &str| value.starts_with(open) && value.ends_with(close);
    (!value.is_empty() && value.chars().all(|c| matches!(c, '.' | '…')))
        || (wrapped("{{", "}}") && !value[2..].contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_told() {
        for value in ["...", "…", "{{NAME}}"] {
            assert!(is_blank(value), "{value}");
        }
        for value in ["", "a...", "{{a b}}", "No."] {
            assert!(!is_blank(value), "{value}");
        }
    }
}
