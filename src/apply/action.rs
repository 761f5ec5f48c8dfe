//! Checks that an action is allowed in the mode and has an operation.

use serde_json::Value;

use crate::models::{Action, Effect, Mode, UpdateFormat};
use crate::pack::Pack;

/// Returns the effect of an action, or the reason for rejecting it.
///
/// The target is the parameter `target`, by default the action's name; the content is the parameter `content`, by default
/// all parameters as JSON.
pub(super) fn permit_action(pack: &Pack, mode: &Mode, action: &Action) -> Result<Effect, String> {
    let name = action.name.as_str();
    if !pack
        .actions_of(mode)
        .any(|(known, _)| known.as_str() == name)
    {
        let known = pack.actions.contains_key(name);
        return Err(if known {
            format!("not allowed in mode `{mode}`")
        } else {
            "unknown action".to_owned()
        });
    }

    let Some(operation) = pack.uses.get(name).and_then(|used| used.operation.as_ref()) else {
        return Err("the pack defines no operation for it".to_owned());
    };
    let text = |name: &str| {
        action.values.get(name).map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        })
    };

    Ok(Effect {
        operation: operation.clone(),
        target: text("target").unwrap_or_else(|| name.to_owned()),
        content: text("content").unwrap_or_else(|| Value::from(action.values.clone()).to_string()),
        format: UpdateFormat::Whole,
    })
}
