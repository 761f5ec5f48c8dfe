//! `<session_state>`: what is true of a session now, as XML, for a mode and a tier.

use indexmap::IndexMap;

use super::frame::Frame;

use crate::models::{ArtifactStatus, KnowledgeEntry, Mode, Status, Tier, Work};
use crate::pack::{Section, StateSections};
use crate::text::escape::{XmlPosition, push_escaped};

/// The state as XML, cut where the knowledge stands. Every value is escaped, so the whole is always well-formed.
pub(super) struct StateXml {
    /// What comes before the knowledge.
    pub(super) head: String,
    /// What comes after it.
    pub(super) tail: String,
}

/// What opens the knowledge.
pub(super) const KNOWLEDGE_OPEN: &str = "  <knowledge_context>\n";

/// What closes the knowledge.
pub(super) const KNOWLEDGE_CLOSE: &str = "  </knowledge_context>\n";

/// Returns the state as XML. The minimal tier has a form of its own, without knowledge.
pub(super) fn state_xml(
    mode: &Mode,
    work: &Work,
    active_context: &IndexMap<String, String>,
    sections: &StateSections,
    tier: Tier,
    frame: &Frame<'_>,
) -> StateXml {
    let mut xml = Xml {
        out: "<session_state>\n".to_owned(),
        work,
        active_context,
        frame,
    };
    xml.element(1, "current_mode", &mode.as_str().to_uppercase());
    xml.element(1, "completion_pct", &work.completion_percent().to_string());
    if tier == Tier::Minimal {
        xml.minimal();
        return StateXml {
            head: xml.out,
            tail: "</session_state>".to_owned(),
        };
    }
    let mut head = String::new();
    for section in Section::ALL {
        if section == Section::KnowledgeContext {
            head = std::mem::take(&mut xml.out);
        } else if sections.shows(section, tier) {
            xml.section(section, sections.summarizes(section));
        }
    }
    xml.out.push_str("</session_state>");
    StateXml {
        head,
        tail: xml.out,
    }
}

/// Writes an entry of the knowledge.
pub(super) fn write_entry(out: &mut String, entry: &KnowledgeEntry, frame: &Frame<'_>) {
    out.push_str("    <entry category=\"");
    push_escaped(out, &entry.category, XmlPosition::Attribute);
    out.push_str("\" key=\"");
    push_escaped(out, &entry.key, XmlPosition::Attribute);
    out.push_str("\">\n      ");
    push_escaped(out, &frame.escape_lines(&entry.value), XmlPosition::Text);
    out.push_str("\n    </entry>\n");
}

struct Xml<'a> {
    out: String,
    frame: &'a Frame<'a>,
    work: &'a Work,
    active_context: &'a IndexMap<String, String>,
}

