//! Flat XML documents: elements with text, written so that every reader finds exactly the text that was given.

mod read;
mod write;

pub use read::{XmlElement, XmlFault, read_elements};
pub use write::{cdata_xml, element_xml, escape_at_signs, write_element};
