//! Findings in replies, in reports and in the ledger.

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

/// Returns true if a mode records the findings of its turns with `findings.note`.
pub(crate) fn notes_findings(pack: &Pack, mode: &Mode) -> bool {
    let spec = pack.modes.get(mode);
    spec.is_some_and(|spec| spec.after.contains(&OperationId::FindingsNote))
}

/// Returns the name of the action that reports findings in a mode, and the pack's words for severities and statuses.
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

/// Extracts the findings of a response from its actions and from `reports`, and combines them with the `earlier`
/// findings.
pub(crate) fn extract_findings(
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
pub(crate) fn open_findings_of_change(
    store: &dyn Store,
    change: &SessionId,
    mode: &Mode,
) -> Result<Vec<Finding>> {
    open_findings_in_mode(store, &store.state(change)?, mode)
}

/// Returns the open findings of a session's last round in a mode.
pub(crate) fn open_findings_in_mode(
    store: &dyn Store,
    state: &State,
    mode: &Mode,
) -> Result<Vec<Finding>> {
    let Some(report) = state.findings.get(mode) else {
        return Ok(Vec::new());
    };
    let mut findings = load_findings(store, report)?;
    findings.retain(Finding::is_open);
    Ok(findings)
}

/// Returns the open findings of all modes of a session, each with its mode.
///
/// # Errors
///
/// `LedgerUnusable` if the findings are missing in the ledger.
pub fn open_findings(store: &dyn Store, state: &State) -> Result<Vec<(Mode, Finding)>> {
    let mut open = Vec::new();
    for mode in state.findings.keys() {
        for finding in open_findings_in_mode(store, state, mode)? {
            open.push((mode.clone(), finding));
        }
    }
    Ok(open)
}

/// Loads a list of findings from the ledger. A list in an unknown format counts as empty.
///
/// # Errors
///
/// `LedgerUnusable` if the list is missing in the ledger.
pub fn load_findings(store: &dyn Store, report: &BlobId) -> Result<Vec<Finding>> {
    Ok(serde_json::from_str(&ledger_text(store, report)?).unwrap_or_default())
}

/// Adds missing findings to the report, so that the next agent sees them: a reply may report a finding only as an
/// action, for example. If the reply has no report, `write` plans one.
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
    let text = report
        .as_ref()
        .and_then(|planned| planned.content.as_deref())
        .unwrap_or_default();

    let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
    let listed = spec::read_findings(text, words, &ids);
    let missing: Vec<String> = findings
        .iter()
        .filter(|finding| !listed.iter().any(|entry| is_entry_of(entry, finding)))
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

/// Returns true if an entry of a report describes a finding. An entry with an id must have the id of the finding, and a
/// title or a problem; an entry without an id must have the title of the finding.
fn is_entry_of(entry: &WrittenFinding, finding: &Finding) -> bool {
    match &entry.id {
        Some(id) => {
            let is_described = entry.title.is_some() || entry.problem.is_some();
            is_described && id.eq_ignore_ascii_case(&finding.id)
        }
        None => entry.title.is_some() && entry.title == finding.title,
    }
}
