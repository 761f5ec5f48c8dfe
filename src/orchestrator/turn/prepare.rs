//! What is settled before an agent is called: that it may be, and the turn as the ledger will keep it.

use std::collections::BTreeMap;

use serde_json::json;

use super::TurnContext;
use super::chunking::pieces;
use super::request::TurnRequest;
use crate::agent::Driver;
use crate::compose::Draft;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    AgentName, Amount, BlobId, ContextItem, ContextKind, Event, Format, ModelSpec, Part,
    Permission, Price, Segment, SegmentRef, SessionId, Started, State, StepResult,
};
use crate::ops;
use crate::orchestrator::prompts::Assembly;
use crate::orchestrator::workspace::Workspace;
use crate::orchestrator::workspace::check_trust;
use crate::pack::Edits;
use crate::store::{Store, blob_id};

/// What of a reply is set aside if nothing else is known of its length, in tokens.
pub(crate) const REPLY_TOKENS: u64 = 8_000;

/// How many bytes a token has, where nothing was counted.
const BYTES_PER_TOKEN: u64 = 4;

/// A turn that is ready to be sent.
#[derive(Debug)]
pub(crate) struct PreparedTurn {
    /// The turn as the ledger keeps it.
    pub(crate) started: Started,
    /// The texts of the prompt's segments.
    pub(crate) texts: Vec<String>,
    /// The prompt, as it is sent.
    pub(crate) prompt: String,
    /// The fit report, as JSON.
    pub(crate) fit: String,
    /// What is set aside for a call with this prompt, beside the prompt's own tokens.
    pub(crate) reply_tokens: u64,
    /// The prompt's tokens.
    pub(crate) prompt_tokens: u64,
    /// The most tokens that a reply may have, if that is known.
    pub(crate) max_output: Option<u64>,
    /// What the model costs, if that is known.
    pub(crate) price: Option<Price>,
    /// How often the agent was called for this turn before.
    pub(crate) calls: u64,
    /// What operations found before the turn, not recorded yet.
    pub(crate) findings: Vec<StepResult>,
}

/// Refuses a turn in a mode without a template, or that names an operation which does not exist.
pub(crate) fn check(context: &TurnContext<'_>, ask: &TurnRequest) -> Result<()> {
    let pack = &context.workspace.pack;
    // A mode that there is no template for is told as that, as it is for a prompt.
    let agent = context
        .workspace
        .agent(ask)?
        .unwrap_or_else(AgentName::base);
    context.workspace.template(&agent, &ask.mode)?;
    let spec = pack.mode(&ask.mode)?;
    let used = pack
        .uses
        .values()
        .filter(|used| used.modes.contains(&ask.mode));
    let named = spec.before.iter().chain(&spec.after).chain(&spec.finish);
    let named = named.chain(used.filter_map(|used| used.operation.as_ref()));
    for name in named {
        context.operations.find(name.as_str())?;
    }
    Ok(())
}

/// Refuses a turn of a session that another pack leads.
pub(crate) fn check_pack(
    context: &TurnContext<'_>,
    state: &State,
    session: &SessionId,
) -> Result<()> {
    let pack = &context.workspace.pack.name;
    match state.pack.as_ref().filter(|led| *led != pack) {
        None => Ok(()),
        Some(led) => {
            let message = format!("`{session}` is led by the pack `{led}`, not by `{pack}`");
            Err(Error::new(ErrorKind::OtherPack, message)
                .with_hint(format!("say --pack {led}, or name another session")))
        }
    }
}

/// Returns what is true of the session whose files a turn works with.
pub(crate) fn judged(context: &TurnContext<'_>, ask: &TurnRequest, state: &State) -> Result<State> {
    match &ask.for_change {
        None => Ok(state.clone()),
        Some(change) => {
            let events = context.store.events(change)?;
            let state = State::fold(events.iter().map(|(_, event)| event));
            Ok(State {
                mode: Some(ask.mode.clone()),
                ..state
            })
        }
    }
}

