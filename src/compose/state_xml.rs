//! `<session_state>`: the state of a session as XML, for a mode and a tier.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::delimiters::Delimiters;
use crate::models::{
    ActionOutcome, ActionResult, ArtifactField, ArtifactProgress, ArtifactSpec, ArtifactStatus,
    FieldType, KnowledgeEntry, ListSpec, Mode, SectionSource, SectionSpec, StateDocument, Tier,
    mean_completion,
};
use crate::pack::Pack;
use crate::text::escape::{XmlPosition, push_escaped};

/// Limits of the results of actions at the full tier.
const FULL_RESULTS: ResultLimits = ResultLimits {
    number: 10,
    bytes: 200,
};

/// Limits of the results of actions at the medium tier.
const MEDIUM_RESULTS: ResultLimits = ResultLimits {
    number: 3,
    bytes: 120,
};

/// Maximum length of a state at the minimal tier that has results or an artifact, in bytes; about 150 tokens.
const MAX_MINIMAL_BYTES: usize = 450;

/// Maximum number of failed results at the minimal tier.
const MAX_MINIMAL_RESULTS: usize = 2;

/// Maximum length of a risk or the description of a result at the minimal tier, in bytes.
const MAX_MINIMAL_TEXT_BYTES: usize = 80;

/// Length below which a description is not worth showing, in bytes.
const MIN_RESULT_BYTES: usize = 20;

/// Maximum length of the list of missing fields at the minimal tier, in bytes.
const MAX_MINIMAL_FIELD_BYTES: usize = 64;

/// End of the state.
const STATE_END: &str = "</session_state>";

/// Field of an artifact that a tier may leave out: the list of filled fields.
const COMPLETED: &str = "completed";

/// The state as XML, split where the knowledge is inserted. Every value is escaped, so the XML is always well-formed.
pub(super) struct StateXml {
    /// Text before the knowledge.
    pub(super) head: String,
    /// Text after the knowledge.
    pub(super) tail: String,
}

/// Maximum number of skipped gates that a prompt shows; the newest are shown.
const MAX_RISKS: usize = 5;

/// Returns the opening and closing tag of the section with the knowledge.
pub(super) fn knowledge_tags(name: &str) -> (String, String) {
    (format!("  <{name}>\n"), format!("  </{name}>\n"))
}

/// Limits of the results of actions in a prompt.
#[derive(Clone, Copy)]
struct ResultLimits {
    /// Maximum number of results.
    number: usize,
    /// Maximum length of the description of a result, in bytes.
    bytes: usize,
}

/// Renders the state as XML. The minimal tier has a shorter form without knowledge.
pub(super) fn state_xml(
    pack: &Pack,
    mode: &Mode,
    document: &StateDocument,
    risks: &[String],
    results: &[ActionResult],
    tier: Tier,
    delimiters: &Delimiters<'_>,
) -> StateXml {
    let artifacts = pack.work_order(mode, document);
    let mut xml = StateWriter {
        out: "<session_state>\n".to_owned(),
        delimiters,
    };
    xml.write_element(1, "current_mode", &mode.as_str().to_uppercase());
    if pack
        .state
        .section_holding(SectionSource::Artifacts)
        .is_some()
    {
        let percent = mean_completion(&artifacts);
        xml.write_element(1, "completion_pct", &percent.to_string());
    }

    if tier == Tier::Minimal {
        if let Some(risk) = risks.last() {
            xml.write_element(1, "risk", &shortened(risk, MAX_MINIMAL_TEXT_BYTES));
        }
    } else {
        for risk in &risks[risks.len().saturating_sub(MAX_RISKS)..] {
            xml.write_element(1, "risk", risk);
        }
    }

    let visibility = pack.visibility(mode);
    if tier == Tier::Minimal {
        for (element, path) in &pack.state.minimal {
            let section = pack.state.sections.get(path);
            let source = section.and_then(|section| section.holds);
            let is_shown = visibility.shows(path, Tier::Medium) && !visibility.summarizes(path);
            match (source, section) {
                (Some(SectionSource::Artifacts), Some(section)) if is_shown => {
                    if let Some(next) = next_artifact(pack, document, &artifacts) {
                        let spec = pack.artifacts.get(&next.key());
                        xml.write_next_artifact(element, section, &next, spec);
                    }
                }
                (Some(SectionSource::Results), _) if is_shown => {
                    xml.write_failed_results(element, results);
                }
                (Some(_), _) => {}
                (None, _) => {
                    if let Some(value) = document.value_at(path) {
                        xml.write_value(1, element, value);
                    }
                }
            }
        }
        return StateXml {
            head: xml.out,
            tail: STATE_END.to_owned(),
        };
    }

    let mut head = None;
    for (name, section) in &pack.state.sections {
        if section.holds == Some(SectionSource::Knowledge) {
            head = Some(std::mem::take(&mut xml.out));
            continue;
        }
        if !visibility.shows(name, tier) {
            continue;
        }

        let form = SectionForm {
            name,
            section,
            tier,
            is_summary: visibility.summarizes(name),
        };
        match section.holds {
            Some(SectionSource::Artifacts) => xml.write_artifacts(form, &artifacts),
            Some(SectionSource::Results) => {
                let limits = match tier {
                    Tier::Full => FULL_RESULTS,
                    Tier::Medium | Tier::Minimal => MEDIUM_RESULTS,
                };
                xml.write_results(name, results, limits);
            }
            Some(SectionSource::Knowledge) => {}
            None => xml.write_section(form, document),
        }
    }

    xml.out.push_str(STATE_END);
    match head {
        Some(head) => StateXml {
            head,
            tail: xml.out,
        },
        None => StateXml {
            head: xml.out,
            tail: String::new(),
        },
    }
}

