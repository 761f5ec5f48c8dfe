//! Merges specs three-way: what only one side changed is taken as that side has it, and the result is a valid spec.

#![no_main]

use std::collections::BTreeSet;

use agentd::spec::{self, Spec};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const NOW: &str = "2026-02-01T10:00:00Z";

/// One part of a spec's body.
#[derive(Arbitrary, Clone, Debug)]
enum Part {
    Section { name: u8, text: u8 },
    Requirement { id: u8, title: u8, text: u8 },
    Scenario { name: u8, text: u8 },
    Heading { name: u8, text: u8 },
}

#[derive(Arbitrary, Clone, Debug)]
struct Document {
    title: u8,
    parts: Vec<Part>,
}

/// One step from the base to a side of the merge.
#[derive(Arbitrary, Debug)]
enum Edit {
    Insert(u8, Part),
    Remove(u8),
    Replace(u8, Part),
    Retitle(u8),
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    base: Document,
    one: Vec<Edit>,
    other: Vec<Edit>,
    /// Texts of parts, in addition to those of `TEXTS`.
    texts: Vec<&'a str>,
}

const TEXTS: [&str; 8] = [
    "One.",
    "Two.",
    "",
    "Three.\n\n```text\n### R9 - x\n```",
    "Four.\n\n#### Deep",
    "```yaml\nid: R1\npriority: high\n```\n\nFive.",
    "Fünf.\r\n\r\nSix.",
    "- **WHEN** a\n- **THEN** b",
];

fuzz_target!(|input: Input<'_>| {
    let base = write_spec(&input.base, &input.texts);
    let one = write_spec(&edit(&input.base, &input.one), &input.texts);
    let other = write_spec(&edit(&input.base, &input.other), &input.texts);

    // Arbitrary text is refused or merged, without a panic.
    for text in &input.texts {
        let _ = spec::merge(Some(&base), Some(text), &one, NOW);
        let _ = spec::merge(Some(text), Some(&base), text, NOW);
    }

    if let Ok(merged) = spec::merge(Some(&base), Some(&one), &other, NOW) {
        assert_eq!(spec::check_spec(&merged), []);
    }

    let Ok(read) = Spec::read(&one.replace("\r\n", "\n")) else { return };
    check_new(&one, &read);
    if Spec::read(&base.replace("\r\n", "\n")).is_ok() {
        check_change_of_one_side(&base, &one, &read);
    }
});

/// A new spec is taken as it is, as version 1 of today.
fn check_new(one: &str, read: &Spec) {
    let merged = spec::merge(None, None, one, NOW).expect("a new spec has no conflict");
    let new = Spec::read(&merged.replace("\r\n", "\n")).expect("a merged spec is valid");
    assert_eq!((new.version, new.created_at.as_str(), new.updated_at.as_str()), (1, NOW, NOW));
    assert_eq!(new.title, read.title);
    assert_eq!(body_lines(&merged), body_lines(one));
}

/// An edit of one side is taken, on either side.
fn check_change_of_one_side(base: &str, one: &str, read: &Spec) {
    // The change edits the spec, and nobody else did: the order is the change's, too.
    let merged = spec::merge(Some(base), Some(base), one, NOW).expect("only the change edited the spec");
    assert_eq!(body_lines(&merged), body_lines(one));
    let new = Spec::read(&merged.replace("\r\n", "\n")).expect("a merged spec is valid");
    assert_eq!(new.title, read.title);

    // The spec was edited meanwhile, and the change leaves it alone: parts keep the order of the change.
    let merged = spec::merge(Some(base), Some(one), base, NOW).expect("only the current spec was edited");
    let (mut merged_lines, mut current_lines) = (body_lines(&merged), body_lines(one));
    merged_lines.sort();
    current_lines.sort();
    assert_eq!(merged_lines, current_lines);
    let new = Spec::read(&merged.replace("\r\n", "\n")).expect("a merged spec is valid");
    assert_eq!((new.title.as_str(), new.version), (read.title.as_str(), read.version + 1));
    assert_eq!(new.created_at, read.created_at);
}

/// Returns the lines after the front matter that are not blank.
fn body_lines(spec: &str) -> Vec<String> {
    let spec = spec.replace("\r\n", "\n");
    let body = spec.splitn(3, "---\n").nth(2).unwrap_or_default();
    body.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

fn edit(base: &Document, edits: &[Edit]) -> Document {
    let mut document = base.clone();
    for edit in edits {
        let count = document.parts.len();
        match edit {
            Edit::Insert(at, part) => document.parts.insert(usize::from(*at) % (count + 1), part.clone()),
            Edit::Remove(at) if count > 0 => drop(document.parts.remove(usize::from(*at) % count)),
            Edit::Replace(at, part) if count > 0 => document.parts[usize::from(*at) % count] = part.clone(),
            Edit::Remove(_) | Edit::Replace(..) => {}
            Edit::Retitle(title) => document.title = *title,
        }
    }
    document
}

/// Writes a document without the parts whose heading is already there.
///
/// The front matter is right unless a text contains headings of requirements.
fn write_spec(document: &Document, texts: &[&str]) -> String {
    let text = |index: u8| {
        let index = usize::from(index) % (TEXTS.len() + texts.len());
        TEXTS.iter().chain(texts).nth(index).copied().unwrap_or_default()
    };
    let name = |index: u8| ["Overview", "Requirements", "Scenarios", "Notes"][usize::from(index) % 4];

    let title = ["Login", "Log in", "Log: in"][usize::from(document.title) % 3];
    let mut body = format!("# {title}\n");
    let mut ids = Vec::new();
    let mut headings = BTreeSet::new();
    for part in document.parts.iter().take(24) {
        let (key, written) = match part {
            Part::Section { name: index, text: body } => {
                (name(*index).to_owned(), format!("## {}\n\n{}", name(*index), text(*body)))
            }
            Part::Requirement { id, title, text: body } => {
                let id = format!("R{}", id % 6 + 1);
                (id.clone(), format!("### {id} - {}\n\nDo.\n\n{}", name(*title), text(*body)))
            }
            Part::Scenario { name: index, text: body } => {
                let heading = format!("Scenario: {} {}", name(*index), index % 3);
                let steps = "- **WHEN** a\n- **THEN** b";
                (heading.clone(), format!("### {heading}\n\n{steps}\n\n{}", text(*body)))
            }
            Part::Heading { name: index, text: body } => {
                (format!("Other: {index}"), format!("### {}\n\n{}", name(*index), text(*body)))
            }
        };
        if !headings.insert(key.clone()) {
            continue;
        }
        if matches!(part, Part::Requirement { .. }) {
            ids.push(key);
        }
        body.push_str(&format!("\n{written}\n"));
    }

    let list: String = ids.iter().map(|id| format!("    - {id}\n")).collect();
    format!(
        "---\nid: login\ntype: spec\ntitle: \"{title}\"\nversion: 3\n\
         created_at: 2026-01-22T00:00:00Z\nupdated_at: 2026-01-22T00:00:00Z\n\
         requirements:\n  total: {}\n  ids:\n{list}\
         design_elements:\n  has_mermaid: false\n  has_json_schema: false\n  has_pseudo_code: false\n  has_api_spec: false\n\
         ---\n\n<spec>\n\n{body}\n</spec>\n",
        ids.len()
    )
}
