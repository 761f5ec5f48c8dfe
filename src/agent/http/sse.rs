//! Parser of server-sent events (SSE).

/// Maximum size of an event.
pub(super) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Incremental parser of an event stream.
#[derive(Debug, Default)]
pub(super) struct EventStream {
    line: Vec<u8>,
    data: Vec<u8>,
    /// True if the last byte was CR, so that a following LF belongs to the same line ending.
    after_cr: bool,
}

/// Error: an event exceeds [`MAX_EVENT_BYTES`].
#[derive(Debug)]
pub(super) struct EventTooLong;

impl EventStream {
    /// Adds a chunk of the stream, and returns the data of the complete events.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, EventTooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = after;
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line_part, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + self.data.len() + line_part.len() > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(line_part);
            rest = after;
            if let Some((&ended, after)) = after.split_first() {
                self.after_cr = ended == b'\r';
                rest = after;
                events.extend(self.end_line());
            }
        }
        Ok(events)
    }

    /// Returns the data of an unterminated event at the end of the stream, which may be incomplete.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.end_line().or_else(|| self.end_event())
    }

    /// Handles a complete line; an empty line ends an event.
    fn end_line(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.line);
        let line = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(&bytes);
        if line.is_empty() {
            return self.end_event();
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data
                .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        None
    }

    fn end_event(&mut self) -> Option<String> {
        let data = std::mem::take(&mut self.data);
        (!data.is_empty()).then(|| String::from_utf8_lossy(&data).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = "\u{FEFF}: a comment\r\nevent: x\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:two\n\n\nid: 7\rdata: grüße\r\rdata: [DONE]".as_bytes();

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = EventStream::default();
        let mut found: Vec<String> = pieces
            .iter()
            .flat_map(|piece| events.push(piece).expect("all are short"))
            .collect();
        found.extend(events.finish());
        assert_eq!(events.finish(), None);
        found
    }

    #[test]
    fn a_stream_may_be_split_at_every_byte() {
        let expected = ["{\"a\":\n1}", "two", "grüße", "[DONE]"];
        for at in 0..=STREAM.len() {
            assert_eq!(
                read(&[&STREAM[..at], &STREAM[at..]]),
                expected,
                "split at {at}"
            );
        }
        assert_eq!(read(&STREAM.chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut events = EventStream::default();
        let line = format!("data: {}\n", "x".repeat(1_000_000));
        assert!(
            (0..9).any(|_| events.push(line.as_bytes()).is_err()),
            "it stays within its bounds"
        );
    }
}
