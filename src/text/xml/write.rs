//! Writer of flat XML documents.
//!
//! Bodies with `<`, `&` or `]]>` go into CDATA, so that code stays readable; others stay plain. XML readers turn CR
//! into LF even inside CDATA, so the document never contains CR: a body whose line endings are all CRLF is written
//! with LF and `eol="crlf"`, and any other CR as `&#13;` outside CDATA.

use std::borrow::Cow;
use std::fmt::{self, Write};

use memchr::{memchr, memchr_iter, memchr3, memmem};

use crate::text::escape::escape_attribute;

const CDATA_OPEN: &str = "<![CDATA[";
const CDATA_CLOSE: &str = "]]>";
const CR_REFERENCE: &str = "&#13;";

/// Returns one element, followed by a newline.
#[must_use]
pub fn element_xml(name: &str, attribute: Option<(&str, &str)>, body: &str) -> String {
    let mut out = String::with_capacity(body.len() + 64);
    // Writing to a string cannot fail.
    let _infallible = write_element(&mut out, name, attribute, body);
    out
}

/// Writes one element, followed by a newline.
///
/// # Errors
///
/// Fails if the writer fails.
pub fn write_element(
    out: &mut impl Write,
    name: &str,
    attribute: Option<(&str, &str)>,
    body: &str,
) -> fmt::Result {
    write!(out, "<{name}")?;
    if let Some((key, value)) = attribute {
        write!(out, " {key}=\"{}\"", escape_attribute(value))?;
    }

    let has_cr = memchr(b'\r', body.as_bytes()).is_some();
    if has_cr && has_only_crlf(body.as_bytes()) {
        out.write_str(" eol=\"crlf\">")?;
        write_crlf_as_lf(out, body)?;
    } else if has_cr {
        out.write_str(">")?;
        write_with_cr_references(out, body)?;
    } else {
        out.write_str(">")?;
        write_body(out, body)?;
    }

    writeln!(out, "</{name}>")
}

/// Returns a body in CDATA, even if the body does not need it, with a reference for each CR. This is the longest form of
/// a body.
#[must_use]
pub fn cdata_xml(body: &str) -> String {
    let mut out = String::with_capacity(body.len() + 64);
    for (index, part) in body.split('\r').enumerate() {
        if index > 0 {
            out.push_str(CR_REFERENCE);
        }
        // Writing to a string cannot fail.
        let _infallible = write_cdata(&mut out, part);
    }
    out
}

/// Replaces every `@` of a document with a character reference, so that agents do not expand `@name`. XML readers see the
/// same text.
#[must_use]
pub fn escape_at_signs(xml: &str) -> Cow<'_, str> {
    if memchr(b'@', xml.as_bytes()).is_none() {
        return Cow::Borrowed(xml);
    }

    let bytes = xml.as_bytes();
    let mut out = String::with_capacity(xml.len() + 64);
    let mut copied = 0;
    let mut at = 0;
    let mut in_cdata = false;
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
        } else if in_cdata && xml[hit..].starts_with(CDATA_CLOSE) {
            in_cdata = false;
        } else if !in_cdata && xml[hit..].starts_with(CDATA_OPEN) {
            in_cdata = true;
            at = hit + CDATA_OPEN.len();
        }
    }
    out.push_str(&xml[copied..]);
    Cow::Owned(out)
}

fn has_only_crlf(body: &[u8]) -> bool {
    let pairs = memmem::find_iter(body, b"\r\n").count();
    pairs == memchr_iter(b'\r', body).count() && pairs == memchr_iter(b'\n', body).count()
}

/// Writes a body without CR.
fn write_body(out: &mut impl Write, body: &str) -> fmt::Result {
    if needs_cdata(body) {
        write_cdata(out, body)
    } else {
        out.write_str(body)
    }
}

/// Writes a body whose line endings are all CRLF, with LF instead.
fn write_crlf_as_lf(out: &mut impl Write, body: &str) -> fmt::Result {
    let in_cdata = needs_cdata(body);
    if in_cdata {
        out.write_str(CDATA_OPEN)?;
    }
    for (index, line) in body.split("\r\n").enumerate() {
        if index > 0 {
            out.write_str("\n")?;
        }
        if in_cdata {
            write_cdata_content(out, line)?;
        } else {
            out.write_str(line)?;
        }
    }
    if in_cdata {
        out.write_str(CDATA_CLOSE)?;
    }
    Ok(())
}

/// Writes a body with a reference for each CR. Either all of its parts are in CDATA or none.
fn write_with_cr_references(out: &mut impl Write, body: &str) -> fmt::Result {
    let in_cdata = needs_cdata(body);
    for (index, part) in body.split('\r').enumerate() {
        if index > 0 {
            out.write_str(CR_REFERENCE)?;
        }
        if in_cdata && !part.is_empty() {
            write_cdata(out, part)?;
        } else {
            out.write_str(part)?;
        }
    }
    Ok(())
}

/// Returns true if a body cannot be plain text: `<` and `&` are markup, and `]]>` is forbidden outside CDATA.
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
fn write_cdata(out: &mut impl Write, body: &str) -> fmt::Result {
    out.write_str(CDATA_OPEN)?;
    write_cdata_content(out, body)?;
    out.write_str(CDATA_CLOSE)
}

fn write_cdata_content(out: &mut impl Write, body: &str) -> fmt::Result {
    let mut copied = 0;
    for hit in memmem::find_iter(body.as_bytes(), CDATA_CLOSE) {
        out.write_str(&body[copied..hit + 2])?;
        out.write_str("]]><![CDATA[")?;
        copied = hit + 2;
    }
    out.write_str(&body[copied..])
}