impl Xml<'_> {
    fn minimal(&mut self) {
        let active = |key: &str| self.active_context.get(key).cloned();
        let locked = self
            .work
            .voice_context
            .locked
            .map(|locked| locked.to_string());
        let rows = [
            ("active_file", active("file")),
            ("voice_locked", locked),
            ("current_beat", active("beat")),
        ];
        for (name, value) in rows {
            if let Some(value) = value {
                self.element(1, name, &value);
            }
        }
    }

    fn section(&mut self, section: Section, summarized: bool) {
        let work = self.work;
        match section {
            Section::Project => self.fields("project", &work.project),
            Section::ActiveContext => self.fields("active_context", self.active_context),
            Section::WorkOrder if summarized => self.work_order_summary(&work.work_order),
            Section::WorkOrder => self.work_order(&work.work_order),
            Section::VoiceContext => self.voice(work),
            Section::SceneContext => self.fields("scene_context", &work.scene_context),
            Section::KnowledgeContext => {}
            Section::Notebooks => self.notebooks(work),
            Section::AgentMemory => self.memory(work),
        }
    }

    fn fields(&mut self, name: &str, fields: &IndexMap<String, String>) {
        if fields.is_empty() {
            return;
        }
        self.open(1, name, &[]);
        for (key, value) in fields {
            if is_name(key) {
                self.element(2, key, value);
            } else {
                self.named(2, "field", &[("name", key)], value);
            }
        }
        self.close(1, name);
    }

    fn work_order(&mut self, artifacts: &[ArtifactStatus]) {
        if artifacts.is_empty() {
            return;
        }
        self.open(1, "work_order", &[]);
        for artifact in artifacts {
            let missing = artifact.missing.join(", ");
            let mut attributes = vec![
                ("name", artifact.name.as_str()),
                ("status", artifact.status.name()),
            ];
            if artifact.status == Status::NotStarted
                || (artifact.completed.is_empty() && artifact.missing.is_empty())
            {
                self.empty(2, "template", &attributes);
            } else if artifact.completed.is_empty() {
                attributes.push(("missing", &missing));
                self.empty(2, "template", &attributes);
            } else {
                self.open(2, "template", &attributes);
                self.element(3, "completed", &artifact.completed.join(", "));
                if !missing.is_empty() {
                    self.element(3, "missing", &missing);
                }
                self.close(2, "template");
            }
        }
        self.close(1, "work_order");
    }

    fn work_order_summary(&mut self, artifacts: &[ArtifactStatus]) {
        let complete = artifacts
            .iter()
            .filter(|artifact| artifact.status == Status::Complete)
            .count();
        if !artifacts.is_empty() {
            let (complete, total) = (complete.to_string(), artifacts.len().to_string());
            self.empty(
                1,
                "work_order",
                &[("complete", &complete), ("total", &total)],
            );
        }
    }

    fn voice(&mut self, work: &Work) {
        let voice = &work.voice_context;
        if *voice == crate::models::VoiceContext::default() {
            return;
        }
        self.open(1, "voice_context", &[]);
        let rows = [
            ("locked", voice.locked.map(|locked| locked.to_string())),
            ("winning_agent", voice.winning_agent.clone()),
            ("winning_strategy", voice.winning_strategy.clone()),
            ("voice_state", voice.voice_state.clone()),
        ];
        for (name, value) in rows {
            if let Some(value) = value {
                self.element(2, name, &value);
            }
        }
        if !voice.antipatterns.is_empty() {
            self.open(2, "antipatterns", &[]);
            for pattern in &voice.antipatterns {
                self.named(
                    3,
                    "pattern",
                    &[("severity", &pattern.severity)],
                    &pattern.pattern,
                );
            }
            self.close(2, "antipatterns");
        }
        self.close(1, "voice_context");
    }

    fn notebooks(&mut self, work: &Work) {
        if work.notebooks.is_empty() {
            return;
        }
        self.open(1, "notebooks", &[]);
        for notebook in &work.notebooks {
            let attributes = [
                ("id", notebook.id.as_str()),
                ("role", notebook.role.as_str()),
            ];
            if notebook.title.is_empty() {
                self.empty(2, "notebook", &attributes);
            } else {
                self.named(2, "notebook", &attributes, &notebook.title);
            }
        }
        self.close(1, "notebooks");
    }

    fn memory(&mut self, work: &Work) {
        let memory = &work.agent_memory;
        if memory.preferences.is_empty() && memory.corrections.is_empty() {
            return;
        }
        self.open(1, "agent_memory", &[]);
        for preference in &memory.preferences {
            self.element(2, "preference", preference);
        }
        for correction in &memory.corrections {
            self.element(2, "correction", correction);
        }
        self.close(1, "agent_memory");
    }

    fn element(&mut self, depth: usize, name: &str, value: &str) {
        self.named(depth, name, &[], value);
    }

    fn named(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)], value: &str) {
        self.tag(depth, name, attributes, ">");
        push_escaped(
            &mut self.out,
            &self.frame.escape_lines(value),
            XmlPosition::Text,
        );
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push_str(">\n");
    }

    fn open(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)]) {
        self.tag(depth, name, attributes, ">\n");
    }

    fn empty(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)]) {
        self.tag(depth, name, attributes, "/>\n");
    }

    fn close(&mut self, depth: usize, name: &str) {
        self.indent(depth);
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push_str(">\n");
    }

    fn tag(&mut self, depth: usize, name: &str, attributes: &[(&str, &str)], end: &str) {
        self.indent(depth);
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

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.out.push_str("  ");
        }
    }
}

fn is_name(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}