/// Returns what is recorded at the start of a turn, before the turn itself.
pub(crate) fn opening(state: &State, ask: &TurnRequest) -> Vec<Event> {
    let mut events = Vec::new();
    if state.mode.as_ref() != Some(&ask.mode) || state.ended.is_some() {
        events.push(Event::Entered {
            mode: ask.mode.clone(),
        });
    }
    if let Some(work) = &ask.work {
        events.push(Event::Described {
            work: Box::new(work.clone()),
        });
    }
    events
}

/// Returns the state with which the next turn of a session begins: what the ledger has of it, and what the caller says.
///
/// # Errors
///
/// Those of the ledger.
pub fn next_state(
    workspace: &Workspace,
    store: Option<&dyn Store>,
    ask: &TurnRequest,
) -> Result<State> {
    let ask = ask.without(&workspace.secrets);
    let events = match (store, &ask.session) {
        (Some(store), Some(session)) => store.events(session)?,
        _ => Vec::new(),
    };
    let state = State::fold(events.iter().map(|(_, event)| event));
    let opening = opening(&state, &ask);
    Ok(state.after(&opening))
}

/// Makes of a prompt a turn that is ready to be sent.
pub(crate) fn prepared(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    state: &State,
    ask: &TurnRequest,
    assembly: &Assembly,
) -> Result<PreparedTurn> {
    let tree = context.workspace.tree(ask.works_on());
    if driver.spends() {
        check_trust(
            context.workspace,
            &tree,
            assembly.agent.as_str(),
            context.run.trust.covers_definitions(),
        )?;
    }
    let draft = &assembly.draft;
    let price = price(context, driver, assembly.model.as_ref())?;
    let prompt = draft.rendered();
    let texts: Vec<String> = draft
        .segments
        .iter()
        .map(|segment| segment.text.clone())
        .collect();
    let fit = serde_json::to_string(&draft.fit_report).unwrap_or_default();
    let sent = (draft.text() != prompt).then(|| blob_id(prompt.as_bytes()));
    let prompt_bytes = prompt.len() as u64;
    let max_output = assembly.model.as_ref().and_then(|model| model.max_output);
    let fresh = draft.nonce.as_ref().map(|nonce| nonce.as_str());
    let spec = context.workspace.pack.mode(&ask.mode)?;
    let has_tools = context.workspace.has_tools(ask)?;
    // What an agent has no tools for is no matter of permission.
    let allowed = context.workspace.permission(&ask.mode, spec);
    let permission = if has_tools {
        allowed
    } else {
        Permission::ReadOnly
    };
    // An agent that edits files itself may well have edited these.
    let session = ask
        .session
        .as_ref()
        .filter(|_| permission == Permission::ReadOnly);
    let targets = session.map(|session| ops::targets(&tree, session, &spec.updates));
    let edits = spec
        .edits
        .filter(|_| !has_tools && allowed == Permission::Edit);
    let shown = edits.map(|Edits::Tree| shown(draft));
    let started = Started {
        turn: state.turns + 1,
        mode: ask.mode.clone(),
        agent: assembly.agent.as_str().to_owned(),
        model: ask.model.clone(),
        pack: context.workspace.pack.name.clone(),
        pack_hash: pack_hash(context.workspace, assembly),
        permission,
        commands: context
            .workspace
            .settings
            .commands
            .get(&ask.mode)
            .cloned()
            .unwrap_or_default(),
        named: ask.session.is_some() && ask.for_change.is_none(),
        for_change: ask.for_change.clone(),
        commit: None,
        prompt: draft
            .segments
            .iter()
            .map(|segment| segment_ref(segment, fresh))
            .collect(),
        sent,
        format: draft.format,
        prompt_bytes,
        fit: blob_id(fit.as_bytes()),
        first_turn: draft.fit_report.first_turn,
        nonce: draft.nonce.clone(),
        tasks: assembly.tasks.clone(),
        repairs: ask.repairs,
        targets,
        shown,
    };
    Ok(PreparedTurn {
        findings: Vec::new(),
        started,
        texts,
        prompt,
        fit,
        reply_tokens: max_output
            .unwrap_or(REPLY_TOKENS)
            .min(draft.fit_report.reserve.max(REPLY_TOKENS)),
        prompt_tokens: draft
            .fit_report
            .tokens
            .unwrap_or(tokens_roughly(prompt_bytes)),
        max_output,
        price,
        calls: 0,
    })
}

