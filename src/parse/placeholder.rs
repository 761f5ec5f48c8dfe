//! Detects values that only copy a placeholder or an example of the prompt.

use memchr::memmem;

use serde_json::Value;

use super::context::ReplyContext;
use super::scan::{EffectContent, FoundEffect};
use crate::models::{Action, Grammar, ValueKind};

/// Words used as values in examples.
const PLACEHOLDER_WORDS: [&str; 12] = [
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

/// Texts of the prompt that may show actions as examples.
pub(super) struct PromptExamples<'a> {
    texts: Vec<&'a str>,
}

impl<'a> PromptExamples<'a> {
    /// Collects the texts of the prompt; none if the reply has no action to compare.
    ///
    /// If the sent prompt is known, only its texts are compared: the pack's other texts, such as those of other tiers,
    /// were never seen by the model.
    pub(super) fn new(context: &ReplyContext<'a>, effects: &[FoundEffect]) -> Self {
        let has_actions = effects
            .iter()
            .any(|effect| matches!(effect.kind, EffectContent::Action(_)));
        let texts = match (has_actions, context.sent.is_empty()) {
            (false, _) => Vec::new(),
            (true, false) => context.sent.clone(),
            (true, true) => context.ours.clone(),
        };
        Self { texts }
    }

    /// Returns the reason why an action only copies the prompt; `None` if it does not.
    pub(super) fn find_copy(&self, action: &Action, grammar: &Grammar) -> Option<String> {
        let spec = grammar.actions.get(&action.name)?;
        // Values chosen from a list are often equal to those of an example.
        let is_free_text = |name: &str| {
            let parameter = spec.parameters.get(name);
            parameter.is_some_and(|p| p.kind == ValueKind::String && p.one_of.is_empty())
        };
        let values = || {
            action
                .values
                .iter()
                .filter(|(name, _)| is_free_text(name))
                .filter_map(|(name, value)| Some((name, value.as_str()?)))
        };

        if let Some((name, value)) = action
            .values
            .iter()
            .find(|(_, value)| has_placeholder(value))
        {
            return Some(format!("`{name}` is a placeholder: {value}"));
        }

        let shows = |name: &str, value: &str| self.shows_value(&action.name, name, value);
        let is_placeholder_word = |value: &str| {
            PLACEHOLDER_WORDS
                .iter()
                .any(|word| word.eq_ignore_ascii_case(value))
        };
        if let Some((name, value)) =
            values().find(|(name, value)| is_placeholder_word(value) && shows(name, value))
        {
            return Some(format!(
                "`{name}` is a placeholder of the prompt: {value:?}"
            ));
        }

        let mut free_values = values().peekable();
        (free_values.peek().is_some() && free_values.all(|(name, value)| shows(name, value)))
            .then(|| "the values are copied from an example in the prompt".to_owned())
    }

    /// Returns true if an example of the action in the prompt has this value.
    fn shows_value(&self, action: &str, name: &str, value: &str) -> bool {
        let field = format!("<{name}>{value}</{name}>");
        let names = [format!("\"{action}\""), format!("'{action}'")];
        self.texts
            .iter()
            .any(|text| is_shown_in(text, &field, &names))
    }
}

/// Returns true if `field` occurs inside an `<action>` whose opening tag contains one of `names`,
/// which are in quotes. Takes linear time, however often the field occurs.
fn is_shown_in(text: &str, field: &str, names: &[String]) -> bool {
    let mut openers = memmem::find_iter(text.as_bytes(), "<action").peekable();
    let mut open = None;
    let mut is_named = false;
    // End of the part of the open action that was searched for its closing tag.
    let mut seen = 0;

    memmem::find_iter(text.as_bytes(), field.as_bytes()).any(|at| {
        let before = open;
        while let Some(next) = openers.next_if(|next| next + "<action".len() <= at) {
            open = Some(next);
        }
        let Some(start) = open else { return false };
        if open != before {
            let tag = text[start..at].split('>').next().unwrap_or_default();
            is_named = names.iter().any(|name| tag.contains(name));
            seen = start;
        }

        is_named &= memmem::find(&text.as_bytes()[seen..at], b"</action>").is_none();
        seen = at;
        is_named
    })
}

/// Returns true if any string in a value is a placeholder.
fn has_placeholder(value: &Value) -> bool {
    match value {
        Value::String(text) => is_placeholder(text),
        Value::Array(items) => items.iter().any(has_placeholder),
        Value::Object(object) => object.values().any(has_placeholder),
        _ => false,
    }
}

/// Returns true for a placeholder: `...`, `…`, `{{NAME}}`.
pub(super) fn is_placeholder(value: &str) -> bool {
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
            assert!(is_placeholder(value), "{value}");
        }
        for value in ["", "a...", "{{a b}}", "No."] {
            assert!(!is_placeholder(value), "{value}");
        }
    }
}
