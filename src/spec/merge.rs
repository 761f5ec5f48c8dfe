//! Three-way merge of specs, part by part.
//!
//! The three versions are `base` (the spec when the change was planned), `current` (the spec now)
//! and `wanted` (the change's version). A part that only one side changed is taken from that side.
//! A part that both sides changed differently is a conflict. The parts are then put in the order of
//! `wanted`; parts that only `current` has keep their place after the part they follow there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::code_blocks::DesignElements;
use super::document::{Spec, check_spec};
use super::new_front_matter::NewFrontMatter;
use super::sections::{PartKey, PartKind, SpecBody, SpecPart};

/// A merge conflict: a part that both sides edited, added or moved differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpecConflict {
    /// Heading, such as `## Overview`, `### R3 - Title` or `### Scenario: x`; `title` for the title
    /// in the front matter.
    pub section: String,
    /// Text when the change was planned; `None` if there was none.
    pub base: Option<String>,
    /// Text in the current spec; `None` if there is none.
    pub current: Option<String>,
    /// Text in the change's version; `None` if there is none.
    pub wanted: Option<String>,
    /// Reason for the conflict.
    pub why: String,
}

/// Parts of one version of a spec; empty if the version does not exist.
struct SpecVersion<'a> {
    parts: Vec<SpecPart<'a>>,
    places: BTreeMap<PartKey, usize>,
}

impl<'a> SpecVersion<'a> {
    fn from_body(body: &SpecBody<'a>) -> Self {
        let parts = body.parts();
        let non_empty = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| !part.text.is_empty());
        let places = non_empty
            .map(|(place, part)| (part.key.clone(), place))
            .collect();
        Self { parts, places }
    }

    fn get(&self, key: &PartKey) -> Option<&SpecPart<'a>> {
        self.places.get(key).map(|&place| &self.parts[place])
    }

    fn text(&self, key: &PartKey) -> Option<&'a str> {
        self.get(key).map(|part| part.text)
    }

    /// Returns the section that contains a part; a section contains itself.
    fn parent(&self, key: &PartKey) -> Option<&PartKey> {
        self.get(key).map(|part| &self.parts[part.parent].key)
    }
}

/// Merges a change's spec. `base` is the spec when the change was planned, `current` the spec now, and `wanted` the
/// change's whole document.
///
/// # Errors
///
/// Returns all conflicts, each with the text of all three versions. A result that fails [`check_spec`] is also a conflict.
pub fn merge(
    base: Option<&str>,
    current: Option<&str>,
    wanted: &str,
    updated_at: &str,
) -> Result<String, Vec<SpecConflict>> {
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
        .map(|_| read_for_merge(&current_text, "the current spec"))
        .transpose();
    let (now, new) = match (now, read_for_merge(&wanted_text, "the change's spec")) {
        (Ok(now), Ok(new)) => (now, new),
        (now, new) => return Err([now.err(), new.err()].into_iter().flatten().collect()),
    };

    let old = Spec::read(&base_text).ok();
    let [base_body, current_body, wanted_body] =
        [&base_text, &current_text, &wanted_text].map(|text| SpecBody::from_document(text));

    let mut merging = SpecMerge {
        base: SpecVersion::from_body(&base_body),
        current: SpecVersion::from_body(&current_body),
        wanted: SpecVersion::from_body(&wanted_body),
        is_added_twice: base.is_none() && current.is_some(),
        conflicts: Vec::new(),
    };

    let title = merging.merge_title(old.as_ref(), now.as_ref(), &new);
    let body = merging.merge_body();
    if base.is_some() && current.is_none() {
        merging.conflicts.push(document_conflict(
            &new.id,
            "the spec was removed after the change was planned",
        ));
    }

    if !merging.conflicts.is_empty() {
        return Err(merging.conflicts);
    }
    // The creation time of a new spec is the time of the merge, not the date in the change's version.
    let created_at = now.as_ref().map_or(updated_at, |now| &now.created_at);
    let version = now.as_ref().map_or(1, |now| now.version.saturating_add(1));

    let text = write_spec(&new.id, &title, version, [created_at, updated_at], &body);
    match check_spec(&text).first() {
        None if is_crlf => Ok(text.replace('\n', "\r\n")),
        None => Ok(text),
        Some(fault) => Err(vec![document_conflict(
            &new.id,
            &format!("after the merge: {}", fault.message),
        )]),
    }
}

