//! Redaction of secret values in requests and in parsed replies.
//!
//! A reply is redacted again after it was parsed: parsing removes tags, thoughts and escapes and joins the rest, and
//! decodes entities, so a secret that was split before can be whole afterwards.

use serde_json::Value;

use super::turn::request::{BlockContent, NamedBlock, TurnRequest};
use crate::models::{Action, Marker, RejectedEffect, Response, StateDocument, Update};
use crate::secret::Secrets;

/// Returns a request with every secret value redacted: its texts go into prompts and into the ledger.
pub(crate) fn redacted_request(request: &TurnRequest, secrets: &Secrets) -> TurnRequest {
    let redact = |text: &String| secrets.redact(text).into_owned();
    let blocks = request.blocks.iter();
    let variables = request.variables.iter();
    let work = request.work.as_ref();

    TurnRequest {
        instructions: redact(&request.instructions),
        thoughts: request.thoughts.iter().map(redact).collect(),
        blocks: blocks.map(|block| redacted_block(block, secrets)).collect(),
        variables: variables
            .map(|(name, value)| (name.clone(), redact(value)))
            .collect(),
        work: work.map(|work| redacted_work(work, secrets)),
        ..request.clone()
    }
}

/// Returns a block without secrets in its text. A file is redacted after it is read.
fn redacted_block(block: &NamedBlock, secrets: &Secrets) -> NamedBlock {
    let content = match &block.content {
        BlockContent::Text(text) => BlockContent::Text(secrets.redact(text).into_owned()),
        BlockContent::File(path) => BlockContent::File(path.clone()),
    };
    NamedBlock {
        name: block.name.clone(),
        content,
    }
}

/// Returns a description of work without secrets, in whichever of its texts they are.
fn redacted_work(work: &StateDocument, secrets: &Secrets) -> StateDocument {
    let redact = |value| serde_json::from_value(redacted_value(value, secrets));
    // A description consists of names and texts, so it stays valid whatever they hold.
    serde_json::to_value(work)
        .and_then(redact)
        .unwrap_or_default()
}

/// Returns a response in which no text holds a secret.
pub(crate) fn redacted(response: Response, secrets: &Secrets) -> Response {
    let clean = |text: String| secrets.redact(&text).into_owned();
    let action = |action: Action| Action {
        values: action
            .values
            .into_iter()
            .map(|(name, value)| (name, redacted_value(value, secrets)))
            .collect(),
        text: clean(action.text),
        ..action
    };
    let update = |update: Update| Update {
        target: clean(update.target),
        content: clean(update.content),
        ..update
    };
    let marker = |marker: Marker| match marker {
        Marker::Named { name, value } => Marker::Named {
            name,
            value: clean(value),
        },
        marker => marker,
    };
    let proposal = |proposal: RejectedEffect| RejectedEffect {
        what: proposal.what.map_name(clean),
        reason: clean(proposal.reason),
        text: clean(proposal.text),
        ..proposal
    };
    Response {
        thoughts: response.thoughts.into_iter().map(clean).collect(),
        message: clean(response.message),
        stray: clean(response.stray),
        actions: response.actions.into_iter().map(action).collect(),
        updates: response.updates.into_iter().map(update).collect(),
        markers: response.markers.into_iter().map(marker).collect(),
        proposals: response.proposals.into_iter().map(proposal).collect(),
        ..response
    }
}

/// Returns a JSON value in which no text holds a secret.
fn redacted_value(value: Value, secrets: &Secrets) -> Value {
    match value {
        Value::String(text) => Value::String(secrets.redact(&text).into_owned()),
        Value::Array(values) => values
            .into_iter()
            .map(|value| redacted_value(value, secrets))
            .collect(),
        Value::Object(values) => values
            .into_iter()
            .map(|(name, value)| {
                (
                    secrets.redact(&name).into_owned(),
                    redacted_value(value, secrets),
                )
            })
            .collect(),
        value => value,
    }
}
