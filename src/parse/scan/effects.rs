//! Actions, and markers of a pack's own.

use super::Scanner;
use crate::models::{Marker, Proposal};
use crate::parse::action;
use crate::parse::tag::{self, Name, Tag};

impl<'a> Scanner<'a> {
    /// Keeps of each marker of the pack's own the most severe value.
    pub(super) fn keep_worst_markers(&mut self) {
        let mut doubtful = false;
        for (index, spec) in self.grammar.markers.iter().enumerate() {
            let of = |marker: &Marker| match marker {
                Marker::Named { name, value } if *name == spec.name => {
                    spec.values.iter().position(|known| known == value)
                }
                _ => None,
            };
            let worst = self.response.markers.iter().filter_map(of).max();
            // One that is severer in a quote, or that cannot be read, leaves it open what is meant.
            if self.own_doubts.get(index).copied().flatten() > worst {
                self.response.markers.retain(|marker| of(marker).is_none());
                doubtful = true;
                continue;
            }
            let mut kept = false;
            self.response.markers.retain(|marker| {
                of(marker).is_none_or(|rank| Some(rank) == worst && !std::mem::replace(&mut kept, true))
            });
        }
        if doubtful {
            let words = "a marker stands in a quote or cannot be read, and does not count";
            self.problem("doubtful_marker", words, 0..self.text.len());
        }
    }

    /// Keeps the severest value in mind that a marker has where it does not count.
    pub(super) fn doubt_own(&mut self, marker: usize, rank: Option<usize>) {
        self.own_doubts.resize(self.grammar.markers.len(), None);
        self.own_doubts[marker] = self.own_doubts[marker].max(rank);
    }

    /// Takes an action: its body reaches to the first closer, and holds no other action.
    pub(super) fn action(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let next = memchr::memchr_iter(b'<', &self.text.as_bytes()[start..]).find_map(|at| {
            let tag = tag::read(&self.text[start + at..], self.grammar)?;
            (tag.name == Name::Action).then_some((start + at, tag))
        });
        let (body, end, closed) = match next {
            Some((at, tag)) if tag.closes && tag.complete => (start..at, at + tag.length, opener.complete),
            Some((at, _)) => (start..at, at, false),
            None => (start..self.text.len(), self.text.len(), false),
        };
        self.copy_up_to(self.at);
        let text = &self.text[body];
        let name = tag::attribute(opener.attributes, "type");
        let read =
            if closed { action::read(name, text) } else { Err("it is not closed, so it may be cut off") };
        match read {
            Ok(action) => self.response.actions.push(action),
            Err(reason) => {
                let what = format!("action {}", name.unwrap_or_default());
                let (reason, text) = (reason.to_owned(), text.to_owned());
                self.response.proposals.push(Proposal { what: what.trim().to_owned(), reason, text });
                self.mask(start..end);
            }
        }
        self.skip_to(end);
    }
}
