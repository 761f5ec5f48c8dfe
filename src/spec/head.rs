//! The YAML head of a spec: what it says of the body, and how it is written.

use serde::Deserialize;

use super::{Fault, is_requirement_id, is_spec_id};
use crate::error::{Error, ErrorKind};
use crate::text::yaml::{self, Placed};

/// The line at which every head starts.
const FIRST: usize = 2;

/// The head of a spec, as it is written. Any other key is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) id: Placed<String>,
    #[serde(rename = "type")]
    kind: Placed<String>,
    pub(super) title: Placed<String>,
    pub(super) version: Placed<u64>,
    pub(super) created_at: Placed<String>,
    pub(super) updated_at: Placed<String>,
    pub(super) requirements: Counts,
    pub(super) design_elements: Flags,
}

/// What a head says of the requirements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    pub(super) total: Placed<usize>,
    pub(super) ids: Vec<Placed<String>>,
}

/// What a head says of the fences.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flags {
    pub(super) has_mermaid: Placed<bool>,
    pub(super) has_json_schema: Placed<bool>,
    pub(super) has_pseudo_code: Placed<bool>,
    pub(super) has_api_spec: Placed<bool>,
}

/// Returns the line of a value of a head.
pub(super) fn line<T>(placed: &Placed<T>) -> usize {
    line_from(FIRST, placed)
}

/// Returns the line of a value of YAML that starts at a line of its document.
pub(super) fn line_from<T>(first: usize, placed: &Placed<T>) -> usize {
    usize::try_from(placed.referenced.line())
        .unwrap_or(1)
        .max(1)
        + first
        - 1
}

/// Reads YAML that starts at a line of its document.
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

impl Head {
    /// Reads a head that starts at line 2.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        read_yaml(text, FIRST).map_err(|fault| {
            fault.with_hint(
                "it holds id, type, title, version, dates, requirements and design_elements",
            )
        })
    }

    /// Finds what is wrong with a head by itself.
    pub(super) fn check(&self, faults: &mut Vec<Fault>) {
        check_name(&self.id, &self.kind, "spec", &self.title, faults);
        if !is_spec_id(&self.id.value) {
            let message = format!("`{}` is not the id of a spec", shown(&self.id.value));
            faults.push(
                Fault::new(line(&self.id), message)
                    .with_hint("lower-case letters, digits and `-`, like `add-login`"),
            );
        }
        if self.version.value == 0 {
            faults.push(Fault::new(line(&self.version), "the first version is 1"));
        }
        for date in [&self.created_at, &self.updated_at] {
            if !is_date(&date.value) {
                let message = format!("`{}` is not a date with its time", shown(&date.value));
                faults.push(
                    Fault::new(line(date), message).with_hint("write it like 2026-01-31T12:00:00Z"),
                );
            }
        }
        let mut ids: Vec<&Placed<String>> = self.requirements.ids.iter().collect();
        ids.sort_by(|a, b| a.value.cmp(&b.value));
        for pair in ids.windows(2).filter(|pair| pair[0].value == pair[1].value) {
            faults.push(Fault::new(
                line(pair[1]),
                format!("`{}` is listed twice", shown(&pair[1].value)),
            ));
        }
        for id in self
            .requirements
            .ids
            .iter()
            .filter(|id| !is_requirement_id(&id.value))
        {
            let message = format!("`{}` is not the id of a requirement", shown(&id.value));
            faults.push(Fault::new(line(id), message).with_hint("they are R1, R2 and so on"));
        }
    }
}

/// The head of a proposal, as it is written. Any other key is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposalHead {
    id: Placed<String>,
    #[serde(rename = "type")]
    kind: Placed<String>,
    title: Placed<String>,
}

impl ProposalHead {
    /// Reads and checks a head that starts at line 2.
    pub(super) fn check(text: &str, faults: &mut Vec<Fault>) {
        match read_yaml::<Self>(text, FIRST) {
            Ok(head) => check_name(&head.id, &head.kind, "proposal", &head.title, faults),
            Err(fault) => faults.push(fault.with_hint("it holds id, type and title")),
        }
    }
}

/// Finds what is wrong with the keys that every head has.
fn check_name(
    id: &Placed<String>,
    kind: &Placed<String>,
    wanted: &str,
    title: &Placed<String>,
    faults: &mut Vec<Fault>,
) {
    if kind.value != wanted {
        let message = format!("the type is `{}`, not `{wanted}`", shown(&kind.value));
        faults.push(Fault::new(line(kind), message));
    }
    for (name, placed) in [("id", id), ("title", title)] {
        let value = placed.value.trim();
        let problem = match value {
            "" => "is empty",
            _ if is_placeholder(value) => "is still the skeleton's",
            _ if value.contains(char::is_control) => "holds control characters",
            _ => continue,
        };
        faults.push(Fault::new(line(placed), format!("the {name} {problem}")));
    }
}

/// Tells whether a whole text is a placeholder of a skeleton, such as `<Title>`.
pub(super) fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.find('>') == Some(text.len() - 1)
}

/// Returns the start of a text that may be long.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Tells a date with its time in UTC: `2026-01-31T12:00:00Z`.
fn is_date(text: &str) -> bool {
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
