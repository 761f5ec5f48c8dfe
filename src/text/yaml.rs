//! Strict YAML parser for packs, front matter and scripts, with limits on size and depth.

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error as Fault, Location, MergeKeyPolicy, Options, Spanned, budget, options};

use crate::error::{Error, ErrorKind, Place, Result};

/// A value together with its position in the file.
///
/// Hidden, because it is a type of the YAML library.
#[doc(hidden)]
pub type WithPlace<T> = Spanned<T>;

/// Maximum nesting depth of a file.
const MAX_DEPTH: usize = 64;

/// Maximum number of nodes of a file, unless the caller sets another.
const DEFAULT_MAX_NODES: usize = 50_000;

/// Parses YAML; anchors, aliases, merge keys, duplicate and unknown keys are errors.
///
/// `first_line` is the line of the origin at which the text starts, from 1: front matter starts at line 2.
///
/// # Errors
///
/// Fails with an error of `kind`, with the position in the origin, if the text is not valid YAML or does not match `T`.
pub fn read<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    first_line: usize,
    kind: ErrorKind,
) -> Result<T> {
    read_within(text, origin, first_line, kind, DEFAULT_MAX_NODES)
}

/// Parses YAML of at most `nodes` nodes.
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
    serde_saphyr::from_str_with_options(text, strict_options(nodes))
        .map_err(|error| located_error(&error, text, origin, first_line, kind))
}

/// Parses YAML of at most `nodes` nodes with a seed.
///
/// # Errors
///
/// Those of [`read`].
pub fn read_seed<'de, S: DeserializeSeed<'de>>(
    text: &'de str,
    origin: &str,
    kind: ErrorKind,
    nodes: usize,
    seed: S,
) -> Result<S::Value> {
    serde_saphyr::with_deserializer_from_str_with_options(
        text,
        strict_options(nodes),
        |deserializer| seed.deserialize(deserializer),
    )
    .map_err(|error| located_error(&error, text, origin, 1, kind))
}

/// Returns the error of a fault, with its position in the origin and a suggestion for a misspelt name.
fn located_error(
    error: &Fault,
    text: &str,
    origin: &str,
    first_line: usize,
    kind: ErrorKind,
) -> Error {
    let placed = match error.location() {
        Some(location) if location != Location::UNKNOWN => {
            place(text, origin, first_line, location)
        }
        _ => Place::at_line(origin, text, first_line, 1),
    };

    let message = describe_fault(error.without_snippet());
    let suggestion = suggest_name(&message);
    let error = Error::new(kind, message).with_place(placed);
    match suggestion {
        Some(name) => error.with_hint(format!("did you mean `{name}`?")),
        None => error,
    }
}

/// Returns the known name in a message that is closest to the unknown one, if it is close.
fn suggest_name(message: &str) -> Option<String> {
    let rest = message
        .strip_prefix("unknown field `")
        .or_else(|| message.strip_prefix("unknown variant `"))?;
    let (unknown, rest) = rest.split_once('`')?;
    let (_, known) = rest.split_once("expected ")?;
    let known = known.strip_prefix("one of ").unwrap_or(known);

    let names = known.split(", ").map(|name| name.trim_matches('`'));
    let nearest = names
        .map(|name| (edit_distance(unknown, name), name))
        .min()?;
    let is_like = nearest.0 <= 2 && nearest.0 < unknown.chars().count();
    is_like.then(|| nearest.1.to_owned())
}

