//! Prepares a turn for its first call: the record for the ledger, the prompt to send, and the amount to reserve.

use std::collections::BTreeMap;

use serde_json::json;

use super::chunking::split_chunks;
use super::context::TurnContext;
use super::resolved::ResolvedTurn;
use crate::agent::Driver;
use crate::compose::Draft;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    Amount, BlobId, ContextItem, ContextKind, Format, ModelSpec, Permission, Price, PromptPart,
    PromptSegment, SegmentRef, State, StepResult, TurnStart,
};
use crate::ops;
use crate::orchestrator::prompts::Assembly;
use crate::orchestrator::workspace::Workspace;
use crate::orchestrator::workspace::check_trust;
use crate::pack::Edits;
use crate::store::blob_id;

/// Tokens reserved for a reply whose maximum length is not known.
pub(crate) const DEFAULT_REPLY_TOKENS: u64 = 8_000;

/// Assumed bytes per token of texts whose tokens were not counted.
const BYTES_PER_TOKEN: u64 = 4;

/// A turn that is ready to be sent.
#[derive(Debug)]
pub(crate) struct PreparedTurn {
    /// Start of the turn, as recorded in the ledger.
    pub(crate) started: TurnStart,
    /// Texts of the segments of the prompt.
    pub(crate) texts: Vec<String>,
    /// Prompt as sent to the agent.
    pub(crate) prompt: String,
    /// Fit report of the prompt, as JSON.
    pub(crate) fit: String,
    /// Message of the user; `None` in a turn without one, or if the ledger already has it.
    pub(crate) message: Option<String>,
    /// Tokens reserved for the reply.
    pub(crate) reply_tokens: u64,
    pub(crate) prompt_tokens: u64,
    /// Maximum tokens of a reply of the model; `None` if it is unknown.
    pub(crate) max_output: Option<u64>,
    /// Price of the model; `None` if it is unknown.
    pub(crate) price: Option<Price>,
    /// Number of calls that earlier runs made for this turn.
    pub(crate) calls: u64,
    /// Results of the operations before the turn, which are recorded with the first call.
    pub(crate) inspections: Vec<StepResult>,
}

/// Returns the state of the session that a turn works on: its own session, or for a reviewer's turn the change under
/// review, in the mode of the turn.
pub(crate) fn judged_state(
    context: &TurnContext<'_>,
    turn: &ResolvedTurn<'_>,
    session_state: &State,
) -> Result<State> {
    let Some(change) = &turn.request.for_change else {
        return Ok(session_state.clone());
    };
    let state = context.store.state(change)?;
    Ok(State {
        mode: Some(turn.request.mode.clone()),
        ..state
    })
}

/// Prepares a turn from an assembled prompt.
///
/// Fails if a call of the driver costs money or runs a command, and the user does not trust the definitions of the
/// project.
pub(crate) fn prepare_turn(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    state: &State,
    turn: &ResolvedTurn<'_>,
    assembly: &Assembly,
) -> Result<PreparedTurn> {
    let workspace = context.workspace;
    let request = &turn.request;
    let tree = workspace.tree(request.works_on());
    if driver.spends() {
        let trusts_definitions = context.run.trust.covers_definitions();
        check_trust(workspace, &tree, turn.agent.as_str(), trusts_definitions)?;
    }

    let draft = &assembly.draft;
    let model = assembly.model.as_ref();
    let price = require_price(context, driver, model)?;
    let max_output = model.and_then(|model| model.max_output);
    let prompt = draft.rendered();
    let prompt_bytes = prompt.len() as u64;
    let fit = serde_json::to_string(&draft.fit_report).unwrap_or_default();
    let texts: Vec<String> = draft
        .segments
        .iter()
        .map(|segment| segment.text.clone())
        .collect();

    // An agent without tools cannot edit files: agentd applies the edits in its reply.
    let permission = if turn.has_tools {
        turn.permission
    } else {
        Permission::ReadOnly
    };
    // The targets are not recorded for an agent that edits files itself, because it may change them during the call.
    let session = request.session.as_ref();
    let targets = session
        .filter(|_| permission == Permission::ReadOnly)
        .map(|session| ops::targets(&tree, session, &turn.spec.updates));
    let edits_by_reply = !turn.has_tools && turn.permission == Permission::Edit;
    let shown = turn
        .spec
        .edits
        .filter(|_| edits_by_reply)
        .map(|Edits::Tree| shown_files(draft));

    let fresh = draft.nonce.as_ref().map(|nonce| nonce.as_str());
    let segments = draft.segments.iter();
    let commands = workspace.settings.commands.get(&request.mode);
    let started = TurnStart {
        turn: state.turns + 1,
        mode: request.mode.clone(),
        agent: turn.agent.as_str().to_owned(),
        model: turn.model.clone(),
        pack: workspace.pack.name.clone(),
        pack_hash: pack_hash(workspace, turn.template_text()),
        permission,
        commands: commands.cloned().unwrap_or_default(),
        named: request.session.is_some() && request.for_change.is_none(),
        for_change: request.for_change.clone(),
        commit: None,
        prompt: segments
            .map(|segment| segment_ref(segment, fresh))
            .collect(),
        sent: (draft.text() != prompt).then(|| blob_id(prompt.as_bytes())),
        format: draft.format,
        prompt_bytes,
        message: None,
        fit: blob_id(fit.as_bytes()),
        first_turn: draft.fit_report.first_turn,
        nonce: draft.nonce.clone(),
        tasks: assembly.tasks.clone(),
        repairs: request.repairs,
        targets,
        shown,
    };

    let prompt_tokens = draft.fit_report.tokens;
    Ok(PreparedTurn {
        inspections: Vec::new(),
        started,
        texts,
        prompt,
        fit,
        message: None,
        reply_tokens: max_output
            .unwrap_or(DEFAULT_REPLY_TOKENS)
            .min(draft.fit_report.reserve.max(DEFAULT_REPLY_TOKENS)),
        prompt_tokens: prompt_tokens.unwrap_or(estimate_tokens(prompt_bytes)),
        max_output,
        price,
        calls: 0,
    })
}

