//! Visible text of a stream, with its parts separated as in a message.

/// Separator between two parts of a message.
const PART_SEPARATOR: &str = "\n\n";

/// Text that is ready to be shown. Blanks wait for the next text, so that none are at an end.
#[derive(Debug, Default)]
pub(super) struct VisibleText {
    ready: String,
    /// Blanks after the last text.
    blanks: String,
    /// Set once any text was shown.
    any: bool,
    /// Set if the current part has text.
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
            if !self.inside && self.any {
                self.ready.push_str(PART_SEPARATOR);
            }
            self.ready.push_str(&self.blanks);
            self.blanks.clear();
            self.ready.push_str(visible);
            self.any = true;
            self.inside = true;
        }

        if self.inside {
            self.blanks.push_str(&text[visible.len()..]);
        }
    }

    /// Returns the last character, shown or pending.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Ends a part: the next text is separated from it.
    pub(super) fn end_part(&mut self) {
        self.blanks.clear();
        self.inside = false;
    }

    /// Takes the text that can be shown now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }
}
