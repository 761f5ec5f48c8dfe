//! Specs: reading and checking a whole document.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Fault;
use super::code_blocks::DesignElements;
use super::front_matter::{
    SpecFrontMatter, is_placeholder, line_in_block, line_of, read_yaml, shorten,
};
use super::sections::{PartKind, SpecBody, SpecPart, looks_like_part_heading, parse_part_heading};
use crate::text::front_matter::split_front_matter;
use crate::text::markdown::{LineKind, MarkdownLine};
use crate::text::yaml::WithPlace;

/// A spec: the required behaviour of one part of a system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// Id, which also names the file.
    pub id: String,
    /// Title in the front matter.
    pub title: String,
    /// Version number, from 1; each merged change increments it.
    pub version: u64,
    /// Creation time, in UTC.
    pub created_at: String,
    /// Time of the last change, in UTC.
    pub updated_at: String,
    /// Requirements, in document order.
    pub requirements: Vec<Requirement>,
    /// Scenarios, in document order.
    pub scenarios: Vec<Scenario>,
}

/// A requirement of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirement {
    /// Id, such as `R1`.
    pub id: String,
    /// Title, without the id.
    pub title: String,
    /// Line of the heading, from 1.
    pub line: usize,
    /// Priority, if the YAML block has one.
    pub priority: Option<String>,
    /// Status, if the YAML block has one.
    pub status: Option<String>,
    /// Text after the heading and the YAML block.
    pub text: String,
}

/// A scenario of a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Title, without `Scenario:`.
    pub title: String,
    /// Line of the heading, from 1.
    pub line: usize,
    /// Id of the requirement before it in the same section, if any.
    pub requirement: Option<String>,
    /// Steps: the text after the heading.
    pub text: String,
}

/// YAML block of a requirement. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequirementFacts {
    id: WithPlace<String>,
    priority: Option<String>,
    status: Option<String>,
}

/// Returns the faults of a spec; none if [`Spec::read`] accepts it.
#[must_use]
pub fn check_spec(text: &str) -> Vec<Fault> {
    Spec::read(text).err().unwrap_or_default()
}

