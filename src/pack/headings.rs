//! The headings of a pack's prompts, which no value may pass for.

use std::collections::{BTreeMap, HashSet};

use super::layer::Layer;
use super::text::Text;

/// The headings of a pack's prompts: those over layers, those over context items, and those that its texts start with.
#[derive(Clone, Debug, Default)]
pub struct Headings {
    titles: HashSet<String>,
    /// What a heading over a context item starts with.
    prefixes: Vec<String>,
}

impl Headings {
    pub(super) fn of(layers: &[Layer], texts: &BTreeMap<String, Text>) -> Self {
        let mut headings = Self::default();
        let first_lines = texts.values().filter_map(|text| text.body().trim_start().lines().next());
        headings.titles.extend(first_lines.filter_map(title));
        for layer in layers {
            let heading = layer.heading_text();
            match heading.split_once("{name}") {
                Some((before, _)) => headings.prefixes.extend(title(before)),
                None => headings.titles.extend(heading.lines().next().and_then(title)),
            }
        }
        headings
    }

    /// Tells whether a line is one of the headings.
    #[must_use]
    pub fn has(&self, line: &str) -> bool {
        title(line).is_some_and(|title| {
            self.titles.contains(&title)
                || self.prefixes.iter().any(|known| title.starts_with(known.as_str()))
        })
    }
}

/// Returns the title of a heading, in lower case; `None` if the line is none.
fn title(line: &str) -> Option<String> {
    let line = line.trim();
    let title = line.trim_start_matches('#').trim().trim_end_matches('#').trim().to_lowercase();
    (line.starts_with('#') && !title.is_empty()).then_some(title)
}
