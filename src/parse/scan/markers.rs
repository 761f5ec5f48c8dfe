//! Markers: `<review>`, `<task_status>` and those that the pack defines.

use super::{FoundMarker, MarkerValue, Scanner};
use crate::models::{ProblemCode, TaskStatus};
use crate::parse::review::{TagValue, marker_body_length, read_value};
use crate::parse::tag::{Tag, TagName, parse_attributes};

impl<'a> Scanner<'a> {
    /// Reads a marker. An unreadable one stays in the text.
    pub(super) fn take_marker(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let body_length = if opener.empty {
            None
        } else {
            marker_body_length(self.text, self.names, &opener, start)
        };
        let body = body_length.and_then(|length| self.text.get(start..start + length));
        let closer =
            body_length.and_then(|length| self.names.read_tag(&self.text[start + length..]));
        let end = body_length.map(|length| start + length + closer.map_or(0, |tag| tag.length));

        let (Some(value), Some(end)) = (
            body.and_then(|body| self.read_marker_value(&opener, body)),
            end,
        ) else {
            if let TagName::PackMarker(marker) = opener.name {
                self.doubt_pack_marker(marker, Some(usize::MAX));
            }
            self.add_problem(ProblemCode::UnreadableMarker, self.at..start);
            self.found.open |= start >= self.text.len();
            let holds_tag = body.is_some_and(|body| self.contains_tag(body));
            self.at = end.filter(|_| !holds_tag).unwrap_or(start);
            return;
        };

        self.note_attributes(&opener);
        let span = self.at..end;
        self.found.markers.push(FoundMarker {
            span: span.clone(),
            value,
        });
        self.hide(span, false, true);
        self.at = end;
    }

    fn read_marker_value(&self, opener: &Tag<'a>, body: &str) -> Option<MarkerValue> {
        // With another tag inside, the extent of the marker is ambiguous.
        if self.contains_tag(body) {
            return None;
        }
        match opener.name {
            TagName::Review => {
                matches!(read_value(body), TagValue::Verdict(_)).then_some(MarkerValue::Review)
            }
            TagName::PackMarker(marker) => {
                let rank = self.grammar.markers[marker].rank(body)?;
                Some(MarkerValue::Pack { marker, rank })
            }
            _ => read_task_status(opener.attributes, body),
        }
    }

    fn contains_tag(&self, body: &str) -> bool {
        memchr::memchr_iter(b'<', body.as_bytes())
            .any(|at| self.names.read_tag(&body[at..]).is_some())
    }
}

fn read_task_status(text: &str, body: &str) -> Option<MarkerValue> {
    let id = parse_attributes(text)?.get("id")?.trim().to_owned();
    let status = match body.trim().to_ascii_uppercase().as_str() {
        "COMPLETED" => TaskStatus::Completed,
        "FAILED" => TaskStatus::Failed,
        _ => return None,
    };
    (!id.is_empty()).then_some(MarkerValue::Task { id, status })
}