/// Returns the hashes of the files that a prompt shows as they are, by their paths.
fn shown(draft: &Draft) -> BTreeMap<String, BlobId> {
    // In flat text, a line that could pass for a heading is changed; in XML nothing is.
    let is_whole = |item: &&ContextItem| {
        let content = item.content().trim_end();
        let shows = |segment: &Segment| {
            matches!(&segment.part, Part::Context { name, .. } if name == item.name())
                && segment.text.contains(content)
        };
        draft.format == Format::Xml || draft.segments.iter().any(shows)
    };
    let files = draft
        .prompt
        .context()
        .iter()
        .filter(|item| item.kind() == ContextKind::File);
    files
        .filter(is_whole)
        .map(|item| (item.name().to_owned(), blob_id(item.content().as_bytes())))
        .collect()
}

/// Returns what a model costs; one that spends must have a price if there is a budget in dollars.
pub(crate) fn price(
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
    let what = match model {
        Some(model) => format!("`{}` has none", model.id),
        None => "no model is named".to_owned(),
    };
    let message = format!("a budget in dollars needs a price, and {what}");
    Err(Error::new(ErrorKind::PriceUnknown, message).with_hint(
        "name a model that `agentd models list` has a price of, or limit tokens instead",
    ))
}

/// Returns a segment as the ledger keeps it.
fn segment_ref(segment: &Segment, fresh: Option<&str>) -> SegmentRef {
    let part = match &segment.part {
        Part::Context { name, .. } => format!("{} {name}", segment.part.label()),
        Part::History { role } => format!("{} {}", segment.part.label(), role.name()),
        Part::System | Part::Instructions => segment.part.label().to_owned(),
    };
    SegmentRef {
        block: segment.block.clone(),
        part,
        source: segment.source.clone(),
        texts: pieces(&segment.text, fresh)
            .into_iter()
            .map(|piece| blob_id(piece.as_bytes()))
            .collect(),
        bytes: segment.text.len() as u64,
    }
}

/// Returns the hash of all that a reply's reading and its effects rest on.
fn pack_hash(workspace: &Workspace, assembly: &Assembly) -> BlobId {
    let template = assembly
        .template
        .as_ref()
        .map(|found| found.template.text.body());
    hash_of(workspace, template)
}

/// Returns the hash of a workspace's pack with a template.
pub(crate) fn hash_of(workspace: &Workspace, template: Option<&str>) -> BlobId {
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
    /// Makes one of a turn in which nobody is called.
    pub(crate) fn without_call(started: Started) -> Self {
        Self {
            started,
            texts: Vec::new(),
            prompt: String::new(),
            fit: "{}".to_owned(),
            reply_tokens: 0,
            prompt_tokens: 0,
            max_output: None,
            price: None,
            calls: 0,
            findings: Vec::new(),
        }
    }

    /// Returns what a call with a prompt of so many tokens may take.
    pub(crate) fn reserve(&self, prompt_tokens: u64) -> Amount {
        self.amount(prompt_tokens, self.reply_tokens)
    }

    /// Returns what tokens of a prompt and of a reply come to.
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

/// Returns how many tokens a text has, roughly.
pub(crate) fn roughly(text: &str) -> u64 {
    tokens_roughly(text.len() as u64)
}

/// Returns how many tokens so many bytes of text are, roughly.
#[must_use]
pub fn tokens_roughly(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}
