//! What a tag does to the text behind it.

use super::{Call, Inside, Name, Reader, State, Tag, call};

impl Reader {
    /// Follows a tag; tells whether it means something here.
    pub(super) fn tag(&mut self, tag: &Tag<'_>, text: &str) -> bool {
        match self.inside.clone() {
            Inside::Reply => {
                self.in_reply(tag, text);
                true
            }
            Inside::Thought { depth } => self.in_thought(tag, text, depth),
            Inside::Element {
                name: Name::Update,
                spoken,
                ..
            } => {
                let closes = tag.name == Name::Update && tag.closes && tag.complete;
                if closes {
                    self.state = State::Closed;
                    self.hidden = Some(String::new());
                    self.inside = Inside::Element {
                        name: Name::Update,
                        depth: 1,
                        spoken: false,
                        cut: false,
                    };
                }
                closes || (spoken && self.was_spoken_of(tag, text))
            }
            Inside::Element {
                name,
                depth,
                spoken,
                cut,
            } => {
                if cut {
                    self.in_cut(tag, text)
                } else {
                    self.in_call(tag, text, name, depth, spoken)
                }
            }
            Inside::Marker { name, .. } => {
                if tag.name != name {
                    return false;
                }
                if tag.closes && tag.complete {
                    self.inside = Inside::Reply;
                    self.hidden = None;
                } else {
                    self.give_up();
                    self.again.push_str(text);
                }
                true
            }
        }
    }

    fn in_reply(&mut self, tag: &Tag<'_>, text: &str) {
        if tag.is_generic(self.shown.last(), text) {
            self.take(text);
            return;
        }
        match (tag.name, tag.closes) {
            (Name::Thinking, false) => {
                self.inside = Inside::Thought { depth: 1 };
                self.hidden = None;
            }
            (Name::Message, false) if tag.complete => {
                self.messages += 1;
                self.bound_message(1);
            }
            (Name::Message, true) => {
                self.messages = self.messages.saturating_sub(1);
                self.closed = true;
                self.bound_message(0);
            }
            (Name::Update, false) => {
                self.open(tag, text, tag.complete && tag.attributes.trim().is_empty())
            }
            (Name::Call(call), false) if tag.complete => {
                let named = matches!(call, Call::Named(_));
                let reads = || call::read(call, tag.attributes, "", &self.grammar).is_ok();
                let bare = call == Call::Action && tag.attributes.trim().is_empty();
                if !tag.empty {
                    self.open(tag, text, named || bare);
                } else if named && !reads() {
                    self.show(text);
                } else {
                    self.start_line();
                }
            }
            (Name::Message | Name::Call(_), false) => self.show(text),
            (Name::Review | Name::TaskStatus | Name::Own(_), false)
                if tag.complete && !tag.empty =>
            {
                self.inside = Inside::Marker {
                    name: tag.name,
                    opener: text.to_owned(),
                };
                self.hidden = Some(String::new());
            }
            (Name::Wrapper, _) if self.messages == 0 && !tag.empty => {}
            (Name::Wrapper, _) | (Name::Review | Name::TaskStatus | Name::Own(_), false) => {
                self.take(text);
            }
            (Name::Thinking, true) => {
                // What came before was a thought, a message included.
                self.closed = false;
                self.messages = 0;
                self.start_line();
            }
            (Name::Update | Name::Call(_), true) => self.start_line(),
            (Name::Review | Name::TaskStatus | Name::Own(_), true) => {}
        }
    }

    /// Shows a tag that is text. A line may start behind it.
    fn show(&mut self, text: &str) {
        self.take(text);
        self.start_line();
    }

    /// Follows the outermost tags of a message, at which so many are open.
    fn bound_message(&mut self, outermost: usize) {
        if self.messages == outermost {
            self.shown.part();
            if !self.ended {
                self.unclosed.clear();
            }
        }
        self.start_line();
    }