/// Returns the requirement ids and scenario headings that a change adds, edits or removes.
#[must_use]
pub fn touched(base: Option<&str>, wanted: &str) -> Vec<String> {
    let [base, wanted] = [base.unwrap_or_default(), wanted].map(|text| text.replace("\r\n", "\n"));
    let [base_body, wanted_body] = [&base, &wanted].map(|text| SpecBody::from_document(text));
    let base = SpecVersion::from_body(&base_body);
    let wanted = SpecVersion::from_body(&wanted_body);

    let is_special = |part: &&SpecPart<'_>| {
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

/// Reads a spec that is to be merged. A spec with faults is a conflict.
fn read_for_merge(text: &str, which: &str) -> Result<Spec, SpecConflict> {
    Spec::read(text).map_err(|faults| {
        let first = faults
            .first()
            .map(|fault| format!("line {}: {}", fault.line, fault.message));
        document_conflict(which, &first.unwrap_or_default())
    })
}

/// Returns a conflict that concerns a whole document. `which` describes the document, in place of a section.
fn document_conflict(which: &str, why: &str) -> SpecConflict {
    SpecConflict {
        section: which.to_owned(),
        base: None,
        current: None,
        wanted: None,
        why: why.to_owned(),
    }
}

/// Writes a spec with new front matter for its body.
fn write_spec(id: &str, title: &str, version: u64, dates: [&str; 2], body: &str) -> String {
    let body = format!("\n<spec>\n\n{body}\n\n</spec>\n");
    let spec_body = SpecBody::from_document(&body);
    let parts = spec_body.parts();
    let ids: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part.kind {
            PartKind::Requirement { id, .. } => Some(id),
            _ => None,
        })
        .collect();

    let design = DesignElements::find(spec_body.text, &spec_body.lines, &mut Vec::new());
    let [created_at, updated_at] = dates;
    let head = NewFrontMatter {
        id,
        title,
        version,
        created_at,
        updated_at,
        ids: &ids,
        design,
    };
    head.to_text() + &body
}

struct SpecMerge<'a> {
    base: SpecVersion<'a>,
    current: SpecVersion<'a>,
    wanted: SpecVersion<'a>,
    /// True if both sides created the spec independently.
    is_added_twice: bool,
    conflicts: Vec<SpecConflict>,
}

