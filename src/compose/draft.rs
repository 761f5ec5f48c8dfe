//! A prompt that is ready to be looked at or sent.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::count::Counter;
use super::entry::{Elastic, Entry, Items};
use super::fit::{self, Bounds, Fate, Fit, TooSmall};
use super::frame::Frame;
use super::layers::{self, Layers, View};
use super::pieces::{Contents, Written, contents, walk, xml_segments};
use super::report::{Absent, FitBlock, FitReport};
use super::sent::sent;
use super::vars::{NONCE, VERDICTS, VariableUse};
use super::{Request, tools};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    CountKind, Expands, Format, Mode, Nonce, Part, Role, Segment, Tier, UnifiedPrompt,
};
use crate::pack::{Holds, Pack};

/// A prompt that is ready to be looked at or sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The prompt as rendered bytes, block by block.
    pub segments: Vec<Segment>,
    /// The same by part.
    pub prompt: UnifiedPrompt,
    /// What each block takes of the window, what was cut, and why.
    pub fit_report: FitReport,
    /// What became of each variable.
    pub variables: Vec<VariableUse>,
    /// The tools, as JSON Schema.
    pub tools: Vec<Value>,
    /// The rendering.
    pub format: Format,
    /// Nonce that the verdict must carry; `None` if the prompt does not show one.
    pub nonce: Option<Nonce>,
    /// What the agent would expand in it.
    pub expands: Vec<Expands>,
}

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// What it says.
    pub content: String,
}

impl Draft {
    /// Returns the prompt's own bytes: all segments in order.
    #[must_use]
    pub fn text(&self) -> String {
        self.segments
            .iter()
            .map(|segment| segment.text.as_str())
            .collect()
    }

    /// Returns the prompt as chat messages: the system's, those of earlier turns, and the user's.
    ///
    /// A prompt that is rendered as text ([`Format::Xml`], [`Format::Flat`]) is one message of the user: its headings
    /// and tags make sense as a whole only. Ask for [`Format::Chat`] to get one message per turn.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        match self.format {
            Format::Xml | Format::Flat => vec![Message {
                role: "user",
                content: self.text(),
            }],
            Format::Chat | Format::Tools => messages(&self.segments),
        }
    }

    /// Returns the prompt as it is sent: text, or JSON, in which the agent finds nothing to expand.
    #[must_use]
    pub fn rendered(&self) -> String {
        let rendered = match self.format {
            Format::Xml | Format::Flat => self.text(),
            Format::Chat => pretty(&json!(self.messages())),
            Format::Tools => {
                let (system, rest): (Vec<_>, Vec<_>) = self
                    .messages()
                    .into_iter()
                    .partition(|message| message.role == "system");
                let system: String = system.into_iter().map(|message| message.content).collect();
                pretty(&json!({"system_prompt": system, "tools": self.tools, "messages": rest}))
            }
        };
        sent(rendered, self.format, &self.expands)
    }
}