impl Spec {
    /// Reads a spec.
    ///
    /// # Errors
    ///
    /// Returns all faults of the document, sorted by line.
    pub fn read(text: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let head = read_head(text, &mut faults);
        if split_front_matter(text).is_unclosed {
            // The start of the body is unknown.
            return Err(faults);
        }

        let body = SpecBody::from_document(text);
        let parts = body.parts();

        let mut reader = SpecReader {
            body: &body,
            faults: &mut faults,
        };
        reader.check_frame();
        reader.check_headings(&parts);
        let (requirements, scenarios) = reader.read_parts(&parts);

        let design = DesignElements::find(body.text, &body.lines[body.inside()], &mut faults);

        if let Some(head) = &head {
            head.check(&mut faults);
            check_requirement_list(head, &requirements, &mut faults);
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

    /// Returns the scenarios of a requirement: those that follow it or mention it, and those that do
    /// not belong to any requirement.
    #[must_use]
    pub fn scenarios_of(&self, requirement: &str) -> Vec<&Scenario> {
        let ids: BTreeSet<&str> = self
            .requirements
            .iter()
            .map(|requirement| requirement.id.as_str())
            .collect();

        let belongs = |scenario: &&Scenario| {
            let words = [&scenario.title, &scenario.text]
                .into_iter()
                .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
            let mut owners = words
                .filter(|word| ids.contains(word))
                .chain(scenario.requirement.as_deref())
                .peekable();
            owners.peek().is_none() || owners.any(|owner| owner == requirement)
        };
        self.scenarios.iter().filter(belongs).collect()
    }
}

fn read_head(text: &str, faults: &mut Vec<Fault>) -> Option<SpecFrontMatter> {
    let split = split_front_matter(text);
    match split.yaml.map(SpecFrontMatter::read) {
        Some(Ok(head)) => return Some(head),
        Some(Err(fault)) => faults.push(fault),
        None if split.is_unclosed => {
            faults.push(
                Fault::new(1, "the front matter is not closed")
                    .with_hint("end it with a `---` line"),
            );
        }
        None => faults.push(
            Fault::new(1, "missing front matter").with_hint("start the file with a `---` line"),
        ),
    }
    None
}

/// Adds a fault for each difference between the listed requirements and those in the body.
fn check_requirement_list(
    head: &SpecFrontMatter,
    requirements: &[Requirement],
    faults: &mut Vec<Fault>,
) {
    let total = &head.requirements.total;
    let in_body: BTreeMap<&str, usize> = requirements
        .iter()
        .map(|requirement| (requirement.id.as_str(), requirement.line))
        .collect();
    let listed: BTreeSet<&str> = head
        .requirements
        .ids
        .iter()
        .map(|id| id.value.as_str())
        .collect();

    if total.value != in_body.len() {
        let noun = if in_body.len() == 1 {
            "requirement"
        } else {
            "requirements"
        };
        let message = format!(
            "`total` is {}, but the body has {} {noun}",
            total.value,
            in_body.len()
        );
        faults.push(Fault::new(line_of(total), message));
    }

    for id in head
        .requirements
        .ids
        .iter()
        .filter(|id| !in_body.contains_key(id.value.as_str()))
    {
        let message = format!(
            "`{}` is listed, but the body has no such requirement",
            shorten(&id.value)
        );
        faults.push(Fault::new(line_of(id), message));
    }

    for (id, at) in in_body.iter().filter(|(id, _)| !listed.contains(*id)) {
        faults.push(Fault::new(
            *at,
            format!("`{id}` is not listed in the front matter"),
        ));
    }
}

struct SpecReader<'a, 'b> {
    body: &'a SpecBody<'a>,
    faults: &'b mut Vec<Fault>,
}

impl SpecReader<'_, '_> {
    fn add_fault(&mut self, line: usize, message: impl Into<String>) {
        self.faults.push(Fault::new(line, message));
    }

    /// Checks that all text is between `<spec>` and `</spec>`, which occur once.
    fn check_frame(&mut self) {
        let lines = &self.body.lines;
        let last = lines.last().map_or(1, |line| line.number);
        let inside = self.body.inside();

        if self.body.open.is_none() {
            let first = lines
                .iter()
                .find(|line| !line.is_blank())
                .map_or(last, |line| line.number);
            self.faults.push(
                Fault::new(first, "missing `<spec>`")
                    .with_hint("add a `<spec>` line before the title"),
            );
        }

        // An unclosed fence hides the closing tag. The fence is reported separately.
        let ends_in_code = lines
            .last()
            .is_some_and(|line| matches!(line.kind, LineKind::FenceOpen(_) | LineKind::Code));
        if self.body.close.is_none() && !ends_in_code {
            self.faults.push(
                Fault::new(last, "missing `</spec>`").with_hint("add `</spec>` as the last line"),
            );
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
            self.add_fault(line.number, "text outside of `<spec>`");
        }

        for line in lines[inside]
            .iter()
            .filter(|line| line.kind == LineKind::Text)
        {
            let tag = line.text.trim();
            if matches!(tag, "<spec>" | "</spec>") {
                self.add_fault(line.number, format!("duplicate `{tag}`"));
            }
        }
    }

    /// Checks that there is one title, that part headings are well-formed, and that none is
    /// duplicated.
    fn check_headings(&mut self, parts: &[SpecPart<'_>]) {
        let inside = &self.body.lines[self.body.inside()];
        let mut titles = 0;

        for line in inside {
            let LineKind::Heading(level, title) = line.kind else {
                continue;
            };

            titles += usize::from(level == 1);
            if level == 1 && titles > 1 {
                self.add_fault(line.number, "duplicate title; a spec has one `# Title`");
            }
            if title.is_empty() {
                self.add_fault(line.number, "this heading is empty");
            } else if is_placeholder(title) {
                self.add_fault(
                    line.number,
                    format!("the heading `{}` is still a placeholder", shorten(title)),
                );
            }

            if is_malformed_heading(level, title) {
                let message = format!(
                    "`{}` is not a valid heading of a requirement or scenario",
                    shorten(line.text.trim())
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
            self.add_fault(first.map_or(1, |line| line.number), "missing `# Title`");
        } else if preamble.is_none() {
            self.add_fault(
                parts.get(1).map_or(1, |part| part.line),
                "the `# Title` must come first",
            );
        }

        let mut seen = BTreeMap::new();
        for part in parts {
            if let Some(first) = seen.insert(&part.key.name, part.line) {
                let what = shorten(&part.key.name);
                self.add_fault(
                    part.line,
                    format!("duplicate `{what}`; the first is on line {first}"),
                );
            }
        }

        if !parts
            .iter()
            .any(|part| matches!(part.kind, PartKind::Requirement { .. }))
        {
            let first = parts.first().map_or(1, |part| part.line);
            self.faults.push(
                Fault::new(first, "the spec has no requirements")
                    .with_hint("add one with the heading `### R1 - Title`"),
            );
        }
    }

    /// Reads the requirements, and the scenarios with the requirement before each.
    fn read_parts(&mut self, parts: &[SpecPart<'_>]) -> (Vec<Requirement>, Vec<Scenario>) {
        let mut requirements = Vec::new();
        let mut scenarios = Vec::new();
        let mut owner = None;

        for part in parts {
            match part.kind {
                PartKind::Requirement { id, title } => {
                    requirements.push(self.read_requirement(part, id, title));
                    owner = Some(id);
                }
                PartKind::Scenario { title } => {
                    scenarios.push(self.read_scenario(part, title, owner))
                }
                PartKind::Preamble | PartKind::Section => owner = None,
            }
        }
        (requirements, scenarios)
    }

    fn read_requirement(&mut self, part: &SpecPart<'_>, id: &str, title: &str) -> Requirement {
        let below = self.body.content_lines(part);
        let (facts, text_start) = self.read_facts(id, below.clone());

        let text = self.body.text_of(text_start..below.end).to_owned();
        if text.is_empty() {
            self.add_fault(part.line, format!("`{id}` has no text below its heading"));
        }
        if is_placeholder(title) {
            self.add_fault(
                part.line,
                format!("the title of `{id}` is still a placeholder"),
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

    /// Reads the YAML block that a requirement may start with, and returns the index of the line
    /// after it.
    fn read_facts(
        &mut self,
        id: &str,
        below: std::ops::Range<usize>,
    ) -> (Option<RequirementFacts>, usize) {
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

        match read_yaml::<RequirementFacts>(text, first.number) {
            Ok(facts) if facts.id.value == id => return (Some(facts), rest),
            Ok(facts) => {
                let at = line_in_block(first.number, &facts.id);
                self.add_fault(
                    at,
                    format!(
                        "the id is `{}`, but the heading says `{id}`",
                        shorten(&facts.id.value)
                    ),
                );
            }
            Err(fault) => self
                .faults
                .push(fault.with_hint("allowed keys: id, priority, status")),
        }
        (None, rest)
    }

    fn read_scenario(&mut self, part: &SpecPart<'_>, title: &str, owner: Option<&str>) -> Scenario {
        let below = self.body.content_lines(part);
        self.check_steps(part.line, &self.body.lines[below.clone()]);
        if is_placeholder(title) {
            self.add_fault(
                part.line,
                "the title of this scenario is still a placeholder",
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

    /// Checks that a scenario has at least one WHEN, and a THEN after each.
    fn check_steps(&mut self, heading: usize, lines: &[MarkdownLine<'_>]) {
        let mut open_when: Option<usize> = None;
        let mut whens = 0;
        let mut thens = 0;
        let mut steps = 0;

        for line in lines.iter().filter(|line| line.kind == LineKind::Text) {
            let Some((word, text)) = read_step(line.text) else {
                continue;
            };

            if text.is_empty() {
                self.add_fault(line.number, format!("this {word} is empty"));
            }

            match word {
                "WHEN" => {
                    if let Some(at) = open_when.replace(line.number) {
                        self.add_fault(at, "no THEN follows this WHEN");
                    }
                    whens += 1;
                }
                "THEN" => {
                    if whens == 0 {
                        self.add_fault(line.number, "this THEN comes before any WHEN");
                    }
                    open_when = None;
                    thens += 1;
                }
                "AND" if steps > 0 => {}
                "AND" => self.add_fault(line.number, "this AND comes before any WHEN"),
                _ => {
                    let fault = Fault::new(
                        line.number,
                        format!("`**{word}**` is not a step of a scenario"),
                    );
                    self.faults
                        .push(fault.with_hint("use **WHEN**, **THEN** and **AND**"));
                }
            }

            steps += 1;
        }

        if let Some(at) = open_when {
            self.add_fault(at, "no THEN follows this WHEN");
        }

        let missing = match (whens, thens) {
            (0, 0) => "WHEN and no THEN",
            (0, _) => "WHEN",
            _ => return,
        };

        let fault = Fault::new(heading, format!("this scenario has no {missing}"));
        self.faults
            .push(fault.with_hint("write `- **WHEN** …`, then `- **THEN** …`"));
    }
}

/// Returns true for a heading that is meant as a requirement or scenario but is malformed.
fn is_malformed_heading(level: usize, title: &str) -> bool {
    match level {
        1 => false,
        3 => looks_like_part_heading(title) && parse_part_heading(title).is_none(),
        _ => parse_part_heading(title).is_some(),
    }
}

/// Returns the keyword and the text of a step, such as `- **WHEN** it rains`. Also accepts keywords
/// that are not allowed, so that they can be reported.
fn read_step(line: &str) -> Option<(&str, &str)> {
    let rest = line
        .trim_start()
        .strip_prefix(['-', '*', '+'])?
        .trim_start()
        .strip_prefix("**")?;
    let (word, text) = rest.split_once("**")?;

    let keywords = ["WHEN", "THEN", "AND", "GIVEN", "BUT", "OR"];
    let is_keyword = keywords
        .iter()
        .any(|keyword| keyword.eq_ignore_ascii_case(word.trim_end_matches(':')));
    is_keyword.then_some((word, text.trim()))
}
