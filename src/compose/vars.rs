//! Replaces `{{NAME}}` with values in one pass: placeholders inside values are not expanded.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

use memchr::{memchr, memchr_iter, memmem};
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::models::Nonce;
use crate::pack::{ACTIONS_PLACEHOLDER, MISSING_VARIABLE, ProseText, Token, tokens};

/// Variable with the nonce of the turn. Texts rarely need it: the nonce is added to every `<review>` of the pack's text.
pub(super) const NONCE: &str = "NONCE";

/// Variable with the verdicts of the mode, separated by `|`.
pub(super) const VERDICTS: &str = "VERDICTS";

/// Variables that the program fills for every turn and that no caller can set.
pub const TURN_VARIABLES: [&str; 2] = [NONCE, VERDICTS];

/// Opening tag of a verdict, as the pack's text writes it.
const REVIEW_TAG: &str = "<review>";

/// Values for the placeholders of one prose file, and the nonce for its `<review>` tags.
#[derive(Clone, Copy)]
pub(super) struct PlaceholderValues<'a> {
    /// Values of the request.
    pub(super) request_values: &'a Variables,
    /// Values for this text alone; they take precedence over those of the request.
    pub(super) text_values: &'a [(&'a str, String)],
    /// Texts of the pack, such as skeletons: inserted verbatim, unless the request has a value of the same name.
    pub(super) pack_texts: &'a Variables,
    /// List of the mode's actions; part of the pack's text.
    pub(super) actions: &'a str,
    /// Nonce of the turn, if its verdict carries one.
    pub(super) nonce: Option<&'a Nonce>,
}

/// Value of a placeholder.
enum PlaceholderValue<'a> {
    /// Text of the pack.
    Pack(&'a str),
    /// Text from outside the pack, which must not close a tag of the template.
    Foreign(&'a str),
}

impl<'a> PlaceholderValues<'a> {
    fn get(&self, name: &str) -> Option<PlaceholderValue<'a>> {
        if name == ACTIONS_PLACEHOLDER {
            return Some(PlaceholderValue::Pack(self.actions));
        }

        let text_value = self
            .text_values
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| value);
        let foreign = text_value.or_else(|| self.request_values.get(name));
        let pack = || {
            self.pack_texts
                .get(name)
                .map(|text| PlaceholderValue::Pack(text))
        };

        foreign
            .map(|value| PlaceholderValue::Foreign(value))
            .or_else(pack)
    }
}

