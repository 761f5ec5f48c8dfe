//! Compares the prompt tokens that an agent reports with agentd's count.

use super::active_turn::ActiveTurn;
use super::calibration::record_figure;
use crate::compose::{Counter, seems_cut};
use crate::error::Result;
use crate::models::{CallReason, Format, MeasuredValue, Reply, grouped};

/// Compares the prompt tokens that an agent reports with agentd's count. Returns a warning if the prompt seems to have
/// been truncated.
///
/// Both counts are recorded for calibration, unless the agent made tool calls, each of which sends another prompt.
pub(crate) fn compare_tokens(
    turn: &ActiveTurn<'_>,
    why: CallReason,
    prompt: &str,
    reply: &Reply,
) -> Option<String> {
    let started = turn.started();
    let model = started.model.as_ref()?;
    let reported = reply.usage.input_tokens.and(reply.usage.prompt_tokens())?;
    if !reply.end.is_ok() {
        return None;
    }
    let ours = count_tokens(turn, model, why, prompt).ok()?;

    if reply.tool_calls == Some(0) {
        let context = turn.session.context;
        let figure = MeasuredValue::Tokens { ours, reported };
        let agent = &started.agent;
        record_figure(context.workspace, context.store, agent, Some(model), figure);
    }
    if !seems_cut(ours, reported) {
        return None;
    }
    let reported = grouped(reported);
    let counts = format!(
        "{} reports {reported} tokens for a prompt of about {}",
        started.agent,
        grouped(ours)
    );
    let warning =
        format!("{counts}: the prompt may have been truncated before it reached the model");
    log::warn!("{warning}");
    Some(warning)
}

/// Returns the estimated number of tokens of a prompt for a model, without calibration.
fn count_tokens(turn: &ActiveTurn<'_>, model: &str, why: CallReason, prompt: &str) -> Result<u64> {
    let catalogue = turn.session.context.workspace.catalogue()?;
    let tokenizer = catalogue
        .find(model)
        .map(|spec| catalogue.tokenizer(spec))
        .unwrap_or_default();
    let counter = Counter::new(tokenizer);

    // For a prompt that is sent as JSON, only the texts are counted: the model does not see the JSON syntax.
    let is_text = matches!(turn.started().format, Format::Xml | Format::Flat);
    let count = match why {
        CallReason::Ask if !is_text => counter.count(&turn.prepared.texts.concat()),
        CallReason::Ask | CallReason::Repair => counter.count(prompt),
    };
    Ok(count.tokens)
}
