//! Marks the messages of an example turn as an example.

use super::delimiters::{Delimiters, role_prefix};
use crate::models::{Format, MessageRole, PromptPart};
use crate::pack::Layer;

/// Returns the part of the prompt that shows a message of an example turn, and its text there.
pub(super) fn mark_example(
    delimiters: &Delimiters<'_>,
    layer: &Layer,
    role: MessageRole,
    text: String,
) -> (PromptPart, String) {
    let heading = match layer.heading_text() {
        heading if heading.is_empty() || role == MessageRole::Assistant => String::new(),
        heading => format!("{heading}\n\n"),
    };
    match delimiters.format {
        Format::Flat => (PromptPart::History { role }, text),
        Format::Xml => (PromptPart::History { role }, heading + &text),
        Format::Chat | Format::Tools => {
            let text = delimiters.escape_block(&text);
            let shown = format!("{heading}{}{text}", role_prefix(role));
            (PromptPart::System, shown)
        }
    }
}
