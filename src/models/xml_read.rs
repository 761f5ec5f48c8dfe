//! Reads a unified prompt back, strictly: what would not be written again to the same bytes is refused.

use quick_xml::Reader;
use quick_xml::errors::Error as XmlError;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::prompt::{ContextItem, ContextKind, UnifiedPrompt};
use super::xml_write::without_at_signs;
use crate::error::{Error, ErrorKind, Place, Result};

/// Reads a document.
///
/// The events are read leniently and the result is written again: the first byte that differs is the complaint. So
/// no rule of the written form is stated twice.
pub(super) fn read(xml: &str) -> Result<UnifiedPrompt> {
    let mut reader = Reader::from_str(xml);
    let mut found = Found::default();
    loop {
        let start = reader.buffer_position();
        let refuse = |message: String| refusal(xml, start, message);
        match reader.read_event() {
            Ok(Event::Eof) => break,
            Ok(event) => found.take(event).map_err(refuse)?,
            Err(error) => return Err(refusal(xml, reader.error_position(), error.to_string())),
        }
    }
    let prompt = found
        .finish()
        .map_err(|message| refusal(xml, xml.len() as u64, message))?;
    let written = prompt.to_xml();
    match first_difference(&written, xml) {
        None => Ok(prompt),
        // Written for an agent that would expand an `@`.
        Some(_) if without_at_signs(&written) == xml => Ok(prompt),
        Some(offset) => Err(refusal(
            xml,
            offset as u64,
            "this is not how a prompt is written".to_owned(),
        )),
    }
}

fn refusal(xml: &str, offset: u64, message: String) -> Error {
    let offset = usize::try_from(offset).unwrap_or(xml.len());
    Error::new(ErrorKind::XmlInvalid, message)
        .with_place(Place::at_offset("prompt.xml", xml, offset))
        .with_hint("only documents that `to_xml` has written can be read back")
}

fn first_difference(written: &str, given: &str) -> Option<usize> {
    if written == given {
        return None;
    }
    let same = written
        .bytes()
        .zip(given.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    Some(same)
}

/// What has been read so far.
#[derive(Default)]
struct Found {
    open: Option<Open>,
    system_prompt: String,
    context: Vec<ContextItem>,
    instructions: Option<String>,
}

/// The element with text that is being read.
struct Open {
    element: String,
    name: String,
    crlf: bool,
    body: String,
}

impl Found {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(_) => {
                self.end();
                Ok(())
            }
            Event::Text(text) => {
                self.push(&text);
                Ok(())
            }
            Event::CData(text) => {
                self.push(&text);
                Ok(())
            }
            Event::GeneralRef(reference) => {
                let character = resolve(&reference)?;
                self.push(character.encode_utf8(&mut [0; 4]));
                Ok(())
            }
            _ => Err("a prompt holds elements and text only".to_owned()),
        }
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        let element = tag.name().as_ref().to_owned();
        if let Some(open) = &self.open {
            return Err(format!("<{element}> stands inside <{}>", open.element));
        }
        if element == "prompt" || element == "context" {
            return Ok(());
        }
        let mut open = Open {
            element,
            name: String::new(),
            crlf: false,
            body: String::new(),
        };
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = unescape(&attribute.value).map_err(|error| error.to_string())?;
            match attribute.key.as_ref() {
                "eol" => open.crlf = value == "crlf",
                _ => open.name = value.into_owned(),
            }
        }
        self.open = Some(open);
        Ok(())
    }

    fn push(&mut self, text: &str) {
        if let Some(open) = &mut self.open {
            open.body.push_str(text);
        }
    }

    fn end(&mut self) {
        let Some(open) = self.open.take() else { return };
        let body = if open.crlf {
            open.body.replace('\n', "\r\n")
        } else {
            open.body
        };
        let kind = match open.element.as_str() {
            "file" => ContextKind::File,
            "artifact" => ContextKind::Artifact,
            "thought" => ContextKind::Thought,
            "system_prompt" => {
                self.system_prompt = body;
                return;
            }
            "instructions" => {
                self.instructions = Some(body);
                return;
            }
            // An element of no prompt: it is missing when the prompt is written again, and so refused there.
            _ => return,
        };
        self.context.push(ContextItem::new(kind, open.name, body));
    }

    fn finish(self) -> Result<UnifiedPrompt, String> {
        let instructions = self.instructions.ok_or("there are no <instructions>")?;
        let prompt =
            UnifiedPrompt::new(instructions).map_err(|error| error.message().to_owned())?;
        let prompt = prompt.with_system(self.system_prompt);
        Ok(self
            .context
            .into_iter()
            .fold(prompt, UnifiedPrompt::with_item))
    }
}

fn resolve(reference: &BytesRef<'_>) -> Result<char, String> {
    let unknown = || format!("&{};", &**reference);
    let character: Result<Option<char>, XmlError> = reference.resolve_char_ref();
    match character {
        Ok(Some(character)) => Ok(character),
        Ok(None) => Err(format!(
            "{} is not a reference that a prompt holds",
            unknown()
        )),
        Err(error) => Err(format!("{}: {error}", unknown())),
    }
}
