//! What is looked at before a judgement, and what a judgement must rest on: checks, the diff, the reviewed commit.

use std::collections::BTreeSet;

use super::change::NOTES;
use super::checks::{CheckJob, checks_report, run_checks};
use super::files::read_project_text;
use super::git::{Changed, Diff, DiffLimits, LeftOut, LeftOutKind, Snapshot, Status};
use super::{
    Act, ChangeSite, Inspect, Inspection, Operation, ReviewSite, Site, Step, TurnEnd, change,
    spec_merge,
};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    Check, CheckEnd, ContextItem, ContextKind, OperationId, ReviewResult, SessionId, StepOutcome,
    StepResult, all_passed, matches_pattern, shown_name,
};

/// How much of a diff a prompt shows: of one file, and in all.
pub const DIFF_LIMITS: DiffLimits = DiffLimits {
    file: 200_000,
    total: 1_000_000,
};

/// `checks.run`: runs the project's own checks.
pub(super) struct Checks;

impl Checks {
    /// Runs the checks, and tells what they came to: `PASSED`, `FAILED` or `NONE`.
    fn run_job(&self, job: &CheckJob<'_>, planned: &Step, hint: &str) -> Result<StepResult> {
        let checks = run_checks(job)?;
        if checks.iter().any(|check| check.end == CheckEnd::Stopped) {
            let stopped = Error::new(ErrorKind::AgentStopped, "the checks were stopped");
            return Err(stopped.with_hint(hint));
        }
        Ok(checked(planned, &checks))
    }
}

fn checked(planned: &Step, checks: &[Check]) -> StepResult {
    planned
        .settled(true, detail(checks))
        .with_outcome(outcome(checks), Some(checks_report(checks)))
}

/// Hint for checks of a change that were stopped.
const RUN_AGAIN: &str = "go on with `agentd run`: they are run again";

/// Hint for checks of a review that were stopped.
const REVIEW_AGAIN: &str = "`agentd review` runs them again";

/// Returns in a few words what checks came to, with the names of those that failed.
fn detail(checks: &[Check]) -> String {
    if checks.is_empty() {
        return "there are no checks".to_owned();
    }
    let passed = checks.iter().filter(|check| check.passed()).count();
    let counted = format!("{passed} of {} checks passed", checks.len());
    let failed = checks
        .iter()
        .filter(|check| !all_passed(std::slice::from_ref(check)));
    let failed: Vec<String> = failed.map(|check| format!("`{}`", check.name)).collect();
    match failed.as_slice() {
        [] => counted,
        names => format!("{} failed; {counted}", names.join(", ")),
    }
}

fn outcome(checks: &[Check]) -> StepOutcome {
    match checks {
        [] => StepOutcome::None,
        checks if all_passed(checks) => StepOutcome::Passed,
        _ => StepOutcome::Failed,
    }
}

