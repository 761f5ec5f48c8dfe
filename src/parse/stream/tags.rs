//! Effect of a tag on the text after it.

use super::{CallForm, Enclosure, StreamPosition, StreamReader, Tag, TagName, call};

impl StreamReader {
    /// Applies a tag. Returns false if it is plain text here.
    pub(super) fn apply_tag(&mut self, tag: &Tag<'_>, text: &str) -> bool {
        match self.inside.clone() {
            Enclosure::Reply => {
                self.apply_in_reply(tag, text);
                true
            }
            Enclosure::Thought { depth } => self.apply_in_thought(tag, text, depth),
            Enclosure::Element {
                name: TagName::Update,
                may_be_mention,
                ..
            } => {
                let closes = tag.name == TagName::Update && tag.closes && tag.complete;
                if closes {
                    self.state = StreamPosition::Closed;
                    self.hidden = Some(String::new());
                    self.inside = Enclosure::Element {
                        name: TagName::Update,
                        depth: 1,
                        may_be_mention: false,
                        cut: false,
                    };
                }
                closes || (may_be_mention && self.settle_mention(tag, text))
            }
            Enclosure::Element {
                name,
                depth,
                may_be_mention,
                cut,
            } => {
                if cut {
                    self.apply_in_unclosed_call(tag, text)
                } else {
                    self.apply_in_call(tag, text, name, depth, may_be_mention)
                }
            }
            Enclosure::Marker { name, .. } => {
                if tag.name != name {
                    return false;
                }
                if tag.closes && tag.complete {
                    self.inside = Enclosure::Reply;
                    self.hidden = None;
                } else {
                    self.reread_hidden();
                    self.again.push_str(text);
                }
                true
            }
        }
    }

    fn apply_in_reply(&mut self, tag: &Tag<'_>, text: &str) {
        if tag.is_generic(self.shown.last(), text) {
            self.take(text);
            return;
        }
        match (tag.name, tag.closes) {
            (TagName::Thinking, false) => {
                self.inside = Enclosure::Thought { depth: 1 };
                self.hidden = None;
            }
            (TagName::Message, false) if tag.complete => {
                self.messages += 1;
                self.end_part_at_message(1);
            }
            (TagName::Message, true) => {
                self.messages = self.messages.saturating_sub(1);
                self.closed = true;
                self.end_part_at_message(0);
            }
            (TagName::Update, false) => {
                self.open_element(tag, text, tag.complete && tag.attributes.trim().is_empty())
            }
            (TagName::Call(call), false) if tag.complete => {
                let named = matches!(call, CallForm::Named(_));
                let reads = || call::read_action(call, tag.attributes, "", &self.grammar).is_ok();
                let bare = call == CallForm::Action && tag.attributes.trim().is_empty();
                if !tag.empty {
                    self.open_element(tag, text, named || bare);
                } else if named && !reads() {
                    self.show_tag(text);
                } else {
                    self.start_line();
                }
            }
            (TagName::Message | TagName::Call(_), false) => self.show_tag(text),
            (TagName::Review | TagName::TaskStatus | TagName::PackMarker(_), false)
                if tag.complete && !tag.empty =>
            {
                self.inside = Enclosure::Marker {
                    name: tag.name,
                    opener: text.to_owned(),
                };
                self.hidden = Some(String::new());
            }
            (TagName::Wrapper, _) if self.messages == 0 && !tag.empty => {}
            (TagName::Wrapper, _)
            | (TagName::Review | TagName::TaskStatus | TagName::PackMarker(_), false) => {
                self.take(text);
            }
            (TagName::Thinking, true) => {
                // The text before was a thought, including any message.
                self.closed = false;
                self.messages = 0;
                self.start_line();
            }
            (TagName::Update | TagName::Call(_), true) => self.start_line(),
            (TagName::Review | TagName::TaskStatus | TagName::PackMarker(_), true) => {}
        }
    }

    /// Shows a tag as plain text. The text after it is read like the start of a line.
    fn show_tag(&mut self, text: &str) {
        self.take(text);
        self.start_line();
    }

    /// Ends the current part of the visible text at the outermost tags of a message. `outermost` is
    /// the number of open messages after such a tag: 1 for an opening tag, 0 for a closing one.
    fn end_part_at_message(&mut self, outermost: usize) {
        if self.messages == outermost {
            self.shown.end_part();
            if !self.ended {
                self.unclosed.clear();
            }
        }
        self.start_line();
    }

