//! Lines that delimit the parts of a pack's prompts, and that values must not imitate.

use std::collections::{BTreeMap, HashSet};

use super::layer::{Layer, LayerContent};
use super::text::ProseText;
use crate::text::invisible::is_invisible;

/// Delimiter lines of a pack's prompts in flat text: headings of layers, context items and texts, separators, and role
/// prefixes of messages.
///
/// Lines are compared in a normalized form, so that a model which ignores case, spacing or invisible
/// characters is not misled by a variant.
#[derive(Clone, Debug, Default)]
pub struct DelimiterLines {
    /// Whole lines, normalized.
    lines: HashSet<String>,
    /// Starts of lines, normalized.
    starts: Vec<String>,
    /// `lines` and `starts` by first character. A quick filter: most lines of a value start with another character.
    by_first: Vec<(char, Vec<String>)>,
}

impl DelimiterLines {
    pub(super) fn collect(
        separator: &str,
        sections: &[String],
        layers: &[Layer],
        texts: &BTreeMap<String, ProseText>,
    ) -> Self {
        let normalize_whole = |line: &str| {
            normalize(line)
                .trim_end_matches(is_trailing_mark)
                .to_owned()
        };

        let mut delimiters = Self::default();
        let first_lines = texts
            .values()
            .filter_map(|text| text.body().trim_start().lines().next());
        delimiters.lines.extend(
            first_lines
                .filter(|line| line.starts_with('#'))
                .map(normalize_whole),
        );
        delimiters.lines.insert("---".to_owned());
        delimiters
            .lines
            .extend(separator.lines().map(normalize_whole));
        delimiters.lines.extend(
            sections
                .iter()
                .map(|section| normalize_whole(&format!("#{section}"))),
        );

        for layer in layers {
            let heading = layer.heading_text();
            match heading.split_once("{name}") {
                Some((before, _)) => delimiters.starts.push(normalize(before)),
                None => delimiters
                    .lines
                    .extend(heading.lines().map(normalize_whole)),
            }

            delimiters.starts.push(normalize(&layer.prefix));
            delimiters.lines.extend(
                layer
                    .join
                    .iter()
                    .flat_map(|join| join.lines())
                    .map(normalize_whole),
            );

            if matches!(layer.holds, LayerContent::History | LayerContent::Turn) {
                delimiters
                    .starts
                    .extend(["user:", "assistant:", "system:"].map(str::to_owned));
            }
        }

        delimiters.lines.remove("");
        delimiters.starts.retain(|start| !start.is_empty());
        delimiters.starts.sort_unstable();
        delimiters.starts.dedup();

        for delimiter in delimiters.lines.iter().chain(&delimiters.starts) {
            let Some(first) = delimiter.chars().next() else {
                continue;
            };
            match delimiters
                .by_first
                .iter_mut()
                .find(|(character, _)| *character == first)
            {
                Some((_, same_first)) => same_first.push(delimiter.clone()),
                None => delimiters.by_first.push((first, vec![delimiter.clone()])),
            }
        }

        delimiters
    }

    /// Returns true if a line could be mistaken for a delimiter.
    #[must_use]
    pub fn matches(&self, line: &str) -> bool {
        let Some(first) = line
            .chars()
            .find(|c| !c.is_whitespace() && !is_invisible(*c))
        else {
            return false;
        };

        // Most lines are ruled out by their first visible character.
        let lower = first.to_lowercase().next().unwrap_or(first);
        let Some((_, similar)) = self.by_first.iter().find(|(first, _)| *first == lower) else {
            return false;
        };
        let Some(line) = normalize_if_similar(line, similar) else {
            return false;
        };

        self.lines.contains(line.trim_end_matches(is_trailing_mark))
            || self
                .starts
                .iter()
                .any(|start| line.starts_with(start.as_str()))
    }

    /// Returns true if `other` is a heading that could be mistaken for `one`.
    #[must_use]
    pub fn are_alike(one: &str, other: &str) -> bool {
        other
            .trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c))
            .starts_with('#')
            && normalize(one).trim_end_matches(is_trailing_mark)
                == normalize(other).trim_end_matches(is_trailing_mark)
    }
}

/// Returns true for characters that may follow a heading without making it a different one.
fn is_trailing_mark(c: char) -> bool {
    matches!(c, ':' | '.' | '!' | '#' | ' ')
}

/// Returns the normalized form of a line: lower case, single spaces, no invisible characters, and headings with one `#` and
/// no space after it.
fn normalize(line: &str) -> String {
    // The empty delimiter is a prefix of every line, so the result is never `None`.
    normalize_if_similar(line, &[String::new()]).unwrap_or_default()
}

/// Returns the normalized form of a line; `None` if the line can neither equal nor start with one of the delimiters.
fn normalize_if_similar(line: &str, delimiters: &[String]) -> Option<String> {
    let mut out = String::new();
    let mut has_pending_space = false;
    for c in line.chars().filter(|c| !is_invisible(*c)) {
        let in_hashes = out == "#";
        match c {
            _ if c.is_whitespace() => has_pending_space = true,
            '#' if in_hashes => {}
            _ => {
                if std::mem::take(&mut has_pending_space) && !out.is_empty() && !in_hashes {
                    out.push(' ');
                }
                out.extend(c.to_lowercase());
                let can_match = |delimiter: &String| {
                    delimiter.starts_with(&out) || out.starts_with(delimiter.as_str())
                };
                if !delimiters.iter().any(can_match) {
                    return None;
                }
            }
        }
    }

    Some(out)
}
