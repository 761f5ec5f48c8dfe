//! A spec: read, and checked as a whole.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Fault;
use super::design::Design;
use super::head::{Head, is_placeholder, line, line_from, read_yaml, shown};
use super::parts::{Body, Part, PartKind, looks_special, special};
use crate::text::front_matter::split_front_matter;
use crate::text::markdown::{LineKind, MarkdownLine};
use crate::text::yaml::Placed;

/// A spec: what is true of a part of a system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// Its id, which names its file.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How often it was changed, from 1.
    pub version: u64,
    /// When it was made.
    pub created_at: String,
    /// When it was changed last.
    pub updated_at: String,
    /// What it demands, in the order of the document.
    pub requirements: Vec<Requirement>,
    /// How that shows, in the order of the document.
    pub scenarios: Vec<Scenario>,
}

/// A requirement of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// Its id, such as `R1`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The line of its heading, from 1.
    pub line: usize,
    /// How much it matters, if its YAML block says so.
    pub priority: Option<String>,
    /// How far it has come, if its YAML block says so.
    pub status: Option<String>,
    /// What is demanded: the text below the heading and the YAML block.
    pub text: String,
}

/// A scenario of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Its title.
    pub title: String,
    /// The line of its heading, from 1.
    pub line: usize,
    /// The requirement below which it stands, if it stands below one in the same section.
    pub requirement: Option<String>,
    /// Its steps: the text below the heading.
    pub text: String,
}

/// The YAML block of a requirement. Any other key is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    id: Placed<String>,
    priority: Option<String>,
    status: Option<String>,
}

/// Checks a spec; no fault means that [`Spec::read`] reads it.
#[must_use]
pub fn check_spec(text: &str) -> Vec<Fault> {
    Spec::read(text).err().unwrap_or_default()
}

impl Spec {
    /// Reads a spec.
    ///
    /// # Errors
    ///
    /// All faults of the document, by line.
    pub fn read(text: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let head = read_head(text, &mut faults);
        if split_front_matter(text).is_unclosed {
            // Where the body starts cannot be known.
            return Err(faults);
        }
        let body = Body::of(text);
        let parts = body.parts();
        let mut reader = Reader {
            body: &body,
            faults: &mut faults,
        };
        reader.frame();
        reader.headings(&parts);
        let (requirements, scenarios) = reader.special(&parts);
        let design = Design::of(body.text, &body.lines[body.inside()], &mut faults);
        if let Some(head) = &head {
            head.check(&mut faults);
            agree(head, &requirements, &mut faults);
            design.check(&head.design_elements, &mut faults);
        }
        match head {
            Some(head) if faults.is_empty() => Ok(Self {
                id: head.id.value,
                title: head.title.value,
                version: head.version.value,
                created_at: head.created_at.value,
                updated_at: head.updated_at.value,
                requirements,
                scenarios,
            }),
            _ => {
                faults.sort_by_key(|fault| fault.line);
                Err(faults)
            }
        }
    }

    /// Returns the scenarios of a requirement: those that stand below it or name it, and those of the whole spec.
    #[must_use]
    pub fn scenarios_of(&self, requirement: &str) -> Vec<&Scenario> {
        let known: BTreeSet<&str> = self
            .requirements
            .iter()
            .map(|known| known.id.as_str())
            .collect();
        let is_of = |scenario: &&Scenario| {
            let words = [&scenario.title, &scenario.text].into_iter();
            let words = words.flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
            let mut owners = words
                .filter(|word| known.contains(word))
                .chain(scenario.requirement.as_deref())
                .peekable();
            owners.peek().is_none() || owners.any(|owner| owner == requirement)
        };
        self.scenarios.iter().filter(is_of).collect()
    }
}

fn read_head(text: &str, faults: &mut Vec<Fault>) -> Option<Head> {
    let split = split_front_matter(text);
    match split.yaml.map(Head::read) {
        Some(Ok(head)) => return Some(head),
        Some(Err(fault)) => faults.push(fault),
        None if split.is_unclosed => {
            faults.push(
                Fault::new(1, "the front matter is not closed")
                    .with_hint("end it with a line of `---`"),
            );
        }
        None => faults.push(
            Fault::new(1, "there is no front matter").with_hint("start with a line of `---`"),
        ),
    }
    None
}

/// Compares what the head says of the requirements with those that are there.
fn agree(head: &Head, requirements: &[Requirement], faults: &mut Vec<Fault>) {
    let total = &head.requirements.total;
    let there: BTreeMap<&str, usize> = requirements
        .iter()
        .map(|found| (found.id.as_str(), found.line))
        .collect();
    let listed: BTreeSet<&str> = head
        .requirements
        .ids
        .iter()
        .map(|id| id.value.as_str())
        .collect();
    if total.value != there.len() {
        let message = format!(
            "the total is {}, but the body has {} requirements",
            total.value,
            there.len()
        );
        faults.push(Fault::new(line(total), message));
    }
    for id in head
        .requirements
        .ids
        .iter()
        .filter(|id| !there.contains_key(id.value.as_str()))
    {
        let message = format!(
            "`{}` is listed, but the body has no such requirement",
            shown(&id.value)
        );
        faults.push(Fault::new(line(id), message));
    }
    for (id, at) in there.iter().filter(|(id, _)| !listed.contains(*id)) {
        faults.push(Fault::new(
            *at,
            format!("`{id}` is not listed in the front matter"),
        ));
    }
}

