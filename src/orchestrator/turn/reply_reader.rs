//! Reading a turn's replies with all that is known of it, and asking again for what they lack.

use serde::Deserialize;

use super::prepare::{PreparedTurn, roughly};
use crate::error::Result;
use crate::models::{
    AgentName, CallOutcome, ContextItem, ContextKind, Format, Part, Response, Started,
    UnifiedPrompt,
};
use crate::orchestrator::redacted::redacted;
use crate::orchestrator::workspace::Workspace;
use crate::parse::{self, Context, Grammar, Repair};

/// Most repairs of a turn.
pub const MAX_REPAIRS: u8 = 2;

/// What a turn's replies are read with: the turn as the ledger keeps it, and the pack.
pub(crate) struct ReplyReader<'a> {
    workspace: &'a Workspace,
    started: &'a Started,
    sent: &'a [String],
    template: Option<String>,
    pub(crate) grammar: Grammar,
}

impl<'a> ReplyReader<'a> {
    /// Prepares to read; `sent` are the texts of the prompt's segments.
    pub(crate) fn new(
        workspace: &'a Workspace,
        started: &'a Started,
        sent: &'a [String],
    ) -> Result<Self> {
        let template =
            workspace.template(&AgentName::new(started.agent.as_str())?, &started.mode)?;
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

    /// Reads a reply to the turn's prompt.
    pub(crate) fn read(&self, text: &str, end: &CallOutcome) -> Response {
        let prose = self.workspace.pack.texts.values().map(|text| text.body());
        let context = Context {
            ours: prose.chain(self.template.as_deref()).collect(),
            sent: self.sent.iter().map(String::as_str).collect(),
            outcome: end.clone(),
            nonce: self.started.nonce.as_ref().map(|nonce| nonce.as_str()),
            tasks: self.started.tasks.clone(),
            ..Context::default()
        };
        redacted(
            parse::parse(text, &self.grammar, &context),
            &self.workspace.secrets,
        )
    }

    /// Reads a whole reply, and puts the answers to its repairs in their places.
    pub(crate) fn read_all(&self, replies: &[String]) -> Response {
        let first = replies.first().map_or("", String::as_str);
        let answers = replies.iter().skip(1);
        answers.fold(self.read(first, &CallOutcome::Ok), |response, answer| {
            self.merged(response, answer)
        })
    }

    /// Returns what a response lacks, if the pack has the words to ask for it again.
    pub(crate) fn repair(&self, response: &Response) -> Option<Repair> {
        let repair = parse::find_repair(response, &self.grammar)?;
        if self.workspace.pack.repair.is_none() {
            let pack = &self.workspace.pack.name;
            log::warn!("pack `{pack}` has no `repair` text, so the agent is not asked again");
            return None;
        }
        Some(repair)
    }

    /// Returns the prompt of a repair: the turn's own prompt as far as it is needed and fits, and all replies so far.
    ///
    /// `None` if the replies alone are too large for the model.
    pub(crate) fn repair_prompt(
        &self,
        repair: &Repair,
        prepared: &PreparedTurn,
        replies: &[String],
    ) -> Option<UnifiedPrompt> {
        let words = self.workspace.pack.repair.as_ref()?.body();
        let limits = PromptLimits::of(prepared);
        let mut original = original_prompt(prepared).ok()?;
        let mut left_out = Vec::new();

        loop {
            let prompt = repair.prompt(words, &with_note(&original, &left_out), replies)?;
            if limits.allow(&prompt.to_xml()) {
                return Some(prompt);
            }
            let items = original.context().iter().enumerate();
            let Some((largest, item)) = items.max_by_key(|(_, item)| item.content().len()) else {
                log::warn!(
                    "the reply is too large to be shown again, so the agent is not asked again"
                );
                return None;
            };
            left_out.push(item.name().to_owned());
            original = without_item(&original, largest)?;
        }
    }

    /// Puts the answer to a repair in its place. An answer may repeat its request, but not the turn's prompt.
    pub(crate) fn merged(&self, response: Response, answer: &str) -> Response {
        parse::merge_answer(response, self.read(answer, &CallOutcome::Ok), &self.grammar)
    }
}

/// Returns a turn's prompt with its parts. A rendering that cannot be read back is one context item, and only its
/// instructions are known.
fn original_prompt(prepared: &PreparedTurn) -> Result<UnifiedPrompt> {
    if prepared.started.format == Format::Xml {
        return UnifiedPrompt::from_xml(&prepared.prompt);
    }
    let segments = prepared.started.prompt.iter().zip(&prepared.texts);
    let instructions = segments.filter(|(segment, _)| segment.part == Part::Instructions.label());
    let instructions: Vec<&str> = instructions.map(|(_, text)| text.as_str()).collect();
    Ok(UnifiedPrompt::new(instructions.join("\n"))?.with_artifact("prompt", &prepared.prompt))
}

/// Returns a prompt with a context item that names what was left out of it.
fn with_note(prompt: &UnifiedPrompt, left_out: &[String]) -> UnifiedPrompt {
    if left_out.is_empty() {
        return prompt.clone();
    }
    let note = ContextItem::new(
        ContextKind::Artifact,
        "left out for lack of room",
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

/// Size limits of the turn's prompts, from its fit report.
#[derive(Debug, Default, Deserialize)]
struct PromptLimits {
    /// In tokens; `None` if no model was named.
    budget: Option<u64>,
    /// In bytes.
    max_bytes: Option<u64>,
}

impl PromptLimits {
    fn of(prepared: &PreparedTurn) -> Self {
        serde_json::from_str(&prepared.fit).unwrap_or_default()
    }

    fn allow(&self, prompt: &str) -> bool {
        self.budget.is_none_or(|budget| roughly(prompt) <= budget)
            && self
                .max_bytes
                .is_none_or(|max_bytes| prompt.len() as u64 <= max_bytes)
    }
}
