//! Text formats: XML, escaping, YAML, and inside the crate Markdown, front matter, JSON Schema and lenient JSON. All
//! functions are pure. Of the rest of the crate, they use only the errors.
//!
//! ```
//! use agentd::text::escape::escape_text;
//! use agentd::text::yaml;
//! use agentd::ErrorKind;
//!
//! assert_eq!(escape_text("a < b"), "a &lt; b");
//!
//! let numbers: Vec<u64> = yaml::read("- 1\n- 2\n", "numbers.yaml", 1, ErrorKind::StateInvalid)?;
//! assert_eq!(numbers, [1, 2]);
//! let error = yaml::read::<Vec<u64>>("- 1\n- two\n", "numbers.yaml", 1, ErrorKind::StateInvalid).unwrap_err();
//! assert_eq!(error.place().unwrap().line, 2);
//! # Ok::<(), agentd::Error>(())
//! ```

pub mod escape;
pub(crate) mod front_matter;
pub mod glob;
pub mod invisible;
pub(crate) mod json_schema;
pub(crate) mod lenient_json;
pub(crate) mod markdown;
pub mod terminal;
pub mod xml;
pub mod yaml;