struct Reader<'a, 'b> {
    body: &'a Body<'a>,
    faults: &'b mut Vec<Fault>,
}

impl Reader<'_, '_> {
    fn fault(&mut self, line: usize, message: impl Into<String>) {
        self.faults.push(Fault::new(line, message));
    }

    /// The body stands between `<spec>` and `</spec>`, and nothing outside of them.
    fn frame(&mut self) {
        let lines = &self.body.lines;
        let last = lines.last().map_or(1, |line| line.number);
        let inside = self.body.inside();
        if self.body.open.is_none() {
            let first = lines
                .iter()
                .find(|line| !line.is_blank())
                .map_or(last, |line| line.number);
            self.faults.push(
                Fault::new(first, "there is no `<spec>`")
                    .with_hint("it is a line before the title"),
            );
        }
        // An open fence hides the end; it is told of by itself.
        let ends_in_code = lines
            .last()
            .is_some_and(|line| matches!(line.kind, LineKind::FenceOpen(_) | LineKind::Code));
        if self.body.close.is_none() && !ends_in_code {
            self.faults
                .push(Fault::new(last, "there is no `</spec>`").with_hint("it is the last line"));
        }
        let before = self.body.open.map_or(&lines[..0], |open| &lines[..open]);
        let after = self
            .body
            .close
            .map_or(&lines[..0], |close| &lines[close + 1..]);
        for line in [before, after]
            .into_iter()
            .filter_map(|part| part.iter().find(|line| !line.is_blank()))
        {
            self.fault(line.number, "this stands outside of `<spec>`");
        }
        for line in lines[inside]
            .iter()
            .filter(|line| line.kind == LineKind::Text)
        {
            let tag = line.text.trim();
            if matches!(tag, "<spec>" | "</spec>") {
                self.fault(line.number, format!("a second `{tag}`"));
            }
        }
    }

