//! Checks a template against the requirements of its pack.

use serde::Serialize;

use super::Pack;
use super::manifest::ModeSpec;
use super::placeholder::{Token, tokens};
use super::template::Template;
use crate::models::{Permission, ReviewResult};
use crate::text::markdown::{LineKind, markdown_lines};

/// A violated requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// Name of the rule, such as `placeholder`.
    pub rule: &'static str,
    /// Description of the problem.
    pub message: String,
    /// Line in the file, starting at 1; `None` if the finding concerns the whole template.
    pub line: Option<usize>,
}

/// Checks a template against the rules of its pack.
#[must_use]
pub fn lint(pack: &Pack, template: &Template) -> Vec<LintFinding> {
    let mut linter = TemplateLinter {
        template,
        findings: Vec::new(),
    };
    let Some(spec) = pack.modes.get(&template.mode) else {
        let message = format!("pack `{}` has no mode `{}`", pack.name, template.mode);
        linter.report_missing("mode", message);
        return linter.findings;
    };
    linter.check_sections(&pack.sections);
    linter.check_placeholders(&spec.variables, &pack.variables);
    linter.check_focus(&spec.focus);
    linter.check_sentences(
        spec.sentences
            .get(&template.text.name)
            .map_or(&[], Vec::as_slice),
    );
    linter.check_verdicts(&spec.verdicts);
    linter.check_other_markers(spec);
    linter.check_ending();

    linter.findings
}

struct TemplateLinter<'a> {
    template: &'a Template,
    findings: Vec<LintFinding>,
}

