//! Specs merged by their parts, three-way: what the change was planned on, what is true now, what the change wants.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::design::Design;
use super::document::{Spec, check_spec};
use super::new_head::NewHead;
use super::parts::{Body, Key, Part, PartKind};

/// A section that cannot be merged: two edits of it, or one that both sides have added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// Its heading, such as `## Overview`, `### R3 - Title` or `### Scenario: x`; `title` for that of the head.
    pub section: String,
    /// Its text when the change was planned.
    pub base: Option<String>,
    /// Its text now.
    pub current: Option<String>,
    /// Its text as the change wants it.
    pub wanted: Option<String>,
    /// Why it cannot be merged.
    pub why: String,
}

/// The parts of one version of a spec; none of one that is not there.
struct Version<'a> {
    parts: Vec<Part<'a>>,
    places: BTreeMap<Key, usize>,
}

impl<'a> Version<'a> {
    fn of(body: &Body<'a>) -> Self {
        let parts = body.parts();
        let there = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| !part.text.is_empty());
        let places = there
            .map(|(place, part)| (part.key.clone(), place))
            .collect();
        Self { parts, places }
    }

    fn get(&self, key: &Key) -> Option<&Part<'a>> {
        self.places.get(key).map(|&place| &self.parts[place])
    }

    fn text(&self, key: &Key) -> Option<&'a str> {
        self.get(key).map(|part| part.text)
    }

    /// Returns the section in which a part stands; that of a section is itself.
    fn parent(&self, key: &Key) -> Option<&Key> {
        self.get(key).map(|part| &self.parts[part.parent].key)
    }
}

/// Merges a change's spec: `base` is the spec when the change was planned, `current` the spec now, `wanted` the
/// change's whole document.
///
/// # Errors
///
/// Every section that both sides have changed, each with its three texts.
pub fn merge(
    base: Option<&str>,
    current: Option<&str>,
    wanted: &str,
    updated_at: &str,
) -> Result<String, Vec<Conflict>> {
    let is_crlf = current
        .unwrap_or(wanted)
        .split('\n')
        .next()
        .is_some_and(|line| line.ends_with('\r'));
    let [base_text, current_text, wanted_text] = [
        base.unwrap_or_default(),
        current.unwrap_or_default(),
        wanted,
    ]
    .map(|text| text.replace("\r\n", "\n"));
    let now = current
        .map(|_| readable(&current_text, "the spec as it is now"))
        .transpose();
    let (now, new) = match (now, readable(&wanted_text, "the change's spec")) {
        (Ok(now), Ok(new)) => (now, new),
        (now, new) => return Err([now.err(), new.err()].into_iter().flatten().collect()),
    };
    let old = Spec::read(&base_text).ok();
    let [base_body, current_body, wanted_body] =
        [&base_text, &current_text, &wanted_text].map(|text| Body::of(text));
    let mut merging = Merging {
        base: Version::of(&base_body),
        current: Version::of(&current_body),
        wanted: Version::of(&wanted_body),
        is_added_twice: base.is_none() && current.is_some(),
        conflicts: Vec::new(),
    };
    let title = merging.title(old.as_ref(), now.as_ref(), &new);
    let body = merging.body();
    if base.is_some() && current.is_none() {
        merging.conflicts.push(whole(
            &new.id,
            "it was removed since the change was planned",
        ));
    }
    if !merging.conflicts.is_empty() {
        return Err(merging.conflicts);
    }
    // A new spec becomes true now, whatever day its author thought it was.
    let created_at = now.as_ref().map_or(updated_at, |now| &now.created_at);
    let version = now.as_ref().map_or(1, |now| now.version.saturating_add(1));
    let text = written(&new.id, &title, version, [created_at, updated_at], &body);
    match check_spec(&text).first() {
        None if is_crlf => Ok(text.replace('\n', "\r\n")),
        None => Ok(text),
        Some(fault) => Err(vec![whole(
            &new.id,
            &format!("of both together: {}", fault.message),
        )]),
    }
}

