//! Parses the replies of a turn, and composes the prompts of its repair calls.

use serde::Deserialize;

use super::prepare::{PreparedTurn, estimate_text_tokens};
use crate::error::Result;
use crate::models::{
    AgentName, CallOutcome, ContextItem, ContextKind, Format, PromptPart, Response, TurnStart,
    UnifiedPrompt,
};
use crate::orchestrator::redacted::redacted;
use crate::orchestrator::workspace::Workspace;
use crate::pack::{Layer, LayerContent};
use crate::parse::{self, Grammar, Repair, ReplyContext};

/// Maximum number of repair calls of a turn.
pub const MAX_REPAIRS: u8 = 2;

/// Parses the replies of a turn with the grammar of its mode.
pub(crate) struct ReplyReader<'a> {
    workspace: &'a Workspace,
    started: &'a TurnStart,
    /// Texts of the prompt's segments.
    sent: &'a [String],
    /// Text of the template, to recognize parts of it in a reply.
    template: Option<String>,
    pub(crate) grammar: Grammar,
}

impl<'a> ReplyReader<'a> {
    /// Creates a reader. `sent` are the texts of the prompt's segments.
    pub(crate) fn new(
        workspace: &'a Workspace,
        started: &'a TurnStart,
        sent: &'a [String],
    ) -> Result<Self> {
        let agent = AgentName::new(started.agent.as_str())?;
        let template = workspace.template(&agent, &started.mode)?;
        let template = template.map(|found| found.template.text.body().to_owned());
        let grammar = workspace.pack.grammar(&started.mode)?;
        Ok(Self {
            workspace,
            started,
            sent,
            template,
            grammar,
        })
    }

    /// Parses a reply to the turn's prompt, and redacts secrets in the result.
    pub(crate) fn read(&self, text: &str, end: &CallOutcome) -> Response {
        let prose = self.workspace.pack.texts.values().map(|text| text.body());
        let (own_history, sent) = self.split_sent();
        let context = ReplyContext {
            ours: prose.chain(self.template.as_deref()).collect(),
            sent,
            own_history,
            outcome: end.clone(),
            nonce: self.started.nonce.as_ref().map(|nonce| nonce.as_str()),
            tasks: self.started.tasks.clone(),
            ..ReplyContext::default()
        };
        let mut response = parse::parse(text, &self.grammar, &context);
        if self.workspace.pack.is_chat() && end.is_ok() {
            let unaccepted =
                parse::find_unaccepted_actions(text, &response, &self.grammar, &context);
            response.proposals.extend(unaccepted);
        }
        redacted(response, &self.workspace.secrets)
    }

    /// Returns the earlier replies of the assistant in the prompt, and all other texts of it.
    fn split_sent(&self) -> (Vec<&'a str>, Vec<&'a str>) {
        let pack = &self.workspace.pack;
        let history = pack
            .layers
            .iter()
            .find(|layer| layer.holds == LayerContent::History);
        let segments = self.started.prompt.iter().zip(self.sent);

        let (own, other): (Vec<_>, Vec<_>) = segments.partition(|(segment, _)| {
            history.is_some_and(|layer| is_reply_of(layer, &segment.block))
        });
        let texts = |pairs: Vec<(_, &'a String)>| {
            let texts = pairs.into_iter().map(|(_, text)| text.as_str());
            texts.collect()
        };
        (texts(own), texts(other))
    }

    /// Parses a complete reply (the first item) and merges the answers of its repair calls (the rest) into it.
    pub(crate) fn read_all(&self, replies: &[String]) -> Response {
        let first = replies.first().map_or("", String::as_str);
        let mut response = self.read(first, &CallOutcome::Ok);
        for answer in replies.iter().skip(1) {
            response = self.merge_answer(response, answer);
        }
        response
    }

    /// Returns the repair that a response needs; `None` if it has all required parts, or if the pack has no `repair`
    /// text.
    pub(crate) fn find_repair(&self, response: &Response) -> Option<Repair> {
        let repair = parse::find_repair(response, &self.grammar)?;
        if self.workspace.pack.repair.is_none() {
            let pack = &self.workspace.pack.name;
            log::warn!("skipping the repair call: pack `{pack}` has no `repair` text");
            return None;
        }
        Some(repair)
    }