    /// Hides an action or an update from its opening tag on.
    fn open_element(&mut self, tag: &Tag<'_>, text: &str, may_be_mention: bool) {
        let unclosed = self.unclosed.contains(&tag.name);
        if unclosed && may_be_mention {
            return self.show_tag(text);
        }

        let cut = unclosed && tag.name != TagName::Update;
        self.inside = Enclosure::Element {
            name: tag.name,
            depth: 1,
            may_be_mention,
            cut,
        };
        self.hidden = may_be_mention.then(|| text.to_owned());
    }

    /// Continues after a hidden element that is closed.
    pub(super) fn leave_element(&mut self) {
        self.inside = Enclosure::Reply;
        self.hidden = None;
        self.start_line();
    }

    fn apply_in_thought(&mut self, tag: &Tag<'_>, text: &str, depth: usize) -> bool {
        let unclosed = self.unclosed.contains(&TagName::Thinking);
        match (tag.name, tag.closes) {
            (TagName::Thinking, true) if depth == 1 => {
                self.leave_element();
                return true;
            }
            (TagName::Thinking, true) => {
                self.inside = Enclosure::Thought { depth: depth - 1 };
                // Keep the text from here on: if the outer tag stays unclosed, this closing tag ended the thought.
                self.hidden = (!unclosed).then(String::new);
                return true;
            }
            (TagName::Thinking, false) => self.inside = Enclosure::Thought { depth: depth + 1 },
            (TagName::Message, false) if tag.complete && unclosed => {
                self.leave_element();
                self.again.push_str(text);
                return true;
            }
            // If no tag closes the thought, this message ends it.
            (TagName::Message, false) if tag.complete => {
                self.hidden.get_or_insert_default();
            }
            _ => return false,
        }
        self.take(text);
        true
    }

    fn apply_in_call(
        &mut self,
        tag: &Tag<'_>,
        text: &str,
        name: TagName,
        depth: usize,
        may_be_mention: bool,
    ) -> bool {
        let depth = match tag.name == name && tag.complete && !tag.empty {
            true if tag.closes => depth - 1,
            true => depth + 1,
            false => depth,
        };

        if depth == 0 {
            self.leave_element();
            return true;
        }

        self.inside = Enclosure::Element {
            name,
            depth,
            may_be_mention,
            cut: false,
        };
        if may_be_mention && self.settle_mention(tag, text) {
            return true;
        }

        if !ends_call(tag) {
            return false;
        }
        self.hidden.get_or_insert_default();
        self.take(text);
        true
    }

    /// Ends an unclosed action at the next tag.
    fn apply_in_unclosed_call(&mut self, tag: &Tag<'_>, text: &str) -> bool {
        if ends_call(tag) {
            self.leave_element();
            self.again.push_str(text);
        }
        ends_call(tag)
    }

    /// Treats an element that is still open at the end of its message as a mention of its name.
    fn settle_mention(&mut self, tag: &Tag<'_>, text: &str) -> bool {
        let is_mention = self.messages > 0 && tag.name == TagName::Message && tag.closes;
        if is_mention {
            self.reread_hidden();
            self.again.push_str(text);
        }
        is_mention
    }

    /// Reads hidden text again, because its element is not closed.
    pub(super) fn reread_hidden(&mut self) {
        let again = self.hidden.take().unwrap_or_default();

        match std::mem::replace(&mut self.inside, Enclosure::Reply) {
            Enclosure::Marker { opener, .. } => {
                self.state = StreamPosition::Text;
                self.take(&opener);
            }
            Enclosure::Thought { .. } => {
                self.unclosed.push(TagName::Thinking);
                self.start_line();
            }
            Enclosure::Element { name, .. } => {
                self.unclosed.push(name);
                self.start_line();
            }
            Enclosure::Reply => {}
        }

        self.again.insert_str(0, &again);
    }
}

/// Returns true if a tag ends an unclosed action before it.
fn ends_call(tag: &Tag<'_>) -> bool {
    let opens = matches!(
        tag.name,
        TagName::Message | TagName::Update | TagName::Thinking
    ) && !tag.closes;
    tag.complete && (opens || matches!(tag.name, TagName::Call(_)))
}