impl Operation for Checks {
    fn id(&self) -> OperationId {
        OperationId::ChecksRun
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for Checks {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let planned = Step::always(self.id(), "", "");
        let settlement = match &site.review {
            Some(review) => match &review.checks {
                Some(job) => self.run_job(job, &planned, REVIEW_AGAIN)?,
                None => return Ok(Inspection::default()),
            },
            None => self.run_job(
                &site.require_change(&self.id())?.0.checks,
                &planned,
                RUN_AGAIN,
            )?,
        };
        let text = settlement.text.clone().unwrap_or_default();
        let item = ContextItem::new(ContextKind::Artifact, CHECKS, text);
        Ok(Inspection {
            items: vec![(item, "checks that were run".to_owned())],
            result: Some(settlement),
        })
    }
}

impl Act for Checks {
    fn plan_always(&self, site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        site.change.map(|_| Step::always(self.id(), "", ""))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        match &site.change {
            Some(change) => self.run_job(&change.checks, planned, RUN_AGAIN),
            None => Ok(planned.settled(false, NO_TREE.to_owned())),
        }
    }
}

/// `checks.again`: runs the project's own checks once more if something else was merged into the change meanwhile. If
/// they fail, nothing more is done.
pub(super) struct ChecksAgain;

impl Operation for ChecksAgain {
    fn id(&self) -> OperationId {
        OperationId::ChecksAgain
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for ChecksAgain {
    fn plan_always(&self, site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        site.change.map(|_| Step::always(self.id(), "", ""))
    }

    fn run(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let Some(change) = &site.change else {
            return Ok(planned.settled(false, NO_TREE.to_owned()));
        };
        let merged = change.state.results.get(&OperationId::SpecsMerge);
        if merged.is_none_or(|merged| merged.result != Some(StepOutcome::Moved)) {
            return Ok(planned.settled(true, "nothing has changed since the review".to_owned()));
        }
        let settlement = Checks.run_job(&change.checks, planned, RUN_AGAIN)?;
        if settlement.result != Some(StepOutcome::Failed) {
            return Ok(settlement);
        }
        let detail = format!("with what has changed meanwhile, {}", settlement.detail);
        Ok(StepResult {
            done: false,
            detail,
            ..settlement
        })
    }
}

/// `checks.show`: shows what failed when the checks were run last.
pub(super) struct ShowChecks;

impl Operation for ShowChecks {
    fn id(&self) -> OperationId {
        OperationId::ChecksShow
    }
}

impl Inspect for ShowChecks {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let report = site.change.and_then(|change| change.failed);
        let item = |text: &str| ContextItem::new(ContextKind::Artifact, CHECKS, text);
        let items = report.map(|text| (item(text), "checks that were run".to_owned()));
        Ok(Inspection {
            items: items.into_iter().collect(),
            result: None,
        })
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        self.inspect(site)
    }
}

/// The name under which agents are shown what checks came to.
const CHECKS: &str = "checks.md";

/// Why nothing is done for a session that works in the user's own tree.
pub(super) const NO_TREE: &str = "the session has no work tree of its own";

/// Findings of `git.diff`.
struct Looked {
    found: Inspection,
    /// Set if no file of the project has changed.
    is_empty: bool,
    /// Set if none of the changed files is shown.
    shows_nothing: bool,
    /// Files of the project that are not shown.
    hidden: Vec<LeftOut>,
}

/// Images, which no reviewer reads. Only files that are in fact binary and not executable count as one.
const IMAGES: [&str; 8] = [
    "*.png", "*.jpg", "*.jpeg", "*.gif", "*.webp", "*.avif", "*.bmp", "*.ico",
];

/// Files that a package manager writes, which are often too long to be shown.
const LOCKFILES: [&str; 18] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// Returns true if a person has to look at a file that was not shown: at all but images, lockfiles, and files that the
/// settings accept. A file that can be executed is accepted by the settings only.
fn needs_person(file: &LeftOut, accepted: &[String]) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    // A pattern without a folder is about names in all folders.
    let matches = |pattern: &str| {
        let path = if pattern.contains('/') {
            file.path.as_str()
        } else {
            name
        };
        matches_pattern(pattern, path)
    };
    let is_lockfile = LOCKFILES.contains(&name);
    let is_image = IMAGES
        .iter()
        .any(|pattern| matches_pattern(pattern, &name.to_ascii_lowercase()));
    let is_harmless = match file.kind {
        LeftOutKind::NestedRepository => true,
        LeftOutKind::Executable => false,
        LeftOutKind::Binary => is_lockfile || is_image,
        LeftOutKind::Text => is_lockfile,
    };
    !is_harmless && !accepted.iter().any(|pattern| matches(pattern))
}

/// Returns the result of `git.diff` for a diff of `commit`: `PARTLY_SHOWN` with the files that a person has to look at,
/// or `SEEN`.
fn diff_settlement(commit: &str, base: &str, diff: &Diff, accepted: &[String]) -> StepResult {
    let unseen: Vec<&LeftOut> = diff
        .left_out
        .iter()
        .filter(|file| needs_person(file, accepted))
        .collect();
    let planned = Step::always(ShowDiff.id(), commit, "");
    if unseen.is_empty() {
        let detail = format!("{} files differ from {}", diff.files.len(), short(base));
        return planned
            .settled(true, detail)
            .with_outcome(StepOutcome::Seen, None);
    }
    let noun = if unseen.len() == 1 {
        "file was"
    } else {
        "files were"
    };
    let detail = format!(
        "{} {noun} not shown to the reviewer: {}",
        unseen.len(),
        some_left_out(&unseen).join(", ")
    );
    planned
        .settled(true, detail)
        .with_outcome(StepOutcome::PartlyShown, None)
}

/// Returns a text for each of some files that are not shown: its path and the reason, and a last text for all that are
/// too many to be listed.
#[must_use]
pub fn some_left_out(files: &[&LeftOut]) -> Vec<String> {
    let shown = files.iter().take(MOST_HIDDEN);
    let mut texts: Vec<String> = shown
        .map(|file| format!("{} ({})", shown_name(&file.path), file.why))
        .collect();
    if files.len() > MOST_HIDDEN {
        texts.push(format!("and {} more", files.len() - MOST_HIDDEN));
    }
    texts
}

/// `git.diff`: shows what a change has changed since it was opened, and remembers which commit that is. A change of which
/// nothing can be shown cannot be judged, so the turn is refused.
pub(super) struct ShowDiff;

impl ShowDiff {
    /// Returns what has changed since the change was opened. `committed` is the commit that holds all of the work tree;
    /// without one, the work tree is looked at as it is now.
    fn look(&self, site: &Site<'_>, committed: Option<String>) -> Result<Looked> {
        let (change, session) = site.require_change(&self.id())?;
        let folder = format!("{}/", change::folder(session));
        // The notes are part of the instructions; a file of that name with other content is not.
        let notes = change::notes_text(&change.state.notes);
        let holds_notes =
            notes.is_some() && read_project_text(site.root, &format!("{folder}{NOTES}"))? == notes;
        // What is shown anyway need not be shown twice; anything else that lies there must be seen.
        let own = |path: &str| {
            let is_shown = |name: &str| {
                let is_artifact = change
                    .artifacts
                    .iter()
                    .any(|pattern| matches_pattern(pattern, name));
                is_artifact || (holds_notes && name == NOTES)
            };
            path.strip_prefix(&folder).is_some_and(is_shown)
        };
        let leaves_out = |path: &str| own(path) || (change.holds_secrets)(path);
        let (worktree, base) = (change.worktree, &change.opened.base);
        let (commit, diff) = match committed {
            Some(commit) => {
                let diff = worktree.diff_of_commit(&commit, base, DIFF_LIMITS, &leaves_out)?;
                (commit, diff)
            }
            None => (
                worktree.head()?,
                worktree.diff(base, DIFF_LIMITS, &leaves_out)?,
            ),
        };
        let item = ContextItem::new(ContextKind::Artifact, "changes.diff", diff_text(&diff, own));
        let judged = Diff {
            text: String::new(),
            files: diff
                .files
                .iter()
                .filter(|changed| !own(&changed.path))
                .cloned()
                .collect(),
            left_out: diff
                .left_out
                .iter()
                .filter(|file| !own(&file.path))
                .cloned()
                .collect(),
        };
        let settlement = diff_settlement(&commit, base, &judged, change.accept_unshown);
        let found = Inspection {
            items: vec![(item, "what has changed".to_owned())],
            result: Some(settlement),
        };
        // The reports of earlier phases are in the change's own folder: they are no work to be judged.
        let is_work = |path: &str| !path.starts_with(&folder);
        let work = diff
            .files
            .iter()
            .filter(|changed| is_work(&changed.path))
            .count();
        let hidden: Vec<LeftOut> = diff
            .left_out
            .into_iter()
            .filter(|file| is_work(&file.path))
            .collect();
        let is_hidden = |path: &str| hidden.iter().any(|hidden| hidden.path == path);
        let shown = diff
            .files
            .iter()
            .filter(|changed| is_work(&changed.path) && !is_hidden(&changed.path));
        Ok(Looked {
            found,
            is_empty: work == 0,
            shows_nothing: shown.count() == 0,
            hidden,
        })
    }
}

impl Operation for ShowDiff {
    fn id(&self) -> OperationId {
        OperationId::GitDiff
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for ShowDiff {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        if let Some(review) = &site.review {
            return compared(review);
        }
        let (change, session) = site.require_change(&self.id())?;
        // What a person has changed in the tree belongs to what is judged.
        let message = format!("agentd({session}): what was changed by hand");
        let commit = change.worktree.commit_all(&message)?.commit;
        let looked = self.look(site, Some(commit))?;
        let base = short(&change.opened.base);

        if looked.is_empty {
            let message = format!(
                "`{session}` has changed nothing since {base}, so there is nothing to review"
            );
            let hint =
                format!("`agentd revise {session} --note \"…\"` says what is still to be done");
            return Err(Error::new(ErrorKind::NothingToReview, message).with_hint(hint));
        }
        if looked.shows_nothing {
            let hint = format!(
                "review it yourself: `git diff {base} {}`",
                change.opened.branch
            );
            return Err(nothing_shown(&looked.hidden).with_hint(hint));
        }
        if !looked.hidden.is_empty() {
            let files: Vec<&LeftOut> = looked.hidden.iter().collect();
            log::warn!(
                "not shown to the reviewer: {}",
                some_left_out(&files).join(", ")
            );
        }
        Ok(looked.found)
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        if site.change.is_none() {
            return Ok(Inspection::default());
        }
        Ok(self.look(site, None)?.found)
    }
}

/// Returns the inspection of the user's working tree.
///
/// # Errors
///
/// `NothingToReview` if none of its changed files can be shown.
fn compared(review: &ReviewSite<'_>) -> Result<Inspection> {
    let diff = review.diff;
    if diff.text.trim().is_empty() {
        return Err(nothing_shown(&diff.left_out).with_hint("review these files yourself"));
    }
    let text = diff_text(diff, |_| false);
    let item = ContextItem::new(ContextKind::Artifact, "changes.diff", text);
    let settlement = diff_settlement(review.head, review.base, diff, review.accept_unshown);
    Ok(Inspection {
        items: vec![(item, "what has changed".to_owned())],
        result: Some(settlement),
    })
}

/// Returns the error for changes of which a reviewer would see nothing; `hidden` are the files and the reasons.
fn nothing_shown(hidden: &[LeftOut]) -> Error {
    let files: Vec<&LeftOut> = hidden.iter().collect();
    let named: String = some_left_out(&files)
        .iter()
        .map(|file| format!("\n  {file}"))
        .collect();
    let message = format!("nothing of what has changed can be shown to a reviewer:{named}");
    Error::new(ErrorKind::NothingToReview, message)
}

/// Number of hidden files that a message lists.
const MOST_HIDDEN: usize = 20;

/// Returns a diff as a prompt shows it: what is not shown is named.
fn diff_text(diff: &Diff, own: impl Fn(&str) -> bool) -> String {
    let left_out = diff.left_out.iter().filter(|file| !own(&file.path));
    let named =
        left_out.map(|file| format!("# not shown: {} ({})\n", shown_name(&file.path), file.why));
    let named: String = named.collect();
    let text = format!("{named}{}", diff.text);
    if text.trim().is_empty() {
        "# nothing has changed\n".to_owned()
    } else {
        text
    }
}

/// Returns the first letters of a commit, enough for people.
#[must_use]
pub fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// `review.require`: refuses a turn unless the last review passed what is there now.
pub(super) struct ReviewRequire;

impl Operation for ReviewRequire {
    fn id(&self) -> OperationId {
        OperationId::ReviewRequire
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for ReviewRequire {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let (change, session) = site.require_change(&self.id())?;
        let hint = format!("`agentd review {session}` reviews it as it is now");
        let refused =
            |why: String| Error::new(ErrorKind::VerdictStale, why).with_hint(hint.clone());
        let left = change.state.left.as_ref();
        let came_to = |operation: OperationId, outcome: StepOutcome| {
            let found = left.and_then(|left| left.results.get(&operation));
            found.is_some_and(|found| found.result == Some(outcome))
        };
        let seen = left.filter(|left| left.verdict == Some(ReviewResult::Pass));
        let Some(commit) = seen
            .and_then(|left| left.results.get(&OperationId::GitDiff))
            .map(|found| &found.target)
        else {
            return Err(refused(format!("no review has passed `{session}`")));
        };
        if came_to(OperationId::ChecksRun, StepOutcome::Failed) {
            return Err(refused(format!(
                "the checks of `{session}` failed when it was reviewed"
            )));
        }
        if came_to(OperationId::FindingsNote, StepOutcome::Blocking) {
            return Err(refused(format!(
                "the review of `{session}` has open findings"
            )));
        }
        let snapshot = change.worktree.snapshot(commit)?;
        let changed = snapshot.changed(commit)?;
        // A run that was interrupted may have moved the folder and not said so.
        let archived = change.state.done.contains_key(&OperationId::ChangeArchive)
            || !change::has_change(site.root, session);
        let mut stale: Vec<&str> = paths(&changed)
            .filter(|path| is_judged(site, session, path, archived))
            .collect();
        if !stale.is_empty() {
            let brought = brought_by_target(change, &snapshot)?;
            stale.retain(|path| !brought(path));
        }
        match stale.first() {
            None => Ok(Inspection::default()),
            Some(first) => Err(refused(format!(
                "{} files have changed since the review passed {}, such as {first}",
                stale.len(),
                short(commit)
            ))),
        }
    }
}

/// Tells what a verdict is about: the project's files, and what the change says that it wants; but not what the archive
/// itself writes.
fn is_judged(site: &Site<'_>, session: &SessionId, path: &str, archived: bool) -> bool {
    let folder = change::folder(session);
    if let Some(own) = path.strip_prefix(&format!("{folder}/")) {
        return !archived && (own == "proposal.md" || own.starts_with("specs/"));
    }
    let merged = path.strip_prefix(&format!("{}/", spec_merge::SPECS));
    let is_own = |name: &str| site.root.join(format!("{folder}/specs/{name}")).is_file();
    let is_archived = archived && path.starts_with(&format!("{}/", super::ARCHIVE));
    !(merged.is_some_and(|name| archived || is_own(name)) || is_archived || path == "CHANGELOG.md")
}

/// Returns the paths that changed, of a file that was moved both.
fn paths(changed: &[Changed]) -> impl Iterator<Item = &str> {
    changed.iter().flat_map(|changed| {
        let from = match &changed.status {
            Status::Renamed { from } => Some(from.as_str()),
            _ => None,
        };
        std::iter::once(changed.path.as_str()).chain(from)
    })
}

/// Returns what tells files that are as the change's target has them, or had them when it was merged last: they came
/// with what has happened there meanwhile. A file that is as it was at the base did not.
fn brought_by_target(
    change: &ChangeSite<'_>,
    snapshot: &Snapshot,
) -> Result<impl Fn(&str) -> bool + use<>> {
    let differs = |commit: &str| -> Result<BTreeSet<String>> {
        Ok(paths(&snapshot.changed(commit)?)
            .map(str::to_owned)
            .collect())
    };
    let mut as_there = Vec::new();
    if let Some(onto) = &change.opened.onto {
        let now = change.repository.branch_commit(onto)?;
        let merged = match &now {
            Some(now) => change
                .repository
                .merge_base(&change.worktree.head()?, now)?,
            None => None,
        };
        let mut commits: Vec<String> = now.into_iter().chain(merged).collect();
        commits.dedup();
        for commit in commits {
            as_there.push(differs(&commit)?);
        }
    }
    let since_base = differs(&change.opened.base)?;
    Ok(move |path: &str| {
        since_base.contains(path) && as_there.iter().any(|other| !other.contains(path))
    })
}
