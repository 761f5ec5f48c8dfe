//! Front matter of specs and proposals: reading and checking.

use serde::Deserialize;

use super::{Fault, is_requirement_id, is_spec_id};
use crate::error::{Error, ErrorKind};
use crate::text::yaml::{self, WithPlace};

/// First line of the YAML in a document, after the opening `---`.
const FIRST_LINE: usize = 2;

/// Front matter of a spec. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpecFrontMatter {
    pub(super) id: WithPlace<String>,
    #[serde(rename = "type")]
    kind: WithPlace<String>,
    pub(super) title: WithPlace<String>,
    pub(super) version: WithPlace<u64>,
    pub(super) created_at: WithPlace<String>,
    pub(super) updated_at: WithPlace<String>,
    pub(super) requirements: RequirementCounts,
    pub(super) design_elements: DesignFlags,
}

/// Requirements that the front matter lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequirementCounts {
    pub(super) total: WithPlace<usize>,
    pub(super) ids: Vec<WithPlace<String>>,
}

/// Kinds of code blocks that the front matter declares.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DesignFlags {
    pub(super) has_mermaid: WithPlace<bool>,
    pub(super) has_json_schema: WithPlace<bool>,
    pub(super) has_pseudo_code: WithPlace<bool>,
    pub(super) has_api_spec: WithPlace<bool>,
}

/// Returns the document line of a value in the front matter.
pub(super) fn line_of<T>(placed: &WithPlace<T>) -> usize {
    line_in_block(FIRST_LINE, placed)
}

/// Returns the document line of a value in YAML that starts at line `first`.
pub(super) fn line_in_block<T>(first: usize, placed: &WithPlace<T>) -> usize {
    usize::try_from(placed.referenced.line())
        .unwrap_or(1)
        .max(1)
        + first
        - 1
}

/// Parses YAML that starts at line `first` of its document.
pub(super) fn read_yaml<T: serde::de::DeserializeOwned>(
    text: &str,
    first: usize,
) -> Result<T, Fault> {
    yaml::read(text, "", first, ErrorKind::SpecInvalid).map_err(|error: Error| {
        let line = error.place().map_or(first, |place| place.line.max(first));
        Fault {
            line,
            message: error.message().to_owned(),
            hint: error.hint().map(str::to_owned),
        }
    })
}

impl SpecFrontMatter {
    /// Parses front matter that starts at line 2.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        read_yaml(text, FIRST_LINE).map_err(|fault| {
            fault.with_hint(
                "required keys: id, type, title, version, created_at, updated_at, requirements, design_elements",
            )
        })
    }

    /// Adds the faults of the front matter. The body is not checked.
    pub(super) fn check(&self, faults: &mut Vec<Fault>) {
        check_common_keys(&self.id, &self.kind, "spec", &self.title, faults);

        if !is_spec_id(&self.id.value) {
            let message = format!("invalid spec id `{}`", shorten(&self.id.value));
            faults.push(
                Fault::new(line_of(&self.id), message)
                    .with_hint("use lower-case letters, digits and `-`, such as `add-login`"),
            );
        }

        if self.version.value == 0 {
            faults.push(Fault::new(
                line_of(&self.version),
                "`version` is 0; expected 1 or greater",
            ));
        }

        for (name, date) in [
            ("created_at", &self.created_at),
            ("updated_at", &self.updated_at),
        ] {
            if !is_timestamp(&date.value) {
                let message = format!("invalid timestamp `{}` in `{name}`", shorten(&date.value));
                faults.push(
                    Fault::new(line_of(date), message)
                        .with_hint("use the format 2026-01-31T12:00:00Z"),
                );
            }
        }

        let mut ids: Vec<&WithPlace<String>> = self.requirements.ids.iter().collect();
        ids.sort_by(|a, b| a.value.cmp(&b.value));
        for pair in ids.windows(2).filter(|pair| pair[0].value == pair[1].value) {
            faults.push(Fault::new(
                line_of(pair[1]),
                format!("duplicate id `{}`", shorten(&pair[1].value)),
            ));
        }

        for id in self
            .requirements
            .ids
            .iter()
            .filter(|id| !is_requirement_id(&id.value))
        {
            let message = format!("invalid requirement id `{}`", shorten(&id.value));
            faults.push(Fault::new(line_of(id), message).with_hint("use R1, R2 and so on"));
        }
    }
}

/// Front matter of a proposal. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposalFrontMatter {
    id: WithPlace<String>,
    #[serde(rename = "type")]
    kind: WithPlace<String>,
    title: WithPlace<String>,
}

impl ProposalFrontMatter {
    /// Parses and checks front matter that starts at line 2.
    pub(super) fn check(text: &str, faults: &mut Vec<Fault>) {
        match read_yaml::<Self>(text, FIRST_LINE) {
            Ok(head) => check_common_keys(&head.id, &head.kind, "proposal", &head.title, faults),
            Err(fault) => faults.push(fault.with_hint("required keys: id, type, title")),
        }
    }
}

/// Adds the faults of the keys that specs and proposals share.
fn check_common_keys(
    id: &WithPlace<String>,
    kind: &WithPlace<String>,
    wanted: &str,
    title: &WithPlace<String>,
    faults: &mut Vec<Fault>,
) {
    if kind.value != wanted {
        let message = format!("`type` is `{}`, expected `{wanted}`", shorten(&kind.value));
        faults.push(Fault::new(line_of(kind), message));
    }

    for (name, placed) in [("id", id), ("title", title)] {
        let value = placed.value.trim();
        let problem = match value {
            "" => "is empty",
            _ if is_placeholder(value) => "is still a placeholder",
            _ if value.contains(char::is_control) => "contains control characters",
            _ => continue,
        };
        faults.push(Fault::new(line_of(placed), format!("the {name} {problem}")));
    }
}

/// Returns true if the whole text is a placeholder of a skeleton, such as `<Title>`.
pub(super) fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.find('>') == Some(text.len() - 1)
}

/// Returns at most 60 characters of a string, with `…` if it is longer.
pub(super) fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Returns true for a UTC timestamp: `2026-01-31T12:00:00Z`. The day is not checked against the
/// month.
fn is_timestamp(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00Z";
    let is_like = |(byte, shape): (u8, &u8)| {
        if *shape == b'0' {
            byte.is_ascii_digit()
        } else {
            byte == *shape
        }
    };

    if text.len() != SHAPE.len() || !text.bytes().zip(SHAPE).all(is_like) {
        return false;
    }

    let within = |from: usize, low: u32, high: u32| {
        text.get(from..from + 2)
            .and_then(|part| part.parse().ok())
            .is_some_and(|value: u32| (low..=high).contains(&value))
    };
    within(5, 1, 12)
        && within(8, 1, 31)
        && within(11, 0, 23)
        && within(14, 0, 59)
        && within(17, 0, 60)
}
