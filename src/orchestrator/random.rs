//! Random values from the operating system: nonces of turns, and names of runs, sessions and ledgers.

use crate::error::{Error, ErrorKind, Result};
use crate::models::Nonce;

/// Returns a random nonce.
///
/// # Errors
///
/// `NoRandomness` if the operating system returns no random bytes. There is no fallback to a weaker source: with a
/// nonce that can be guessed, text in a file could pass for the verdict of a turn.
#[expect(
    clippy::disallowed_methods,
    reason = "random bytes are read here and passed on as values"
)]
pub(crate) fn nonce() -> Result<Nonce> {
    let mut bytes = [0; 16];
    getrandom::getrandom(&mut bytes).map_err(|error| {
        Error::new(
            ErrorKind::NoRandomness,
            format!("cannot get random bytes from the operating system: {error}"),
        )
    })?;

    Ok(Nonce::from_number(u128::from_le_bytes(bytes)))
}

/// Returns a random name of eight characters.
///
/// # Errors
///
/// Those of [`nonce`].
pub(crate) fn random_name() -> Result<String> {
    Ok(nonce()?.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_and_use_every_position() {
        let names: BTreeSet<String> = (0..200).map(|_| random_name().unwrap()).collect();
        assert_eq!(names.len(), 200);

        for position in 0..8 {
            let characters: BTreeSet<u8> =
                names.iter().map(|name| name.as_bytes()[position]).collect();
            assert!(characters.len() > 20, "position {position}: {characters:?}");
        }
    }
}
