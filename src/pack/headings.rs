//! The lines that hold a pack's prompts together, which no value may pass for.

use std::collections::{BTreeMap, HashSet};

use super::layer::{Holds, Layer};
use super::text::Text;
use crate::text::invisible::is_invisible;

/// What holds a pack's prompts together in flat text: headings over layers and context items, headings that its texts
/// start with, separators, and what stands before a message.
#[derive(Clone, Debug, Default)]
pub struct Headings {
    /// Whole lines.
    lines: HashSet<String>,
    /// What a line starts with.
    starts: Vec<String>,
    /// The same by their first character: most lines start with another.
    by_first: Vec<(char, Vec<String>)>,
}

impl Headings {
    pub(super) fn of(
        separator: &str,
        sections: &[String],
        layers: &[Layer],
        texts: &BTreeMap<String, Text>,
    ) -> Self {
        let whole = |line: &str| normal(line).trim_end_matches(is_end).to_owned();
        let mut headings = Self::default();
        let first_lines = texts
            .values()
            .filter_map(|text| text.body().trim_start().lines().next());
        headings
            .lines
            .extend(first_lines.filter(|line| line.starts_with('#')).map(whole));
        headings.lines.insert("---".to_owned());
        headings.lines.extend(separator.lines().map(whole));
        headings
            .lines
            .extend(sections.iter().map(|section| whole(&format!("#{section}"))));
        for layer in layers {
            let heading = layer.heading_text();
            match heading.split_once("{name}") {
                Some((before, _)) => headings.starts.push(normal(before)),
                None => headings.lines.extend(heading.lines().map(whole)),
            }
            headings.starts.push(normal(&layer.prefix));
            headings
                .lines
                .extend(layer.join.iter().flat_map(|join| join.lines()).map(whole));
            if matches!(layer.holds, Holds::History | Holds::Turn) {
                headings
                    .starts
                    .extend(["user:", "assistant:", "system:"].map(str::to_owned));
            }
        }
        headings.lines.remove("");
        headings.starts.retain(|start| !start.is_empty());
        headings.starts.sort_unstable();
        headings.starts.dedup();
        for known in headings.lines.iter().chain(&headings.starts) {
            let Some(first) = known.chars().next() else {
                continue;
            };
            match headings
                .by_first
                .iter_mut()
                .find(|(known, _)| *known == first)
            {
                Some((_, all)) => all.push(known.clone()),
                None => headings.by_first.push((first, vec![known.clone()])),
            }
        }
        headings
    }

    /// Tells whether a line would pass for one that holds a prompt together.
    #[must_use]
    pub fn has(&self, line: &str) -> bool {
        let Some(first) = line
            .chars()
            .find(|c| !c.is_whitespace() && !is_invisible(*c))
        else {
            return false;
        };
        // Most lines start with something else than any of ours: one look tells.
        let lower = first.to_lowercase().next().unwrap_or(first);
        let Some((_, known)) = self.by_first.iter().find(|(first, _)| *first == lower) else {
            return false;
        };
        let Some(line) = normal_like(line, known) else {
            return false;
        };
        self.lines.contains(line.trim_end_matches(is_end))
            || self
                .starts
                .iter()
                .any(|start| line.starts_with(start.as_str()))
    }

    /// Tells whether two lines would pass for each other.
    #[must_use]
    pub fn are_alike(one: &str, other: &str) -> bool {
        other
            .trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c))
            .starts_with('#')
            && normal(one).trim_end_matches(is_end) == normal(other).trim_end_matches(is_end)
    }
}

/// Tells what may stand behind a heading without making another of it.
fn is_end(c: char) -> bool {
    matches!(c, ':' | '.' | '!' | '#' | ' ')
}

/// Returns a line as it is compared: in lower case, with single blanks, without what cannot be seen; of headings the
/// title behind one `#`.
fn normal(line: &str) -> String {
    normal_like(line, &[String::new()]).unwrap_or_default()
}

/// Returns a line as it is compared; `None` as soon as it is clear that it starts like none of those that are known.
fn normal_like(line: &str, known: &[String]) -> Option<String> {
    let mut out = String::new();
    let mut blank = false;
    for c in line.chars().filter(|c| !is_invisible(*c)) {
        let in_hashes = out == "#";
        match c {
            _ if c.is_whitespace() => blank = true,
            '#' if in_hashes => {}
            _ => {
                if std::mem::take(&mut blank) && !out.is_empty() && !in_hashes {
                    out.push(' ');
                }
                out.extend(c.to_lowercase());
                let alike =
                    |known: &String| known.starts_with(&out) || out.starts_with(known.as_str());
                if !known.iter().any(alike) {
                    return None;
                }
            }
        }
    }
    Some(out)
}