fn pretty(value: &Value) -> String {
    // A value made of strings and lists has no way to fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn messages(segments: &[Segment]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for segment in segments {
        let role = match segment.part {
            Part::System | Part::Context { .. } => "system",
            Part::History {
                role: Role::Assistant,
            } => "assistant",
            Part::History { role: Role::User } | Part::Instructions => "user",
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

/// A prompt that was fitted, before it is written.
pub(super) struct Composed<'a> {
    entries: Vec<Entry<'a>>,
    frame: Frame<'a>,
    fit: Fit,
    /// Whether tokens were counted.
    counted: bool,
    window: Window,
    count: CountKind,
    request: Request,
    variables: Vec<VariableUse>,
    absent: Vec<Absent>,
    pack: &'a Pack,
    mode: Option<&'a Mode>,
}

/// Fills the layers and fits them.
pub(super) fn assemble<'a>(
    pack: &'a Pack,
    view: View<'a>,
    mut request: Request,
) -> Result<Composed<'a>> {
    let format = request.format.unwrap_or(pack.rendering);
    let tier = request
        .model
        .as_ref()
        .map_or(Tier::Full, |model| model.tier);
    let frame = Frame::of(pack, format, request.template.as_deref(), &request.expands);
    tools::check_tools(&request.tools)?;
    if request
        .instructions
        .as_ref()
        .is_some_and(|text| text.trim().is_empty())
    {
        return Err(
            Error::new(ErrorKind::PromptInvalid, "the instructions are empty")
                .with_hint("say what the agent shall do"),
        );
    }
    let counter = request.resolve_counter()?;
    fill_turn_variables(pack, view.mode, &mut request);
    let Layers {
        mut entries,
        variables,
        absent,
    } = layers::fill(pack, view, &mut request, tier, &frame)?;
    let tools = if format == Format::Tools {
        tools_of(pack, view.mode, &request)
    } else {
        Vec::new()
    };
    let window = Window::of(pack, &request, &counter, tier, &tools);
    let bounds = Bounds {
        budget: window.budget.unwrap_or(u64::MAX),
        tier,
        counter: &counter,
        exact: false,
        previous: request.previous,
        hysteresis: pack.hysteresis,
    };
    // First everything at its longest, by bytes: that needs no counting, and mostly it is enough.
    let whole = if request.count {
        None
    } else {
        fit::fit(&entries, &frame, bounds)
            .ok()
            .filter(|fit| !fit.cut)
    };
    let counted = whole.is_none();
    let fit = match whole {
        Some(fit) => fit,
        None => {
            layers::lengthen(&mut entries, pack, view, &request, tier, &frame)?;
            // To count without a window, any budget that is never reached will do.
            let bounds = Bounds {
                exact: true,
                budget: bounds.budget.min(u64::MAX / 4),
                ..bounds
            };
            fit::fit(&entries, &frame, bounds)
                .map_err(|small| too_small(&entries, &small, &window))?
        }
    };
    check_named(&entries, &fit, window.budget, &counter)?;
    Ok(Composed {
        entries,
        frame,
        fit,
        counted,
        window,
        count: counter.kind(),
        request,
        variables,
        absent,
        pack,
        mode: view.mode,
    })
}

