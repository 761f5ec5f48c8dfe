//! Decides which effects of a reply its mode allows, and which operation writes an update.

use super::tree;
use crate::models::{Effect, OperationId, Update, paths};
use crate::pack::ModeSpec;
use crate::text::glob::matches_path;

/// Permissions of the replies in a turn.
pub(super) struct ReplyPermit<'a> {
    /// Mode of the turn.
    pub(super) spec: &'a ModeSpec,
    /// True if replies may edit files of the working tree: the mode allows it, and the agent has no tools to do it itself.
    pub(super) can_edit_tree: bool,
}

impl ReplyPermit<'_> {
    /// Returns the effect that writes an update: `files.write` for a file that matches the mode's `updates`, and for others
    /// `files.edit` if replies may edit the working tree. Otherwise returns the reason for rejecting the update.
    pub(super) fn check_update(&self, update: &Update) -> Result<Effect, String> {
        let is_listed = self
            .spec
            .updates
            .iter()
            .any(|pattern| matches_path(pattern, &update.target));
        self.check_effect(Effect {
            action: None,
            operation: if self.can_edit_tree && !is_listed {
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
                Some("replies cannot edit the working tree in this turn".to_owned())
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

/// Returns the reason why a reply may not update a target; `None` if it may.
fn find_target_fault(target: &str, allowed: &[String]) -> Option<String> {
    if !paths::is_plain_path(target) {
        return Some("the target is not a plain relative path".to_owned());
    }

    if allowed.iter().any(|pattern| matches_path(pattern, target)) {
        return None;
    }

    if allowed.is_empty() {
        return Some("replies in this mode cannot update files".to_owned());
    }
    Some(format!(
        "replies in this mode can update only {}",
        allowed.join(", ")
    ))
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
