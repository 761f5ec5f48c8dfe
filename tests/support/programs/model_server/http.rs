//! HTTP/1.1, as far as model clients need it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::Outcome;

/// Maximum number of bytes of a body.
const MAX_BODY_BYTES: u64 = 256 << 20;

/// Maximum number of bytes of a header line.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// A complete request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) path: String,
    /// By name, in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        // A piece of a stream must not wait for the next one.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Reads a request; `None` when the client has closed the connection.
    pub(crate) fn read(&mut self) -> Outcome<Option<Request>> {
        let first = self.line()?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut words = first.split(' ');
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Err(format!("{first:?} is no request").into());
        };
        let headers = self.headers()?;
        if headers
            .get("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        {
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }

        let body = self.body(&headers)?;
        Ok(Some(Request {
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body,
        }))
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        Ok(String::from_utf8(line)?
            .trim_end_matches(['\r', '\n'])
            .to_owned())
    }

    fn headers(&mut self) -> Outcome<BTreeMap<String, String>> {
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok(headers);
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }

    fn body(&mut self, headers: &BTreeMap<String, String>) -> Outcome<Vec<u8>> {
        if !headers
            .get("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            let length = headers
                .get("content-length")
                .map_or(Ok(0), |value| value.parse())?;
            let mut body = Vec::new();
            self.read_more(length, &mut body)?;
            return Ok(body);
        }

        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16)?;
            if size == 0 {
                self.headers()?;
                return Ok(body);
            }
            self.read_more(size, &mut body)?;
            self.line()?;
        }
    }

    fn read_more(&mut self, size: u64, body: &mut Vec<u8>) -> Outcome<()> {
        if size > MAX_BODY_BYTES || body.len() as u64 + size > MAX_BODY_BYTES {
            return Err("the body is too large".into());
        }
        if (&mut self.stream).take(size).read_to_end(body)? as u64 != size {
            return Err("the body is cut".into());
        }
        Ok(())
    }

    /// Waits until the client has closed the connection.
    pub(crate) fn wait_for_the_end(&mut self) {
        let _gone = io::copy(&mut self.stream, &mut io::sink());
    }

    /// Sends the head of a response. Without a length, chunks follow.
    pub(crate) fn start(
        &mut self,
        status: u16,
        kind: &str,
        length: Option<usize>,
        more: &BTreeMap<String, String>,
    ) -> io::Result<()> {
        let framing = length.map_or("transfer-encoding: chunked".to_owned(), |length| {
            format!("content-length: {length}")
        });
        let more: String = more
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!(
            "HTTP/1.1 {status} {}\r\ncontent-type: {kind}\r\n{framing}\r\n{more}\r\n",
            reason(status)
        );
        self.send(head.as_bytes())
    }

    /// Sends a chunk of a response without a length.
    pub(crate) fn piece(&mut self, text: &str) -> io::Result<()> {
        self.send(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    }

    /// Sends the end of a response without a length.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.send(b"0\r\n\r\n")
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }
}

/// Some clients print the reason phrase.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
