//! `{{NAME}}` replaced by values, in one pass: a value is never expanded again.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

use memchr::{memchr, memchr_iter, memmem};
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::pack::{ACTIONS_PLACEHOLDER, MISSING_VARIABLE, Text, Token, tokens};

/// The variables that are filled where a nonce is told: the nonce, and the verdicts of the mode.
pub const NONCE_VARIABLES: [&str; 2] = ["NONCE", "VERDICTS"];

/// The values that one text is filled with: those that are made for it, then those of the request.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    /// Those of the request.
    pub(super) given: &'a Variables,
    /// Those that are made for this text.
    pub(super) own: &'a [(&'a str, String)],
    /// The list of actions, which is the pack's own and stands as it is.
    pub(super) actions: &'a str,
}

impl Values<'_> {
    fn get(&self, name: &str) -> Option<&String> {
        let own = self.own.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        own.or_else(|| self.given.get(name))
    }
}

/// What happens where a mandatory variable has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A visible notice stands in its place, and a warning is logged.
    Notice,
    /// The prompt is refused.
    Error,
    /// Nothing stands in its place.
    Empty,
}

/// The values of variables, by name.
pub type Variables = BTreeMap<String, String>;

/// What became of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VariableUse {
    /// The variable's name.
    pub name: String,
    /// The length of its value, if it has one.
    pub bytes: Option<usize>,
    /// Whether the template must have it.
    pub required: bool,
}

/// Replaces every placeholder of a text; one without a value becomes a visible notice and a warning in the log.
#[must_use]
pub fn inject_variables(template: &str, context: &Variables) -> String {
    let tags = closing_tags(template);
    let mut out = String::with_capacity(size(template, context));
    for token in tokens(template) {
        match token {
            Token::Text(text) => out.push_str(text),
            Token::Variable(name, _) => match context.get(name) {
                Some(value) => out.push_str(&harmless(value, &tags)),
                None => {
                    warn(name);
                    out.push_str(&notice(name));
                }
            },
        }
    }
    out
}

/// Replaces the placeholders of a template by its own rules and the caller's policy.
///
/// # Errors
///
/// `MissingVariable` naming all that are missing, with the place of the first, if the policy is [`Missing::Error`].
pub(super) fn fill(
    template: &Text,
    values: Values<'_>,
    missing: Missing,
    clean: &dyn Fn(&str) -> String,
) -> Result<(String, Vec<VariableUse>)> {
    let uses = uses(template, values);
    let lacking: Vec<&str> = uses
        .iter()
        .filter(|used| used.required && used.bytes.is_none())
        .map(|used| used.name.as_str())
        .collect();
    if let (Missing::Error, Some(first)) = (missing, lacking.first()) {
        let offset = template.body().find(&format!("{{{{{first}}}}}")).unwrap_or(0);
        let verb = if lacking.len() == 1 { "has" } else { "have" };
        return Err(Error::new(
            ErrorKind::MissingVariable,
            format!("{} {verb} no value", lacking.join(", ")),
        )
        .with_place(template.place(offset))
        .with_hint(
            "give values, or mark what can be done without as `required: false` in the front matter",
        ));
    }
    let tags = OnceCell::new();
    let mut out = String::with_capacity(size(template.body(), values.given) + values.actions.len());
    for token in tokens(template.body()) {
        match token {
            Token::Text(text) => out.push_str(text),
            Token::Variable(ACTIONS_PLACEHOLDER, _) => out.push_str(values.actions),
            Token::Variable(name, _) => match values.get(name) {
                Some(value) => {
                    let tags = tags.get_or_init(|| closing_tags(template.body()));
                    out.push_str(&clean(&harmless(value, tags)));
                }
                None if missing == Missing::Notice && template.requires(name) => out.push_str(&notice(name)),
                None => {}
            },
        }
    }
    Ok((out, uses))
}

/// Returns the names of the tags that a template closes, in lower case.
fn closing_tags(template: &str) -> HashSet<String> {
    let hits = memmem::find_iter(template.as_bytes(), b"</");
    hits.map(|at| tag_name(&template[at + 2..]).to_lowercase()).filter(|name| !name.is_empty()).collect()
}

/// Returns the name that a text starts with.
fn tag_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.' | ':'));
    &text[..end.unwrap_or(text.len())]
}

/// Returns a value in which no tag of the template is closed, nor begun to be: such a `<` gets a backslash behind it.
fn harmless<'a>(value: &'a str, tags: &HashSet<String>) -> Cow<'a, str> {
    if tags.is_empty() || memchr(b'<', value.as_bytes()).is_none() {
        return Cow::Borrowed(value);
    }
    let mut out = String::new();
    let mut copied = 0;
    for at in memchr_iter(b'<', value.as_bytes()) {
        let rest = &value[at + 1..];
        let name = tag_name(rest.strip_prefix('/').unwrap_or(rest));
        let closes = rest.starts_with('/') && tags.contains(&name.to_lowercase());
        // At the end of a value, what follows in the template may complete the tag.
        let unfinished = rest.is_empty() || (rest.starts_with('/') && rest.len() == name.len() + 1);
        if closes || unfinished {
            out.push_str(&value[copied..=at]);
            out.push('\\');
            copied = at + 1;
        }
    }
    if copied == 0 { Cow::Borrowed(value) } else { Cow::Owned(out + &value[copied..]) }
}

/// Returns the variables of a template, in order of first use.
fn uses(template: &Text, values: Values<'_>) -> Vec<VariableUse> {
    let mut uses: Vec<VariableUse> = Vec::new();
    for token in tokens(template.body()) {
        let Token::Variable(name, _) = token else { continue };
        if name != ACTIONS_PLACEHOLDER && uses.iter().all(|used| used.name != name) {
            let bytes = values.get(name).map(String::len);
            uses.push(VariableUse { name: name.to_owned(), bytes, required: template.requires(name) });
        }
    }
    uses
}

/// Returns the size of a text that is filled with each value once.
fn size(template: &str, values: &Variables) -> usize {
    template.len() + values.values().map(String::len).sum::<usize>()
}

/// Tells that a variable has no value.
pub(super) fn warn(name: &str) {
    log::warn!("{name} has no value; the prompt says so in its place");
}

fn notice(name: &str) -> String {
    MISSING_VARIABLE.trim_end().replace("{{NAME}}", name)
}
