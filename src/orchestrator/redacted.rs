//! Redaction of secret values in requests and in parsed replies.
//!
//! A reply is redacted again after parsing. Parsing removes tags, thoughts and escape sequences, joins the remaining
//! text, and decodes entities, so a secret that was split or encoded in the reply can become complete.

use serde_json::Value;

use super::turn::request::{BlockContent, NamedBlock, TurnRequest};
use crate::models::{Action, Marker, RejectedEffect, Response, StateDocument, Update};
use crate::secret::Secrets;

/// Redacts secrets in the texts of a request, which become part of prompts and of the ledger.
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

/// Redacts secrets in the text of a block. Files are redacted when they are read.
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

/// Redacts secrets in all texts of a state document.
fn redacted_work(work: &StateDocument, secrets: &Secrets) -> StateDocument {
    let redact = |value| serde_json::from_value(redacted_value(value, secrets));
    // A document that redaction makes invalid, for example because a mode name contains a secret, is replaced by an
    // empty one.
    serde_json::to_value(work)
        .and_then(redact)
        .unwrap_or_default()
}

/// Redacts secrets in all texts of a response.
pub(crate) fn redacted(response: Response, secrets: &Secrets) -> Response {
    let redact = |text: String| secrets.redact(&text).into_owned();
    let action = |action: Action| Action {
        values: action
            .values
            .into_iter()
            .map(|(name, value)| (name, redacted_value(value, secrets)))
            .collect(),
        text: redact(action.text),
        ..action
    };
    let update = |update: Update| Update {
        target: redact(update.target),
        content: redact(update.content),
        ..update
    };
    let marker = |marker: Marker| match marker {
        Marker::Named { name, value } => Marker::Named {
            name,
            value: redact(value),
        },
        marker => marker,
    };

    let proposal = |proposal: RejectedEffect| RejectedEffect {
        what: proposal.what.map_name(redact),
        reason: redact(proposal.reason),
        text: redact(proposal.text),
        ..proposal
    };

    Response {
        thoughts: response.thoughts.into_iter().map(redact).collect(),
        message: redact(response.message),
        stray: redact(response.stray),
        actions: response.actions.into_iter().map(action).collect(),
        updates: response.updates.into_iter().map(update).collect(),
        markers: response.markers.into_iter().map(marker).collect(),
        proposals: response.proposals.into_iter().map(proposal).collect(),
        ..response
    }
}

/// Redacts secrets in all strings and keys of a JSON value.
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
