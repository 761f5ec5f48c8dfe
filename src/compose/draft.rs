//! Composed prompts: from filled layers to a fitted prompt, and from there to text, messages and a report.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::block::{ElasticSequence, PromptEntry, SequenceItems};
use super::count::Counter;
use super::delimiters::Delimiters;
use super::fit::{self, BudgetShortfall, EntryFit, FitBounds, FitOutcome};
use super::layers::{self, FilledLayers, PromptInputs};
use super::mention_escape::escape_mentions;
use super::report::{AbsentLayer, FitBlock, FitReport};
use super::segments::{PromptContents, SegmentWriter, take_contents, write_pieces, xml_segments};
use super::vars::{NONCE, VERDICTS, VariableUse};
use super::{PromptRequest, tools};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    CountKind, Format, MessageRole, Mode, Nonce, PromptExpansion, PromptPart, PromptSegment, Tier,
    UnifiedPrompt,
};
use crate::pack::{LayerContent, Pack};

/// Maximum number of blocks that an error about the token budget lists.
const MAX_LISTED_BLOCKS: usize = 20;

/// Maximum number of blocks that an error about the size in bytes lists.
const MAX_LARGEST_BLOCKS: usize = 10;

/// A composed prompt, ready to be inspected or sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Rendered text of the prompt, block by block.
    pub segments: Vec<PromptSegment>,
    /// The same content by part: system prompt, context, instructions.
    pub prompt: UnifiedPrompt,
    /// Size of each block, and the reason if it was shortened or omitted.
    pub fit_report: FitReport,
    /// Variables that the prompt uses.
    pub variables: Vec<VariableUse>,
    /// Tool definitions in JSON Schema.
    pub tools: Vec<Value>,
    /// Rendering of the segments.
    pub format: Format,
    /// Nonce that the verdict must carry; `None` if the prompt does not show one.
    pub nonce: Option<Nonce>,
    /// Kinds of text that the agent would expand; [`Draft::rendered`] escapes them.
    pub expands: Vec<PromptExpansion>,
}

/// A chat message.
#[expect(missing_docs, reason = "`content` needs no explanation")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    pub content: String,
}

impl Draft {
    /// Returns the text of all segments, in order, before anything is escaped for the agent.
    #[must_use]
    pub fn text(&self) -> String {
        self.segments
            .iter()
            .map(|segment| segment.text.as_str())
            .collect()
    }

    /// Returns the prompt as chat messages: the system prompt, earlier turns, and the user's message.
    ///
    /// A prompt that is rendered as text ([`Format::Xml`], [`Format::Flat`]) is one user message, because its headings and
    /// tags only make sense together. Use [`Format::Chat`] to get one message per turn.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        match self.format {
            Format::Xml | Format::Flat => vec![Message {
                role: "user",
                content: self.text(),
            }],
            Format::Chat | Format::Tools => group_messages(&self.segments),
        }
    }

    /// Returns the prompt as it is sent, as text or JSON, with everything escaped that the agent would expand.
    #[must_use]
    pub fn rendered(&self) -> String {
        let rendered = match self.format {
            Format::Xml | Format::Flat => self.text(),
            Format::Chat => to_pretty_json(&json!(self.messages())),
            Format::Tools => {
                let (system, rest): (Vec<_>, Vec<_>) = self
                    .messages()
                    .into_iter()
                    .partition(|message| message.role == "system");
                let system: String = system.into_iter().map(|message| message.content).collect();
                to_pretty_json(
                    &json!({"system_prompt": system, "tools": self.tools, "messages": rest}),
                )
            }
        };
        escape_mentions(rendered, self.format, &self.expands)
    }
}

fn to_pretty_json(value: &Value) -> String {
    // Serializing strings and lists cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn group_messages(segments: &[PromptSegment]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for segment in segments {
        let role = match segment.part {
            PromptPart::System | PromptPart::Context { .. } => "system",
            PromptPart::History {
                role: MessageRole::Assistant,
            } => "assistant",
            PromptPart::History {
                role: MessageRole::User,
            }
            | PromptPart::Instructions => "user",
        };

        match messages.last_mut() {
            Some(last) if role == "system" && last.role == role => {
                last.content.push_str(&segment.text)
            }
            _ => messages.push(Message {
                role,
                content: segment.text.clone(),
            }),
        }
    }

    messages
}

