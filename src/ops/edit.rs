//! Edits of the work tree by replies, for agents that have no tools of their own.

use super::files::{LARGEST, UNNAMED, current, settle};
use super::{Act, Operation, Site, Step};
use crate::error::Result;
use crate::file;
use crate::models::{Effect, OperationId, Started, StepResult, UpdateFormat};
use crate::store::blob_id;

/// `files.edit`: writes and removes files of the work tree.
pub(super) struct Edit;

impl Operation for Edit {
    fn id(&self) -> OperationId {
        OperationId::FilesEdit
    }
}

impl Act for Edit {
    fn plan_effect(
        &self,
        site: &Site<'_>,
        effect: Effect,
        started: &Started,
        earlier: Option<&Step>,
    ) -> Step {
        if site.session.is_none() {
            return Step::on_request(effect, None);
        }
        if let Some(earlier) = earlier {
            return within(Step::updating(
                unfenced(effect),
                earlier.content.as_deref(),
                earlier.after(),
            ));
        }
        let shown = started
            .shown
            .as_ref()
            .and_then(|shown| shown.get(&effect.target))
            .cloned();
        let now = match current(site.root, &effect.target) {
            Ok(now) => now,
            Err(error) => return Step::on_request(effect, shown).refuse(error.to_string()),
        };
        if shown.is_none() && now.is_some() {
            return Step::on_request(effect, None).refuse(UNSEEN);
        }
        if shown != now.as_deref().map(blob_id) {
            return Step::on_request(effect, shown).refuse("it is not as the prompt shows it");
        }
        let effect = unfenced(effect);
        if now.is_some() && effect.format == UpdateFormat::Whole && leaves_out(&effect.content) {
            return Step::on_request(effect, shown).refuse(ELIDED);
        }
        within(Step::updating_bytes(effect, now, shown))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let Some(session) = site.session else {
            return Ok(planned.settled(false, UNNAMED.to_owned()));
        };
        let target = planned.target.as_str();
        Ok(settle(site.root, target, session, planned))
    }
}

/// Why a file that is there is not changed by an agent that has not seen it.
const UNSEEN: &str = "it is there, and the prompt did not show it; show it with --file";

/// Refuses what is larger than a file may be.
fn within(planned: Step) -> Step {
    let size = planned
        .content
        .as_ref()
        .map_or(0, |content| content.len() as u64);
    if size > LARGEST {
        planned.refuse(format!("it is over {}", file::in_units(LARGEST)))
    } else {
        planned
    }
}

/// Why a text with words in the place of its middle does not replace a file.
const ELIDED: &str = "a line of it stands for lines that are left out";

/// Words that stand for lines that are not written out.
const OMISSIONS: [&str; 6] = [
    "rest of",
    "unchanged",
    "existing code",
    "remaining code",
    "same as before",
    "as before",
];

/// Returns an update without a code fence around all of it, which is no part of a diff, nor of a file other than prose.
fn unfenced(effect: Effect) -> Effect {
    let is_prose = [".md", ".mdx", ".markdown"]
        .iter()
        .any(|end| effect.target.ends_with(end));
    if is_prose && effect.format == UpdateFormat::Whole {
        return effect;
    }
    let inner = || {
        let (first, rest) = effect.content.trim_start_matches('\n').split_once('\n')?;
        let inner = rest.trim_end().strip_suffix("```")?;
        let is_fence =
            first.starts_with("```") && !first[3..].contains('`') && inner.ends_with('\n');
        let is_one = !inner.lines().any(|line| line.starts_with("```"));
        (is_fence && is_one).then(|| inner.to_owned())
    };
    match inner() {
        Some(content) => Effect { content, ..effect },
        None => effect,
    }
}

/// Tells whether a line stands for others that are left out: dots, and words for it.
fn leaves_out(text: &str) -> bool {
    text.lines()
        .filter(|line| line.contains("...") || line.contains('\u{2026}'))
        .any(|line| {
            let line = line.to_lowercase();
            OMISSIONS.iter().any(|words| line.contains(words))
        })
}
