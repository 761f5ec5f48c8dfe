//! Messages: what is for people to read, and where it ends if nobody says so.

use std::ops::Range;

use super::Scanner;
use crate::models::Code;
use crate::parse::tag::Tag;

/// A message that was found.
#[derive(Clone, Debug)]
pub(in crate::parse) struct Message {
    /// Its text, without its tags.
    pub(in crate::parse) span: Range<usize>,
    /// Whether it is closed by a tag.
    pub(in crate::parse) closed: bool,
}

/// A message that is open.
pub(super) struct Open {
    start: usize,
    depth: usize,
    /// The tags of messages inside, and whether each opens.
    inside: Vec<(Range<usize>, bool)>,
}

impl<'a> Scanner<'a> {
    pub(super) fn open_message(&mut self, tag: Tag<'a>) {
        let span = self.at..self.at + tag.length;
        if !tag.complete {
            // Such a tag is text, unless the reply ends in it.
            self.at = span.end;
            return;
        }
        if let Some(open) = &mut self.message {
            open.depth += 1;
            open.inside.push((span.clone(), true));
            self.at = span.end;
            return;
        }
        self.message = Some(Open {
            start: span.end,
            depth: 1,
            inside: Vec::new(),
        });
        self.take(span);
    }

    pub(super) fn close_message(&mut self, tag: Tag<'a>) {
        let span = self.at..self.at + tag.length;
        let Some(open) = &mut self.message else {
            return self.stray_closer(tag);
        };
        open.depth -= 1;
        if open.depth > 0 {
            open.inside.push((span.clone(), false));
            self.at = span.end;
            return;
        }
        let (start, nested) = (open.start, !open.inside.is_empty());
        self.message = None;
        if nested {
            self.problem(Code::NestedMessage, start..span.start);
        }
        if !tag.complete {
            self.problem(Code::CutTag, span.clone());
        }
        self.found.messages.push(Message {
            span: start..span.start,
            closed: true,
        });
        self.take(span);
    }

    /// Ends the message that is open at the end: at the next message, at the next other tag, or at the end.
    pub(super) fn end_message(&mut self) {
        let Some(Open { start, inside, .. }) = self.message.take() else {
            return;
        };
        let ends = self
            .found
            .cuts
            .iter()
            .filter(|cut| cut.ends)
            .map(|cut| cut.span.start);
        let ends: Vec<usize> = ends.collect();
        let mut from = Some(start);
        for (tag, opens) in inside {
            if let Some(start) = from.take() {
                self.push_message(start..tag.start, !opens, &ends);
            }
            self.cut(tag.clone(), false, false);
            if opens {
                from = Some(tag.end);
            }
        }
        if let Some(start) = from {
            self.push_message(start..self.found.end.max(start), false, &ends);
        }
        self.found.cuts.sort_by_key(|cut| cut.span.start);
    }

    fn push_message(&mut self, span: Range<usize>, closed: bool, ends: &[usize]) {
        let Range { start, mut end } = span;
        if !closed {
            let next = ends.partition_point(|&end| end < start);
            end = ends.get(next).copied().unwrap_or(end).min(end);
            self.problem(Code::UnclosedMessage, start..end);
        }
        self.found.messages.push(Message {
            span: start..end,
            closed,
        });
    }
}
