//! YAML as people write it in packs, front matter and scripts: plain data, read strictly and within limits.

use serde::de::DeserializeOwned;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error as Fault, Location, MergeKeyPolicy, Options, Spanned, budget, options};

use crate::error::{Error, ErrorKind, Place, Result};

/// A value together with its place in the file.
pub type Placed<T> = Spanned<T>;

/// The deepest nesting of a file.
const DEPTH: usize = 64;

/// The most nodes of a file.
const NODES: usize = 50_000;

/// Reads a text; anchors, aliases, merge keys, duplicate and unknown keys are errors.
///
/// `first_line` is the line of the origin at which the text starts, from 1: front matter starts at line 2.
///
/// # Errors
///
/// An error of the given kind, with the place in the origin.
pub fn read<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    first_line: usize,
    kind: ErrorKind,
) -> Result<T> {
    read_within(text, origin, first_line, kind, NODES)
}

/// Reads a text that may have a given number of nodes.
///
/// # Errors
///
/// Those of [`read`].
pub fn read_within<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    first_line: usize,
    kind: ErrorKind,
    nodes: usize,
) -> Result<T> {
    serde_saphyr::from_str_with_options(text, strict(nodes)).map_err(|error| {
        let placed = match error.location() {
            Some(location) if location != Location::UNKNOWN => {
                place(text, origin, first_line, location)
            }
            _ => Place::at_line(origin, text, first_line, 1),
        };
        Error::new(kind, message(error.without_snippet())).with_place(placed)
    })
}

/// Returns the place of a location that `read` has reported.
#[must_use]
pub fn place(text: &str, origin: &str, first_line: usize, location: Location) -> Place {
    let line = usize::try_from(location.line()).unwrap_or(1);
    let column = usize::try_from(location.column()).unwrap_or(1);
    let mut place = Place::at_line(origin, text, line, column);
    place.line = line + first_line.saturating_sub(1);
    place
}

fn strict(nodes: usize) -> Options {
    options! {
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        budget: budget! {
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: DEPTH,
            flow_nesting_limit: DEPTH,
            max_nodes: nodes,
            max_events: 4 * nodes,
        },
    }
}

/// Returns a fault in words, without its place: that is printed apart.
fn message(error: &Fault) -> String {
    match error {
        Fault::Budget { breach, .. } => match breach {
            BudgetBreach::Anchors { .. }
            | BudgetBreach::Aliases { .. }
            | BudgetBreach::MergeKeys { .. } => {
                return "anchors, aliases and merge keys are not allowed here".to_owned();
            }
            BudgetBreach::Depth { .. } => return format!("nested more than {DEPTH} levels deep"),
            _ => return "more than this file may hold".to_owned(),
        },
        Fault::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("the key `{key}` stands twice");
        }
        _ => {}
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    let message = message.lines().next().unwrap_or(message).trim();
    let plain = PLAIN.iter().find(|(words, _)| message.contains(words));
    plain.map_or(message, |(_, plain)| plain).to_owned()
}

/// What the reader says of types, and the same for people.
const PLAIN: [(&str, &str); 8] = [
    (
        "cannot deserialize null into string",
        "a text is missing here",
    ),
    ("expected sequence start", "a list is expected here"),
    (
        "expected mapping start",
        "named values are expected here, like `key: value`",
    ),
    (
        "expected string scalar",
        "a text is expected here; one that starts with `{` or `[` needs quotes",
    ),
    (
        "strict mode expects true/false",
        "true or false is expected here",
    ),
    ("invalid u", "a whole number is expected here"),
    ("invalid i", "a whole number is expected here"),
    ("invalid f", "a number is expected here"),
];
