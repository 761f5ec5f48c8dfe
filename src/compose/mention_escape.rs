//! What is sent of a prompt: its rendering, written so that the agent finds nothing in it to expand.

use std::borrow::Cow;

use crate::models::{Expands, Format};
use crate::text::xml::{cdata_xml, escape_at_signs};

/// What opens and closes a flat text that is sent as one element.
pub(super) const ENVELOPE: [&str; 2] = ["<prompt>", "</prompt>\n"];

/// Returns a rendered prompt as it is sent to an agent that expands something.
pub(super) fn escape_mentions(rendered: String, format: Format, expands: &[Expands]) -> String {
    let at_signs = expands.contains(&Expands::AtSigns);
    let slashes = expands.contains(&Expands::Slashes) && rendered.trim_start().starts_with('/');
    match format {
        Format::Xml if at_signs => escape_at_signs(&rendered).into_owned(),
        // Only in XML is a reference the same as the character.
        Format::Flat if at_signs || slashes => {
            let [open, close] = ENVELOPE;
            let whole = [open, &cdata_xml(&rendered), close].concat();
            if at_signs {
                escape_at_signs(&whole).into_owned()
            } else {
                whole
            }
        }
        Format::Chat | Format::Tools if at_signs => rendered.replace('@', "\\u0040"),
        Format::Xml | Format::Flat | Format::Chat | Format::Tools => rendered,
    }
}

/// Returns a piece of a prompt as long as it can become when it is sent without an `@`.
pub(super) fn longest_escaped(piece: &str, format: Format) -> Cow<'_, str> {
    match format {
        Format::Flat => Cow::Owned(escape_at_signs(&cdata_xml(piece)).into_owned()),
        Format::Xml | Format::Chat | Format::Tools => escape_at_signs(piece),
    }
}