/// Returns prose of the pack with the nonce of the turn in every `<review>` tag, so that the prompt shows verdicts
/// in the only valid form.
pub(super) fn with_nonce<'t>(text: &'t str, nonce: Option<&Nonce>) -> Cow<'t, str> {
    match nonce {
        Some(nonce) if text.contains(REVIEW_TAG) => {
            Cow::Owned(text.replace(REVIEW_TAG, &format!("<review run=\"{}\">", nonce.as_str())))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Treatment of a mandatory variable without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingVariable {
    /// Insert a visible notice and log a warning.
    Notice,
    /// Fail.
    Error,
    /// Insert nothing.
    Empty,
}

/// Values of variables by name.
pub type Variables = BTreeMap<String, String>;

/// Use of a variable in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VariableUse {
    /// The variable's name.
    pub name: String,
    /// Size of its value in bytes; `None` without a value.
    pub bytes: Option<usize>,
    /// True if the template needs a value.
    pub required: bool,
}

/// Replaces every placeholder of a template. A placeholder without a value is replaced by a visible notice, and a
/// warning is logged.
#[must_use]
pub fn inject_variables(template: &str, context: &Variables) -> String {
    let tags = closing_tags(template);
    let mut out = String::with_capacity(estimate_filled_bytes(template, context));
    for token in tokens(template) {
        match token {
            Token::Text(text) => out.push_str(text),
            Token::Variable(name, _) => match context.get(name) {
                Some(value) => out.push_str(&escape_closing_tags(value, &tags)),
                None => {
                    warn_missing(name);
                    out.push_str(&missing_notice(name));
                }
            },
        }
    }

    out
}

/// Fills the placeholders of a template and lists the variables it uses. `escape` escapes values from outside the pack.
///
/// # Errors
///
/// `MissingVariable` with all missing variables and the location of the first, if the policy is [`MissingVariable::Error`].
pub(super) fn fill_placeholders(
    template: &ProseText,
    values: PlaceholderValues<'_>,
    missing: MissingVariable,
    escape: &dyn Fn(&str) -> String,
) -> Result<(String, Vec<VariableUse>)> {
    let uses = list_variable_uses(template, values);
    let without_value: Vec<&str> = uses
        .iter()
        .filter(|used| used.required && used.bytes.is_none())
        .map(|used| used.name.as_str())
        .collect();
    if let (MissingVariable::Error, Some(first)) = (missing, without_value.first()) {
        let offset = template
            .body()
            .find(&format!("{{{{{first}}}}}"))
            .unwrap_or(0);
        let (message, hint) = if without_value.len() == 1 {
            (
                format!("variable `{first}` has no value"),
                "set a value, or mark the variable `required: false` in the front matter",
            )
        } else {
            (
                format!("variables `{}` have no value", without_value.join("`, `")),
                "set values, or mark the variables `required: false` in the front matter",
            )
        };
        return Err(Error::new(ErrorKind::MissingVariable, message)
            .with_place(template.place(offset))
            .with_hint(hint));
    }

    let tags = OnceCell::new();
    let mut out = String::with_capacity(
        estimate_filled_bytes(template.body(), values.request_values) + values.actions.len(),
    );
    for token in tokens(template.body()) {
        match token {
            Token::Text(text) => out.push_str(&with_nonce(text, values.nonce)),
            Token::Variable(name, _) => match values.get(name) {
                Some(PlaceholderValue::Pack(text)) => out.push_str(&with_nonce(text, values.nonce)),
                Some(PlaceholderValue::Foreign(value)) => {
                    let tags = tags.get_or_init(|| closing_tags(template.body()));
                    out.push_str(&escape(&escape_closing_tags(value, tags)));
                }
                None if missing == MissingVariable::Notice && template.requires(name) => {
                    out.push_str(&missing_notice(name))
                }
                None => {}
            },
        }
    }

    Ok((out, uses))
}

/// Returns the names of the tags that a template closes, in lower case.
fn closing_tags(template: &str) -> HashSet<String> {
    let hits = memmem::find_iter(template.as_bytes(), b"</");
    hits.map(|at| tag_name(&template[at + 2..]).to_lowercase())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the tag name at the start of a string; may be empty.
fn tag_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.' | ':'));
    &text[..end.unwrap_or(text.len())]
}

/// Escapes closing tags in a value that would close a tag of the template: `</` becomes `<\/`.
///
/// A value that ends within a tag, such as `</rev`, is escaped too, because the template's next characters could complete it.
fn escape_closing_tags<'a>(value: &'a str, tags: &HashSet<String>) -> Cow<'a, str> {
    if tags.is_empty() || memchr(b'<', value.as_bytes()).is_none() {
        return Cow::Borrowed(value);
    }

    let mut out = String::new();
    let mut copied = 0;
    for at in memchr_iter(b'<', value.as_bytes()) {
        let rest = &value[at + 1..];
        let name = tag_name(rest.strip_prefix('/').unwrap_or(rest));
        let closes = rest.starts_with('/') && tags.contains(&name.to_lowercase());
        // At the end of a value, the following text of the template may complete the tag.
        let is_unfinished =
            rest.is_empty() || (rest.starts_with('/') && rest.len() == name.len() + 1);
        if closes || is_unfinished {
            out.push_str(&value[copied..=at]);
            out.push('\\');
            copied = at + 1;
        }
    }

    if copied == 0 {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(out + &value[copied..])
    }
}

/// Lists the variables of a template in order of first use.
fn list_variable_uses(template: &ProseText, values: PlaceholderValues<'_>) -> Vec<VariableUse> {
    let mut uses: Vec<VariableUse> = Vec::new();
    for token in tokens(template.body()) {
        let Token::Variable(name, _) = token else {
            continue;
        };
        if name != ACTIONS_PLACEHOLDER && uses.iter().all(|used| used.name != name) {
            let bytes = values.get(name).map(|value| match value {
                PlaceholderValue::Pack(text) | PlaceholderValue::Foreign(text) => text.len(),
            });
            uses.push(VariableUse {
                name: name.to_owned(),
                bytes,
                required: template.requires(name),
            });
        }
    }

    uses
}

/// Estimates the size of the filled text in bytes, with each value used once.
fn estimate_filled_bytes(template: &str, values: &Variables) -> usize {
    template.len() + values.values().map(String::len).sum::<usize>()
}

/// Logs that a variable has no value.
pub(super) fn warn_missing(name: &str) {
    log::warn!("variable `{name}` has no value; the prompt shows a notice instead");
}

fn missing_notice(name: &str) -> String {
    MISSING_VARIABLE.trim_end().replace("{{NAME}}", name)
}
