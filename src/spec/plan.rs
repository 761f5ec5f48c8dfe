//! A whole plan: its files by their kind, and whether they agree with each other.

use std::collections::{BTreeMap, BTreeSet};

use super::head::{Head, line};
use super::parts::{Body, PartKind};
use super::proposal::check_proposal;
use super::tasks::{Tasks, check_tasks, reference};
use super::{Fault, check_spec};
use crate::models::paths::{PROPOSAL_FILE, TASKS_FILE};
use crate::text::front_matter::split_front_matter;

/// What a file is, by its name.
enum FileKind<'a> {
    Proposal,
    Tasks,
    /// A spec; one in a folder of specs is named by its id.
    Spec(Option<&'a str>),
}

fn kind(name: &str) -> FileKind<'_> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_among_specs = folder == "specs" || folder.ends_with("/specs");
    match file {
        PROPOSAL_FILE if !is_among_specs => FileKind::Proposal,
        TASKS_FILE if !is_among_specs => FileKind::Tasks,
        _ => FileKind::Spec(file.strip_suffix(".md").filter(|_| is_among_specs)),
    }
}

/// Checks a file by its kind, which its name tells; a file in a folder `specs` is named by the spec's id.
#[must_use]
pub fn check_file(name: &str, text: &str) -> Vec<Fault> {
    let id = match kind(name) {
        FileKind::Proposal => return check_proposal(text),
        FileKind::Tasks => return check_tasks(text),
        FileKind::Spec(id) => id,
    };
    let mut faults = check_spec(text);
    let head = split_front_matter(text)
        .yaml
        .and_then(|head| Head::read(head).ok());
    if let Some((head, id)) = head.as_ref().zip(id)
        && head.id.value != id
    {
        let message = format!("the id is not `{id}`, as the file is named");
        faults.push(Fault::new(line(&head.id), message));
        faults.sort_by_key(|fault| fault.line);
    }
    faults
}

/// Checks a whole plan: `proposal.md`, `specs/ID.md` and `tasks.md` by name; faults come with their file.
#[must_use]
pub fn check_plan(files: &[(&str, &str)]) -> Vec<(String, Fault)> {
    let mut found = Vec::new();
    for needed in [PROPOSAL_FILE, TASKS_FILE] {
        if !files.iter().any(|(name, _)| *name == needed) {
            found.push((
                needed.to_owned(),
                Fault::new(1, format!("the plan has no {needed}")),
            ));
        }
    }
    let mut specs: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let plan = files.iter().filter(|(name, _)| {
        matches!(*name, PROPOSAL_FILE | TASKS_FILE) || matches!(kind(name), FileKind::Spec(Some(_)))
    });
    for &(name, text) in plan {
        found.extend(
            check_file(name, text)
                .into_iter()
                .map(|fault| (name.to_owned(), fault)),
        );
        if let FileKind::Spec(Some(id)) = kind(name)
            && specs.insert(id, requirement_ids(text)).is_some()
        {
            found.push((
                name.to_owned(),
                Fault::new(1, format!("the spec `{id}` is there twice")),
            ));
        }
    }
    for &(name, text) in files.iter().filter(|(name, _)| *name == TASKS_FILE) {
        let tasks = Tasks::read(text).tasks;
        for (task, written) in tasks
            .iter()
            .flat_map(|task| task.specs.iter().map(move |spec| (task, spec)))
        {
            let message = match reference(written).map(|(spec, id)| (spec, id, specs.get(spec))) {
                Some((spec, _, None)) => {
                    format!(
                        "`{}` names the spec `{spec}`, which the plan has not",
                        task.id
                    )
                }
                Some((spec, id, Some(ids))) if !ids.contains(id) => {
                    format!(
                        "`{}` names `{spec}#{id}`, and the spec has no such requirement",
                        task.id
                    )
                }
                _ => continue,
            };
            found.push((name.to_owned(), Fault::new(task.line, message)));
        }
    }
    found
}

/// Returns the ids of a spec's requirements, whatever else is wrong with it.
fn requirement_ids(text: &str) -> BTreeSet<String> {
    let body = Body::of(text);
    let ids = body.parts().into_iter().filter_map(|part| match part.kind {
        PartKind::Requirement { id, .. } => Some(id.to_owned()),
        _ => None,
    });
    ids.collect()
}
