//! Reads the end of a command's output, for callers that do not need all of it.

use std::io::{self, Read};
use std::path::Path;

use super::contain;
use super::text::{Utf8Decoder, trim_to_end};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secrets;
use crate::text::terminal::TerminalFilter;

/// Size of the read buffer.
const CHUNK_BYTES: usize = 64 * 1024;

/// Returns the last `max_bytes` of a call's stdout, and the number of bytes before them. Secrets are redacted, and
/// terminal control sequences are removed.
///
/// # Errors
///
/// `FileUnusable` if stdout cannot be read.
pub fn stdout_end(folder: &Path, secrets: &Secrets, max_bytes: usize) -> Result<(String, u64)> {
    let path = folder.join("stdout");
    match read_end(&path, secrets, max_bytes) {
        // A command that could not be started has no stdout.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok((String::new(), 0)),
        result => result.map_err(|cause| {
            let message = format!("cannot read the command's output {}", path.display());
            Error::new(ErrorKind::FileUnusable, message).with_source(cause)
        }),
    }
}

/// Reads the whole file, because a secret that crosses the start of the returned part would not be recognized.
fn read_end(path: &Path, secrets: &Secrets, max_bytes: usize) -> io::Result<(String, u64)> {
    let mut file = contain::open(path)?;
    let mut decoder = Utf8Decoder::default();
    let mut terminal = TerminalFilter::default();
    let mut redactor = secrets.stream();

    let mut kept = String::new();
    let mut omitted = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        // Control sequences are removed first: they could be in the middle of a secret.
        let decoded = decoder.push(&chunk[..count]);
        let text = terminal.push(&decoded);
        kept.push_str(&redactor.push(&text));
        if kept.len() > 4 * max_bytes {
            omitted += trim_to_end(&mut kept, max_bytes) as u64;
        }
    }

    kept.push_str(&redactor.push(&terminal.push(decoder.finish())));
    kept.push_str(&redactor.finish());
    omitted += trim_to_end(&mut kept, max_bytes) as u64;
    Ok((kept, omitted))
}