/// Returns the ids of requirements, and the headings of scenarios, that a change adds, edits or removes.
#[must_use]
pub fn touched(base: Option<&str>, wanted: &str) -> Vec<String> {
    let [base, wanted] = [base.unwrap_or_default(), wanted].map(|text| text.replace("\r\n", "\n"));
    let [base_body, wanted_body] = [&base, &wanted].map(|text| Body::of(text));
    let (base, wanted) = (Version::of(&base_body), Version::of(&wanted_body));
    let is_special = |part: &&Part<'_>| {
        matches!(
            part.kind,
            PartKind::Requirement { .. } | PartKind::Scenario { .. }
        )
    };
    let edited = wanted
        .parts
        .iter()
        .filter(|part| base.text(&part.key) != Some(part.text));
    let removed = base
        .parts
        .iter()
        .filter(|part| wanted.get(&part.key).is_none());
    edited
        .chain(removed)
        .filter(is_special)
        .map(|part| part.key.name.clone())
        .collect()
}

/// Reads a spec that is to be merged.
fn readable(text: &str, which: &str) -> Result<Spec, Conflict> {
    Spec::read(text).map_err(|faults| {
        let first = faults
            .first()
            .map(|fault| format!("line {}: {}", fault.line, fault.message));
        whole(which, &first.unwrap_or_default())
    })
}

/// Returns a conflict that is not one of a single section.
fn whole(which: &str, why: &str) -> Conflict {
    Conflict {
        section: which.to_owned(),
        base: None,
        current: None,
        wanted: None,
        why: why.to_owned(),
    }
}

/// Writes a spec.
fn written(id: &str, title: &str, version: u64, dates: [&str; 2], body: &str) -> String {
    let body = format!("\n<spec>\n\n{body}\n\n</spec>\n");
    let cut = Body::of(&body);
    let parts = cut.parts();
    let ids: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part.kind {
            PartKind::Requirement { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    let design = Design::of(cut.text, &cut.lines, &mut Vec::new());
    let [created_at, updated_at] = dates;
    let head = NewHead {
        id,
        title,
        version,
        created_at,
        updated_at,
        ids: &ids,
        design,
    };
    head.text() + &body
}

struct Merging<'a> {
    base: Version<'a>,
    current: Version<'a>,
    wanted: Version<'a>,
    /// Whether both sides have made the spec, each without knowing of the other.
    is_added_twice: bool,
    conflicts: Vec<Conflict>,
}

impl<'a> Merging<'a> {
    /// Takes the one of two values that differs from the base; `Err` says why there is none.
    fn choose<T: PartialEq>(
        &self,
        base: Option<T>,
        current: Option<T>,
        wanted: Option<T>,
    ) -> Result<Option<T>, &'static str> {
        if current == wanted {
            return Ok(wanted);
        }
        if self.is_added_twice {
            return Err("the spec was added by both");
        }
        if base == current {
            return Ok(wanted);
        }
        if base == wanted {
            return Ok(current);
        }
        Err(match (base, current, wanted) {
            (None, ..) => "both have added it, with different texts",
            (_, None, _) => "the change edits it, and it was removed since",
            (_, _, None) => "the change removes it, and it was edited since",
            _ => "both have edited it",
        })
    }

    /// Returns the title of the head.
    fn title(&mut self, old: Option<&Spec>, now: Option<&Spec>, new: &Spec) -> String {
        if let Some(now) = now.filter(|now| now.id != new.id) {
            self.conflicts.push(whole(
                &new.id,
                &format!("the spec as it is now has the id `{}`", now.id),
            ));
        }
        let title = |spec: &Spec| spec.title.clone();
        let [base, current] = [old, now].map(|spec| spec.map(title));
        // A title that is not there now was not removed: the whole spec is not there.
        let chosen = match now {
            Some(_) => self.choose(base.clone(), current.clone(), Some(title(new))),
            None => Ok(None),
        };
        match chosen {
            Ok(chosen) => chosen.unwrap_or_else(|| title(new)),
            Err(why) => {
                let (section, why) = ("title".to_owned(), why.to_owned());
                self.conflicts.push(Conflict {
                    section,
                    base,
                    current,
                    wanted: Some(title(new)),
                    why,
                });
                String::new()
            }
        }
    }

    fn conflict(&mut self, key: &Key, why: &str) {
        let versions = [&self.base, &self.current, &self.wanted];
        let [base, current, wanted] = versions.map(|version| version.text(key).map(str::to_owned));
        let part = versions
            .into_iter()
            .rev()
            .find_map(|version| version.get(key));
        let section = part.map_or_else(|| key.name.clone(), |part| part.heading.to_owned());
        self.conflicts.push(Conflict {
            section,
            base,
            current,
            wanted,
            why: why.to_owned(),
        });
    }

    /// Merges the parts, and writes those that are left.
    fn body(&mut self) -> String {
        let keys = |version: &Version<'_>| {
            version
                .parts
                .iter()
                .map(|part| part.key.clone())
                .collect::<Vec<Key>>()
        };
        let (wanted, current) = (keys(&self.wanted), keys(&self.current));
        let is_wanted: BTreeSet<&Key> = wanted.iter().collect();
        let mut texts: BTreeMap<&Key, &'a str> = BTreeMap::new();
        for key in wanted
            .iter()
            .chain(current.iter().filter(|key| !is_wanted.contains(key)))
        {
            match self.choose(
                self.base.text(key),
                self.current.text(key),
                self.wanted.text(key),
            ) {
                Ok(text) => texts.extend(text.map(|text| (key, text))),
                Err(why) => self.conflict(key, why),
            }
        }
        // Without all texts it cannot be told which sections are left to stand in.
        if !self.conflicts.is_empty() {
            return String::new();
        }
        let parents = texts
            .keys()
            .filter_map(|key| Some((*key, self.parent(key, &texts)?)))
            .collect();
        let text: Vec<&str> = order(&wanted, &current, &parents)
            .into_iter()
            .filter_map(|key| texts.get(key).copied())
            .collect();
        text.join("\n\n")
    }

    /// Returns the section in which a part that is left stands.
    fn parent(&mut self, key: &Key, left: &BTreeMap<&Key, &str>) -> Option<Key> {
        let [base, current, wanted] =
            [&self.base, &self.current, &self.wanted].map(|version| version.parent(key).cloned());
        let chosen = match (&current, &wanted) {
            (Some(current), Some(wanted)) if base.as_ref() == Some(wanted) => Some(current.clone()),
            (Some(current), Some(wanted))
                if base.as_ref() != Some(current) && current != wanted =>
            {
                self.conflict(key, "both have moved it, to different sections");
                return None;
            }
            (Some(current), None) => Some(current.clone()),
            (_, wanted) => wanted.clone(),
        };
        let mut places = [chosen, wanted, current].into_iter().flatten();
        let found = places.find(|parent| left.contains_key(parent));
        if found.is_none() {
            self.conflict(key, "the section in which it stands was removed");
        }
        found
    }
}

