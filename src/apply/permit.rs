//! Checks the updates of a reply, and chooses their operation.

use super::tree;
use crate::models::{Effect, OperationId, Update, paths};
use crate::pack::ModeSpec;
use crate::text::glob::matches_path;

/// Permissions of the replies of a turn.
pub(super) struct ReplyPermit<'a> {
    /// Mode of the turn.
    pub(super) spec: &'a ModeSpec,
    /// Set if replies may edit the working tree, because the agent has no tools.
    pub(super) can_edit_tree: bool,
}

impl ReplyPermit<'_> {
    /// Returns the effect of an update, or the reason for rejecting it.
    pub(super) fn check_update(&self, update: &Update) -> Result<Effect, String> {
        let is_own_document = self
            .spec
            .updates
            .iter()
            .any(|pattern| matches_path(pattern, &update.target));
        self.check_effect(Effect {
            action: None,
            operation: if self.can_edit_tree && !is_own_document {
                OperationId::FilesEdit
            } else {
                OperationId::FilesWrite
            },
            target: update.target.clone(),
            content: update.content.clone(),
            format: update.format,
        })
    }

    /// Returns the effect if the mode allows it, or the reason for rejecting it.
    pub(super) fn check_effect(&self, effect: Effect) -> Result<Effect, String> {
        let fault = match effect.operation {
            OperationId::FilesWrite => find_target_fault(&effect.target, &self.spec.updates),
            OperationId::FilesEdit if self.can_edit_tree => tree::find_path_fault(&effect.target),
            OperationId::FilesEdit => {
                Some("agents with tools edit the working tree directly".to_owned())
            }
            _ => None,
        };

        if let Some(fault) = fault {
            return Err(fault);
        }

        if self.spec.after.contains(&effect.operation) {
            return Ok(effect);
        }

        Err(format!("this mode does not run `{}`", effect.operation))
    }
}

/// Returns the reason why a target may not be updated; `None` if it may.
fn find_target_fault(target: &str, allowed: &[String]) -> Option<String> {
    if !paths::is_plain_path(target) {
        return Some("the target is not a plain relative path".to_owned());
    }

    if allowed.iter().any(|pattern| matches_path(pattern, target)) {
        return None;
    }

    let allowed = if allowed.is_empty() {
        "nothing".to_owned()
    } else {
        allowed.join(", ")
    };
    Some(format!("not allowed; this mode may update {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_plain_paths_may_be_updated() {
        let allowed = ["proposal.md".to_owned(), "specs/*.md".to_owned()];
        for target in ["proposal.md", "specs/login.md"] {
            assert_eq!(find_target_fault(target, &allowed), None, "{target}");
        }
        let refused = [
            "",
            "tasks.md",
            "specs/a/b.md",
            "specs/../proposal.md",
            "/proposal.md",
            "./proposal.md",
            "specs\\login.md",
            "specs/.md",
            "specs/lo gin.md",
            "proposal.md\n",
            "specs/.hidden.md",
            "specs/md",
        ];
        for target in refused {
            assert!(find_target_fault(target, &allowed).is_some(), "{target:?}");
        }
    }
}
