//! The end of what a command wrote, where the whole of it does not matter.

use std::io::{self, Read};
use std::path::Path;

use super::contain;
use super::text::{Utf8, trim_to_end};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secrets;
use crate::text::terminal::TerminalFilter;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// Returns the end of what the command of a call has written to stdout, so many bytes at most, and how many bytes stand
/// before it. Secrets are taken out, and what drives terminals.
///
/// # Errors
///
/// `FileUnusable` if it cannot be read.
pub fn stdout_end(folder: &Path, secrets: &Secrets, most: usize) -> Result<(String, u64)> {
    let path = folder.join("stdout");
    match read(&path, secrets, most) {
        // A command that is not there writes nothing.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok((String::new(), 0)),
        read => read.map_err(|cause| {
            let message = format!("what the command wrote, {}, cannot be read", path.display());
            Error::new(ErrorKind::FileUnusable, message).with_source(cause)
        }),
    }
}

/// All of it is read, as a secret that is cut in two could not be told any more.
fn read(path: &Path, secrets: &Secrets, most: usize) -> io::Result<(String, u64)> {
    let mut file = contain::open(path)?;
    let (mut utf8, mut screen, mut redactor) =
        (Utf8::default(), TerminalFilter::default(), secrets.stream());
    let (mut kept, mut left_out) = (String::new(), 0);
    let mut bytes = vec![0; CHUNK];
    loop {
        let count = match file.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        // What drives a terminal goes first: it could stand in the middle of a secret.
        kept.push_str(&redactor.push(&screen.push(&utf8.push(&bytes[..count]))));
        if kept.len() > 4 * most {
            left_out += trim_to_end(&mut kept, most) as u64;
        }
    }
    kept.push_str(&redactor.push(&screen.push(utf8.finish())));
    kept.push_str(&redactor.finish());
    left_out += trim_to_end(&mut kept, most) as u64;
    Ok((kept, left_out))
}