/// A prompt after the fit and before rendering.
pub(super) struct FittedPrompt<'a> {
    entries: Vec<PromptEntry<'a>>,
    delimiters: Delimiters<'a>,
    fit: FitOutcome,
    /// True if tokens were counted; otherwise the size in bytes already proved that everything fits.
    is_counted: bool,
    window: TokenWindow,
    count: CountKind,
    request: PromptRequest,
    variables: Vec<VariableUse>,
    absent: Vec<AbsentLayer>,
    pack: &'a Pack,
    mode: Option<&'a Mode>,
}

/// Fills the layers and fits them to the token budget.
///
/// The fit runs twice at most. The first pass bounds tokens by bytes and accepts the result only if nothing is shortened
/// or omitted. Otherwise, the shorter variants of each block are rendered and the second pass counts tokens.
pub(super) fn assemble<'a>(
    pack: &'a Pack,
    inputs: PromptInputs<'a>,
    mut request: PromptRequest,
) -> Result<FittedPrompt<'a>> {
    let format = request.format.unwrap_or(pack.rendering);
    let tier = request
        .model
        .as_ref()
        .map_or(Tier::Full, |model| model.tier);
    let delimiters =
        Delimiters::from_pack(pack, format, request.template.as_deref(), &request.expands);
    tools::check_tools(&request.tools)?;

    if request
        .instructions
        .as_ref()
        .is_some_and(|text| text.trim().is_empty())
    {
        return Err(
            Error::new(ErrorKind::PromptInvalid, "the instructions are empty")
                .with_hint("describe the task"),
        );
    }

    let counter = request.resolve_counter()?;
    fill_turn_variables(pack, inputs.mode, &mut request);
    let FilledLayers {
        mut entries,
        variables,
        absent,
    } = layers::fill_layers(pack, inputs, &mut request, tier, &delimiters)?;
    let tools = if format == Format::Tools {
        select_tools(pack, inputs.mode, &request)
    } else {
        Vec::new()
    };
    let window = TokenWindow::new(pack, &request, &counter, tier, &tools);

    let bounds = FitBounds {
        budget: window.budget.unwrap_or(u64::MAX),
        tier,
        counter: &counter,
        is_exact: false,
        previous: request.previous,
        hysteresis: pack.hysteresis,
    };

    // First try the longest variants, with tokens bounded by bytes: this needs no counting and usually fits.
    let uncut = if request.count {
        None
    } else {
        fit::fit(&entries, &delimiters, bounds)
            .ok()
            .filter(|fit| !fit.is_cut)
    };

    let is_counted = uncut.is_none();
    let fit = match uncut {
        Some(fit) => fit,
        None => {
            layers::add_shorter_variants(&mut entries, pack, inputs, &request, tier, &delimiters)?;
            // Without a window, count against a budget that is never reached. It is less than `u64::MAX`, which would
            // disable counting, and small enough that sums do not overflow.
            let bounds = FitBounds {
                is_exact: true,
                budget: bounds.budget.min(u64::MAX / 4),
                ..bounds
            };
            fit::fit(&entries, &delimiters, bounds)
                .map_err(|small| budget_error(&entries, &small, &window))?
        }
    };

    check_named_items(&entries, &fit, window.budget, &counter)?;
    Ok(FittedPrompt {
        entries,
        delimiters,
        fit,
        is_counted,
        window,
        count: counter.kind(),
        request,
        variables,
        absent,
        pack,
        mode: inputs.mode,
    })
}

/// Sets the variables of the turn, and drops the nonce in a mode without verdicts, because nothing could carry it.
fn fill_turn_variables(pack: &Pack, mode: Option<&Mode>, request: &mut PromptRequest) {
    let verdicts: Vec<&str> = mode
        .and_then(|mode| pack.modes.get(mode))
        .into_iter()
        .flat_map(|spec| &spec.verdicts)
        .map(|verdict| verdict.name())
        .collect();
    if verdicts.is_empty() {
        request.nonce = None;
        return;
    }

    request
        .variables
        .insert(VERDICTS.to_owned(), verdicts.join("|"));
    if let Some(nonce) = &request.nonce {
        request
            .variables
            .insert(NONCE.to_owned(), nonce.as_str().to_owned());
    }
}

