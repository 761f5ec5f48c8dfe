//! Messages: the text for the user, and its end if the closing tag is missing.

use std::ops::Range;

use super::Scanner;
use crate::models::ProblemCode;
use crate::parse::tag::Tag;

#[derive(Clone, Debug)]
pub(in crate::parse) struct MessageSpan {
    /// The text between the tags.
    pub(in crate::parse) span: Range<usize>,
    /// True if the message has a closing tag.
    pub(in crate::parse) closed: bool,
}

/// A message whose closing tag was not read yet.
pub(super) struct OpenMessage {
    start: usize,
    depth: usize,
    /// Message tags inside it; true for an opening tag.
    inside: Vec<(Range<usize>, bool)>,
}

impl<'a> Scanner<'a> {
    pub(super) fn open_message(&mut self, tag: Tag<'a>) {
        let span = self.at..self.at + tag.length;
        if !tag.complete {
            // An incomplete tag is text, unless the reply ends in it.
            self.at = span.end;
            return;
        }
        if let Some(open) = &mut self.message {
            open.depth += 1;
            open.inside.push((span.clone(), true));
            self.at = span.end;
            return;
        }

        self.message = Some(OpenMessage {
            start: span.end,
            depth: 1,
            inside: Vec::new(),
        });
        self.skip_tag(span);
    }

    pub(super) fn close_message(&mut self, tag: Tag<'a>) {
        let span = self.at..self.at + tag.length;
        let Some(open) = &mut self.message else {
            return self.skip_stray_closer(tag);
        };

        open.depth -= 1;
        if open.depth > 0 {
            open.inside.push((span.clone(), false));
            self.at = span.end;
            return;
        }
        let start = open.start;
        let nested = !open.inside.is_empty();
        self.message = None;

        if nested {
            self.add_problem(ProblemCode::NestedMessage, start..span.start);
        }
        if !tag.complete {
            self.add_problem(ProblemCode::CutTag, span.clone());
        }

        self.found.messages.push(MessageSpan {
            span: start..span.start,
            closed: true,
        });
        self.skip_tag(span);
    }

    /// Ends an unclosed message at the end of the scan. The message extends to the next message tag,
    /// to the next element that is not part of a message, or to the end.
    pub(super) fn end_message(&mut self) {
        let Some(OpenMessage { start, inside, .. }) = self.message.take() else {
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
            self.hide(tag.clone(), false, false);
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
            self.add_problem(ProblemCode::UnclosedMessage, start..end);
        }
        self.found.messages.push(MessageSpan {
            span: start..end,
            closed,
        });
    }
}
