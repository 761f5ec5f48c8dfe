//! `PromptBuilder`: builds a prompt call by call from the layers of a pack.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Map, Value};

use super::draft::assemble;
use super::layers::{self, PromptInputs};
use super::tools::check_tools;
use super::{MissingVariable, PromptRequest, SourcedItem, Variables, markdown};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{ContextItem, ContextKind, Format, Mode, StateDocument, Tier};
use crate::pack::{BUILDER_PACK, Pack, ProseText, SearchPath};

/// Section of structured context that selects the execution rules for a task's depth.
const DEPTH_SECTION: &str = "task_depth";

/// Id of the block, and of the pack's layer, with the execution rules.
const DEPTH_BLOCK: &str = "execution_rules";

/// Source of a project's description: its profile and its documents.
///
/// It is `Sync`, so that a [`PromptBuilder`] that borrows it can be sent to another thread.
pub trait ProjectMemory: std::fmt::Debug + Sync {
    /// Returns the project's context as Markdown; `None` for an unknown project.
    ///
    /// # Errors
    ///
    /// Any error. The prompt is then built without the context.
    fn project_context(&self, project_id: Option<&str>) -> Result<Option<String>>;
}

/// Source of rules. It has no methods: the rules layer is deprecated and replaced by knowledge.
pub trait RelevantRules {}

/// Builds one prompt from an identity, the project context, named context blocks and tools.
///
/// The prompt has them in this order, whatever the order of the calls; several context blocks keep the order of their
/// calls. Empty parts are omitted. A builder is for one prompt: it is `Send`, but not `Sync`.
///
/// ```
/// use agentd::compose::{PromptBuilder, Variables};
///
/// let mut builder = PromptBuilder::new(None, None, None)?;
/// builder
///     .set_identity("task-agent", Variables::new())?
///     .add_context("task", "Fix the build.");
/// let (system_prompt, tools) = builder.build()?;
/// assert!(system_prompt.ends_with("## Context: task\n\nFix the build."));
/// assert!(tools.is_empty());
/// # Ok::<(), agentd::Error>(())
/// ```
///
/// A plain folder of prompts works as well:
///
/// ```no_run
/// use agentd::Pack;
/// use agentd::compose::PromptBuilder;
///
/// let builder = PromptBuilder::new(None, None, None)?.with_pack(Pack::from_prompts("src/prompts")?);
/// # Ok::<(), agentd::Error>(())
/// ```
#[derive(Debug)]
pub struct PromptBuilder<'m> {
    pack: Pack,
    /// Prose files in the pack's folder that no layer uses, by file name.
    others: BTreeMap<String, ProseText>,
    project_id: Option<String>,
    memory: Option<&'m dyn ProjectMemory>,
    is_strict: bool,
    identity: Option<(Mode, Variables)>,
    project: Option<String>,
    context: Vec<SourcedItem>,
    tools: Vec<Value>,
    /// Makes the builder `Send` and not `Sync`.
    single_thread: PhantomData<Cell<()>>,
}

impl<'m> PromptBuilder<'m> {
    /// Returns a builder with the compiled-in pack. Without a memory, the project layer stays empty.
    ///
    /// # Errors
    ///
    /// Fails if the compiled-in pack is invalid, which tests rule out.
    pub fn new(
        project_id: Option<&str>,
        memory: Option<&'m dyn ProjectMemory>,
        _rules: Option<&'m dyn RelevantRules>,
    ) -> Result<Self> {
        let pack = Pack::load(BUILDER_PACK, &SearchPath::default())?;
        Ok(Self {
            others: pack.other_texts(),
            pack,
            project_id: project_id.map(str::to_owned),
            memory,
            is_strict: false,
            identity: None,
            project: None,
            context: Vec::new(),
            tools: Vec::new(),
            single_thread: PhantomData,
        })
    }

    /// Uses the prose and the layers of another pack.
    #[must_use]
    pub fn with_pack(mut self, pack: Pack) -> Self {
        self.replace_pack(pack);
        self
    }

    fn replace_pack(&mut self, pack: Pack) -> &mut Self {
        self.others = pack.other_texts();
        self.pack = pack;
        self
    }

