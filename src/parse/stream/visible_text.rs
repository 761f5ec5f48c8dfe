//! Visible text of a stream, with its parts separated as in a message.

/// Separator between two parts of a message.
const PART_SEPARATOR: &str = "\n\n";

/// Text that is ready to be shown. White space is held back until more text follows, so that no
/// part starts or ends with it.
#[derive(Debug, Default)]
pub(super) struct VisibleText {
    ready: String,
    /// White space after the last text.
    trailing_space: String,
    /// True once any text was shown.
    has_shown: bool,
    /// True if the current part has text.
    inside: bool,
    /// The last character that was added.
    last: String,
}

impl VisibleText {
    /// Adds text.
    pub(super) fn push(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            self.last = last.to_string();
        }

        let text = if self.inside { text } else { text.trim_start() };
        let visible = text.trim_end();

        if !visible.is_empty() {
            if !self.inside && self.has_shown {
                self.ready.push_str(PART_SEPARATOR);
            }
            self.ready.push_str(&self.trailing_space);
            self.trailing_space.clear();
            self.ready.push_str(visible);
            self.has_shown = true;
            self.inside = true;
        }

        if self.inside {
            self.trailing_space.push_str(&text[visible.len()..]);
        }
    }

    /// Returns the last character that was added, even if it is held back; empty at the start.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Ends a part: the next text is separated from it.
    pub(super) fn end_part(&mut self) {
        self.trailing_space.clear();
        self.inside = false;
    }

    /// Takes the text that can be shown now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }
}
