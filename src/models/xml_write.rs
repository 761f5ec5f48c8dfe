//! The XML of a unified prompt, written piece by piece.
//!
//! Bodies with `<`, `&` or `]]>` go into CDATA, so that code stays readable; others stay plain. XML readers turn CR
//! into LF even inside CDATA, so CR never stands in the document: a body whose line ends are all CRLF is written
//! with LF and `eol="crlf"`, any other CR is `&#13;` outside CDATA.

use std::borrow::Cow;
use std::io::{self, Write};

use memchr::{memchr, memchr_iter, memchr3, memmem};

use super::prompt::{Piece, UnifiedPrompt};

/// Writes one piece's share of the document.
pub(super) fn piece(prompt: &UnifiedPrompt, piece: Piece, out: &mut impl Write) -> io::Result<()> {
    let items = prompt.context();
    let system = prompt.system_prompt();
    match piece {
        Piece::System => {
            out.write_all(b"<prompt>\n")?;
            element(out, "system_prompt", None, system)
        }
        Piece::Item(index) => {
            if index == 0 && system.is_empty() {
                out.write_all(b"<prompt>\n")?;
            }
            if index == 0 {
                out.write_all(b"<context>\n")?;
            }
            let Some(item) = items.get(index) else {
                return Ok(());
            };
            let name = Some((item.kind().attribute(), item.name()));
            element(out, item.kind().element(), name, item.content())?;
            if index + 1 == items.len() {
                out.write_all(b"</context>\n")?;
            }
            Ok(())
        }
        Piece::Instructions => {
            if items.is_empty() && system.is_empty() {
                out.write_all(b"<prompt>\n")?;
            }
            element(out, "instructions", None, prompt.instructions())?;
            out.write_all(b"</prompt>\n")
        }
    }
}

/// Returns one element of the document.
pub(super) fn element_text(name: &str, attribute: Option<(&str, &str)>, body: &str) -> String {
    let mut bytes = Vec::with_capacity(body.len() + 64);
    // Writing to a vector has no way to fail.
    let _infallible = element(&mut bytes, name, attribute, body);
    into_text(bytes)
}

/// Returns a body in CDATA, whether it needs that or not, with a reference for each CR.
pub(super) fn cdata_text(body: &str) -> String {
    let mut bytes = Vec::with_capacity(body.len() + 64);
    let mut lines = body.split('\r');
    let mut line = lines.next();
    while let Some(current) = line {
        // Writing to a vector has no way to fail.
        let _infallible = cdata(&mut bytes, current);
        line = lines.next();
        if line.is_some() {
            bytes.extend_from_slice(b"&#13;");
        }
    }
    into_text(bytes)
}

/// Returns a document in which no `@` stands as itself: a reference is the same to every reader of XML.
pub(super) fn without_at_signs(xml: &str) -> Cow<'_, str> {
    const OPEN: &str = "<![CDATA[";
    if memchr(b'@', xml.as_bytes()).is_none() {
        return Cow::Borrowed(xml);
    }
    let bytes = xml.as_bytes();
    let mut out = String::with_capacity(xml.len() + 64);
    let (mut copied, mut at, mut in_cdata) = (0, 0, false);
    while let Some(hit) = memchr3(b'@', b'<', b']', &bytes[at..]).map(|hit| at + hit) {
        at = hit + 1;
        if bytes[hit] == b'@' {
            out.push_str(&xml[copied..hit]);
            out.push_str(if in_cdata {
                "]]>&#64;<![CDATA["
            } else {
                "&#64;"
            });
            copied = at;
        } else if in_cdata && bytes[hit..].starts_with(b"]]>") {
            in_cdata = false;
        } else if !in_cdata && xml[hit..].starts_with(OPEN) {
            in_cdata = true;
            at = hit + OPEN.len();
        }
    }
    out.push_str(&xml[copied..]);
    Cow::Owned(out)
}

/// Returns the document's size if nothing has to be escaped in it: enough, in most cases, to allocate once.
pub(super) fn likely_size(prompt: &UnifiedPrompt) -> usize {
    /// Tags, attribute and CDATA marks of one element.
    const FRAME: usize = 64;
    let items = prompt
        .context()
        .iter()
        .map(|item| item.name().len() + item.content().len() + FRAME);
    items.sum::<usize>() + prompt.system_prompt().len() + prompt.instructions().len() + 4 * FRAME
}

