//! `files.edit`: writes and removes files of the working tree, for agents that have no tools of their own.

use super::file_step::{current_bytes, no_session, run_file_step};
use crate::error::Result;
use crate::file;
use crate::models::{Effect, OperationId, StepResult, TurnStart, UpdateFormat};
use crate::ops::fs::MAX_FILE_BYTES;
use crate::ops::{Act, Operation, Site, Step};
use crate::store::blob_id;

/// Reason for refusing to change an existing file that the prompt did not show.
const NOT_SHOWN: &str = "the file exists, but the prompt did not show it; show it with --file";

/// Reason for refusing to replace a file with content that omits lines.
const LINES_OMITTED: &str = "the new text has a placeholder for omitted lines";

/// Phrases that agents write in place of omitted lines.
const OMISSION_PHRASES: [&str; 6] = [
    "rest of",
    "unchanged",
    "existing code",
    "remaining code",
    "same as before",
    "as before",
];

/// Changes only files whose current content the prompt showed, and creates new files.
pub(crate) struct FilesEdit;

impl Operation for FilesEdit {
    fn id(&self) -> OperationId {
        OperationId::FilesEdit
    }
}

impl Act for FilesEdit {
    fn plan_effect(
        &self,
        site: &Site<'_>,
        effect: Effect,
        started: &TurnStart,
        earlier: Option<&Step>,
    ) -> Step {
        if site.session.is_none() {
            return Step::on_request(effect, None);
        }
        if let Some(earlier) = earlier {
            let current = earlier.content.as_deref();
            return limit_size(Step::updating(
                remove_code_fence(effect),
                current,
                earlier.after(),
            ));
        }

        let shown = started
            .shown
            .as_ref()
            .and_then(|shown| shown.get(&effect.target))
            .cloned();
        let current = match current_bytes(site.root, &effect.target) {
            Ok(current) => current,
            Err(error) => return Step::on_request(effect, shown).refuse(error.to_string()),
        };
        if shown.is_none() && current.is_some() {
            return Step::on_request(effect, None).refuse(NOT_SHOWN);
        }
        if shown != current.as_deref().map(blob_id) {
            return Step::on_request(effect, shown)
                .refuse("the file differs from its content in the prompt");
        }

        let effect = remove_code_fence(effect);
        let is_whole = effect.format == UpdateFormat::Whole;
        if current.is_some() && is_whole && omits_lines(&effect.content) {
            return Step::on_request(effect, shown).refuse(LINES_OMITTED);
        }
        limit_size(Step::updating_bytes(effect, current, shown))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        Ok(match site.session {
            Some(session) => run_file_step(site.root, &step.target, session, step),
            None => no_session(step),
        })
    }
}

/// Refuses a step whose content exceeds the maximum file size.
fn limit_size(step: Step) -> Step {
    let size = step
        .content
        .as_ref()
        .map_or(0, |content| content.len() as u64);
    if size > MAX_FILE_BYTES {
        step.refuse(format!(
            "the new content is larger than {}",
            file::in_units(MAX_FILE_BYTES)
        ))
    } else {
        step
    }
}

/// Returns an effect without a code fence around its whole content. A Markdown file may be one code block, so its
/// fence is kept.
fn remove_code_fence(effect: Effect) -> Effect {
    let is_markdown = [".md", ".mdx", ".markdown"]
        .iter()
        .any(|end| effect.target.ends_with(end));
    if is_markdown && effect.format == UpdateFormat::Whole {
        return effect;
    }

    match fenced_content(&effect.content) {
        Some(content) => Effect {
            content: content.to_owned(),
            ..effect
        },
        None => effect,
    }
}

/// Returns the content of a string that consists of one fenced code block; `None` for any other string.
fn fenced_content(text: &str) -> Option<&str> {
    let (first, rest) = text.trim_start_matches('\n').split_once('\n')?;
    let inner = rest.trim_end().strip_suffix("```")?;

    let is_fenced = first.starts_with("```") && !first[3..].contains('`') && inner.ends_with('\n');
    let is_single = !inner.lines().any(|line| line.starts_with("```"));
    (is_fenced && is_single).then_some(inner)
}

/// Returns true if a line has an ellipsis and a phrase for omitted lines.
fn omits_lines(text: &str) -> bool {
    text.lines()
        .filter(|line| line.contains("...") || line.contains('\u{2026}'))
        .any(|line| {
            let line = line.to_lowercase();
            OMISSION_PHRASES.iter().any(|phrase| line.contains(phrase))
        })
}
