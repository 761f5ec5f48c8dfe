//! Checks of a whole plan: each file by its kind, and references between files.

use std::collections::{BTreeMap, BTreeSet};

use super::front_matter::{SpecFrontMatter, line_of, shorten};
use super::proposal::check_proposal;
use super::sections::{PartKind, SpecBody};
use super::tasks::{Tasks, check_tasks, parse_reference};
use super::{Fault, check_spec};
use crate::models::paths::{PROPOSAL_FILE, TASKS_FILE};
use crate::text::front_matter::split_front_matter;

/// Kind of a file, by its name.
enum PlanFileKind<'a> {
    Proposal,
    Tasks,
    /// A spec, with its id if the file is in a folder `specs`.
    Spec(Option<&'a str>),
}

fn file_kind(name: &str) -> PlanFileKind<'_> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_among_specs = folder == "specs" || folder.ends_with("/specs");
    match file {
        PROPOSAL_FILE if !is_among_specs => PlanFileKind::Proposal,
        TASKS_FILE if !is_among_specs => PlanFileKind::Tasks,
        _ => PlanFileKind::Spec(file.strip_suffix(".md").filter(|_| is_among_specs)),
    }
}

/// Checks a file. Its name determines its kind; a file in a folder `specs` must be named after the
/// spec's id.
#[must_use]
pub fn check_file(name: &str, text: &str) -> Vec<Fault> {
    let id = match file_kind(name) {
        PlanFileKind::Proposal => return check_proposal(text),
        PlanFileKind::Tasks => return check_tasks(text),
        PlanFileKind::Spec(id) => id,
    };

    let mut faults = check_spec(text);
    let head = split_front_matter(text)
        .yaml
        .and_then(|head| SpecFrontMatter::read(head).ok());

    if let Some((head, id)) = head.as_ref().zip(id)
        && head.id.value != id
    {
        let message = format!(
            "the id is `{}`, but the file is named `{id}.md`",
            shorten(&head.id.value)
        );
        faults.push(Fault::new(line_of(&head.id), message));
        faults.sort_by_key(|fault| fault.line);
    }
    faults
}

/// Checks a whole plan: `proposal.md`, `specs/ID.md` and `tasks.md`, by name. Each fault comes with
/// its file.
#[must_use]
pub fn check_plan(files: &[(&str, &str)]) -> Vec<(String, Fault)> {
    let mut faults = Vec::new();
    for needed in [PROPOSAL_FILE, TASKS_FILE] {
        if !files.iter().any(|(name, _)| *name == needed) {
            faults.push((
                needed.to_owned(),
                Fault::new(1, format!("the plan has no `{needed}`")),
            ));
        }
    }

    let mut specs: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let plan = files.iter().filter(|(name, _)| {
        matches!(*name, PROPOSAL_FILE | TASKS_FILE)
            || matches!(file_kind(name), PlanFileKind::Spec(Some(_)))
    });

    for &(name, text) in plan {
        faults.extend(
            check_file(name, text)
                .into_iter()
                .map(|fault| (name.to_owned(), fault)),
        );

        if let PlanFileKind::Spec(Some(id)) = file_kind(name)
            && specs.insert(id, requirement_ids(text)).is_some()
        {
            faults.push((
                name.to_owned(),
                Fault::new(1, format!("duplicate spec `{id}`")),
            ));
        }
    }

    for &(name, text) in files.iter().filter(|(name, _)| *name == TASKS_FILE) {
        let tasks = Tasks::read(text).tasks;
        for (task, written) in tasks
            .iter()
            .flat_map(|task| task.specs.iter().map(move |spec| (task, spec)))
        {
            let message =
                match parse_reference(written).map(|(spec, id)| (spec, id, specs.get(spec))) {
                    Some((spec, _, None)) => {
                        format!(
                            "`{}` names spec `{spec}`, which is not in the plan",
                            task.id
                        )
                    }
                    Some((spec, id, Some(ids))) if !ids.contains(id) => {
                        format!(
                            "`{}` names `{spec}#{id}`, but the spec has no such requirement",
                            task.id
                        )
                    }
                    _ => continue,
                };

            faults.push((name.to_owned(), Fault::new(task.line, message)));
        }
    }
    faults
}

/// Returns the requirement ids of a spec, even if it has other faults.
fn requirement_ids(text: &str) -> BTreeSet<String> {
    let body = SpecBody::from_document(text);
    let ids = body.parts().into_iter().filter_map(|part| match part.kind {
        PartKind::Requirement { id, .. } => Some(id.to_owned()),
        _ => None,
    });
    ids.collect()
}
