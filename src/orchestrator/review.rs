//! A review without a change: what has changed in the user's own tree, its checks, one agent, one verdict.

use serde::Serialize;

use super::checks::check_checks;
use super::grounds::Checking;
use super::prompts::Ask;
use super::secret_files::names_secrets;
use super::turn::{Desk, Overruled, TurnReport, take};
use crate::agent::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Check, ContextItem, ContextKind, Finding, ReviewResult};
use crate::ops::{
    Changed, DIFF_LIMITS, Repository, checks_report, checks_settlement, diff_text, nothing_shown, run_checks,
};

/// What a review came to.
#[derive(Debug, Serialize)]
pub struct Reviewed {
    /// The commit that was compared with.
    pub base: String,
    /// The commit that is checked out.
    pub commit: String,
    /// The files that differ.
    pub files: Vec<Changed>,
    /// What was not shown to the agent, and why.
    pub left_out: Vec<(String, String)>,
    /// The project's own checks, as far as they were run.
    pub checks: Vec<Check>,
    /// What the agent has found, the most severe first.
    pub findings: Vec<Finding>,
    /// The verdict as it counts: no milder than the checks and the findings allow. `None` if the agent gave none.
    pub verdict: Option<ReviewResult>,
    /// What makes it worse than the agent's own.
    pub overruled: Option<Overruled>,
    /// The agent's turn.
    #[serde(skip)]
    pub report: TurnReport,
}

/// Reviews what differs from a base: the current branch, and what is not committed. `None` if nothing differs.
///
/// # Errors
///
/// `NotARepository`, `NoCommits`, `NothingToReview` if nothing of it can be shown, `NotTrusted` for checks that nobody has accepted, and whatever keeps a turn from being
/// taken.
pub fn review_tree(
    desk: &Desk<'_>,
    driver: &dyn Driver,
    ask: &Ask,
    base: Option<&str>,
    with_checks: bool,
) -> Result<Option<Reviewed>> {
    let repository = desk.workspace.repository(&desk.run.git)?;
    let commit = repository.head()?.commit;
    let base = base_of(repository, base, &commit)?;
    let holds_secrets = |path: &str| names_secrets(path.as_ref());
    let diff = repository.diff_of_tree(&base, DIFF_LIMITS, &holds_secrets)?;
    if diff.files.is_empty() {
        return Ok(None);
    }
    if diff.text.trim().is_empty() {
        return Err(nothing_shown(&diff.left_out).with_hint("review these files yourself"));
    }
    let mut checks = Vec::new();
    if with_checks {
        let checking = Checking::of(desk, "review")?;
        check_checks(desk.workspace, &checking.commands, desk.run.trust)?;
        checks = run_checks(&checking.job(desk, &desk.workspace.root))?;
    }
    let artifact = |name: &str, text: String| ContextItem::new(ContextKind::Artifact, name, text);
    let mut found =
        vec![(artifact("changes.diff", diff_text(&diff, |_| false)), "what has changed".to_owned())];
    if !checks.is_empty() {
        found.push((artifact("checks.md", checks_report(&checks)), "checks that were run".to_owned()));
    }
    let mut report = take(desk, driver, &Ask { found, has_evidence: true, ..ask.clone() })?;
    let said = report.verdict.filter(|_| report.fault.is_none());
    let overruled = match said {
        Some(said) => {
            let checked = checks_settlement(&checks);
            let mut results = report.state.results.clone();
            results.insert(checked.operation.clone(), checked);
            Overruled::find(desk.workspace.pack.mode(&ask.mode)?, said.name(), &results)
        }
        None => None,
    };
    let counted = overruled.as_ref().and_then(|overruled| overruled.result.parse().ok());
    // The review as a whole reports these, not the turn alone.
    report.overruled = None;
    let findings = std::mem::take(&mut report.findings);
    let (files, left_out, verdict) = (diff.files, diff.left_out, counted.or(said));
    Ok(Some(Reviewed { base, commit, files, left_out, checks, findings, verdict, overruled, report }))
}

/// Returns the commit to compare with: the merge base of `HEAD` and the base, or `HEAD` if there is no base.
fn base_of(repository: &Repository, given: Option<&str>, head: &str) -> Result<String> {
    let base = match given {
        Some(base) => base.to_owned(),
        None => match repository.default_base()? {
            Some(base) => base,
            None => return Ok(head.to_owned()),
        },
    };

    let Some(commit) = repository.commit_of(&base)? else {
        let base = base.escape_debug();
        return Err(Error::new(ErrorKind::NameInvalid, format!("there is no commit `{base}`"))
            .with_hint("name a branch, a tag or a commit with --base"));
    };
    Ok(repository.merge_base(head, &commit)?.unwrap_or(commit))
}
