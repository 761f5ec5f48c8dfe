//! Flat XML documents: elements with text. Every XML reader gets back exactly the text that was written.

mod read;
mod write;

pub use read::{XmlElement, XmlFault, read_elements};
pub use write::{cdata_xml, element_xml, escape_at_signs, write_element};
