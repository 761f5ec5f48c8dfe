//! What every template of a pack must hold, checked against what one does hold.

use serde::Serialize;

use super::Pack;
use super::manifest::ModeSpec;
use super::placeholder::{Token, tokens};
use super::template::Template;
use crate::models::{Permission, ReviewResult};
use crate::text::markdown::{LineKind, markdown_lines};

/// Something that a template lacks, or has and should not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong, in words.
    pub message: String,
    /// The line of the file, from 1, if the fault has a place.
    pub line: Option<usize>,
}

/// Checks a template against its pack's rules.
#[must_use]
pub fn lint(pack: &Pack, template: &Template) -> Vec<Finding> {
    let mut lint = Lint {
        template,
        found: Vec::new(),
    };
    let Some(spec) = pack.modes.get(&template.mode) else {
        let message = format!("the pack `{}` has no mode `{}`", pack.name, template.mode);
        lint.missing("mode", message);
        return lint.found;
    };
    lint.sections(&pack.sections);
    lint.placeholders(&spec.variables, &pack.variables);
    lint.focus(&spec.focus);
    lint.sentences(
        spec.sentences
            .get(&template.text.name)
            .map_or(&[], Vec::as_slice),
    );
    lint.verdicts(&spec.verdicts);
    lint.other_markers(spec);
    lint.ending();
    lint.found
}

struct Lint<'a> {
    template: &'a Template,
    found: Vec<Finding>,
}

impl Lint<'_> {
    fn missing(&mut self, rule: &'static str, message: String) {
        self.found.push(Finding {
            rule,
            message,
            line: None,
        });
    }

    fn wrong(&mut self, rule: &'static str, message: String, offset: usize) {
        let line = Some(self.template.text.place(offset).line);
        self.found.push(Finding {
            rule,
            message,
            line,
        });
    }

    fn has(&self, text: &str) -> bool {
        self.template.text.body().contains(text)
    }

    /// Every section is there under its heading, and says something.
    fn sections(&mut self, sections: &[String]) {
        for section in sections {
            match section_text(self.template.text.body(), section) {
                None => self.missing("section", format!("there is no section `## {section}`")),
                Some(text) if text.trim().is_empty() => {
                    self.missing("section", format!("the section `## {section}` is empty"));
                }
                Some(_) => {}
            }
        }
    }

    /// Every variable of the mode is used, each one that is used can be filled, and none is misspelt with blanks.
    fn placeholders(&mut self, needed: &[String], filled: &[String]) {
        let body = self.template.text.body();
        let mut used: Vec<&str> = Vec::new();
        for token in tokens(body) {
            let Token::Variable(name, offset) = token else {
                continue;
            };
            if !filled.iter().any(|known| known == name) && !used.contains(&name) {
                self.wrong(
                    "placeholder",
                    format!("nothing fills {{{{{name}}}}}"),
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
        for name in needed
            .iter()
            .chain(listed.filter(|name| !needed.contains(name)))
        {
            if !used.contains(&name.as_str()) {
                self.missing("placeholder", format!("{{{{{name}}}}} is not used"));
            }
        }
        for (offset, _) in body.match_indices("{{") {
            let Some((inner, _)) = body[offset + 2..].split_once("}}") else {
                continue;
            };
            let name = inner.trim();
            if name != inner && filled.iter().any(|known| known == name) {
                self.wrong(
                    "placeholder",
                    format!("{{{{{inner}}}}} is text; write {{{{{name}}}}}"),
                    offset,
                );
            }
        }
    }

    /// The mode's own concerns are named.
    fn focus(&mut self, words: &[String]) {
        // A placeholder's name is no word of the template.
        let prose = tokens(self.template.text.body()).filter_map(|token| match token {
            Token::Text(text) => Some(text.to_lowercase()),
            Token::Variable(..) => None,
        });
        let body = prose.collect::<String>();
        for word in words {
            if !body.contains(&word.to_lowercase()) {
                self.missing("focus", format!("`{word}` is not spoken of"));
            }
        }
    }

    /// What this very template must say stands in it word by word.
    fn sentences(&mut self, sentences: &[String]) {
        for sentence in sentences {
            if !self.has(sentence) {
                self.missing("sentence", format!("it does not say: {sentence}"));
            }
        }
    }

    /// The mode's verdicts are all asked for, and no other.
    fn verdicts(&mut self, allowed: &[ReviewResult]) {
        for verdict in ReviewResult::ALL {
            let marker = format!("<review>{verdict}</review>");
            match (
                self.template.text.body().find(&marker),
                allowed.contains(&verdict),
            ) {
                (None, true) => self.missing("marker", format!("{marker} is not asked for")),
                (Some(offset), false) => {
                    self.wrong(
                        "marker",
                        format!("{marker} is no verdict of this mode"),
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
                self.wrong(
                    "marker",
                    "an alternation is no verdict; show one value".to_owned(),
                    offset,
                );
            } else if value.parse::<ReviewResult>().is_err() {
                self.wrong(
                    "marker",
                    format!("<review>{value}</review> is no verdict"),
                    offset,
                );
            }
        }
    }

    fn other_markers(&mut self, spec: &ModeSpec) {
        let mut needed = vec!["<thought>"];
        if let Some(offset) = self
            .template
            .text
            .body()
            .find("<task_status")
            .filter(|_| !spec.task_status)
        {
            self.wrong(
                "marker",
                "<task_status> is not used in this mode".to_owned(),
                offset,
            );
        }
        if spec.task_status {
            needed.extend([
                "<task_status id=",
                ">COMPLETED</task_status>",
                ">FAILED</task_status>",
            ]);
        }
        if spec.permission == Permission::ReadOnly {
            needed.push("<content_update target=");
        }
        for marker in needed {
            if !self.has(marker) {
                self.missing("marker", format!("{marker} is not spoken of"));
            }
        }
    }

    /// The last paragraph hands over to the instructions.
    fn ending(&mut self) {
        let body = self.template.text.body().replace('\r', "");
        let last = body.trim_end().rsplit("\n\n").next().unwrap_or_default();
        if !last.contains("<instructions>") {
            self.missing(
                "ending",
                "the last paragraph does not hand over to <instructions>".to_owned(),
            );
        }
    }
}

/// Returns the text under the heading with a title, up to the next heading of level 1 or 2.
fn section_text<'a>(body: &'a str, title: &str) -> Option<&'a str> {
    let lines = markdown_lines(body, 1);
    let mut headings = lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| match line.kind {
            LineKind::Heading(1 | 2, title) => Some((index, title)),
            _ => None,
        });

    let (heading, _) = headings.find(|(_, found)| *found == title)?;
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
