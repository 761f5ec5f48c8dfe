//! `{{NAME}}` replaced by values, in one pass: a value is never expanded again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::pack::{MISSING_VARIABLE, Template, Token, tokens};

/// What happens where a mandatory variable has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A visible notice stands in its place, and a warning is logged.
    Notice,
    /// The prompt is refused.
    Error,
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
    let mut out = String::with_capacity(template.len() + context.values().map(String::len).sum::<usize>());
    for token in tokens(template) {
        match token {
            Token::Text(text) => out.push_str(text),
            Token::Variable(name, _) => match context.get(name) {
                Some(value) => out.push_str(value),
                None => out.push_str(&notice(name)),
            },
        }
    }
    out
}

/// Replaces the placeholders of a template by its own rules and the caller's policy.
///
/// # Errors
///
/// `MissingVariable` with the placeholder's place, if the policy is [`Missing::Error`].
pub(super) fn fill(
    template: &Template,
    values: &Variables,
    missing: Missing,
) -> Result<(String, Vec<VariableUse>)> {
    let mut out =
        String::with_capacity(template.body().len() + values.values().map(String::len).sum::<usize>());
    let mut uses: Vec<VariableUse> = Vec::new();
    for token in tokens(template.body()) {
        let (name, offset) = match token {
            Token::Text(text) => {
                out.push_str(text);
                continue;
            }
            Token::Variable(name, offset) => (name, offset),
        };
        let required = template.requires(name);
        if uses.iter().all(|used| used.name != name) {
            let bytes = values.get(name).map(String::len);
            uses.push(VariableUse { name: name.to_owned(), bytes, required });
        }
        out.push_str(&value_of(template, name, offset, required, values, missing)?);
    }
    Ok((out, uses))
}

fn value_of<'a>(
    template: &Template,
    name: &str,
    offset: usize,
    required: bool,
    values: &'a Variables,
    missing: Missing,
) -> Result<Cow<'a, str>> {
    match (values.get(name), required, missing) {
        (Some(value), ..) => Ok(Cow::Borrowed(value)),
        (None, false, _) => Ok(Cow::Borrowed("")),
        (None, true, Missing::Notice) => Ok(Cow::Owned(notice(name))),
        (None, true, Missing::Error) => {
            Err(Error::new(ErrorKind::MissingVariable, format!("{name} has no value"))
                .with_place(template.place(offset))
                .with_hint("give it a value, or mark it `required: false` in the template's front matter"))
        }
    }
}

fn notice(name: &str) -> String {
    log::warn!("{name} has no value; the prompt says so in its place");
    MISSING_VARIABLE.trim_end().replace("{{NAME}}", name)
}
