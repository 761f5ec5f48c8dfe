//! `<session_state>`: the state of a session as XML, for a mode and a tier.

use indexmap::IndexMap;

use super::delimiters::Delimiters;

use crate::models::{ArtifactStatus, KnowledgeEntry, Mode, Status, Tier, Work};
use crate::pack::{Section, StateSections};
use crate::text::escape::{XmlPosition, push_escaped};

/// The state as XML, split where the knowledge is inserted. Every value is escaped, so the XML is always well-formed.
pub(super) struct StateXml {
    /// Text before the knowledge.
    pub(super) head: String,
    /// Text after the knowledge.
    pub(super) tail: String,
}

/// Opening tag of the knowledge.
pub(super) const KNOWLEDGE_OPEN: &str = "  <knowledge_context>\n";

/// Closing tag of the knowledge.
pub(super) const KNOWLEDGE_CLOSE: &str = "  </knowledge_context>\n";

/// Renders the state as XML. The minimal tier has a shorter form without knowledge.
pub(super) fn state_xml(
    mode: &Mode,
    work: &Work,
    active_context: &IndexMap<String, String>,
    sections: &StateSections,
    tier: Tier,
    delimiters: &Delimiters<'_>,
) -> StateXml {
    let mut xml = StateWriter {
        out: "<session_state>\n".to_owned(),
        work,
        active_context,
        delimiters,
    };
    xml.write_element(1, "current_mode", &mode.as_str().to_uppercase());
    xml.write_element(1, "completion_pct", &work.completion_percent().to_string());
    if tier == Tier::Minimal {
        xml.write_minimal();
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
            xml.write_section(section, sections.summarizes(section));
        }
    }

    xml.out.push_str("</session_state>");
    StateXml {
        head,
        tail: xml.out,
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

struct StateWriter<'a> {
    out: String,
    delimiters: &'a Delimiters<'a>,
    work: &'a Work,
    active_context: &'a IndexMap<String, String>,
}

impl StateWriter<'_> {
    fn write_minimal(&mut self) {
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
                self.write_element(1, name, &value);
            }
        }
    }

    fn write_section(&mut self, section: Section, summarized: bool) {
        let work = self.work;
        match section {
            Section::Project => self.write_fields("project", &work.project),
            Section::ActiveContext => self.write_fields("active_context", self.active_context),
            Section::WorkOrder if summarized => self.write_work_order_summary(&work.work_order),
            Section::WorkOrder => self.write_work_order(&work.work_order),
            Section::VoiceContext => self.write_voice(work),
            Section::SceneContext => self.write_fields("scene_context", &work.scene_context),
            Section::KnowledgeContext => {}
            Section::Notebooks => self.write_notebooks(work),
            Section::AgentMemory => self.write_agent_memory(work),
        }
    }

    fn write_fields(&mut self, name: &str, fields: &IndexMap<String, String>) {
        if fields.is_empty() {
            return;
        }

        self.write_open_tag(1, name, &[]);
        for (key, value) in fields {
            if is_element_name(key) {
                self.write_element(2, key, value);
            } else {
                self.write_element_with(2, "field", &[("name", key)], value);
            }
        }

        self.write_close_tag(1, name);
    }

    fn write_work_order(&mut self, artifacts: &[ArtifactStatus]) {
        if artifacts.is_empty() {
            return;
        }

        self.write_open_tag(1, "work_order", &[]);
        for artifact in artifacts {
            let missing = artifact.missing.join(", ");
            let mut attributes = vec![
                ("name", artifact.name.as_str()),
                ("status", artifact.status.name()),
            ];
            if artifact.status == Status::NotStarted
                || (artifact.completed.is_empty() && artifact.missing.is_empty())
            {
                self.write_empty_tag(2, "template", &attributes);
            } else if artifact.completed.is_empty() {
                attributes.push(("missing", &missing));
                self.write_empty_tag(2, "template", &attributes);
            } else {
                self.write_open_tag(2, "template", &attributes);
                self.write_element(3, "completed", &artifact.completed.join(", "));
                if !missing.is_empty() {
                    self.write_element(3, "missing", &missing);
                }
                self.write_close_tag(2, "template");
            }
        }

        self.write_close_tag(1, "work_order");
    }

    fn write_work_order_summary(&mut self, artifacts: &[ArtifactStatus]) {
        let complete = artifacts
            .iter()
            .filter(|artifact| artifact.status == Status::Complete)
            .count();
        if !artifacts.is_empty() {
            let complete = complete.to_string();
            let total = artifacts.len().to_string();
            self.write_empty_tag(
                1,
                "work_order",
                &[("complete", &complete), ("total", &total)],
            );
        }
    }

    fn write_voice(&mut self, work: &Work) {
        let voice = &work.voice_context;
        if *voice == crate::models::VoiceContext::default() {
            return;
        }

        self.write_open_tag(1, "voice_context", &[]);
        let rows = [
            ("locked", voice.locked.map(|locked| locked.to_string())),
            ("winning_agent", voice.winning_agent.clone()),
            ("winning_strategy", voice.winning_strategy.clone()),
            ("voice_state", voice.voice_state.clone()),
        ];
        for (name, value) in rows {
            if let Some(value) = value {
                self.write_element(2, name, &value);
            }
        }

        if !voice.antipatterns.is_empty() {
            self.write_open_tag(2, "antipatterns", &[]);
            for pattern in &voice.antipatterns {
                self.write_element_with(
                    3,
                    "pattern",
                    &[("severity", &pattern.severity)],
                    &pattern.pattern,
                );
            }
            self.write_close_tag(2, "antipatterns");
        }

        self.write_close_tag(1, "voice_context");
    }

    fn write_notebooks(&mut self, work: &Work) {
        if work.notebooks.is_empty() {
            return;
        }

        self.write_open_tag(1, "notebooks", &[]);
        for notebook in &work.notebooks {
            let attributes = [
                ("id", notebook.id.as_str()),
                ("role", notebook.role.as_str()),
            ];
            if notebook.title.is_empty() {
                self.write_empty_tag(2, "notebook", &attributes);
            } else {
                self.write_element_with(2, "notebook", &attributes, &notebook.title);
            }
        }

        self.write_close_tag(1, "notebooks");
    }

    fn write_agent_memory(&mut self, work: &Work) {
        let memory = &work.agent_memory;
        if memory.preferences.is_empty() && memory.corrections.is_empty() {
            return;
        }

        self.write_open_tag(1, "agent_memory", &[]);
        for preference in &memory.preferences {
            self.write_element(2, "preference", preference);
        }

        for correction in &memory.corrections {
            self.write_element(2, "correction", correction);
        }

        self.write_close_tag(1, "agent_memory");
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

fn is_element_name(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
}
