//! The optional YAML front matter of a template.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::text::front_matter::{FrontMatterSplit, split_front_matter};
use crate::text::yaml::{self, WithPlace};

/// Front matter of a template. Unknown keys are errors.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrontMatter {
    /// Name of the agent; must match the file name.
    pub(crate) agent: Option<WithPlace<String>>,
    /// Mode; must match the file name.
    pub(crate) phase: Option<WithPlace<String>>,
    /// Variables that the template may use; `None` to detect them.
    pub(crate) variables: Option<Vec<WithPlace<VariableSpec>>>,
    /// Name for display.
    pub name: Option<String>,
    /// Category for display.
    pub category: Option<String>,
    /// Purpose of the template.
    pub description: Option<String>,
    /// Keywords.
    pub tags: Vec<String>,
    /// Version of the template.
    pub version: Option<String>,
}

/// An entry of `variables`: a bare name, or `{name: …, required: …}`.
#[expect(missing_docs, reason = "`name` needs no explanation")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSpec {
    pub name: String,
    /// True if a value is mandatory.
    pub required: bool,
}

/// Splits a file into its front matter and its body.
///
/// # Errors
///
/// `TemplateInvalid` if the front matter is not closed.
pub(super) fn split_file<'a>(text: &'a str, origin: &str) -> Result<FrontMatterSplit<'a>> {
    let split = split_front_matter(text);
    if split.is_unclosed {
        return Err(
            Error::new(ErrorKind::TemplateInvalid, "the front matter is not closed")
                .with_place(Place::at_line(origin, split.body, 1, 1))
                .with_hint("end the front matter with a `---` line, or remove its first line"),
        );
    }
    Ok(split)
}

/// Parses front matter that starts at line 2 of its file.
pub(super) fn parse_front_matter(head: &str, origin: &str) -> Result<FrontMatter> {
    if head.trim().is_empty() {
        return Ok(FrontMatter::default());
    }
    yaml::read(head, origin, 2, ErrorKind::TemplateInvalid)
}

impl<'de> Deserialize<'de> for VariableSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(SpecVisitor)
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = VariableSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a variable's name, or {name: NAME, required: false}")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> std::result::Result<VariableSpec, E> {
        check_variable(name.to_owned(), true)
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<VariableSpec, A::Error> {
        let mut name = None;
        let mut required = true;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => name = Some(map.next_value()?),
                "required" => required = map.next_value()?,
                other => return Err(de::Error::unknown_field(other, &["name", "required"])),
            }
        }

        check_variable(
            name.ok_or_else(|| de::Error::missing_field("name"))?,
            required,
        )
    }
}

fn check_variable<E: de::Error>(
    name: String,
    required: bool,
) -> std::result::Result<VariableSpec, E> {
    let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if has_valid_start && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Ok(VariableSpec { name, required });
    }
    Err(E::custom(format!(
        "invalid variable name {name:?}; expected letters, digits and `_`, not starting with a digit"
    )))
}