/// Puts parts in order: that of the wanted document; what only the current one has follows what it follows there.
/// `parents` has each part that is left, and the section in which it stands.
fn order<'a>(
    wanted: &'a [Key],
    current: &'a [Key],
    parents: &'a BTreeMap<&'a Key, Key>,
) -> Vec<&'a Key> {
    let is_wanted: BTreeSet<&Key> = wanted.iter().collect();
    // Sections are a group of their own.
    let group = |key: &Key| {
        parents
            .get(key)
            .map(|parent| Some(parent).filter(|parent| *parent != key))
    };
    // What the current document alone has, by its group and by what it follows there.
    let mut followers: BTreeMap<(Option<&Key>, Option<&Key>), Vec<&Key>> = BTreeMap::new();
    let mut last: BTreeMap<Option<&Key>, &Key> = BTreeMap::new();
    for key in current {
        let Some(group) = group(key) else { continue };
        if is_wanted.contains(key) {
            last.insert(group, key);
        } else {
            followers
                .entry((group, last.get(&group).copied()))
                .or_default()
                .push(key);
        }
    }
    let mut groups: BTreeMap<Option<&Key>, Vec<&Key>> = BTreeMap::new();
    for ((group, _), keys) in followers.iter().filter(|((_, before), _)| before.is_none()) {
        groups.entry(*group).or_default().extend(keys);
    }
    for key in wanted {
        let Some(group) = group(key) else { continue };
        let keys = groups.entry(group).or_default();
        keys.push(key);
        keys.extend(followers.get(&(group, Some(key))).into_iter().flatten());
    }
    let parts = |group: Option<&'a Key>| groups.get(&group).into_iter().flatten().copied();
    parts(None)
        .flat_map(|section| std::iter::once(section).chain(parts(Some(section))))
        .collect()
}
