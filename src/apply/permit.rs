//! Which targets a reply may update.

use crate::models::{Effect, Update, matches_pattern};
use crate::pack::ModeSpec;

/// The operation that carries out updates.
const WRITE: &str = "files.write";

/// Returns the effect of an update, or why it may not have one.
pub(super) fn update(spec: &ModeSpec, update: &Update) -> Result<Effect, String> {
    if let Some(reason) = target_fault(&update.target, &spec.updates) {
        return Err(reason);
    }
    if !spec.after.iter().any(|operation| operation.as_str() == WRITE) {
        return Err("this mode writes no files".to_owned());
    }
    Ok(Effect { operation: WRITE.to_owned(), target: update.target.clone(), content: update.content.clone() })
}

/// Returns an action's effect if its mode may have it.
pub(super) fn operation(spec: &ModeSpec, effect: Effect) -> Result<Effect, String> {
    if !spec.after.iter().any(|operation| operation.as_str() == effect.operation) {
        return Err(format!("this mode does not run `{}`", effect.operation));
    }
    match target_fault(&effect.target, &spec.updates).filter(|_| effect.operation == WRITE) {
        Some(reason) => Err(reason),
        None => Ok(effect),
    }
}

/// Returns why a target may not be updated; `None` if it may.
fn target_fault(target: &str, allowed: &[String]) -> Option<String> {
    let plain = |segment: &str| {
        !segment.is_empty()
            && !segment.starts_with('.')
            && segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    if target.len() > 200 || !target.split('/').all(plain) {
        return Some("the target is not a plain relative path".to_owned());
    }
    if allowed.iter().any(|pattern| matches_pattern(pattern, target)) {
        return None;
    }
    let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    Some(format!("this mode may update {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_plain_paths_may_be_updated() {
        let allowed = ["proposal.md".to_owned(), "specs/*.md".to_owned()];
        for target in ["proposal.md", "specs/login.md"] {
            assert_eq!(target_fault(target, &allowed), None, "{target}");
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
            assert!(target_fault(target, &allowed).is_some(), "{target:?}");
        }
    }
}