/// Turns what was written back into text.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    // Every slice that is written is cut at ASCII characters out of a `str`, so the fallback never runs.
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn element(
    out: &mut impl Write,
    name: &str,
    attribute: Option<(&str, &str)>,
    body: &str,
) -> io::Result<()> {
    write!(out, "<{name}")?;
    if let Some((key, value)) = attribute {
        write!(out, " {key}=\"")?;
        attribute_value(out, value)?;
        out.write_all(b"\"")?;
    }
    let has_cr = memchr(b'\r', body.as_bytes()).is_some();
    if has_cr && has_only_crlf(body.as_bytes()) {
        out.write_all(b" eol=\"crlf\">")?;
        text_with_lf(out, body)?;
    } else if has_cr {
        out.write_all(b">")?;
        text_with_cr(out, body)?;
    } else {
        out.write_all(b">")?;
        text(out, body)?;
    }
    writeln!(out, "</{name}>")
}

fn has_only_crlf(body: &[u8]) -> bool {
    let pairs = memmem::find_iter(body, b"\r\n").count();
    pairs == memchr_iter(b'\r', body).count() && pairs == memchr_iter(b'\n', body).count()
}

/// Writes a body that holds no CR.
fn text(out: &mut impl Write, body: &str) -> io::Result<()> {
    if needs_cdata(body) {
        cdata(out, body)
    } else {
        out.write_all(body.as_bytes())
    }
}

/// Writes a body whose line ends are all CRLF, with LF.
fn text_with_lf(out: &mut impl Write, body: &str) -> io::Result<()> {
    let in_cdata = needs_cdata(body);
    let mut lines = body.split("\r\n");
    out.write_all(if in_cdata { b"<![CDATA[" } else { b"" })?;
    let mut line = lines.next();
    while let Some(current) = line {
        if in_cdata {
            cdata_content(out, current)?
        } else {
            out.write_all(current.as_bytes())?
        }
        line = lines.next();
        if line.is_some() {
            out.write_all(b"\n")?;
        }
    }
    out.write_all(if in_cdata { b"]]>" } else { b"" })
}

/// Writes a body with a reference for each CR; the decision for CDATA is one for the whole body.
fn text_with_cr(out: &mut impl Write, body: &str) -> io::Result<()> {
    let in_cdata = needs_cdata(body);
    let mut lines = body.split('\r');
    let mut line = lines.next();
    while let Some(current) = line {
        if in_cdata && !current.is_empty() {
            cdata(out, current)?;
        } else {
            out.write_all(current.as_bytes())?;
        }
        line = lines.next();
        if line.is_some() {
            out.write_all(b"&#13;")?;
        }
    }
    Ok(())
}

/// Tells whether a body cannot stand as plain text: `<` and `&` are markup, `]]>` is forbidden outside CDATA.
fn needs_cdata(body: &str) -> bool {
    let mut rest = body.as_bytes();
    while let Some(hit) = memchr3(b'<', b'&', b'>', rest) {
        if rest[hit] != b'>' || rest[..hit].ends_with(b"]]") {
            return true;
        }
        rest = &rest[hit + 1..];
    }
    false
}

/// Writes a CDATA section, closed and reopened inside each `]]>`.
fn cdata(out: &mut impl Write, body: &str) -> io::Result<()> {
    out.write_all(b"<![CDATA[")?;
    cdata_content(out, body)?;
    out.write_all(b"]]>")
}

fn cdata_content(out: &mut impl Write, body: &str) -> io::Result<()> {
    let bytes = body.as_bytes();
    let mut written = 0;
    for hit in memmem::find_iter(bytes, b"]]>") {
        out.write_all(&bytes[written..hit + 2])?;
        out.write_all(b"]]><![CDATA[")?;
        written = hit + 2;
    }
    out.write_all(&bytes[written..])
}

/// Writes an attribute's value: markup and white space other than blanks as references.
fn attribute_value(out: &mut impl Write, value: &str) -> io::Result<()> {
    let mut written = 0;
    for (index, byte) in value.bytes().enumerate() {
        let reference = match byte {
            b'<' => "&lt;",
            b'&' => "&amp;",
            b'"' => "&quot;",
            b'\t' => "&#9;",
            b'\n' => "&#10;",
            b'\r' => "&#13;",
            _ => continue,
        };
        out.write_all(&value.as_bytes()[written..index])?;
        out.write_all(reference.as_bytes())?;
        written = index + 1;
    }
    out.write_all(&value.as_bytes()[written..])
}
