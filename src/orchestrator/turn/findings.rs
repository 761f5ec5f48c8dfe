//! Findings: read from replies and reports, and looked up in the ledger.

use super::ledger_text::ledger_text;
use crate::apply;
use crate::error::Result;
use crate::models::{
    BlobId, Finding, FindingWords, Mode, OperationId, Response, SessionId, State, UpdateFormat,
    WrittenFinding,
};
use crate::ops::Step;
use crate::pack::{ModeSpec, Pack};
use crate::spec;
use crate::store::Store;

/// Returns true if a mode notes the findings of its turns.
pub(crate) fn notes_findings(pack: &Pack, mode: &Mode) -> bool {
    let spec = pack.modes.get(mode);
    spec.is_some_and(|spec| spec.after.contains(&OperationId::FindingsNote))
}

/// Returns the name of the action that reports findings, and the words that the pack knows for them.
pub(crate) fn finding_action<'p>(
    pack: &'p Pack,
    mode: &'p Mode,
) -> Option<(&'p String, FindingWords)> {
    let is_finding = |name: &str| {
        let action = pack.uses.get(name);
        let operation = action.and_then(|action| action.operation.as_ref());
        operation == Some(&OperationId::FindingsNote)
    };
    let mut actions = pack.actions_of(mode);
    actions
        .find(|(name, _)| is_finding(name))
        .map(|(name, action)| (name, FindingWords::new(action)))
}

/// Returns the findings that a response reports, in actions and in its reports, and those of the last round that are
/// still open.
pub(crate) fn findings_of(
    pack: &Pack,
    mode: &Mode,
    response: &Response,
    reports: &[&str],
    earlier: &[Finding],
) -> Vec<Finding> {
    let action = finding_action(pack, mode);
    let name = action.as_ref().map(|(name, _)| name.as_str());
    let reported = response
        .actions
        .iter()
        .filter(|action| Some(action.name.as_str()) == name);
    let mut written: Vec<WrittenFinding> = reported.map(apply::finding_of_action).collect();

    let words = action.map(|(_, words)| words).unwrap_or_default();
    let ids: Vec<&str> = earlier.iter().map(|finding| finding.id.as_str()).collect();
    for report in reports {
        written.extend(spec::read_findings(report, &words, &ids));
    }
    apply::collect_findings(&words, written, earlier)
}

/// Returns the contents of the updates that replace whole files.
pub(crate) fn whole_updates(response: &Response) -> impl Iterator<Item = &str> {
    let whole = response
        .updates
        .iter()
        .filter(|update| update.format == UpdateFormat::Whole);
    whole.map(|update| update.content.as_str())
}

/// Returns the open findings of a change's last round in a mode.
pub(crate) fn earlier_of_change(
    store: &dyn Store,
    change: &SessionId,
    mode: &Mode,
) -> Result<Vec<Finding>> {
    earlier(store, &store.state(change)?, mode)
}

/// Returns the open findings of a session's last round in a mode.
pub(crate) fn earlier(store: &dyn Store, state: &State, mode: &Mode) -> Result<Vec<Finding>> {
    let noted = state
        .findings
        .get(mode)
        .map(|report| noted_findings(store, report))
        .transpose()?;
    Ok(noted
        .unwrap_or_default()
        .into_iter()
        .filter(Finding::is_open)
        .collect())
}

/// Returns the open findings of all modes of a session, each with its mode.
///
/// # Errors
///
/// `LedgerUnusable` if the ledger lacks them.
pub fn open_findings(store: &dyn Store, state: &State) -> Result<Vec<(Mode, Finding)>> {
    let mut open = Vec::new();
    for mode in state.findings.keys() {
        open.extend(
            earlier(store, state, mode)?
                .into_iter()
                .map(|finding| (mode.clone(), finding)),
        );
    }
    Ok(open)
}

/// Reads a list of findings from the ledger; one in another form is empty.
///
/// # Errors
///
/// `LedgerUnusable` if the ledger lacks it.
pub fn noted_findings(store: &dyn Store, report: &BlobId) -> Result<Vec<Finding>> {
    Ok(serde_json::from_str(&ledger_text(store, report)?).unwrap_or_default())
}

/// Adds to the mode's report those findings that it does not have, so that the next agent sees them. A reply without a
/// report gets one if there are findings.
pub(crate) fn complete_report(
    spec: &ModeSpec,
    findings: &[Finding],
    words: &FindingWords,
    planned: &mut Vec<Step>,
    write: impl FnOnce(&str, String) -> Result<Vec<Step>>,
) -> Result<()> {
    let Some(target) = spec.updates.iter().find(|target| !target.contains('*')) else {
        return Ok(());
    };
    let report = planned
        .iter_mut()
        .rev()
        .find(|planned| planned.target == *target && planned.refused.is_none());
    let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
    let text = report
        .as_ref()
        .and_then(|planned| planned.content.as_deref())
        .unwrap_or_default();
    let listed = spec::read_findings(text, words, &ids);
    let is_listed = |finding: &&Finding| {
        listed.iter().any(|known| {
            let has_id = known
                .id
                .as_deref()
                .is_some_and(|id| id.eq_ignore_ascii_case(&finding.id));
            let is_described = known.title.is_some() || known.problem.is_some();
            let is_same =
                known.id.is_none() && known.title == finding.title && known.title.is_some();
            (has_id && is_described) || is_same
        })
    };
    let missing: Vec<String> = findings
        .iter()
        .filter(|finding| !is_listed(finding))
        .map(spec::write_finding)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }

    let missing = missing.join("\n");
    match report {
        Some(Step {
            content: Some(content),
            ..
        }) => {
            *content = format!("{}\n\n## Other findings\n\n{missing}", content.trim_end());
        }
        _ => planned.extend(write(target, format!("## Findings\n\n{missing}"))?),
    }
    Ok(())
}
