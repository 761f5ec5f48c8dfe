//! Parser of flat XML documents.

use quick_xml::Reader;
use quick_xml::errors::Error as XmlError;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// An element with text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XmlElement {
    /// Name of the tag.
    pub name: String,
    /// Value of the last attribute; empty without attributes.
    pub attribute: String,
    /// Text with its original line endings.
    pub body: String,
}

/// Fault of a document: its offset in bytes, and a message.
pub type XmlFault = (usize, String);

/// Reads the elements with text of a document, in order. Elements named in `containers` have elements instead of text and
/// are not returned.
///
/// The names of attributes and the nesting of containers are not checked: a caller that needs the exact form serializes
/// the result and compares it with the input.
///
/// # Errors
///
/// Returns the first fault if the document is not well-formed, has an element inside an element with text, or contains
/// anything that is neither an element nor text.
pub fn read_elements(xml: &str, containers: &[&str]) -> Result<Vec<XmlElement>, XmlFault> {
    let mut reader = Reader::from_str(xml);
    let mut document = DocumentReader {
        containers,
        open: None,
        elements: Vec::new(),
    };
    loop {
        let start = to_offset(xml, reader.buffer_position());
        match reader.read_event() {
            Ok(Event::Eof) => return Ok(document.elements),
            Ok(event) => document
                .read_event(event)
                .map_err(|message| (start, message))?,
            Err(error) => {
                return Err((to_offset(xml, reader.error_position()), error.to_string()));
            }
        }
    }
}

fn to_offset(xml: &str, position: u64) -> usize {
    usize::try_from(position).unwrap_or(xml.len())
}

struct DocumentReader<'a> {
    containers: &'a [&'a str],
    open: Option<OpenElement>,
    elements: Vec<XmlElement>,
}

/// The element with text that is being read.
struct OpenElement {
    element: XmlElement,
    has_crlf: bool,
}

impl DocumentReader<'_> {
    fn read_event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(tag) => self.start_element(&tag)?,
            Event::End(_) => self.end_element(),
            Event::Text(text) => self.push_text(&text),
            Event::CData(text) => self.push_text(&text),
            Event::GeneralRef(reference) => {
                let character = resolve_reference(&reference)?;
                self.push_text(character.encode_utf8(&mut [0; 4]));
            }
            _ => return Err("only elements and text are allowed".to_owned()),
        }
        Ok(())
    }

    fn start_element(&mut self, tag: &BytesStart<'_>) -> Result<(), String> {
        let name = tag.name().as_ref().to_owned();
        if let Some(open) = &self.open {
            return Err(format!(
                "<{name}> is not allowed inside <{}>",
                open.element.name
            ));
        }
        if self.containers.contains(&name.as_str()) {
            return Ok(());
        }

        let mut open = OpenElement {
            element: XmlElement {
                name,
                ..XmlElement::default()
            },
            has_crlf: false,
        };
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = unescape(&attribute.value).map_err(|error| error.to_string())?;
            match attribute.key.as_ref() {
                "eol" => open.has_crlf = value == "crlf",
                _ => open.element.attribute = value.into_owned(),
            }
        }
        self.open = Some(open);
        Ok(())
    }

    fn push_text(&mut self, text: &str) {
        if let Some(open) = &mut self.open {
            open.element.body.push_str(text);
        }
    }

    fn end_element(&mut self) {
        let Some(OpenElement {
            mut element,
            has_crlf,
        }) = self.open.take()
        else {
            return;
        };
        if has_crlf {
            element.body = element.body.replace('\n', "\r\n");
        }
        self.elements.push(element);
    }
}

fn resolve_reference(reference: &BytesRef<'_>) -> Result<char, String> {
    let character: Result<Option<char>, XmlError> = reference.resolve_char_ref();
    match character {
        Ok(Some(character)) => Ok(character),
        Ok(None) => Err(format!("&{}; is not a character reference", &**reference)),
        Err(error) => Err(format!("&{};: {error}", &**reference)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::xml::element_xml;

    #[test]
    fn elements_are_read_as_they_were_written() {
        for body in [
            "",
            "plain",
            "a < b && c",
            "]]>",
            "a\r\nb\r\n",
            "a\r\n<b>\r\n",
            "a\rb\n",
            "<\r]]>\r\n",
        ] {
            let xml = format!(
                "<all>\n{}</all>\n",
                element_xml("file", Some(("path", "a\"<>\n")), body)
            );
            let element = XmlElement {
                name: "file".to_owned(),
                attribute: "a\"<>\n".to_owned(),
                body: body.to_owned(),
            };
            assert_eq!(read_elements(&xml, &["all"]), Ok(vec![element]), "{body:?}");
        }
    }

    #[test]
    fn faults_have_the_offset_of_the_event() {
        for (xml, offset) in [
            ("<a><b></b></a>", 3),
            ("<a>&e;</a>", 3),
            ("<a></a><!-- x -->", 7),
            ("<a></b>", 3),
        ] {
            let fault = read_elements(xml, &[]).map_err(|(offset, _)| offset);
            assert_eq!(fault, Err(offset), "{xml}");
        }
    }
}
