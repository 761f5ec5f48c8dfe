//! Escapes text that an agent would expand in a prompt, such as `@file` mentions and a leading `/command`.

use std::borrow::Cow;

use crate::models::{Format, PromptExpansion};
use crate::text::xml::{cdata_xml, escape_at_signs};

/// Opening and closing tag around a flat text that is sent as XML.
pub(super) const ENVELOPE: [&str; 2] = ["<prompt>", "</prompt>\n"];

/// Escapes a rendered prompt so that the agent expands nothing in it.
///
/// In XML and JSON an `@` is written as a character reference. Flat text has no references, so it is sent as one XML element.
pub(super) fn escape_mentions(
    rendered: String,
    format: Format,
    expands: &[PromptExpansion],
) -> String {
    let expands_at_signs = expands.contains(&PromptExpansion::AtSigns);
    let has_leading_slash =
        expands.contains(&PromptExpansion::Slashes) && rendered.trim_start().starts_with('/');
    match format {
        Format::Xml if expands_at_signs => escape_at_signs(&rendered).into_owned(),
        Format::Flat if expands_at_signs || has_leading_slash => {
            let [open, close] = ENVELOPE;
            let whole = [open, &cdata_xml(&rendered), close].concat();
            if expands_at_signs {
                escape_at_signs(&whole).into_owned()
            } else {
                whole
            }
        }
        Format::Chat | Format::Tools if expands_at_signs => rendered.replace('@', "\\u0040"),
        Format::Xml | Format::Flat | Format::Chat | Format::Tools => rendered,
    }
}

/// Returns the longest form that a part of a prompt can have after escaping; used for counting tokens.
pub(super) fn longest_escaped(piece: &str, format: Format) -> Cow<'_, str> {
    match format {
        Format::Flat => Cow::Owned(escape_at_signs(&cdata_xml(piece)).into_owned()),
        Format::Xml | Format::Chat | Format::Tools => escape_at_signs(piece),
    }
}
