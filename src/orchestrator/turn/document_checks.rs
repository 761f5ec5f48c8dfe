//! Checks the documents in a reply. A document with faults is rejected and requested again, with a list of the faults.

use std::collections::BTreeMap;

use super::active_turn::ActiveTurn;
use crate::error::Result;
use crate::models::{
    Effect, EffectKind, OperationId, RejectedEffect, Response, ReviewResult, Update,
};
use crate::ops;
use crate::pack::ModeSpec;
use crate::parse::{self, Grammar};
use crate::spec;

/// Maximum number of faults that are listed for one document.
const MAX_REPORTED_FAULTS: usize = 20;

/// Rejects the faulty documents of a response, so that a repair call requests them again.
pub(crate) fn check_documents(turn: &ActiveTurn<'_>, mut response: Response) -> Result<Response> {
    let spec = turn.mode_spec()?;
    if turn.session.state.change.is_none() || spec.documents.is_empty() {
        return Ok(response);
    }
    let pack = &turn.session.context.workspace.pack;
    let mode = &turn.started().mode;
    let grammar = pack.grammar(mode)?;

    if spec.questions.is_some() && can_ask_questions(&response, &grammar) {
        response.questions = spec::asked_questions(&response.message);
        if !response.questions.is_empty() {
            // The change waits for the answers of the user, so it does not matter if the verdict is ambiguous.
            response.verdict_doubts.clear();
            return Ok(response);
        }
    }

    let files = documents_after(turn, spec, &response)?;
    let faults_by_file = document_faults(&files);
    // With a verdict that repeats the mode, the agent may send missing documents in its next turn.
    let may_lack_documents = match parse::verdict(&response, &grammar) {
        Ok(Some(verdict)) => spec.stays_after(mode, verdict),
        _ => false,
    };
    for (file, faults) in faults_by_file {
        if may_lack_documents && !files.contains_key(&file) {
            continue;
        }
        let sent = response
            .updates
            .iter()
            .position(|update| update.target == file);
        let update = sent.map(|index| response.updates.remove(index));
        let rejected = reject_document(&file, &faults, update);
        // Replaces an earlier request for the same document, so that it is requested only once.
        response
            .proposals
            .retain(|proposal| !proposal.again || proposal.what != rejected.what);
        response.proposals.push(rejected);
    }
    Ok(response)
}

/// Returns true if a reply may consist of questions instead of documents: it has no documents, and its verdict is not
/// PASS.
fn can_ask_questions(response: &Response, grammar: &Grammar) -> bool {
    let passes = matches!(
        parse::verdict(response, grammar),
        Ok(Some(ReviewResult::Pass))
    );
    let is_document =
        |proposal: &RejectedEffect| matches!(proposal.what, EffectKind::Update(Some(_)));
    !passes && response.updates.is_empty() && !response.proposals.iter().any(is_document)
}

/// Returns the documents of the session with the updates of the reply applied.
fn documents_after(
    turn: &ActiveTurn<'_>,
    spec: &ModeSpec,
    response: &Response,
) -> Result<BTreeMap<String, String>> {
    let site = turn.operation_site(&turn.session.state);
    let patterns: Vec<String> = spec.documents.keys().cloned().collect();
    let mut files: BTreeMap<String, String> = match site.session {
        Some(session) if ops::has_change(site.root, session) => {
            ops::artifacts(site.root, session, &patterns)?
                .into_iter()
                .collect()
        }
        _ => BTreeMap::new(),
    };

    let updates = response.updates.iter();
    let updates = updates.filter(|update| spec.is_document(&update.target));
    let effects = updates.map(|update| Effect {
        action: None,
        operation: OperationId::FilesWrite,
        target: update.target.clone(),
        content: update.content.clone(),
        format: update.format,
    });
    let operations = turn.session.context.operations;
    for step in operations.plan_effects(&site, effects.collect(), turn.started())? {
        if let (Some(content), None) = (step.content, step.refused) {
            files.insert(step.target, content);
        }
    }
    Ok(files)
}

/// Returns the faults of the documents, by file.
fn document_faults(files: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let texts: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();

    let mut faults: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, fault) in spec::check_plan(&texts) {
        let hint = fault.hint.map(|hint| format!(" ({hint})"));
        let hint = hint.unwrap_or_default();
        let text = format!("line {}: {}{hint}", fault.line, fault.message);
        faults.entry(file).or_default().push(text);
    }
    faults
}

/// Returns a rejected effect for a document with faults, marked so that a repair call requests the document again.
fn reject_document(file: &str, faults: &[String], update: Option<Update>) -> RejectedEffect {
    let more = faults.len().saturating_sub(MAX_REPORTED_FAULTS);
    let mut reason = faults
        .iter()
        .take(MAX_REPORTED_FAULTS)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if more > 0 {
        reason.push_str(&format!("; and {more} more"));
    }
    let (text, span) = update.map_or((String::new(), 0..0), |update| {
        (update.content, update.span)
    });
    RejectedEffect {
        what: EffectKind::update(file),
        reason,
        text,
        line: None,
        span,
        again: true,
    }
}
