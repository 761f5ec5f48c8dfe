//! From a pack, a state and a request to the exact prompt: layers, fit, render. Pure: the same input gives the same bytes.

mod count;
mod fit;
mod render;
mod vars;

use std::collections::HashMap;
use std::sync::Arc;

pub use count::{Count, Counter};
pub use fit::{FitBlock, FitReport};
pub use render::Format;
pub use vars::{Missing, VariableUse, Variables, inject_variables};

use crate::error::{Error, ErrorKind, Result};
use crate::models::{Block, ContextItem, ContextKind, Part, Segment, State, UnifiedPrompt};
use crate::pack::{Found, Holds, Layer, Pack};

/// What a turn asks for.
#[derive(Debug)]
pub struct Request {
    /// The system template.
    pub template: Arc<Found>,
    /// The values of its variables.
    pub variables: Variables,
    /// What happens where a mandatory one has no value.
    pub missing: Missing,
    /// The context, in order, each item with where it came from.
    pub context: Vec<(ContextItem, String)>,
    /// The user's text.
    pub instructions: String,
    /// The rendering.
    pub format: Format,
    /// The largest prompt, in bytes.
    pub max_bytes: usize,
}

/// A prompt that is ready to be looked at or sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The prompt as rendered bytes, block by block.
    pub segments: Vec<Segment>,
    /// The same by part.
    pub prompt: UnifiedPrompt,
    /// What each block takes of the budget.
    pub fit_report: FitReport,
    /// What became of each variable of the template.
    pub variables: Vec<VariableUse>,
}

impl Draft {
    /// Returns the whole prompt: all segments in order.
    #[must_use]
    pub fn text(&self) -> String {
        self.segments.iter().map(|segment| segment.text.as_str()).collect()
    }
}

/// Composes a prompt.
///
/// # Errors
///
/// `UnknownMode`, `MissingVariable`, `PromptInvalid` or `BudgetTooSmall`: nothing is sent that is not whole.
pub fn compose(pack: &Pack, state: &State, request: Request) -> Result<Draft> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    pack.mode(mode)?;
    if request.template.template.mode != *mode {
        let message = format!("{} is no template of mode `{mode}`", request.template.template.name);
        return Err(Error::new(ErrorKind::TemplateInvalid, message));
    }
    let format = request.format;
    let max_bytes = request.max_bytes;
    let (system, variables) = vars::fill(&request.template.template, &request.variables, request.missing)?;
    let mut blocks = layers(pack, request, system)?;
    let prompt = view(&mut blocks)?;
    let segments = render::render(&prompt, &blocks, format);
    let fit_report = fit::fit(&segments, max_bytes)?;
    Ok(Draft { segments, prompt, fit_report, variables })
}

/// Fills the pack's layers with blocks, in order; empty ones vanish.
fn layers(pack: &Pack, request: Request, system: String) -> Result<Vec<Block>> {
    let Request { template, mut context, instructions, .. } = request;
    let mut blocks = Vec::new();
    let (mut system, mut instructions) = (Some(system), Some(instructions));
    for layer in &pack.layers {
        if let Some(kind) = layer.holds.context_kind() {
            let (filling, rest) = context.into_iter().partition(|(item, _)| item.kind() == kind);
            context = rest;
            blocks.extend(context_blocks(layer, kind, filling));
        } else if layer.holds == Holds::Template {
            let content = system.take().filter(|text| !text.trim().is_empty());
            let source = &template.template.origin;
            blocks.extend(content.map(|text| block(layer, Part::System, source, text)));
        } else {
            let content = instructions.take();
            blocks.extend(content.map(|text| block(layer, Part::Instructions, "the request", text)));
        }
    }
    match context.first() {
        None => Ok(blocks),
        Some((item, _)) => {
            let message = format!("the pack `{}` has no layer for a {}", pack.name, item.kind().element());
            Err(Error::new(ErrorKind::PromptInvalid, message)
                .with_hint("add the layer, or leave the item out"))
        }
    }
}

fn context_blocks(layer: &Layer, kind: ContextKind, items: Vec<(ContextItem, String)>) -> Vec<Block> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    items
        .into_iter()
        .map(|(item, source)| {
            let (name, content) = item.into_name_and_content();
            let times = seen.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1_usize);
            let id = match times {
                1 => format!("{}/{name}", layer.id),
                times => format!("{}/{name} ({times})", layer.id),
            };
            Block { id, ..block(layer, Part::Context { kind, name }, &source, content) }
        })
        .collect()
}

fn block(layer: &Layer, part: Part, source: &str, content: String) -> Block {
    Block {
        id: layer.id.clone(),
        part,
        class: layer.class,
        zone: layer.zone,
        source: source.to_owned(),
        content,
    }
}

/// Moves the blocks' contents into a prompt, by part.
fn view(blocks: &mut [Block]) -> Result<UnifiedPrompt> {
    let (mut system, mut items, mut instructions) = (String::new(), Vec::new(), String::new());
    for block in blocks {
        let content = std::mem::take(&mut block.content);
        match &block.part {
            Part::System => system = content,
            Part::Context { kind, name } => items.push(ContextItem::new(*kind, name.as_str(), content)),
            Part::Instructions => instructions = content,
        }
    }
    let prompt = UnifiedPrompt::new(instructions)?.with_system(system);
    Ok(items.into_iter().fold(prompt, UnifiedPrompt::with_item))
}