    /// Returns the prompt of a repair call: the prompt of the turn, and all replies so far. If the prompt exceeds the
    /// limits of the turn, its largest context items are omitted, one after another.
    ///
    /// Returns `None` if it is too large even without context items.
    pub(crate) fn repair_prompt(
        &self,
        repair: &Repair,
        prepared: &PreparedTurn,
        replies: &[String],
    ) -> Option<UnifiedPrompt> {
        let repair_text = self.workspace.pack.repair.as_ref()?.body();
        let limits = PromptLimits::from_fit_report(prepared);
        let mut original = original_prompt(prepared).ok()?;
        let mut left_out = Vec::new();

        loop {
            let prompt = repair.prompt(repair_text, &with_note(&original, &left_out), replies)?;
            if limits.can_hold(&prompt.to_xml()) {
                return Some(prompt);
            }
            let items = original.context().iter().enumerate();
            let Some((largest, item)) = items.max_by_key(|(_, item)| item.content().len()) else {
                log::warn!(
                    "skipping the repair call: its prompt would exceed the size limits of the turn"
                );
                return None;
            };
            left_out.push(item.name().to_owned());
            original = without_item(&original, largest)?;
        }
    }

    /// Merges the answer of a repair call into a response. Text that the answer repeats from the turn's prompt has no
    /// effect; text that it repeats from the repair prompt has.
    pub(crate) fn merge_answer(&self, response: Response, answer: &str) -> Response {
        parse::merge_answer(response, self.read(answer, &CallOutcome::Ok), &self.grammar)
    }
}

/// Returns true if a block of the prompt is a reply of the assistant in the history layer, such as `history/3/assistant`.
fn is_reply_of(layer: &Layer, block: &str) -> bool {
    let item = block
        .strip_prefix(layer.id.as_str())
        .and_then(|rest| rest.strip_prefix('/'));
    let number = item.and_then(|item| item.strip_suffix("/assistant"));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// Returns the prompt of a turn as a structure. A prompt in a format other than XML cannot be parsed, so it becomes one
/// context item, with the recorded instructions.
fn original_prompt(prepared: &PreparedTurn) -> Result<UnifiedPrompt> {
    if prepared.started.format == Format::Xml {
        return UnifiedPrompt::from_xml(&prepared.prompt);
    }

    let segments = prepared.started.prompt.iter().zip(&prepared.texts);
    let instructions: Vec<&str> = segments
        .filter(|(segment, _)| segment.part == PromptPart::Instructions.label())
        .map(|(_, text)| text.as_str())
        .collect();
    Ok(UnifiedPrompt::new(instructions.join("\n"))?.with_artifact("prompt", &prepared.prompt))
}

/// Adds a context item with the names of the omitted items, if there are any.
fn with_note(prompt: &UnifiedPrompt, left_out: &[String]) -> UnifiedPrompt {
    if left_out.is_empty() {
        return prompt.clone();
    }
    let note = ContextItem::new(
        ContextKind::Artifact,
        "left out: no space left",
        left_out.join("\n"),
    );
    prompt.clone().with_item(note)
}

fn without_item(prompt: &UnifiedPrompt, index: usize) -> Option<UnifiedPrompt> {
    let kept = prompt
        .context()
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != index)
        .map(|(_, item)| item.clone());
    let empty = UnifiedPrompt::new(prompt.instructions())
        .ok()?
        .with_system(prompt.system_prompt());
    Some(kept.fold(empty, UnifiedPrompt::with_item))
}

/// Size limits of the prompts of a turn, from its fit report.
#[derive(Debug, Default, Deserialize)]
struct PromptLimits {
    /// Maximum tokens; `None` if the model is unknown.
    budget: Option<u64>,
    max_bytes: Option<u64>,
}

impl PromptLimits {
    fn from_fit_report(prepared: &PreparedTurn) -> Self {
        serde_json::from_str(&prepared.fit).unwrap_or_default()
    }

    fn can_hold(&self, prompt: &str) -> bool {
        let tokens = estimate_text_tokens(prompt);
        let bytes = prompt.len() as u64;
        self.budget.is_none_or(|budget| tokens <= budget)
            && self.max_bytes.is_none_or(|max_bytes| bytes <= max_bytes)
    }
}
