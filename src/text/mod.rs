//! Pure text tools, each of which exists once. They know the errors of the crate and nothing else of it.

pub mod escape;
pub(crate) mod front_matter;
pub(crate) mod json_schema;
pub(crate) mod lenient_json;
pub(crate) mod markdown;
pub mod xml;
pub mod yaml;