impl<'a> SpecMerge<'a> {
    /// Returns the value that differs from the base; `Err` with the reason if both differ.
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
            return Err("added by both sides");
        }

        if base == current {
            return Ok(wanted);
        }
        if base == wanted {
            return Ok(current);
        }

        Err(match (base, current, wanted) {
            (None, ..) => "added by both sides, with different texts",
            (_, None, _) => "edited by the change, but removed in the meantime",
            (_, _, None) => "removed by the change, but edited in the meantime",
            _ => "edited by both sides",
        })
    }

    /// Merges the title of the front matter.
    fn merge_title(&mut self, old: Option<&Spec>, now: Option<&Spec>, new: &Spec) -> String {
        if let Some(now) = now.filter(|now| now.id != new.id) {
            self.conflicts.push(document_conflict(
                &new.id,
                &format!("the current spec has another id: `{}`", now.id),
            ));
        }
        let title = |spec: &Spec| spec.title.clone();
        let [base, current] = [old, now].map(|spec| spec.map(title));
        // Without a current spec there is nothing to merge: the new title is used.
        let chosen = match now {
            Some(_) => self.choose(base.clone(), current.clone(), Some(title(new))),
            None => Ok(None),
        };

        match chosen {
            Ok(chosen) => chosen.unwrap_or_else(|| title(new)),
            Err(why) => {
                self.conflicts.push(SpecConflict {
                    section: "title".to_owned(),
                    base,
                    current,
                    wanted: Some(title(new)),
                    why: why.to_owned(),
                });
                String::new()
            }
        }
    }

    fn add_conflict(&mut self, key: &PartKey, why: &str) {
        let versions = [&self.base, &self.current, &self.wanted];
        let [base, current, wanted] = versions.map(|version| version.text(key).map(str::to_owned));
        let part = versions
            .into_iter()
            .rev()
            .find_map(|version| version.get(key));

        let section = part.map_or_else(|| key.name.clone(), |part| part.heading.to_owned());
        self.conflicts.push(SpecConflict {
            section,
            base,
            current,
            wanted,
            why: why.to_owned(),
        });
    }

    /// Merges the parts and joins their texts. Returns an empty string after a conflict.
    fn merge_body(&mut self) -> String {
        let keys = |version: &SpecVersion<'_>| {
            version
                .parts
                .iter()
                .map(|part| part.key.clone())
                .collect::<Vec<PartKey>>()
        };

        let wanted = keys(&self.wanted);
        let current = keys(&self.current);
        let is_wanted: BTreeSet<&PartKey> = wanted.iter().collect();
        let mut texts: BTreeMap<&PartKey, &'a str> = BTreeMap::new();

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
                Err(why) => self.add_conflict(key, why),
            }
        }
        // The remaining sections are only known if every part was merged.
        if !self.conflicts.is_empty() {
            return String::new();
        }

        let parents = texts
            .keys()
            .filter_map(|key| Some((*key, self.merge_parent(key, &texts)?)))
            .collect();

        let text: Vec<&str> = order_parts(&wanted, &current, &parents)
            .into_iter()
            .filter_map(|key| texts.get(key).copied())
            .collect();
        text.join("\n\n")
    }

    /// Returns the section that contains a merged part. If that section was removed on one side,
    /// the other side's section is used.
    fn merge_parent(
        &mut self,
        key: &PartKey,
        merged: &BTreeMap<&PartKey, &str>,
    ) -> Option<PartKey> {
        let [base, current, wanted] =
            [&self.base, &self.current, &self.wanted].map(|version| version.parent(key).cloned());

        let chosen = match (&current, &wanted) {
            (Some(current), Some(wanted)) if base.as_ref() == Some(wanted) => Some(current.clone()),
            (Some(current), Some(wanted))
                if base.as_ref() != Some(current) && current != wanted =>
            {
                self.add_conflict(key, "moved by both sides, to different sections");
                return None;
            }
            (Some(current), None) => Some(current.clone()),
            (_, wanted) => wanted.clone(),
        };

        let mut candidates = [chosen, wanted, current].into_iter().flatten();
        let parent = candidates.find(|parent| merged.contains_key(parent));
        if parent.is_none() {
            self.add_conflict(key, "the section of this part was removed");
        }
        parent
    }
}

/// Orders the parts like the wanted document. A part that only the current document has comes after
/// the part that it follows in the current document. `parents` maps each remaining part to its section.
fn order_parts<'a>(
    wanted: &'a [PartKey],
    current: &'a [PartKey],
    parents: &'a BTreeMap<&'a PartKey, PartKey>,
) -> Vec<&'a PartKey> {
    let is_wanted: BTreeSet<&PartKey> = wanted.iter().collect();
    // The sections form one group; the parts of each section form another.
    let group = |key: &PartKey| {
        parents
            .get(key)
            .map(|parent| Some(parent).filter(|parent| *parent != key))
    };

    // Parts that only the current document has, by their group and the part they follow.
    let mut followers: BTreeMap<(Option<&PartKey>, Option<&PartKey>), Vec<&PartKey>> =
        BTreeMap::new();
    let mut last: BTreeMap<Option<&PartKey>, &PartKey> = BTreeMap::new();
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

    let mut groups: BTreeMap<Option<&PartKey>, Vec<&PartKey>> = BTreeMap::new();
    for ((group, _), keys) in followers.iter().filter(|((_, before), _)| before.is_none()) {
        groups.entry(*group).or_default().extend(keys);
    }

    for key in wanted {
        let Some(group) = group(key) else { continue };
        let keys = groups.entry(group).or_default();
        keys.push(key);
        keys.extend(followers.get(&(group, Some(key))).into_iter().flatten());
    }

    let parts = |group: Option<&'a PartKey>| groups.get(&group).into_iter().flatten().copied();
    parts(None)
        .flat_map(|section| std::iter::once(section).chain(parts(Some(section))))
        .collect()
}
