//! Reply grammar of a mode (markers, actions, tag aliases), and checks of the pack's tag aliases and repair text.

use super::check_layers::is_prose_file_name;
use super::faults::Faults;
use super::manifest::Manifest;
use super::{LayerContent, Pack, ProseText, SearchPath};
use crate::error::Result;
use crate::models::{Grammar, MarkerSpec, MessageRole, Mode, THOUGHT_TAGS};

/// Tags with a meaning in every pack, in addition to those of thoughts.
const RESERVED_TAGS: [&str; 5] = [
    "review",
    "task_status",
    "content_update",
    "action",
    "message",
];

/// Returns true for a tag that has a meaning in every pack and therefore cannot be a marker.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_TAGS.contains(&name) || THOUGHT_TAGS.contains(&name)
}

impl Faults<'_> {
    /// Checks that each alias of a tag is a plain word that is not used otherwise, and that the tag exists.
    pub(super) fn check_tags(&mut self, manifest: &Manifest) {
        for (alias, tag) in &manifest.tags {
            let is_plain = !alias.is_empty()
                && alias
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let is_taken = is_reserved(&alias.to_ascii_lowercase())
                || manifest.markers.contains_key(alias)
                || manifest.actions.contains_key(alias);
            let is_duplicate = manifest
                .tags
                .keys()
                .filter(|other| other.eq_ignore_ascii_case(alias))
                .count()
                > 1;
            let fault = if !is_plain {
                Some("expected letters, digits and `_`")
            } else if is_taken {
                Some("the name is already a tag, a marker or an action")
            } else if is_duplicate {
                Some("another alias differs only in case")
            } else {
                None
            };
            if let Some(fault) = fault {
                self.add(
                    tag.referenced,
                    format!("invalid tag alias {alias:?}: {fault}"),
                );
            }

            if !is_reserved(&tag.value) && !manifest.markers.contains_key(&tag.value) {
                self.add(
                    tag.referenced,
                    format!(
                        "tag alias `{alias}` refers to the unknown tag `{}`",
                        tag.value
                    ),
                );
            }
        }
    }

    /// Reads the repair text, which cannot have variables.
    pub(super) fn read_repair(
        &mut self,
        pack: &str,
        manifest: &Manifest,
        places: &SearchPath,
    ) -> Option<ProseText> {
        let file = manifest.repair.as_ref()?;
        let name = file.value.as_str();
        if !is_prose_file_name(name) {
            self.add(
                file.referenced,
                format!("invalid file name {name:?}; expected a path inside the pack that ends with `.md`"),
            );
            return None;
        }

        let prose = places.find(&format!("packs/{pack}/{name}"));
        match prose.and_then(|prose| prose.map(|prose| ProseText::read(name, &prose)).transpose()) {
            Ok(Some(text)) if text.variables.is_empty() => return Some(text),
            Ok(Some(_)) => self.add(
                file.referenced,
                format!("the repair text `{name}` cannot use variables"),
            ),
            Ok(None) => self.add(file.referenced, format!("missing file `{name}`")),
            Err(error) => self.add_error(file.referenced, &error),
        }

        None
    }
}

impl Pack {
    /// Returns the grammar of replies in a mode.
    ///
    /// # Errors
    ///
    /// `UnknownMode` with the modes of the pack.
    pub fn grammar(&self, mode: &Mode) -> Result<Grammar> {
        let spec = self.mode(mode)?;
        let markers = self.markers.iter().map(|(name, values)| MarkerSpec {
            name: name.clone(),
            values: values.clone(),
            required: spec.markers.contains(name),
        });
        let actions: indexmap::IndexMap<_, _> = self
            .actions_of(mode)
            .map(|(name, action)| (name.clone(), action.clone()))
            .collect();
        let forbidden = self
            .actions
            .keys()
            .filter(|name| !actions.contains_key(*name))
            .cloned()
            .collect();
        // Only a prompt with a history shows the role prefixes of messages, which replies may imitate.
        let speakers = [MessageRole::User, MessageRole::Assistant]
            .iter()
            .filter(|_| self.has_layer(LayerContent::History));

        Ok(Grammar {
            verdicts: spec.verdicts.clone(),
            verdict_required: spec.verdict_required,
            task_status: spec.task_status,
            actions,
            forbidden,
            markers: markers.collect(),
            tags: self.tags.clone(),
            speakers: speakers
                .map(|role| role.name().to_ascii_uppercase())
                .collect(),
        })
    }
}