/// Returns the content hash of each file that the prompt shows unchanged, by path.
fn shown_files(draft: &Draft) -> BTreeMap<String, BlobId> {
    let files = draft
        .prompt
        .context()
        .iter()
        .filter(|item| item.kind() == ContextKind::File);
    files
        .filter(|item| is_shown_unchanged(draft, item))
        .map(|item| (item.name().to_owned(), blob_id(item.content().as_bytes())))
        .collect()
}

/// Returns true if the prompt contains the exact text of a context item. XML preserves every text; other formats escape
/// lines that look like headings of the prompt.
fn is_shown_unchanged(draft: &Draft, item: &ContextItem) -> bool {
    let content = item.content().trim_end();
    let shows_item = |segment: &PromptSegment| {
        matches!(&segment.part, PromptPart::Context { name, .. } if name == item.name())
            && segment.text.contains(content)
    };
    draft.format == Format::Xml || draft.segments.iter().any(shows_item)
}

/// Returns the price of a model; `None` if it is unknown.
///
/// # Errors
///
/// `PriceUnknown` if the price is unknown, a budget in dollars is set, and calls of the driver cost money.
pub(crate) fn require_price(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    model: Option<&ModelSpec>,
) -> Result<Option<Price>> {
    let price = model.and_then(|model| model.price);
    let budget = &context.run.budget;
    let has_money_cap = [budget.run, budget.session]
        .iter()
        .any(|caps| caps.micro_dollars.is_some());
    if price.is_some() || !driver.spends() || !has_money_cap {
        return Ok(price);
    }

    let reason = match model {
        Some(model) => format!("model `{}` has no price", model.id),
        None => "no model is set".to_owned(),
    };
    let message = format!("cannot apply a budget in dollars: {reason}");
    Err(Error::new(ErrorKind::PriceUnknown, message).with_hint(
        "pass a --model with a price (see `agentd models list`), or limit tokens instead",
    ))
}

/// Returns the record of a segment, with the hashes of its chunks. `fresh` is the nonce of the prompt; see
/// [`split_chunks`].
fn segment_ref(segment: &PromptSegment, fresh: Option<&str>) -> SegmentRef {
    let part = match &segment.part {
        PromptPart::Context { name, .. } => format!("{} {name}", segment.part.label()),
        PromptPart::History { role } => format!("{} {}", segment.part.label(), role.name()),
        PromptPart::System | PromptPart::Instructions => segment.part.label().to_owned(),
    };
    SegmentRef {
        block: segment.block.clone(),
        part,
        source: segment.source.clone(),
        texts: split_chunks(&segment.text, fresh)
            .into_iter()
            .map(|chunk| blob_id(chunk.as_bytes()))
            .collect(),
        bytes: segment.text.len() as u64,
    }
}

/// Returns the hash of everything that determines how a reply is parsed and applied: the rules and texts of the pack,
/// the template, and the nonce policy. An interrupted turn is recovered or resumed only if the hash is unchanged.
pub(crate) fn pack_hash(workspace: &Workspace, template: Option<&str>) -> BlobId {
    let pack = &workspace.pack;
    let rules = (
        &pack.modes,
        &pack.actions,
        &pack.uses,
        &pack.markers,
        &pack.tags,
    );
    let texts: Vec<(&String, &str)> = pack
        .texts
        .iter()
        .map(|(name, text)| (name, text.body()))
        .collect();

    let all = json!([
        format!("{rules:?}"),
        texts,
        template,
        format!("{:?}", workspace.settings.verdict_nonce)
    ]);
    blob_id(all.to_string().as_bytes())
}

impl PreparedTurn {
    /// Creates a prepared turn in which no agent is called.
    pub(crate) fn without_call(started: TurnStart) -> Self {
        Self {
            started,
            texts: Vec::new(),
            prompt: String::new(),
            fit: "{}".to_owned(),
            message: None,
            reply_tokens: 0,
            prompt_tokens: 0,
            max_output: None,
            price: None,
            calls: 0,
            inspections: Vec::new(),
        }
    }

    /// Sets the message that later prompts of the session show.
    pub(crate) fn set_message(&mut self, message: Option<String>) {
        self.started.message = message.as_ref().map(|text| blob_id(text.as_bytes()));
        self.message = message;
    }

    /// Returns the amount to reserve for a call with a prompt of this many tokens.
    pub(crate) fn reserve(&self, prompt_tokens: u64) -> Amount {
        self.amount(prompt_tokens, self.reply_tokens)
    }

    /// Returns the total tokens of a prompt and a reply, and their cost; the cost is 0 if the price is unknown.
    pub(crate) fn amount(&self, prompt: u64, reply: u64) -> Amount {
        let tokens = prompt.saturating_add(reply);
        let micro_dollars = self
            .price
            .map_or(0, |price| price.micro_dollars(prompt, reply));
        Amount {
            tokens,
            micro_dollars,
        }
    }
}

/// Returns a rough estimate of the number of tokens in `text`.
pub(crate) fn estimate_text_tokens(text: &str) -> u64 {
    estimate_tokens(text.len() as u64)
}

/// Returns a rough estimate of the number of tokens in text of this many bytes.
#[must_use]
pub fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}