    /// There is one title; headings that look special are; none stands twice.
    fn headings(&mut self, parts: &[Part<'_>]) {
        let inside = &self.body.lines[self.body.inside()];
        let mut titles = 0;
        for line in inside {
            let LineKind::Heading(level, title) = line.kind else {
                continue;
            };
            titles += usize::from(level == 1);
            if level == 1 && titles > 1 {
                self.fault(line.number, "a second title; a spec has one `# Title`");
            }
            if title.is_empty() || is_placeholder(title) {
                self.fault(
                    line.number,
                    "this heading is empty, or still the skeleton's",
                );
            }
            if is_misspelt(level, title) {
                let message = format!(
                    "`{}` is no heading of a requirement or scenario",
                    shown(line.text.trim())
                );
                let hint = "write `### R1 - Title`, `### R1: Title` or `### Scenario: title`";
                self.faults
                    .push(Fault::new(line.number, message).with_hint(hint));
            }
        }
        let preamble = parts.first().filter(|part| !part.heading.is_empty());
        if titles == 0 {
            let first = inside
                .iter()
                .find(|line| !line.is_blank())
                .or(inside.first());
            self.fault(first.map_or(1, |line| line.number), "there is no `# Title`");
        } else if preamble.is_none() {
            self.fault(
                parts.get(1).map_or(1, |part| part.line),
                "the `# Title` comes first",
            );
        }
        let mut seen = BTreeMap::new();
        for part in parts {
            if let Some(first) = seen.insert(&part.key.name, part.line) {
                let what = shown(&part.key.name);
                self.fault(
                    part.line,
                    format!("`{what}` stands twice; the first is on line {first}"),
                );
            }
        }
        if !parts
            .iter()
            .any(|part| matches!(part.kind, PartKind::Requirement { .. }))
        {
            let last = parts.first().map_or(1, |part| part.line);
            self.faults.push(
                Fault::new(last, "there is no requirement").with_hint("write `### R1 - Title`"),
            );
        }
    }

    /// Reads the requirements, and the scenarios with the requirement that each follows.
    fn special(&mut self, parts: &[Part<'_>]) -> (Vec<Requirement>, Vec<Scenario>) {
        let (mut requirements, mut scenarios) = (Vec::new(), Vec::new());
        let mut owner = None;
        for part in parts {
            match part.kind {
                PartKind::Requirement { id, title } => {
                    requirements.push(self.requirement(part, id, title));
                    owner = Some(id);
                }
                PartKind::Scenario { title } => scenarios.push(self.scenario(part, title, owner)),
                PartKind::Preamble | PartKind::Section => owner = None,
            }
        }
        (requirements, scenarios)
    }

    fn requirement(&mut self, part: &Part<'_>, id: &str, title: &str) -> Requirement {
        let below = self.body.below(part);
        let (facts, text_start) = self.facts(id, below.clone());
        let text = self.body.text_of(text_start..below.end).to_owned();
        if text.is_empty() {
            self.fault(
                part.line,
                format!("`{id}` demands nothing: there is no text below its heading"),
            );
        }
        if is_placeholder(title) {
            self.fault(
                part.line,
                format!("the title of `{id}` is still the skeleton's"),
            );
        }
        let (priority, status) = facts.map_or((None, None), |facts| (facts.priority, facts.status));
        Requirement {
            id: id.to_owned(),
            title: title.to_owned(),
            line: part.line,
            priority,
            status,
            text,
        }
    }

    /// Reads the YAML block with which a requirement may start, and finds where its text starts.
    fn facts(&mut self, id: &str, below: std::ops::Range<usize>) -> (Option<Facts>, usize) {
        let lines = &self.body.lines[below.clone()];
        let none = (None, below.start);
        let Some(open) = lines.iter().position(|line| !line.is_blank()) else {
            return none;
        };
        if lines[open].kind != LineKind::FenceOpen("yaml") {
            return none;
        }
        let Some(close) = lines[open..]
            .iter()
            .position(|line| line.kind == LineKind::FenceClose)
        else {
            return none;
        };
        let first = &lines[open + 1];
        let text = &self.body.text[first.start..lines[open + close].start];
        let rest = below.start + open + close + 1;
        match read_yaml::<Facts>(text, first.number) {
            Ok(facts) if facts.id.value == id => return (Some(facts), rest),
            Ok(facts) => {
                let at = line_from(first.number, &facts.id);
                self.fault(
                    at,
                    format!(
                        "the id is `{}`, but the heading says `{id}`",
                        shown(&facts.id.value)
                    ),
                );
            }
            Err(fault) => self
                .faults
                .push(fault.with_hint("it holds id, and may hold priority and status")),
        }
        (None, rest)
    }

    fn scenario(&mut self, part: &Part<'_>, title: &str, owner: Option<&str>) -> Scenario {
        let below = self.body.below(part);
        self.steps(part.line, &self.body.lines[below.clone()]);
        if is_placeholder(title) {
            self.fault(
                part.line,
                "the title of this scenario is still the skeleton's",
            );
        }
        let text = self.body.text_of(below).to_owned();
        Scenario {
            title: title.to_owned(),
            line: part.line,
            requirement: owner.map(str::to_owned),
            text,
        }
    }

    /// A scenario has at least one WHEN, and a THEN after each.
    fn steps(&mut self, heading: usize, lines: &[MarkdownLine<'_>]) {
        let mut waiting: Option<usize> = None;
        let (mut whens, mut thens, mut steps) = (0, 0, 0);
        for line in lines.iter().filter(|line| line.kind == LineKind::Text) {
            let Some((word, text)) = step(line.text) else {
                continue;
            };
            if text.is_empty() {
                self.fault(line.number, format!("this {word} says nothing"));
            }
            match word {
                "WHEN" => {
                    if let Some(at) = waiting.replace(line.number) {
                        self.fault(at, "no THEN follows this WHEN");
                    }
                    whens += 1;
                }
                "THEN" => {
                    if whens == 0 {
                        self.fault(line.number, "this THEN comes before any WHEN");
                    }
                    waiting = None;
                    thens += 1;
                }
                "AND" if steps > 0 => {}
                "AND" => self.fault(line.number, "this AND comes before any WHEN"),
                _ => {
                    let fault = Fault::new(
                        line.number,
                        format!("`**{word}**` is no step of a scenario"),
                    );
                    self.faults
                        .push(fault.with_hint("steps are **WHEN**, **THEN** and **AND**"));
                }
            }
            steps += 1;
        }
        if let Some(at) = waiting {
            self.fault(at, "no THEN follows this WHEN");
        }
        let lacks = match (whens, thens) {
            (0, 0) => "WHEN and no THEN",
            (0, _) => "WHEN",
            _ => return,
        };
        let fault = Fault::new(heading, format!("this scenario has no {lacks}"));
        self.faults
            .push(fault.with_hint("write `- **WHEN** …`, then `- **THEN** …`"));
    }
}

/// Tells a heading that is meant as one of a requirement or scenario, and is none.
fn is_misspelt(level: usize, title: &str) -> bool {
    match level {
        1 => false,
        3 => looks_special(title) && special(title).is_none(),
        _ => special(title).is_some(),
    }
}

/// Returns the word and the text of a step, such as `- **WHEN** it rains`; also of one that is not written right.
fn step(line: &str) -> Option<(&str, &str)> {
    let rest = line
        .trim_start()
        .strip_prefix(['-', '*', '+'])?
        .trim_start()
        .strip_prefix("**")?;
    let (word, text) = rest.split_once("**")?;
    let known = ["WHEN", "THEN", "AND", "GIVEN", "BUT", "OR"];
    let is_known = known
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word.trim_end_matches(':')));
    is_known.then_some((word, text.trim()))
}
