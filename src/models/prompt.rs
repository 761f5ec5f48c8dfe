//! Unified prompt: one structure for the prompts of all agents.

use std::borrow::Cow;
use std::io;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::prompt_xml::{ByteWriter, estimated_size, read_prompt, write_piece};
use crate::error::{Error, ErrorKind, Result};
use crate::text::escape::replace_forbidden;

/// A complete prompt: system prompt, context and instructions.
///
/// Characters that XML 1.0 forbids are replaced by visible ones when a prompt is created, so `from_xml(to_xml(p)) == p`
/// holds for every prompt.
///
/// ```
/// use agentd::UnifiedPrompt;
///
/// let prompt = UnifiedPrompt::new("Add login")?
///     .with_system("You are a planner.")
///     .with_file("src/main.rs", "fn main() { if 1 < 2 {} }");
/// assert!(prompt.to_xml().ends_with("<instructions>Add login</instructions>\n</prompt>\n"));
/// # Ok::<(), agentd::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "PromptJson")]
#[schemars(!try_from, description = "A complete prompt: system prompt, context and instructions.")]
pub struct UnifiedPrompt {
    /// Role of the agent and rules for its work.
    #[serde(default)]
    system_prompt: String,
    /// Files, artifacts and thoughts, in order.
    #[serde(default)]
    context: Vec<ContextItem>,
    /// Task of the agent. Never blank.
    #[schemars(regex(pattern = r"\S"))]
    instructions: String,
}

/// A context item: kind, name and content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, from = "ContextItemJson")]
#[schemars(!from)]
pub struct ContextItem {
    /// Kind of the item.
    #[serde(rename = "type")]
    kind: ContextKind,
    /// Path or title.
    name: String,
    /// Text of the item.
    content: String,
}

/// Kinds of context items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextKind {
    /// A file of the project, named by its path.
    #[default]
    File,
    /// A text produced by an earlier step.
    Artifact,
    /// A remark passed on from an earlier step.
    Thought,
}

impl JsonSchema for ContextKind {
    fn schema_name() -> Cow<'static, str> {
        "ContextKind".into()
    }

    // Written by hand: the derive macro turns documented variants into `oneOf` instead of one `enum`.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": ["file", "artifact", "thought"]})
    }

    fn inline_schema() -> bool {
        true
    }
}

impl ContextKind {
    /// Returns the name of the XML element.
    #[must_use]
    pub fn element(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Artifact => "artifact",
            Self::Thought => "thought",
        }
    }

    /// Returns the XML attribute with the name of an item.
    #[must_use]
    pub fn attribute(self) -> &'static str {
        match self {
            Self::File => "path",
            Self::Artifact | Self::Thought => "name",
        }
    }
}

/// A prompt in JSON, before validation.
#[derive(Deserialize)]
struct PromptJson {
    #[serde(default)]
    system_prompt: String,
    #[serde(default)]
    context: Vec<ContextItem>,
    instructions: String,
}

/// A context item in JSON, before forbidden characters are replaced.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextItemJson {
    #[serde(rename = "type")]
    kind: ContextKind,
    name: String,
    content: String,
}

impl TryFrom<PromptJson> for UnifiedPrompt {
    type Error = Error;

    fn try_from(json: PromptJson) -> Result<Self> {
        let mut prompt = Self::new(json.instructions)?.with_system(json.system_prompt);
        prompt.context = json.context;
        Ok(prompt)
    }
}

impl From<ContextItemJson> for ContextItem {
    fn from(json: ContextItemJson) -> Self {
        Self::new(json.kind, json.name, json.content)
    }
}

impl ContextItem {
    /// Creates an item. Characters that XML forbids are replaced by visible ones.
    pub fn new(kind: ContextKind, name: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            kind,
            name: replace_forbidden_chars(name.into()),
            content: replace_forbidden_chars(content.into()),
        }
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn kind(&self) -> ContextKind {
        self.kind
    }

    /// Returns the name and the content without copying them.
    #[must_use]
    pub fn into_name_and_content(self) -> (String, String) {
        (self.name, self.content)
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }
}