/// Returns the first artifact that is not complete, with its missing fields; `None` if there is none, or if nothing is
/// known of its fields.
fn next_artifact(
    pack: &Pack,
    document: &StateDocument,
    artifacts: &[ArtifactProgress],
) -> Option<ArtifactProgress> {
    let mut next = artifacts
        .iter()
        .find(|artifact| artifact.status != ArtifactStatus::Complete)?
        .clone();

    // An artifact of which nothing exists has no list of missing fields.
    let is_declared = document.work_order.is_empty();
    if is_declared && next.completed.is_empty() && next.missing.is_empty() {
        let spec = pack.artifacts.get(&next.key());
        next.missing = spec.map_or(Vec::new(), |spec| spec.fields.keys().cloned().collect());
    }
    let has_fields = !next.completed.is_empty() || !next.missing.is_empty();
    has_fields.then_some(next)
}

/// Returns a text of at most `limit` bytes; a longer one ends with `…`.
fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = limit.saturating_sub('…'.len_utf8());
    let cut = text.floor_char_boundary(end);
    Cow::Owned(format!("{}…", &text[..cut]))
}

/// Returns the key of a field, with its title unless the key says the same: `step_2 (Rollback)`.
fn field_label(key: &str, field: Option<&ArtifactField>) -> String {
    let Some(field) = field else {
        return key.to_owned();
    };
    let letters = |text: &str| {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    // A number at the start of the title is in the key, too.
    let title = field
        .title
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    if letters(title) == letters(key) {
        key.to_owned()
    } else {
        format!("{key} ({title})")
    }
}

/// Writes a knowledge entry.
pub(super) fn write_entry(out: &mut String, entry: &KnowledgeEntry, delimiters: &Delimiters<'_>) {
    out.push_str("    <entry category=\"");
    push_escaped(out, &entry.category, XmlPosition::Attribute);
    out.push_str("\" key=\"");
    push_escaped(out, &entry.key, XmlPosition::Attribute);
    out.push_str("\">\n      ");
    push_escaped(
        out,
        &delimiters.escape_lines(&entry.value),
        XmlPosition::Text,
    );
    out.push_str("\n    </entry>\n");
}

/// A section and the form in which it is shown.
#[derive(Clone, Copy)]
struct SectionForm<'a> {
    name: &'a str,
    section: &'a SectionSpec,
    tier: Tier,
    is_summary: bool,
}

impl SectionForm<'_> {
    /// Returns true if a field is shown.
    fn shows_field(&self, field: &str) -> bool {
        if self.is_summary {
            return self.section.summary.iter().any(|shown| shown == field);
        }
        match &self.section.medium {
            Some(shown) if self.tier < Tier::Full => shown.iter().any(|name| name == field),
            _ => true,
        }
    }
}

struct StateWriter<'a> {
    out: String,
    delimiters: &'a Delimiters<'a>,
}