    /// Hides an action or an update from its opener on.
    fn open(&mut self, tag: &Tag<'_>, text: &str, spoken: bool) {
        let unclosed = self.unclosed.contains(&tag.name);
        if unclosed && spoken {
            return self.show(text);
        }
        let cut = unclosed && tag.name != Name::Update;
        self.inside = Inside::Element {
            name: tag.name,
            depth: 1,
            spoken,
            cut,
        };
        self.hidden = spoken.then(|| text.to_owned());
    }

    /// Goes on behind something hidden that is closed.
    pub(super) fn leave(&mut self) {
        self.inside = Inside::Reply;
        self.hidden = None;
        self.start_line();
    }

    fn in_thought(&mut self, tag: &Tag<'_>, text: &str, depth: usize) -> bool {
        let unclosed = self.unclosed.contains(&Name::Thinking);
        match (tag.name, tag.closes) {
            (Name::Thinking, true) if depth == 1 => {
                self.leave();
                return true;
            }
            (Name::Thinking, true) => {
                self.inside = Inside::Thought { depth: depth - 1 };
                // Where tags do not pair, the last one closes.
                self.hidden = (!unclosed).then(String::new);
                return true;
            }
            (Name::Thinking, false) => self.inside = Inside::Thought { depth: depth + 1 },
            (Name::Message, false) if tag.complete && unclosed => {
                self.leave();
                self.again.push_str(text);
                return true;
            }
            // Where nothing closes it, a message ends a thought.
            (Name::Message, false) if tag.complete => {
                self.hidden.get_or_insert_default();
            }
            _ => return false,
        }
        self.take(text);
        true
    }

    fn in_call(
        &mut self,
        tag: &Tag<'_>,
        text: &str,
        name: Name,
        depth: usize,
        spoken: bool,
    ) -> bool {
        let depth = match tag.name == name && tag.complete && !tag.empty {
            true if tag.closes => depth - 1,
            true => depth + 1,
            false => depth,
        };
        if depth == 0 {
            self.leave();
            return true;
        }
        self.inside = Inside::Element {
            name,
            depth,
            spoken,
            cut: false,
        };
        if spoken && self.was_spoken_of(tag, text) {
            return true;
        }
        if !ends_call(tag) {
            return false;
        }
        self.hidden.get_or_insert_default();
        self.take(text);
        true
    }

    /// Ends an action that is not closed at the next tag.
    fn in_cut(&mut self, tag: &Tag<'_>, text: &str) -> bool {
        if ends_call(tag) {
            self.leave();
            self.again.push_str(text);
        }
        ends_call(tag)
    }

    /// Takes what a message has opened and not closed for a name that it speaks of.
    fn was_spoken_of(&mut self, tag: &Tag<'_>, text: &str) -> bool {
        let spoken = self.messages > 0 && tag.name == Name::Message && tag.closes;
        if spoken {
            self.give_up();
            self.again.push_str(text);
        }
        spoken
    }

    /// Reads what was hidden again, as what is not closed.
    pub(super) fn give_up(&mut self) {
        let again = self.hidden.take().unwrap_or_default();
        match std::mem::replace(&mut self.inside, Inside::Reply) {
            Inside::Marker { opener, .. } => {
                self.state = State::Text;
                self.take(&opener);
            }
            Inside::Thought { .. } => {
                self.unclosed.push(Name::Thinking);
                self.start_line();
            }
            Inside::Element { name, .. } => {
                self.unclosed.push(name);
                self.start_line();
            }
            Inside::Reply => {}
        }
        self.again.insert_str(0, &again);
    }
}

/// Tells whether a tag ends an action before it that is not closed.
fn ends_call(tag: &Tag<'_>) -> bool {
    let opens = matches!(tag.name, Name::Message | Name::Update | Name::Thinking) && !tag.closes;
    tag.complete && (opens || matches!(tag.name, Name::Call(_)))
}