impl UnifiedPrompt {
    /// Creates a prompt with instructions and nothing else.
    ///
    /// # Errors
    ///
    /// `PromptInvalid` if the instructions are empty or only whitespace.
    pub fn new(instructions: impl Into<String>) -> Result<Self> {
        let instructions = replace_forbidden_chars(instructions.into());
        if instructions.trim().is_empty() {
            return Err(
                Error::new(ErrorKind::PromptInvalid, "the instructions are empty")
                    .with_hint("describe the task"),
            );
        }
        Ok(Self {
            system_prompt: String::new(),
            context: Vec::new(),
            instructions,
        })
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn with_system(mut self, system_prompt: impl Into<String>) -> Self {
        self.system_prompt = replace_forbidden_chars(system_prompt.into());
        self
    }

    /// Adds a context item at the end.
    #[must_use]
    pub fn with_item(mut self, item: ContextItem) -> Self {
        self.context.push(item);
        self
    }

    /// Adds a file at the end of the context.
    #[must_use]
    pub fn with_file(self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.with_item(ContextItem::new(ContextKind::File, path, content))
    }

    /// Adds an artifact at the end of the context.
    #[must_use]
    pub fn with_artifact(self, name: impl Into<String>, content: impl Into<String>) -> Self {
        self.with_item(ContextItem::new(ContextKind::Artifact, name, content))
    }

    /// Adds a thought at the end of the context.
    #[must_use]
    pub fn with_thought(self, name: impl Into<String>, content: impl Into<String>) -> Self {
        self.with_item(ContextItem::new(ContextKind::Thought, name, content))
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn system_prompt(&self) -> &str {
        &self.system_prompt
    }

    /// Returns the context, in order.
    #[must_use]
    pub fn context(&self) -> &[ContextItem] {
        &self.context
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    /// Returns the prompt as an XML 1.0 document. Content is escaped, so it cannot be read as markup.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut xml = String::with_capacity(estimated_size(self));
        for piece in self.pieces() {
            self.append_piece(piece, &mut xml);
        }
        xml
    }

    /// Writes the XML document without building it in memory.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    pub fn write_xml(&self, writer: impl io::Write) -> io::Result<()> {
        let mut out = ByteWriter::new(writer);
        let result = self
            .pieces()
            .try_for_each(|piece| write_piece(&mut out, self, piece));
        out.finish(result)
    }

    /// Returns the pieces of the XML document, in order.
    pub fn pieces(&self) -> impl Iterator<Item = XmlPiece> + use<> {
        let system = (!self.system_prompt.is_empty()).then_some(XmlPiece::System);
        let items = (0..self.context.len()).map(XmlPiece::Item);
        system
            .into_iter()
            .chain(items)
            .chain([XmlPiece::Instructions])
    }

    /// Returns the XML of one piece: its element, and adjacent opening or closing tags of `<prompt>` and `<context>`.
    /// The concatenation of all pieces is the document.
    #[must_use]
    pub fn piece_xml(&self, piece: XmlPiece) -> String {
        let mut xml = String::new();
        self.append_piece(piece, &mut xml);
        xml
    }

    fn append_piece(&self, piece: XmlPiece, xml: &mut String) {
        // Writing to a string cannot fail.
        let _infallible = write_piece(xml, self, piece);
    }

    /// Returns the JSON Schema of a prompt.
    #[must_use]
    pub fn json_schema() -> Schema {
        SchemaSettings::draft07()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator()
            .into_root_schema_for::<Self>()
    }

    /// Parses a document written by [`Self::to_xml`].
    ///
    /// # Errors
    ///
    /// `XmlInvalid`, with line and column, for a document that differs from what `to_xml` writes for the same prompt.
    pub fn from_xml(xml: &str) -> Result<Self> {
        read_prompt(xml)
    }
}

/// A piece of the XML document of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlPiece {
    /// `<system_prompt>`.
    System,
    /// The context item with this index.
    Item(usize),
    /// `<instructions>`.
    Instructions,
}

/// Replaces characters that XML 1.0 forbids, without copying a string that has none.
fn replace_forbidden_chars(text: String) -> String {
    replace_forbidden(text).into_owned()
}
