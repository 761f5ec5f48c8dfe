//! XML form of a unified prompt.

use std::fmt::{self, Write};
use std::io;

use super::prompt::{ContextItem, ContextKind, UnifiedPrompt, XmlPiece};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::text::xml::{escape_at_signs, read_elements, write_element};

/// Writes the XML of one piece; see [`UnifiedPrompt::piece_xml`].
pub(super) fn write_piece(
    out: &mut impl Write,
    prompt: &UnifiedPrompt,
    piece: XmlPiece,
) -> fmt::Result {
    let items = prompt.context();
    let system = prompt.system_prompt();
    match piece {
        XmlPiece::System => {
            out.write_str("<prompt>\n")?;
            write_element(out, "system_prompt", None, system)
        }
        XmlPiece::Item(index) => {
            if index == 0 && system.is_empty() {
                out.write_str("<prompt>\n")?;
            }
            if index == 0 {
                out.write_str("<context>\n")?;
            }
            let Some(item) = items.get(index) else {
                return Ok(());
            };
            let name = Some((item.kind().attribute(), item.name()));
            write_element(out, item.kind().element(), name, item.content())?;
            if index + 1 == items.len() {
                out.write_str("</context>\n")?;
            }
            Ok(())
        }
        XmlPiece::Instructions => {
            if items.is_empty() && system.is_empty() {
                out.write_str("<prompt>\n")?;
            }
            write_element(out, "instructions", None, prompt.instructions())?;
            out.write_str("</prompt>\n")
        }
    }
}

/// Returns an estimate of the document size in bytes, so that one allocation is enough in most cases.
pub(super) fn estimated_size(prompt: &UnifiedPrompt) -> usize {
    /// Size of the tags, the attribute and the CDATA marks of one element.
    const ELEMENT_OVERHEAD_BYTES: usize = 64;
    let items = prompt
        .context()
        .iter()
        .map(|item| item.name().len() + item.content().len() + ELEMENT_OVERHEAD_BYTES);
    items.sum::<usize>()
        + prompt.system_prompt().len()
        + prompt.instructions().len()
        + 4 * ELEMENT_OVERHEAD_BYTES
}

/// Adapter from `fmt::Write` to `io::Write` that keeps the I/O error, which `fmt::Error` cannot carry.
pub(super) struct ByteWriter<W> {
    writer: W,
    error: Option<io::Error>,
}

impl<W: io::Write> ByteWriter<W> {
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer,
            error: None,
        }
    }

    /// Replaces a `fmt::Error` with the I/O error that caused it.
    pub(super) fn finish(self, result: fmt::Result) -> io::Result<()> {
        result.map_err(|error| self.error.unwrap_or_else(|| io::Error::other(error)))
    }
}

impl<W: io::Write> Write for ByteWriter<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.writer.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// Parses a document strictly: writing the parsed prompt must yield the same bytes.
///
/// The elements are parsed leniently, then the prompt is written and compared with the document; the first difference
/// is reported. This way, the rules of the format exist only in the writer.
pub(super) fn read_prompt(xml: &str) -> Result<UnifiedPrompt> {
    let prompt =
        read_leniently(xml).map_err(|(offset, message)| invalid_xml(xml, offset, message))?;

    let written = prompt.to_xml();
    let is_exact = written == xml
        // The variant that is sent to agents that expand `@name`.
        || escape_at_signs(&written) == xml;
    if is_exact {
        return Ok(prompt);
    }

    let offset = written
        .bytes()
        .zip(xml.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    Err(invalid_xml(
        xml,
        offset,
        "differs from the prompt format here".to_owned(),
    ))
}

fn read_leniently(xml: &str) -> Result<UnifiedPrompt, (usize, String)> {
    let mut system_prompt = String::new();
    let mut context = Vec::new();
    let mut instructions = None;
    for element in read_elements(xml, &["prompt", "context"])? {
        let kind = match element.name.as_str() {
            "file" => ContextKind::File,
            "artifact" => ContextKind::Artifact,
            "thought" => ContextKind::Thought,
            "system_prompt" => {
                system_prompt = element.body;
                continue;
            }
            "instructions" => {
                instructions = Some(element.body);
                continue;
            }
            // Unknown elements are skipped; the comparison in `read_prompt` then rejects the document.
            _ => continue,
        };
        context.push(ContextItem::new(kind, element.attribute, element.body));
    }

    let at_end = |message: &str| (xml.len(), message.to_owned());
    let instructions = instructions.ok_or_else(|| at_end("missing <instructions>"))?;
    let prompt = UnifiedPrompt::new(instructions).map_err(|error| at_end(error.message()))?;
    let prompt = prompt.with_system(system_prompt);
    Ok(context.into_iter().fold(prompt, UnifiedPrompt::with_item))
}

fn invalid_xml(xml: &str, offset: usize, message: String) -> Error {
    Error::new(ErrorKind::XmlInvalid, message)
        .with_place(Place::at_offset("prompt.xml", xml, offset))
        .with_hint("only documents written by `to_xml` can be read")
}
