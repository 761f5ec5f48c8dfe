//! Whether the documents of a reply keep to their form. One that does not is asked for again, with the complaint.

use std::collections::BTreeMap;

use super::ActiveTurn;
use crate::error::Result;
use crate::models::{
    Effect, EffectKind, OperationId, RejectedEffect, Response, ReviewResult, Update,
    matches_pattern,
};
use crate::ops;
use crate::pack::ModeSpec;
use crate::parse;
use crate::spec;

/// How many complaints about one document are told at once.
const MOST_TOLD: usize = 20;

impl ActiveTurn<'_> {
    /// Returns a response without the documents that do not keep to their form: these are asked for again.
    pub(crate) fn checked(&self, mut response: Response) -> Result<Response> {
        let spec = self
            .context
            .workspace
            .pack
            .mode(&self.prepared.started.mode)?;
        if self.state.change.is_none() || spec.documents.is_empty() {
            return Ok(response);
        }
        if spec.questions.is_some() && self.asks_instead(&response)? {
            response.questions = spec::asked_questions(&response.message);
            if !response.questions.is_empty() {
                // The turn waits for a person, whatever its verdict would be.
                response.verdict_doubts.clear();
                return Ok(response);
            }
        }
        let files = self.documents(spec, &response)?;
        let mut complaints: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        for (file, fault) in spec::check_plan(&files) {
            let hint = fault
                .hint
                .map(|hint| format!(" ({hint})"))
                .unwrap_or_default();
            complaints
                .entry(file)
                .or_default()
                .push(format!("line {}: {}{hint}", fault.line, fault.message));
        }
        // Who asks questions first need not have written all of it.
        let grammar = self
            .context
            .workspace
            .pack
            .grammar(&self.prepared.started.mode)?;
        let asks = matches!(parse::verdict(&response, &grammar), Ok(Some(verdict)) if self.stays(spec, verdict));
        for (file, told) in complaints {
            let sent = response
                .updates
                .iter()
                .position(|update| update.target == file);
            let is_there = files.iter().any(|(name, _)| *name == file);
            if asks && !is_there {
                continue;
            }
            let update = sent.map(|index| response.updates.remove(index));
            let again = asked_again(&file, &told, update);
            // What was asked for before, and did not come, is asked for once.
            response
                .proposals
                .retain(|proposal| !proposal.again || proposal.what != again.what);
            response.proposals.push(again);
        }
        Ok(response)
    }

    /// Returns whether a reply may ask questions instead of sending documents: it sends none, and does not pass.
    fn asks_instead(&self, response: &Response) -> Result<bool> {
        let grammar = self
            .context
            .workspace
            .pack
            .grammar(&self.prepared.started.mode)?;
        let passes = matches!(
            parse::verdict(response, &grammar),
            Ok(Some(ReviewResult::Pass))
        );
        let is_document =
            |proposal: &RejectedEffect| matches!(proposal.what, EffectKind::Update(Some(_)));
        Ok(!passes && response.updates.is_empty() && !response.proposals.iter().any(is_document))
    }

    /// Returns the documents of the session as they would be: those that are there, and those of the reply over them.
    fn documents(&self, spec: &ModeSpec, response: &Response) -> Result<BTreeMap<String, String>> {
        let site = self.site(&self.state);
        let patterns: Vec<String> = spec.documents.keys().cloned().collect();
        let mut files: BTreeMap<String, String> = match site.session {
            Some(session) if ops::has_change(site.root, session) => {
                ops::artifacts(site.root, session, &patterns)?
                    .into_iter()
                    .collect()
            }
            _ => BTreeMap::new(),
        };
        let is_document = |update: &&Update| {
            patterns
                .iter()
                .any(|pattern| matches_pattern(pattern, &update.target))
        };
        let effects = response
            .updates
            .iter()
            .filter(is_document)
            .map(|update| Effect {
                operation: OperationId::FilesWrite,
                target: update.target.clone(),
                content: update.content.clone(),
                format: update.format,
            });
        for planned in
            self.context
                .operations
                .plan(&site, effects.collect(), &self.prepared.started)?
        {
            if let (Some(content), None) = (planned.content, planned.refused) {
                files.insert(planned.target, content);
            }
        }
        Ok(files)
    }
}

/// Returns a document that is to be sent again, under what is wrong with it.
fn asked_again(file: &str, told: &[String], update: Option<Update>) -> RejectedEffect {
    let more = told.len().saturating_sub(MOST_TOLD);
    let mut reason = told
        .iter()
        .take(MOST_TOLD)
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