impl TemplateLinter<'_> {
    fn report_missing(&mut self, rule: &'static str, message: String) {
        self.findings.push(LintFinding {
            rule,
            message,
            line: None,
        });
    }

    fn report_at(&mut self, rule: &'static str, message: String, offset: usize) {
        let line = Some(self.template.text.place(offset).line);
        self.findings.push(LintFinding {
            rule,
            message,
            line,
        });
    }

    fn body_contains(&self, text: &str) -> bool {
        self.template.text.body().contains(text)
    }

    /// Checks that every section exists and is not empty.
    fn check_sections(&mut self, sections: &[String]) {
        for section in sections {
            match section_text(self.template.text.body(), section) {
                None => self.report_missing("section", format!("missing section `## {section}`")),
                Some(text) if text.trim().is_empty() => {
                    self.report_missing("section", format!("section `## {section}` is empty"));
                }
                Some(_) => {}
            }
        }
    }

    /// Checks that every required variable is used, that every used variable is known, and that no placeholder is written
    /// with spaces.
    fn check_placeholders(&mut self, required: &[String], known: &[String]) {
        let body = self.template.text.body();
        let mut used: Vec<&str> = Vec::new();
        for token in tokens(body) {
            let Token::Variable(name, offset) = token else {
                continue;
            };
            if !known.iter().any(|variable| variable == name) && !used.contains(&name) {
                self.report_at(
                    "placeholder",
                    format!("unknown variable {{{{{name}}}}}"),
                    offset,
                );
            }
            used.push(name);
        }

        let listed = self
            .template
            .text
            .variables
            .iter()
            .filter(|variable| variable.required)
            .map(|variable| &variable.name);

        for name in required
            .iter()
            .chain(listed.filter(|name| !required.contains(name)))
        {
            if !used.contains(&name.as_str()) {
                self.report_missing(
                    "placeholder",
                    format!("required variable {{{{{name}}}}} is not used"),
                );
            }
        }

        for (offset, _) in body.match_indices("{{") {
            let Some((inner, _)) = body[offset + 2..].split_once("}}") else {
                continue;
            };
            let name = inner.trim();
            if name != inner && known.iter().any(|variable| variable == name) {
                self.report_at(
                    "placeholder",
                    format!(
                        "{{{{{inner}}}}} is not a placeholder and is sent as text; write {{{{{name}}}}}"
                    ),
                    offset,
                );
            }
        }
    }

    /// Checks that the mode's focus words are mentioned.
    fn check_focus(&mut self, words: &[String]) {
        // Names of placeholders are ignored: they are not words of the template.
        let body: String = tokens(self.template.text.body())
            .filter_map(|token| match token {
                Token::Text(text) => Some(text.to_lowercase()),
                Token::Variable(..) => None,
            })
            .collect();
        for word in words {
            if !body.contains(&word.to_lowercase()) {
                self.report_missing("focus", format!("`{word}` is not mentioned"));
            }
        }
    }

    /// Checks that the sentences required of this template are in it verbatim.
    fn check_sentences(&mut self, sentences: &[String]) {
        for sentence in sentences {
            if !self.body_contains(sentence) {
                self.report_missing("sentence", format!("missing sentence: {sentence}"));
            }
        }
    }

    /// Checks that the template asks for all verdicts of the mode, and for no others.
    fn check_verdicts(&mut self, allowed: &[ReviewResult]) {
        for verdict in ReviewResult::ALL {
            let marker = format!("<review>{verdict}</review>");
            match (
                self.template.text.body().find(&marker),
                allowed.contains(&verdict),
            ) {
                (None, true) => self.report_missing("marker", format!("{marker} is missing")),
                (Some(offset), false) => {
                    self.report_at(
                        "marker",
                        format!("{marker} is not a verdict of this mode"),
                        offset,
                    );
                }
                _ => {}
            }
        }

        for (offset, _) in self.template.text.body().match_indices("<review>") {
            let rest = &self.template.text.body()[offset + "<review>".len()..];
            let Some((value, _)) = rest
                .split_once("</review>")
                .filter(|(value, _)| !value.contains('\n'))
            else {
                continue;
            };

            if value.contains('|') {
                self.report_at(
                    "marker",
                    format!("<review>{value}</review> shows several verdicts; show only one"),
                    offset,
                );
            } else if value.parse::<ReviewResult>().is_err() {
                self.report_at(
                    "marker",
                    format!("<review>{value}</review> is not a verdict"),
                    offset,
                );
            }
        }
    }

    /// Checks that the template mentions the other markers that its mode reads, and not `<task_status>` if the mode does
    /// not read it.
    fn check_other_markers(&mut self, spec: &ModeSpec) {
        let mut required = vec!["<thought>"];
        if spec.task_status {
            required.extend([
                "<task_status id=",
                ">COMPLETED</task_status>",
                ">FAILED</task_status>",
            ]);
        } else if let Some(offset) = self.template.text.body().find("<task_status") {
            self.report_at(
                "marker",
                "this mode does not read <task_status>; remove it".to_owned(),
                offset,
            );
        }

        if spec.permission == Permission::ReadOnly {
            required.push("<content_update target=");
        }

        for marker in required {
            if !self.body_contains(marker) {
                self.report_missing("marker", format!("{marker} is not mentioned"));
            }
        }
    }

    /// Checks that the last paragraph refers to the instructions.
    fn check_ending(&mut self) {
        let body = self.template.text.body().replace('\r', "");
        let last = body.trim_end().rsplit("\n\n").next().unwrap_or_default();
        if !last.contains("<instructions>") {
            self.report_missing(
                "ending",
                "the last paragraph does not refer to <instructions>".to_owned(),
            );
        }
    }
}

/// Returns the text between the heading `title` and the next heading of level 1 or 2.
fn section_text<'a>(body: &'a str, title: &str) -> Option<&'a str> {
    let lines = markdown_lines(body, 1);
    let mut headings = lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| match line.kind {
            LineKind::Heading(1 | 2, title) => Some((index, title)),
            _ => None,
        });

    let (heading, _) = headings.find(|(_, text)| *text == title)?;
    let start_of = |index: usize| lines.get(index).map_or(body.len(), |line| line.start);
    let end = headings
        .next()
        .map_or(body.len(), |(index, _)| start_of(index));

    Some(&body[start_of(heading + 1)..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_heading_outside_of_code() {
        let body = "# Plan\n## Rules\n```sh\n# install\n```\n### More\nx\n## End\ny";
        let rules = "```sh\n# install\n```\n### More\nx\n";
        assert_eq!(section_text(body, "Rules"), Some(rules));
        assert_eq!(section_text(body, "Plan"), Some(""));
        assert_eq!(section_text(body, "End"), Some("y"));
        assert_eq!(section_text(body, "install"), None, "a comment in code");
        assert_eq!(section_text(body, "More"), None, "level 3");
        assert_eq!(section_text("## A", "A"), Some(""));
    }
}
