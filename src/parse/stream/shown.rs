//! The text that is shown: its parts follow each other as they do in a message.

/// What stands between two parts of a message.
const GAP: &str = "\n\n";

/// Text on its way to be shown. Blanks wait for what follows them, so that none stand at an end.
#[derive(Debug, Default)]
pub(super) struct Shown {
    ready: String,
    /// Blanks behind the last text.
    blanks: String,
    /// Whether text was shown before.
    any: bool,
    /// Whether a part has begun, with some text.
    inside: bool,
    /// The last character.
    last: String,
}

impl Shown {
    /// Adds text.
    pub(super) fn push(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            self.last = last.to_string();
        }
        let text = if self.inside { text } else { text.trim_start() };
        let visible = text.trim_end();
        if !visible.is_empty() {
            if !self.inside && self.any {
                self.ready.push_str(GAP);
            }
            self.ready.push_str(&self.blanks);
            self.blanks.clear();
            self.ready.push_str(visible);
            (self.any, self.inside) = (true, true);
        }
        if self.inside {
            self.blanks.push_str(&text[visible.len()..]);
        }
    }

    /// Returns the last character, whether it was shown already or not.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Ends a part: what follows stands apart from it.
    pub(super) fn part(&mut self) {
        self.blanks.clear();
        self.inside = false;
    }

    /// Returns what can be shown now.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.ready)
    }
}
