//! The door to chance, which is handed on as a value.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use crate::models::Nonce;

/// Returns a nonce that cannot be foreseen: std seeds its hash states from the system's randomness.
#[expect(
    clippy::disallowed_methods,
    reason = "chance comes in here and is handed on as a value"
)]
pub(crate) fn nonce() -> Nonce {
    let random = || u128::from(RandomState::new().build_hasher().finish());
    Nonce::from_number((random() << 64) | random())
}

/// Returns a word that nothing else goes by.
pub(crate) fn word() -> String {
    nonce().as_str().to_owned()
}
