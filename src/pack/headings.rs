//! The lines that hold a pack's prompts together, which no value may pass for.

use std::collections::{BTreeMap, HashSet};

use super::layer::{Holds, Layer};
use super::text::Text;

/// What holds a pack's prompts together in flat text: headings over layers and context items, headings that its texts
/// start with, separators, and what stands before a message.
#[derive(Clone, Debug, Default)]
pub struct Headings {
    /// Whole lines.
    lines: HashSet<String>,
    /// What a line starts with.
    starts: Vec<String>,
    /// The characters that any of them starts with.
    firsts: Vec<char>,
}

impl Headings {
    pub(super) fn of(separator: &str, layers: &[Layer], texts: &BTreeMap<String, Text>) -> Self {
        let mut headings = Self::default();
        let first_lines = texts.values().filter_map(|text| text.body().trim_start().lines().next());
        headings.lines.extend(first_lines.filter(|line| line.starts_with('#')).map(normal));
        headings.lines.insert("---".to_owned());
        headings.lines.extend(separator.lines().map(normal));
        for layer in layers {
            let heading = layer.heading_text();
            match heading.split_once("{name}") {
                Some((before, _)) => headings.starts.push(normal(before)),
                None => headings.lines.extend(heading.lines().map(normal)),
            }
            headings.starts.push(normal(&layer.prefix));
            headings.lines.extend(layer.join.iter().flat_map(|join| join.lines()).map(normal));
            if matches!(layer.holds, Holds::History | Holds::Turn) {
                headings.starts.extend(["user:", "assistant:", "system:"].map(str::to_owned));
            }
        }
        headings.lines.remove("");
        headings.starts.retain(|start| !start.is_empty());
        headings.starts.sort_unstable();
        headings.starts.dedup();
        let all = headings.lines.iter().chain(&headings.starts);
        headings.firsts = all.filter_map(|line| line.chars().next()).collect();
        headings.firsts.sort_unstable();
        headings.firsts.dedup();
        headings
    }

    /// Tells whether a line would pass for one that holds a prompt together.
    #[must_use]
    pub fn has(&self, line: &str) -> bool {
        let line = line.trim();
        let Some(first) = line.chars().next() else { return false };
        // Most lines start with something else than any of ours: one look tells.
        let lower = first.to_lowercase().next().unwrap_or(first);
        if !self.firsts.contains(&lower) {
            return false;
        }
        let line = normal(line);
        self.lines.contains(&line) || self.starts.iter().any(|start| line.starts_with(start.as_str()))
    }
}

/// Returns a line as it is compared: in lower case, of headings the title behind one `#`.
fn normal(line: &str) -> String {
    let line = line.trim();
    match line.strip_prefix('#') {
        None => line.to_lowercase(),
        Some(rest) => {
            format!("#{}", rest.trim_matches(|c: char| c == '#' || c.is_whitespace()).to_lowercase())
        }
    }
}