    /// Makes a missing mandatory variable an error; by default it is replaced by an empty string.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.is_strict = strict;
        self
    }

    /// Sets the agent's identity: a mode of the pack, or an alias of one.
    ///
    /// # Errors
    ///
    /// `TemplateNotFound` for any other name; `MissingVariable` if the builder is strict and a mandatory variable has no
    /// value.
    pub fn set_identity(&mut self, name: &str, variables: Variables) -> Result<&mut Self> {
        let mode = Mode::new(name).map(|name| self.pack.resolved(&name)).ok();
        let Some(mode) = mode.filter(|mode| self.pack.modes.contains_key(mode)) else {
            let names: Vec<&str> = self.pack.modes.keys().map(Mode::as_str).collect();
            let message = format!("unknown identity `{name}` in pack `{}`", self.pack.name);
            return Err(Error::new(ErrorKind::TemplateNotFound, message)
                .with_hint(format!("known identities: {}", names.join(", "))));
        };

        let before = self.identity.replace((mode, variables));
        match self.build_task_prompt() {
            Ok(_) => Ok(self),
            Err(error) => {
                self.identity = before;
                Err(error)
            }
        }
    }

    /// Loads the project's context from the memory. The layer stays empty if there is no context or if loading fails.
    pub fn load_project_context(&mut self) -> &mut Self {
        let loaded = self
            .memory
            .map(|memory| memory.project_context(self.project_id.as_deref()));
        self.project = match loaded {
            None => None,
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                log::warn!("cannot read the project context, continuing without it: {error}");
                None
            }
        };

        self
    }

    /// Does nothing: the rules layer is deprecated and replaced by knowledge.
    pub fn load_relevant_rules(&mut self, _query: &str) -> &mut Self {
        self
    }

    /// Adds a named block of context; an empty block is omitted.
    pub fn add_context(&mut self, name: &str, content: &str) -> &mut Self {
        self.push_context(name, content, false);
        self
    }

    fn push_context(&mut self, name: &str, content: &str, is_pack_text: bool) {
        let content = trim_block(content);
        if !content.is_empty() {
            let item = ContextItem::new(ContextKind::Artifact, name, content);
            self.context.push(SourcedItem {
                item,
                source: "the caller".to_owned(),
                own: is_pack_text,
                named: false,
            });
        }
    }

    /// Adds structured context as Markdown. The section `task_depth`, with `depth` and `max_depth`, becomes the block
    /// `execution_rules`: how to plan at the root, when to split below it, how to execute at the deepest level. The rules
    /// come from the pack's layer `execution_rules`, or from the shipped pack if the pack has no such layer; a template
    /// of the pack replaces the shipped template of the same name.
    ///
    /// # Errors
    ///
    /// `MissingVariable` if `task_depth` lacks a `depth` of 0 or greater or, below the root, a `max_depth`.
    pub fn add_context_section(
        &mut self,
        name: &str,
        data: &Map<String, Value>,
    ) -> Result<&mut Self> {
        if name != DEPTH_SECTION {
            let text = markdown::list_fields(data);
            return Ok(self.add_context(name, &text));
        }

        let variables: Variables = data
            .iter()
            .filter_map(|(name, value)| match value {
                Value::Null => None,
                Value::String(text) => Some((name.clone(), text.clone())),
                value => Some((name.clone(), value.to_string())),
            })
            .collect();

        let request = PromptRequest {
            facts: variables.clone(),
            variables,
            missing: self.missing_policy(),
            ..PromptRequest::default()
        };
        let rules_pack = self.depth_rules_pack()?;
        let rules =
            layers::fill_layer_text(&rules_pack, DEPTH_BLOCK, &request)?.ok_or_else(|| {
                let message = format!(
                    "no rule of layer `{DEPTH_BLOCK}` applies to `{DEPTH_SECTION}`: {}",
                    Value::from(data.clone())
                );
                Error::new(ErrorKind::MissingVariable, message)
                    .with_hint("set `depth` and `max_depth` to numbers, 0 or greater")
            })?;

        self.push_context(DEPTH_BLOCK, &rules, true);
        Ok(self)
    }

    /// Returns the pack whose layer has the rules for the depth of a task: this pack, or the shipped pack with the texts
    /// that this pack overrides.
    fn depth_rules_pack(&self) -> Result<Cow<'_, Pack>> {
        if self.pack.layers.iter().any(|layer| layer.id == DEPTH_BLOCK) {
            return Ok(Cow::Borrowed(&self.pack));
        }

        let mut shipped = Pack::load(BUILDER_PACK, &SearchPath::default())?;
        for (file, text) in &mut shipped.texts {
            let replacement = self.pack.texts.get(file).or_else(|| self.others.get(file));
            if let Some(replacement) = replacement {
                *text = replacement.clone();
            }
        }

        Ok(Cow::Owned(shipped))
    }

    /// Sets the tools that the model may call. [`PromptBuilder::build`] returns them next to the prompt.
    ///
    /// # Errors
    ///
    /// `ToolsInvalid` if a tool has no valid name or its parameters are not valid JSON Schema.
    pub fn set_core_tools(&mut self, tools: Vec<Value>) -> Result<&mut Self> {
        check_tools(&tools)?;
        self.tools = tools;
        Ok(self)
    }

    /// Another name for [`PromptBuilder::set_core_tools`].
    ///
    /// # Errors
    ///
    /// Those of [`PromptBuilder::set_core_tools`].
    pub fn set_tools(&mut self, tools: Vec<Value>) -> Result<&mut Self> {
        self.set_core_tools(tools)
    }

    /// Returns the system prompt and the tools. Repeated calls return the same result.
    ///
    /// # Errors
    ///
    /// `MissingVariable` if the builder is strict and a mandatory variable has no value.
    pub fn build(&self) -> Result<(String, Vec<Value>)> {
        Ok((self.build_task_prompt()?, self.tools.clone()))
    }

    /// Returns the prompt as one string, for an agent without a separate system prompt.
    ///
    /// # Errors
    ///
    /// Those of [`PromptBuilder::build`].
    pub fn build_task_prompt(&self) -> Result<String> {
        let (mode, variables) = match &self.identity {
            Some((mode, variables)) => (Some(mode), variables.clone()),
            None => (None, Variables::new()),
        };
        let document = StateDocument::default();
        let inputs = PromptInputs {
            mode,
            document: &document,
            results: &[],
            knowledge: &[],
            history: &[],
            history_start: 0,
            risks: &[],
        };

        let request = PromptRequest {
            variables,
            missing: self.missing_policy(),
            context: self.context.clone(),
            project: self
                .project
                .clone()
                .map(|text| (text, "the project's memory".to_owned())),
            format: Some(Format::Flat),
            max_bytes: usize::MAX,
            ..PromptRequest::default()
        };

        assemble(&self.pack, inputs, request)?.text()
    }

    /// Returns the raw body of a template; `None` for an unknown name.
    #[must_use]
    pub fn get_template(&self, name: &str) -> Option<&str> {
        self.template(name).map(ProseText::body)
    }

    /// Returns a template with its variables replaced.
    ///
    /// # Errors
    ///
    /// `TemplateNotFound` for an unknown name; `MissingVariable` if the builder is strict and a mandatory variable has no
    /// value.
    pub fn render_template(&self, name: &str, variables: &Variables) -> Result<String> {
        let text = self.template(name).ok_or_else(|| {
            let names: Vec<&str> = self
                .pack
                .texts
                .keys()
                .filter_map(|file| file.strip_suffix(".md"))
                .collect();
            let message = format!("unknown template `{name}` in pack `{}`", self.pack.name);
            Error::new(ErrorKind::TemplateNotFound, message)
                .with_hint(format!("known templates: {}", names.join(", ")))
        })?;
        layers::render_text(&self.pack, text, variables, self.missing_policy())
    }

    /// Reads the templates again.
    ///
    /// # Errors
    ///
    /// Those of [`Pack::load`]; the old templates then stay in use.
    pub fn reload(&mut self) -> Result<&mut Self> {
        let pack = self.pack.reloaded()?;
        Ok(self.replace_pack(pack))
    }

    fn template(&self, name: &str) -> Option<&ProseText> {
        let mode_name = Mode::new(name).map_or_else(
            |_| name.to_owned(),
            |name| self.pack.resolved(&name).to_string(),
        );
        let file = format!("{mode_name}.md");
        self.pack
            .text(&file, Tier::Full)
            .or_else(|| self.others.get(&file))
    }

    fn missing_policy(&self) -> MissingVariable {
        if self.is_strict {
            MissingVariable::Error
        } else {
            MissingVariable::Empty
        }
    }
}

/// Strips blank lines at both ends; the indentation of the first line is kept.
pub(crate) fn trim_block(content: &str) -> &str {
    let leading = content.len() - content.trim_start().len();
    let start = content[..leading]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    content[start..].trim_end()
}