/// Returns the Levenshtein distance of two words.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, character) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..to.len() {
            let replaced = diagonal + usize::from(character != to[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Converts a location that [`read`] reported to a [`Place`] with file, line and column.
#[doc(hidden)]
#[must_use]
pub fn place(text: &str, origin: &str, first_line: usize, location: Location) -> Place {
    let line = usize::try_from(location.line()).unwrap_or(1);
    let column = usize::try_from(location.column()).unwrap_or(1);
    let mut place = Place::at_line(origin, text, line, column);
    place.line = line + first_line.saturating_sub(1);
    place
}

fn strict_options(nodes: usize) -> Options {
    options! {
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        budget: budget! {
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: nodes,
            max_events: 4 * nodes,
        },
    }
}

/// Returns the message of a fault without its position, which is printed separately. Replaces messages of the YAML library
/// that name its internals.
fn describe_fault(error: &Fault) -> String {
    match error {
        Fault::Budget { breach, .. } => match breach {
            BudgetBreach::Anchors { .. }
            | BudgetBreach::Aliases { .. }
            | BudgetBreach::MergeKeys { .. } => {
                return "anchors, aliases and merge keys are not allowed here".to_owned();
            }
            BudgetBreach::Depth { .. } => {
                return format!("nested more than {MAX_DEPTH} levels deep");
            }
            BudgetBreach::Documents { .. } => {
                return "only one YAML document is allowed here".to_owned();
            }
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                return "the file has too many values".to_owned();
            }
            _ => return "the file is too large".to_owned(),
        },
        Fault::DuplicateMappingKey { key: Some(key), .. } => {
            return format!("duplicate key `{key}`");
        }
        _ => {}
    }

    let full = error.to_string();
    let without_place = full.split(" at line ").next().unwrap_or(&full);
    let first_line = without_place.lines().next().unwrap_or(without_place).trim();
    let plain = PLAIN_MESSAGES
        .iter()
        .find(|(words, _)| first_line.contains(words));
    plain.map_or(first_line, |(_, plain)| plain).to_owned()
}

/// Parts of messages of the YAML library, and the messages that replace them.
const PLAIN_MESSAGES: [(&str, &str); 11] = [
    ("simple key expected", "`:` is missing after this key"),
    ("unexpected end of input", "a value is missing here"),
    (
        "tabs disallowed",
        "tabs cannot be used for indentation; use spaces",
    ),
    (
        "cannot deserialize null into string",
        "a string is missing here",
    ),
    ("expected sequence start", "expected a list"),
    (
        "expected mapping start",
        "expected a mapping, such as `key: value`",
    ),
    (
        "expected string scalar",
        "expected a string; quote it if it starts with `{` or `[`",
    ),
    ("strict mode expects true/false", "expected true or false"),
    ("invalid u", "expected a whole number"),
    ("invalid i", "expected a whole number"),
    ("invalid f", "expected a number"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn fault(text: &str) -> (String, usize) {
        let error =
            read::<BTreeMap<String, u8>>(text, "x.yaml", 2, ErrorKind::PackInvalid).unwrap_err();
        (error.message().to_owned(), error.place().unwrap().line)
    }

    #[test]
    fn plain_data_is_parsed_and_anchors_are_refused() {
        let data: BTreeMap<String, u8> =
            read("a: 1\nb: 2\n", "x.yaml", 1, ErrorKind::PackInvalid).unwrap();
        assert_eq!(
            data,
            BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)])
        );

        assert_eq!(fault("a: 1\na: 2\n"), ("duplicate key `a`".to_owned(), 3));
        let no_anchors = "anchors, aliases and merge keys are not allowed here";
        assert_eq!(fault("a: &x 1\n").0, no_anchors);
        assert_eq!(fault("a: one\n"), ("expected a whole number".to_owned(), 2));
    }

    #[test]
    fn a_misspelt_name_has_a_suggestion() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct TestLayer {
            #[serde(default)]
            #[expect(dead_code, reason = "only its name is read")]
            zone: u8,
            #[serde(default)]
            #[expect(dead_code, reason = "only its name is read")]
            class: u8,
        }
        let hint = |text: &str| {
            let error = read::<TestLayer>(text, "x.yaml", 1, ErrorKind::PackInvalid).unwrap_err();
            error.hint().map(str::to_owned)
        };
        assert_eq!(hint("zne: 1").as_deref(), Some("did you mean `zone`?"));
        assert_eq!(hint("clas: 1").as_deref(), Some("did you mean `class`?"));
        assert_eq!(hint("colour: 1"), None);
        assert_eq!(hint("zone: x"), None);
    }

    #[test]
    fn messages_of_the_yaml_library_are_replaced() {
        assert_eq!(
            fault("a: 1\nb 2\n"),
            ("`:` is missing after this key".to_owned(), 3)
        );
        assert_eq!(
            fault("a:\n\tb: 1\n").0,
            "tabs cannot be used for indentation; use spaces"
        );
    }

    #[test]
    fn nesting_is_limited() {
        let nested: String = (0..80)
            .map(|depth| format!("{}a:\n", " ".repeat(depth)))
            .collect();
        let read = read::<serde_json::Value>(&nested, "x.yaml", 1, ErrorKind::PackInvalid);
        assert_eq!(
            read.unwrap_err().message(),
            "nested more than 64 levels deep"
        );
    }

    #[test]
    fn the_number_of_nodes_is_limited() {
        let list = |nodes| {
            let text = "- 1\n".repeat(10);
            read_within::<Vec<u8>>(&text, "x.yaml", 1, ErrorKind::PackInvalid, nodes)
        };
        assert_eq!(list(20).unwrap().len(), 10);
        assert_eq!(
            list(5).unwrap_err().message(),
            "the file has too many values"
        );
    }
}
