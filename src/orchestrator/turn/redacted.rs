//! A reply as it was read, without secrets: reading cuts tags, thoughts and escapes out of a text and joins what is left,
//! and decodes entities, so a secret that was in pieces can be whole afterwards.

use serde_json::Value;

use crate::models::{Action, Marker, RejectedEffect, Response, Update};
use crate::secret::Secrets;

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

/// Returns a value of JSON in which no text holds a secret.
pub(crate) fn redacted_value(value: Value, secrets: &Secrets) -> Value {
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