/// Fails if a context item that the user named does not fit.
fn check_named_items(
    entries: &[PromptEntry<'_>],
    fit: &FitOutcome,
    budget: Option<u64>,
    counter: &Counter,
) -> Result<()> {
    for (entry, entry_fit) in entries.iter().zip(&fit.entry_fits) {
        let missing_item = match entry {
            PromptEntry::Block(block) if block.is_named && entry_fit.variant.is_none() => {
                let PromptPart::Context { name, .. } = &block.part else {
                    continue;
                };
                block
                    .variants
                    .last()
                    .map(|variant| (name.as_str(), variant.text.as_ref()))
            }
            PromptEntry::Elastic(ElasticSequence {
                items: SequenceItems::Context { items, .. },
                ..
            }) => {
                let missing_item = items
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| !entry_fit.items.contains(index))
                    .find(|(_, sourced)| sourced.named);
                missing_item.map(|(_, sourced)| (sourced.item.name(), sourced.item.content()))
            }
            _ => None,
        };

        if let Some((name, content)) = missing_item {
            let needed = counter.max_tokens(content);
            let left = budget.map_or(u64::MAX, |budget| budget.saturating_sub(fit.used));
            let why = match &entry_fit.why {
                Some(why) if needed <= left => format!("; {why}"),
                _ => format!(", but only {left} are left"),
            };
            let message = format!("`{name}` does not fit: it takes {needed} tokens{why}");
            return Err(Error::new(ErrorKind::BudgetTooSmall, message).with_hint(
                "omit it, pass a part of it, or use a model with a larger context window",
            ));
        }
    }

    Ok(())
}

/// Returns the tools of the request, or the actions of the mode if the request has no tools.
fn select_tools(pack: &Pack, mode: Option<&Mode>, request: &PromptRequest) -> Vec<Value> {
    match mode {
        Some(mode) if request.tools.is_empty() => pack
            .offered_actions(mode)
            .map(|(name, action)| action.tool(name))
            .collect(),
        _ => request.tools.clone(),
    }
}

/// Token budget of a prompt: the model's window minus the reserve for the reply and the overhead of the call.
struct TokenWindow {
    tier: Tier,
    window: Option<u64>,
    reserve: u64,
    overhead: u64,
    budget: Option<u64>,
}

impl TokenWindow {
    fn new(
        pack: &Pack,
        request: &PromptRequest,
        counter: &Counter,
        tier: Tier,
        tools: &[Value],
    ) -> Self {
        let window = request.model.as_ref().map(|model| model.window);
        let reserve = pack.reserve.map_or(0, |reserve| reserve.at(tier));
        let mut overhead = request.overhead + counter.base();
        if window.is_some() && !tools.is_empty() {
            overhead += counter.max_tokens(&Value::from(tools.to_vec()).to_string());
        }

        let budget = window.map(|window| window.saturating_sub(reserve).saturating_sub(overhead));
        Self {
            tier,
            window,
            reserve,
            overhead,
            budget,
        }
    }
}