/// Fills the variables of the turn, and drops the nonce in a mode without verdicts, where nothing could carry it.
fn fill_turn_variables(pack: &Pack, mode: Option<&Mode>, request: &mut Request) {
    let verdicts = mode
        .and_then(|mode| pack.modes.get(mode))
        .into_iter()
        .flat_map(|spec| &spec.verdicts);
    let verdicts: Vec<&str> = verdicts.map(|verdict| verdict.name()).collect();
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

/// Refuses a prompt in which something that a person named found no room.
fn check_named(
    entries: &[Entry<'_>],
    fit: &Fit,
    budget: Option<u64>,
    counter: &Counter,
) -> Result<()> {
    for (entry, fate) in entries.iter().zip(&fit.fates) {
        let lacking = match entry {
            Entry::Block(block) if block.named && fate.rung.is_none() => {
                let Part::Context { name, .. } = &block.part else {
                    continue;
                };
                block
                    .rungs
                    .last()
                    .map(|rung| (name.as_str(), rung.text.as_ref()))
            }
            Entry::Elastic(Elastic {
                items: Items::Context { items, .. },
                ..
            }) => {
                let mut lacking = items
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| !fate.items.contains(index));
                let lacking = lacking.find(|(_, given)| given.named);
                lacking.map(|(_, given)| (given.item.name(), given.item.content()))
            }
            _ => None,
        };

        if let Some((name, content)) = lacking {
            let needed = counter.piece(content);
            let left = budget.map_or(u64::MAX, |budget| budget.saturating_sub(fit.used));
            let why = match &fate.why {
                Some(why) if needed <= left => format!("; {why}"),
                _ => format!(", and {left} are left"),
            };
            let message = format!("`{name}` does not fit: it takes {needed} tokens{why}");
            return Err(Error::new(ErrorKind::BudgetTooSmall, message).with_hint(
                "leave it out, name a part of it, or name a model with a larger window",
            ));
        }
    }
    Ok(())
}

/// Returns the tools of a prompt: those given, or the actions of its mode.
fn tools_of(pack: &Pack, mode: Option<&Mode>, request: &Request) -> Vec<Value> {
    match mode {
        Some(mode) if request.tools.is_empty() => pack
            .actions_of(mode)
            .map(|(name, action)| action.tool(name))
            .collect(),
        _ => request.tools.clone(),
    }
}

/// What a prompt may take.
struct Window {
    tier: Tier,
    window: Option<u64>,
    reserve: u64,
    overhead: u64,
    budget: Option<u64>,
}

impl Window {
    fn of(pack: &Pack, request: &Request, counter: &Counter, tier: Tier, tools: &[Value]) -> Self {
        let window = request.model.as_ref().map(|model| model.window);
        let reserve = pack.reserve.map_or(0, |reserve| reserve.at(tier));
        let mut overhead = request.overhead + counter.base();
        if window.is_some() && !tools.is_empty() {
            overhead += counter.piece(&Value::from(tools.to_vec()).to_string());
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

fn too_small(entries: &[Entry<'_>], small: &TooSmall, window: &Window) -> Error {
    let needed: u64 = small.needs.iter().sum::<u64>() + small.frame;
    let mut rows: Vec<(&str, u64)> = Vec::new();
    for (entry, need) in entries
        .iter()
        .zip(&small.needs)
        .filter(|(_, need)| **need > 0)
    {
        let id = match entry {
            Entry::Block(block) => block.id.as_str(),
            Entry::Elastic(elastic) => elastic.layer.id.as_str(),
        };
        rows.push((id, *need));
    }
    if small.frame > 0 {
        rows.push(("what holds them together", small.frame));
    }
    let left_out = rows.len().saturating_sub(20);
    let mut list: String = rows
        .iter()
        .take(20)
        .map(|(id, need)| format!("\n  {need:>10}  {id}"))
        .collect();
    if left_out > 0 {
        list.push_str(&format!("\n              and {left_out} more"));
    }
    let (have, whole) = (
        window.budget.unwrap_or_default(),
        window.window.unwrap_or_default(),
    );
    let shares = format!(
        "a window of {whole}, less {} for the reply and {} beside it",
        window.reserve, window.overhead
    );
    let message =
        format!("the prompt needs at least {needed} tokens and may have {have} ({shares}):{list}");
    Error::new(ErrorKind::BudgetTooSmall, message)
        .with_hint("give less text, or name a model with a larger window")
}

impl Composed<'_> {
    /// Returns the prompt's bytes.
    pub(super) fn text(self) -> Result<String> {
        if self.frame.format == Format::Xml || !self.request.expands.is_empty() {
            return Ok(self.into_draft()?.rendered());
        }
        let mut out = String::with_capacity(self.likely_size());
        walk(&self.entries, &self.fit, &self.frame, &mut out);
        if out.len() > self.request.max_bytes {
            self.into_draft()?;
        }
        Ok(out)
    }

    /// Returns the prompt's size if nothing has to be escaped in it, and a little more.
    fn likely_size(&self) -> usize {
        let size = |(entry, fate): (&Entry<'_>, &Fate)| match entry {
            Entry::Block(block) => fate.rung.map_or(0, |rung| {
                let rung = &block.rungs[rung];
                rung.text.len() + rung.end.len() + 64
            }),
            Entry::Elastic(elastic) => {
                let items = fate.items.iter().map(|&index| match &elastic.items {
                    Items::Turns { turns, .. } => {
                        turns[index].user.len() + turns[index].assistant.len() + 32
                    }
                    Items::Entries { entries, .. } => {
                        entries[index].value.len() + entries[index].key.len() + 80
                    }
                    Items::Context { items, .. } => items[index].item.content().len() + 64,
                });
                items.sum::<usize>() + 128
            }
        };
        self.entries.iter().zip(&self.fit.fates).map(size).sum()
    }

    /// Makes the segments and the view by part.
    pub(super) fn into_draft(mut self) -> Result<Draft> {
        let mut written = Written::default();
        walk(&self.entries, &self.fit, &self.frame, &mut written);
        let mut report = self.report();
        let format = self.frame.format;
        let Contents {
            items,
            instructions,
        } = contents(&mut self.entries, &self.fit);
        // The verdict has to carry the nonce only if the prompt shows it.
        let shows = |nonce: &Nonce| {
            written
                .segments
                .iter()
                .any(|segment| segment.text.contains(nonce.as_str()))
        };
        let nonce = self.request.nonce.take().filter(shows);
        let prompt = UnifiedPrompt::new(instructions)?.with_system(written.system);
        let prompt = items.into_iter().fold(prompt, UnifiedPrompt::with_item);
        let mut segments = written.segments;
        measure(&mut report, &segments);
        if format == Format::Xml {
            segments = xml_segments(&prompt, segments);
        }
        report.bytes = segments.iter().map(|segment| segment.text.len()).sum();
        check_bytes(&report, report.bytes)?;
        let tools = tools_of(self.pack, self.mode, &self.request);
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

    fn report(&self) -> FitReport {
        let pairs = || self.entries.iter().zip(&self.fit.fates);
        let history = pairs().find(|(entry, _)| entry.layer().holds == Holds::History);
        let (request, window) = (&self.request, &self.window);
        FitReport {
            model: request.model.as_ref().map(|model| model.id.clone()),
            tier: window.tier,
            window: window.window,
            reserve: window.reserve,
            overhead: window.overhead,
            budget: window.budget,
            tokens: self.counted.then_some(self.fit.used),
            count: self.count,
            bytes: 0,
            max_bytes: request.max_bytes,
            first_turn: history.and_then(|(_, fate)| fate.items.first().copied()),
            blocks: pairs().map(|(entry, fate)| self.row(entry, fate)).collect(),
            absent: self.absent.clone(),
        }
    }

    fn row(&self, entry: &Entry<'_>, fate: &Fate) -> FitBlock {
        let layer = entry.layer();
        let row = FitBlock {
            block: layer.id.clone(),
            source: String::new(),
            class: layer.class,
            zone: layer.zone,
            rung: "none",
            tokens: self.counted.then_some(fate.tokens),
            bytes: 0,
            target: layer.budget.map(|target| target.at(self.window.tier)),
            kept: fate.items.len(),
            of: 1,
            why: fate.why.clone(),
        };
        match entry {
            Entry::Elastic(elastic) => {
                let source = match &elastic.items {
                    Items::Turns { .. } => "the session",
                    Items::Entries { .. } => "the knowledge base",
                    Items::Context { .. } => "the context",
                };
                let rung = match fate.items.len() {
                    0 => "none",
                    kept if kept == elastic.len() => "whole",
                    _ => "part",
                };
                FitBlock {
                    of: elastic.len(),
                    rung,
                    source: source.to_owned(),
                    ..row
                }
            }
            Entry::Block(block) => {
                let chosen = fate.rung.map(|rung| &block.rungs[rung]);
                let chosen = chosen.filter(|rung| !rung.text.is_empty() || !rung.end.is_empty());
                let laddered = matches!(layer.holds, Holds::Text | Holds::State);
                let rung = chosen.map_or(
                    "none",
                    |rung| if laddered { rung.tier.name() } else { "whole" },
                );
                let bytes = chosen.map_or(0, |rung| rung.text.len() + rung.end.len());
                let kept = usize::from(chosen.is_some());
                let origin = chosen
                    .and_then(|rung| rung.origin)
                    .filter(|origin| !origin.is_empty());
                let source = origin.map_or_else(|| block.source.clone(), str::to_owned);
                FitBlock {
                    block: block.id.clone(),
                    source,
                    rung,
                    kept,
                    bytes,
                    ..row
                }
            }
        }
    }
}

/// Notes what each block takes in bytes, headings and separators included.
fn measure(report: &mut FitReport, segments: &[Segment]) {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for segment in segments {
        let id = segment.block.as_str();
        *sizes.entry(id).or_default() += segment.text.len();
        // What stands in a sequence, or at the end of a block, counts for its layer too.
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
        .take(10)
        .map(|row| format!("\n  {:>10}  {}", row.bytes, row.block))
        .collect();
    let most = report.max_bytes;
    let message =
        format!("the prompt has {bytes} bytes and may have {most}; the largest blocks:{rows}");
    Err(Error::new(ErrorKind::BudgetTooSmall, message)
        .with_hint("leave out what the agent does not need, or raise `max_bytes` under [prompt]"))
}