impl StateWriter<'_> {
    fn write_section(&mut self, form: SectionForm<'_>, document: &StateDocument) {
        match (document.sections.get(form.name), &form.section.list) {
            (Some(Value::Array(items)), Some(list)) if !items.is_empty() => {
                if form.is_summary {
                    let count = items.len().to_string();
                    self.write_empty_tag(1, form.name, &[("count", &count)]);
                } else {
                    self.write_open_tag(1, form.name, &[]);
                    self.write_items(2, list, items);
                    self.write_close_tag(1, form.name);
                }
            }
            (Some(Value::Object(fields)), None) => self.write_fields(form, fields),
            _ => {}
        }
    }

    /// Writes the fields of a section: the declared ones in their order, then the others.
    fn write_fields(&mut self, form: SectionForm<'_>, fields: &Map<String, Value>) {
        let start = self.out.len();
        self.write_open_tag(1, form.name, &[]);
        let body_start = self.out.len();

        for (name, kind) in &form.section.fields {
            if let Some(value) = fields.get(name).filter(|_| form.shows_field(name)) {
                self.write_field(name, kind, value);
            }
        }
        let others = fields
            .iter()
            .filter(|(name, _)| !form.section.fields.contains_key(*name))
            .filter(|(name, _)| form.shows_field(name));
        for (name, value) in others {
            if is_element_name(name) {
                self.write_value(2, name, value);
            } else {
                self.write_element_with(2, "field", &[("name", name)], &text_of(value));
            }
        }

        if self.out.len() == body_start {
            self.out.truncate(start);
        } else {
            self.write_close_tag(1, form.name);
        }
    }

    fn write_field(&mut self, name: &str, kind: &FieldType, value: &Value) {
        match (kind, value) {
            (FieldType::List(list), Value::Array(items)) if !items.is_empty() => {
                if list.wrapped {
                    self.write_open_tag(2, name, &[]);
                    self.write_items(3, list, items);
                    self.write_close_tag(2, name);
                } else {
                    self.write_items(2, list, items);
                }
            }
            (FieldType::List(_), _) => {}
            _ => self.write_value(2, name, value),
        }
    }

    fn write_items(&mut self, depth: usize, list: &ListSpec, items: &[Value]) {
        for item in items {
            let text_at = |key: &str| item.get(key).map(text_of);
            let attributes: Vec<(&str, String)> = list
                .attributes
                .iter()
                .map(|key| (key.as_str(), text_at(key).unwrap_or_default()))
                .collect();
            let attributes: Vec<(&str, &str)> = attributes
                .iter()
                .map(|(key, value)| (*key, value.as_str()))
                .collect();

            let text = match &list.text {
                Some(key) => text_at(key).unwrap_or_default(),
                None if attributes.is_empty() => text_of(item),
                None => String::new(),
            };
            if text.is_empty() {
                self.write_empty_tag(depth, &list.element, &attributes);
            } else {
                self.write_element_with(depth, &list.element, &attributes, &text);
            }
        }
    }

    fn write_artifacts(&mut self, form: SectionForm<'_>, artifacts: &[ArtifactProgress]) {
        if artifacts.is_empty() {
            return;
        }
        if form.is_summary {
            let is_complete =
                |artifact: &&ArtifactProgress| artifact.status == ArtifactStatus::Complete;
            let complete = artifacts.iter().filter(is_complete).count().to_string();
            let total = artifacts.len().to_string();
            let attributes = [("complete", complete.as_str()), ("total", total.as_str())];
            self.write_empty_tag(1, form.name, &attributes);
            return;
        }

        let element = form.section.element.as_deref().unwrap_or("artifact");
        self.write_open_tag(1, form.name, &[]);
        for artifact in artifacts {
            self.write_artifact(element, artifact, form.shows_field(COMPLETED));
        }
        self.write_close_tag(1, form.name);
    }

    fn write_artifact(&mut self, element: &str, artifact: &ArtifactProgress, completed: bool) {
        let missing = artifact.missing.join(", ");
        let mut attributes = vec![
            ("name", artifact.name.as_str()),
            ("status", artifact.status.name()),
        ];
        let is_complete =
            artifact.status == ArtifactStatus::Complete && artifact.missing.is_empty();
        let shows_completed = completed && !is_complete && !artifact.completed.is_empty();

        if artifact.status == ArtifactStatus::NotStarted
            || (!shows_completed && artifact.missing.is_empty())
        {
            self.write_empty_tag(2, element, &attributes);
        } else if !shows_completed {
            attributes.push(("missing", &missing));
            self.write_empty_tag(2, element, &attributes);
        } else {
            self.write_open_tag(2, element, &attributes);
            self.write_element(3, "completed", &artifact.completed.join(", "));
            if !missing.is_empty() {
                self.write_element(3, "missing", &missing);
            }
            self.write_close_tag(2, element);
        }
    }

    /// Writes the results of the last turn's actions, first those that are not done. The prompt stays bounded whatever the
    /// reply asked for.
    fn write_results(&mut self, name: &str, results: &[ActionResult], limits: ResultLimits) {
        if results.is_empty() {
            return;
        }
        let mut ordered: Vec<&ActionResult> = results.iter().collect();
        ordered.sort_by_key(|result| result.outcome == ActionOutcome::Done);

        self.write_open_tag(1, name, &[]);
        for result in ordered.iter().take(limits.number) {
            let mut attributes = vec![
                ("action", result.action.as_str()),
                ("outcome", result.outcome.name()),
            ];
            if !result.target.is_empty() && result.target != result.action {
                attributes.push(("target", &result.target));
            }
            let detail = shortened(&result.detail, limits.bytes);
            self.write_element_with(2, "result", &attributes, &detail);
        }
        if results.len() > limits.number {
            let omitted = (results.len() - limits.number).to_string();
            self.write_empty_tag(2, "omitted", &[("count", &omitted)]);
        }
        self.write_close_tag(1, name);
    }

    /// Writes an artifact with its first missing fields, for the minimal tier; nothing if there is no room.
    fn write_next_artifact(
        &mut self,
        element: &str,
        section: &SectionSpec,
        artifact: &ArtifactProgress,
        spec: Option<&ArtifactSpec>,
    ) {
        let start = self.out.len();
        let kind = section.element.as_deref().unwrap_or("artifact");
        let key = artifact.key();
        if artifact.missing.is_empty() {
            let attributes = [(kind, key.as_str()), ("status", artifact.status.name())];
            self.write_empty_tag(1, element, &attributes);
        } else {
            let mut missing = String::new();
            for key in &artifact.missing {
                let label = field_label(key, spec.and_then(|spec| spec.fields.get(key)));
                if !missing.is_empty() {
                    missing.push_str(", ");
                    if missing.len() + label.len() > MAX_MINIMAL_FIELD_BYTES {
                        missing.push('…');
                        break;
                    }
                }
                missing.push_str(&label);
            }
            self.write_empty_tag(1, element, &[(kind, &key), ("missing", &missing)]);
        }

        if self.minimal_room() == 0 {
            self.out.truncate(start);
        }
    }

    /// Writes the first results that are not done, for the minimal tier, as far as there is room.
    fn write_failed_results(&mut self, element: &str, results: &[ActionResult]) {
        let failed = results
            .iter()
            .filter(|result| result.outcome != ActionOutcome::Done);
        for result in failed.take(MAX_MINIMAL_RESULTS) {
            let start = self.out.len();
            let attributes = [("action", result.action.as_str())];
            self.write_element_with(1, element, &attributes, "");
            let room = self.minimal_room();
            self.out.truncate(start);
            if room < MIN_RESULT_BYTES.min(result.detail.len()) {
                return;
            }

            let detail = shortened(&result.detail, room.min(MAX_MINIMAL_TEXT_BYTES));
            self.write_element_with(1, element, &attributes, &detail);
        }
    }

    /// Returns the bytes that are left of a state at the minimal tier.
    fn minimal_room(&self) -> usize {
        MAX_MINIMAL_BYTES.saturating_sub(self.out.len() + STATE_END.len())
    }

    fn write_value(&mut self, depth: usize, name: &str, value: &Value) {
        if !value.is_null() {
            self.write_element(depth, name, &text_of(value));
        }
    }

    fn write_element(&mut self, depth: usize, name: &str, value: &str) {
        self.write_element_with(depth, name, &[], value);
    }

    fn write_element_with(
        &mut self,
        depth: usize,
        name: &str,
        attributes: &[(&str, &str)],
        value: &str,
    ) {
        self.write_tag(depth, name, attributes, ">");
        push_escaped(
            &mut self.out,
            &self.delimiters.escape_lines(value),
            XmlPosition::Text,
        );
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push_str(">\n");
    }

    fn write_open_tag(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)]) {
        self.write_tag(depth, name, attributes, ">\n");
    }

    fn write_empty_tag(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)]) {
        self.write_tag(depth, name, attributes, "/>\n");
    }

    fn write_close_tag(&mut self, depth: usize, name: &str) {
        self.write_indent(depth);
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push_str(">\n");
    }

    fn write_tag(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)], end: &str) {
        self.write_indent(depth);
        self.out.push('<');
        self.out.push_str(name);
        for (key, value) in attributes {
            self.out.push(' ');
            self.out.push_str(key);
            self.out.push_str("=\"");
            push_escaped(&mut self.out, value, XmlPosition::Attribute);
            self.out.push('"');
        }
        self.out.push_str(end);
    }

    fn write_indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.out.push_str("  ");
        }
    }
}

/// Returns a value as text; the items of a list are separated by commas.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn is_element_name(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}