fn budget_error(
    entries: &[PromptEntry<'_>],
    small: &BudgetShortfall,
    window: &TokenWindow,
) -> Error {
    let needed: u64 = small.needs.iter().sum::<u64>() + small.fixed;
    let mut rows: Vec<(&str, u64)> = Vec::new();
    for (entry, need) in entries
        .iter()
        .zip(&small.needs)
        .filter(|(_, need)| **need > 0)
    {
        let id = match entry {
            PromptEntry::Block(block) => block.id.as_str(),
            PromptEntry::Elastic(elastic) => elastic.layer.id.as_str(),
        };
        rows.push((id, *need));
    }

    if small.fixed > 0 {
        rows.push(("separators and tags", small.fixed));
    }

    let omitted = rows.len().saturating_sub(MAX_LISTED_BLOCKS);
    let mut list: String = rows
        .iter()
        .take(MAX_LISTED_BLOCKS)
        .map(|(id, need)| format!("\n  {need:>10}  {id}"))
        .collect();
    if omitted > 0 {
        list.push_str(&format!("\n              and {omitted} more"));
    }

    let available = window.budget.unwrap_or_default();
    let size = window.window.unwrap_or_default();
    let shares = format!(
        "context window {size}, minus {} for the reply and {} overhead",
        window.reserve, window.overhead
    );
    let message = format!(
        "the prompt needs at least {needed} tokens, but only {available} are available ({shares}):{list}"
    );

    Error::new(ErrorKind::BudgetTooSmall, message)
        .with_hint("shorten the input, or use a model with a larger context window")
}

impl FittedPrompt<'_> {
    /// Renders the prompt as text.
    pub(super) fn text(self) -> Result<String> {
        if self.delimiters.format == Format::Xml || !self.request.expands.is_empty() {
            return Ok(self.into_draft()?.rendered());
        }
        let mut out = String::with_capacity(self.estimate_bytes());
        write_pieces(&self.entries, &self.fit, &self.delimiters, &mut out);
        if out.len() > self.request.max_bytes {
            // Fails with a list of the largest blocks.
            self.into_draft()?;
        }
        Ok(out)
    }

    /// Estimates the rendered size in bytes, to allocate once. The constants allow for headings and tags; escaping may
    /// exceed the estimate.
    fn estimate_bytes(&self) -> usize {
        let size = |(entry, entry_fit): (&PromptEntry<'_>, &EntryFit)| match entry {
            PromptEntry::Block(block) => entry_fit.variant.map_or(0, |variant| {
                let variant = &block.variants[variant];
                variant.text.len() + variant.end.len() + 64
            }),
            PromptEntry::Elastic(elastic) => {
                let items = entry_fit.items.iter().map(|&index| match &elastic.items {
                    SequenceItems::Turns { turns, .. } => {
                        turns[index].user.len() + turns[index].assistant.len() + 32
                    }
                    SequenceItems::Entries { entries, .. } => {
                        entries[index].value.len() + entries[index].key.len() + 80
                    }
                    SequenceItems::Context { items, .. } => items[index].item.content().len() + 64,
                });
                items.sum::<usize>() + 128
            }
        };

        self.entries
            .iter()
            .zip(&self.fit.entry_fits)
            .map(size)
            .sum()
    }

    /// Renders the segments and the prompt by part.
    pub(super) fn into_draft(mut self) -> Result<Draft> {
        let mut written = SegmentWriter::default();
        write_pieces(&self.entries, &self.fit, &self.delimiters, &mut written);
        let mut report = self.make_report();
        let format = self.delimiters.format;
        let PromptContents {
            items,
            instructions,
        } = take_contents(&mut self.entries, &self.fit);

        // The verdict must carry the nonce only if the prompt shows it.
        let shows = |nonce: &Nonce| {
            written
                .segments
                .iter()
                .any(|segment| segment.text.contains(nonce.as_str()))
        };
        let nonce = self.request.nonce.take().filter(shows);
        let mut prompt = UnifiedPrompt::new(instructions)?.with_system(written.system);
        for item in items {
            prompt = prompt.with_item(item);
        }

        let mut segments = written.segments;
        record_block_bytes(&mut report, &segments);

        if format == Format::Xml {
            segments = xml_segments(&prompt, segments);
        }

        report.bytes = segments.iter().map(|segment| segment.text.len()).sum();
        check_bytes(&report, report.bytes)?;
        let tools = select_tools(self.pack, self.mode, &self.request);
        let variables = self.variables;
        let expands = self.request.expands;

        Ok(Draft {
            segments,
            prompt,
            fit_report: report,
            variables,
            tools,
            format,
            nonce,
            expands,
        })
    }

    fn make_report(&self) -> FitReport {
        let request = &self.request;
        let window = &self.window;
        let pairs = || self.entries.iter().zip(&self.fit.entry_fits);
        let history = pairs().find(|(entry, _)| entry.layer().holds == LayerContent::History);

        FitReport {
            model: request.model.as_ref().map(|model| model.id.clone()),
            tier: window.tier,
            window: window.window,
            reserve: window.reserve,
            overhead: window.overhead,
            budget: window.budget,
            tokens: self.is_counted.then_some(self.fit.used),
            count: self.count,
            bytes: 0,
            max_bytes: request.max_bytes,
            first_turn: history.and_then(|(entry, entry_fit)| {
                let first = entry_fit.items.first()?;
                Some(entry.items_before() + first)
            }),
            blocks: pairs()
                .map(|(entry, entry_fit)| self.report_row(entry, entry_fit))
                .collect(),
            absent: self.absent.clone(),
        }
    }

    fn report_row(&self, entry: &PromptEntry<'_>, entry_fit: &EntryFit) -> FitBlock {
        let layer = entry.layer();
        let row = FitBlock {
            block: layer.id.clone(),
            source: String::new(),
            class: layer.class,
            zone: layer.zone,
            rung: "none",
            tokens: self.is_counted.then_some(entry_fit.tokens),
            bytes: 0,
            target: layer.budget.map(|target| target.at(self.window.tier)),
            kept: entry_fit.items.len(),
            of: 1,
            why: entry_fit.why.clone(),
        };

        match entry {
            PromptEntry::Elastic(elastic) => {
                let source = match &elastic.items {
                    SequenceItems::Turns { .. } => "the session",
                    SequenceItems::Entries { .. } => "the knowledge base",
                    SequenceItems::Context { .. } => "the context",
                };
                let variant = match entry_fit.items.len() {
                    0 => "none",
                    kept if kept == elastic.len() => "whole",
                    _ => "part",
                };
                FitBlock {
                    of: elastic.len(),
                    rung: variant,
                    source: source.to_owned(),
                    ..row
                }
            }
            PromptEntry::Block(block) => {
                let chosen = entry_fit
                    .variant
                    .map(|variant| &block.variants[variant])
                    .filter(|variant| !variant.text.is_empty() || !variant.end.is_empty());
                let has_tiers = matches!(layer.holds, LayerContent::Text | LayerContent::State);
                let variant = chosen.map_or("none", |variant| {
                    if has_tiers {
                        variant.tier.name()
                    } else {
                        "whole"
                    }
                });
                let bytes = chosen.map_or(0, |variant| variant.text.len() + variant.end.len());

                let kept = usize::from(chosen.is_some());
                let origin = chosen
                    .and_then(|variant| variant.origin)
                    .filter(|origin| !origin.is_empty());
                let source = origin.map_or_else(|| block.source.clone(), str::to_owned);

                FitBlock {
                    block: block.id.clone(),
                    source,
                    rung: variant,
                    kept,
                    bytes,
                    ..row
                }
            }
        }
    }
}

