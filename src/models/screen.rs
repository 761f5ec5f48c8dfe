//! What may be shown in a terminal: text that others wrote, without what would drive the terminal or hide words.

use std::borrow::Cow;

/// Takes out of a text, piece by piece, what would drive a terminal.
///
/// Escape sequences go with all that belongs to them, in their 7-bit and 8-bit forms, as do control characters,
/// direction marks and tags. A sequence ends with its line at the latest, so that it cannot swallow what follows.
/// How the text is cut into pieces makes no difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    at: At,
}

/// Where in a text the next character stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Among words.
    #[default]
    Words,
    /// After a carriage return, which was shown as a line end.
    Return,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: the next final byte ends the sequence, whatever it is.
    Designation,
    /// In a control sequence, up to its final byte.
    Control,
    /// In the payload of OSC, DCS, SOS, PM or APC.
    Payload,
}

impl Screen {
    /// Returns what may be shown of the next piece of a text.
    pub fn push<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if self.at == At::Words && unshown(text).is_none() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        loop {
            if self.at == At::Words {
                let (words, others) = rest.split_at(unshown(rest).unwrap_or(rest.len()));
                out.push_str(words);
                rest = others;
            }
            let mut chars = rest.chars();
            let Some(c) = chars.next() else {
                return Cow::Owned(out);
            };
            out.extend(self.step(c));
            rest = chars.as_str();
        }
    }

    /// Takes what has its meaning wherever it stands: line ends, and what ends one sequence and may start another.
    fn step(&mut self, c: char) -> Option<char> {
        let (at, shown) = match c {
            '\n' if self.at == At::Return => (At::Words, None),
            '\n' | '\u{2028}' | '\u{2029}' => (At::Words, Some('\n')),
            // Alone it would let a line be written over.
            '\r' => (At::Return, Some('\n')),
            '\u{1B}' => (At::Escape, None),
            '\u{9B}' => (At::Control, None),
            '\u{90}' | '\u{98}' | '\u{9D}' | '\u{9E}' | '\u{9F}' => (At::Payload, None),
            // CAN, SUB, ST and the other 8-bit controls.
            '\u{18}' | '\u{1A}' | '\u{80}'..='\u{9F}' => (At::Words, None),
            _ => self.within(c),
        };
        self.at = at;
        shown
    }

    /// Takes a character whose meaning depends on where it stands.
    fn within(&self, c: char) -> (At, Option<char>) {
        match (self.at, c) {
            (At::Payload, '\u{7}') => (At::Words, None),
            (At::Payload, _) => (At::Payload, None),
            // A terminal obeys these at once and goes on with the sequence.
            (At::Escape | At::Designation | At::Control, c) if c.is_ascii_control() => {
                (self.at, None)
            }
            (At::Escape, '[') => (At::Control, None),
            (At::Escape, ']' | 'P' | 'X' | '^' | '_') => (At::Payload, None),
            (At::Escape | At::Designation, ' '..='/') => (At::Designation, None),
            (At::Control, ' '..='?') => (At::Control, None),
            (At::Escape | At::Designation | At::Control, c) if c.is_ascii() => (At::Words, None),
            _ => (At::Words, is_shown(c).then_some(c)),
        }
    }
}

/// Returns what may be shown of a text in a terminal; the text itself if that is all of it. See [`Screen`].
#[must_use]
pub fn screen(text: &str) -> Cow<'_, str> {
    Screen::default().push(text)
}

/// Returns where the first character stands that is not shown as it is.
fn unshown(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from
            + text.as_bytes()[from..]
                .iter()
                .position(|&byte| is_suspect(byte))?;
        let c = text[at..].chars().next()?;
        if !is_shown(c) {
            return Some(at);
        }
        from = at + c.len_utf8();
    }
}

/// Tells the first bytes of all characters that are not shown, and of few others: most texts need no more than this.
fn is_suspect(byte: u8) -> bool {
    matches!(byte, 0..=8 | 11..=31 | 127 | 0xC2 | 0xD8 | 0xE2 | 0xEF | 0xF3)
}

/// Tells characters that neither drive a terminal nor change how the words around them read.
fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        // Direction marks, line separators, annotations, tags. Joiners and variation selectors stay: emoji need them.
        '\u{61C}'
        | '\u{200E}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E007F}' => false,
        c => !c.is_control(),
    }
}
