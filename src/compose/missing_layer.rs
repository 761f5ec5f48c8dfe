//! Error for a context item that a pack cannot show.

use super::SourcedItem;
use crate::error::{Error, ErrorKind};
use crate::pack::{Layer, Pack, SearchPath};

/// Returns the error for a context item that no layer of the pack includes. Its hint has the condition of the layer for
/// such items; if the pack has no such layer, it lists the shipped packs that have one.
pub(super) fn missing_layer_error(pack: &Pack, unplaced: &SourcedItem) -> Error {
    let kind = unplaced.item.kind();
    let items = format!("{}s", kind.element());
    let takes_items = |layer: &&Layer| layer.holds.context_kind() == Some(kind);
    let condition = pack
        .layers
        .iter()
        .find(takes_items)
        .and_then(|layer| layer.when.as_ref());

    let name = &pack.name;
    let item = unplaced.item.name();
    if let Some(condition) = condition {
        let message =
            format!("cannot add `{item}`: pack `{name}` does not include {items} in this prompt");
        let hint = format!(
            "omit it; the pack includes {items} only if {}",
            condition.text()
        );
        return Error::new(ErrorKind::PromptInvalid, message).with_hint(hint);
    }

    let shipped = SearchPath::default();
    let others: Vec<String> = Pack::names(&shipped)
        .into_iter()
        .filter(|other| {
            let other = Pack::load(other, &shipped);
            other.is_ok_and(|other| other.layers.iter().any(|layer| takes_items(&layer)))
        })
        .map(|other| format!("`{other}`"))
        .collect();
    let message = format!("cannot add `{item}`: pack `{name}` has no layer for {items}");
    Error::new(ErrorKind::PromptInvalid, message).with_hint(format!(
        "omit it, or use a pack that includes {items}: {}",
        others.join(", ")
    ))
}