/// Records the size of each block in bytes, including headings and separators.
fn record_block_bytes(report: &mut FitReport, segments: &[PromptSegment]) {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for segment in segments {
        let id = segment.block.as_str();
        *sizes.entry(id).or_default() += segment.text.len();
        // Items of a sequence, and the end of a block, are also counted for their layer.
        if let Some((layer, _)) = id.split_once('/') {
            *sizes.entry(layer).or_default() += segment.text.len();
        }
    }

    for row in &mut report.blocks {
        row.bytes = sizes.get(row.block.as_str()).copied().unwrap_or_default();
    }
}

fn check_bytes(report: &FitReport, bytes: usize) -> Result<()> {
    if bytes <= report.max_bytes {
        return Ok(());
    }

    let mut largest: Vec<&FitBlock> = report.blocks.iter().collect();
    largest.sort_by_key(|block| std::cmp::Reverse(block.bytes));
    let rows: String = largest
        .iter()
        .take(MAX_LARGEST_BLOCKS)
        .map(|row| format!("\n  {:>10}  {}", row.bytes, row.block))
        .collect();
    let limit = report.max_bytes;
    let message =
        format!("the prompt has {bytes} bytes, but the limit is {limit}; largest blocks:{rows}");

    Err(Error::new(ErrorKind::BudgetTooSmall, message)
        .with_hint("pass fewer files, or raise `max_bytes` under [prompt] in agentd/config.toml"))
}
