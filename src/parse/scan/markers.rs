//! Markers: `<review>`, `<task_status>` and those of a pack's own.

use super::{FoundMarker, MarkerValue, Scanner};
use crate::models::{Code, TaskStatus};
use crate::parse::review::{TagValue, marker_body_length, read_value};
use crate::parse::tag::{Name, Tag, attributes};

impl<'a> Scanner<'a> {
    /// Takes a marker. One that cannot be read stays in the text as it is.
    pub(super) fn marker(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let body_length = if opener.empty {
            None
        } else {
            marker_body_length(self.text, self.names, &opener, start)
        };
        let body = body_length.and_then(|length| self.text.get(start..start + length));
        let closer = body_length.and_then(|length| self.names.read(&self.text[start + length..]));
        let end = body_length.map(|length| start + length + closer.map_or(0, |tag| tag.length));

        let (Some(value), Some(end)) =
            (body.and_then(|body| self.marker_value(&opener, body)), end)
        else {
            if let Name::Own(marker) = opener.name {
                self.doubt_own(marker, Some(usize::MAX));
            }
            self.problem(Code::UnreadableMarker, self.at..start);
            self.found.open |= start >= self.text.len();
            let holds_tag = body.is_some_and(|body| self.holds_tag(body));
            self.at = end.filter(|_| !holds_tag).unwrap_or(start);
            return;
        };

        self.note_attributes(&opener);
        let span = self.at..end;
        self.found.markers.push(FoundMarker {
            span: span.clone(),
            value,
        });
        self.cut(span, false, true);
        self.at = end;
    }

    fn marker_value(&self, opener: &Tag<'a>, body: &str) -> Option<MarkerValue> {
        // Another tag of ours inside it: nobody can tell what belongs to what.
        if self.holds_tag(body) {
            return None;
        }
        match opener.name {
            Name::Review => {
                matches!(read_value(body), TagValue::Verdict(_)).then_some(MarkerValue::Review)
            }
            Name::Own(marker) => {
                let rank = self.grammar.markers[marker].rank(body)?;
                Some(MarkerValue::Own { marker, rank })
            }
            _ => task_status(opener.attributes, body),
        }
    }

    fn holds_tag(&self, body: &str) -> bool {
        memchr::memchr_iter(b'<', body.as_bytes()).any(|at| self.names.read(&body[at..]).is_some())
    }
}

fn task_status(text: &str, body: &str) -> Option<MarkerValue> {
    let id = attributes(text)?.get("id")?.trim().to_owned();
    let status = match body.trim().to_ascii_uppercase().as_str() {
        "COMPLETED" => TaskStatus::Completed,
        "FAILED" => TaskStatus::Failed,
        _ => return None,
    };
    (!id.is_empty()).then_some(MarkerValue::Task { id, status })
}
