//! Nonce of a turn. Verdicts in the reply must carry the nonce, so that a verdict in a file or of an older turn is
//! ignored.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{Error, ErrorKind, Result};

/// Length of a nonce created by [`Nonce::from_number`].
const GENERATED_NONCE_CHARS: usize = 8;

/// Random value of a turn, such as `k3f9x2ab`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nonce(String);

impl Nonce {
    /// Validates a nonce: 4 to 32 lower-case letters and digits.
    ///
    /// # Errors
    ///
    /// `NameInvalid` for any other text.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let is_plain = text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if is_plain && (4..=32).contains(&text.len()) {
            return Ok(Self(text));
        }
        Err(
            Error::new(ErrorKind::NameInvalid, format!("invalid nonce {text:?}"))
                .with_hint("use 4 to 32 lower-case letters and digits, such as `k3f9x2ab`"),
        )
    }

    /// Encodes the remainder of a number modulo 36⁸ as eight base-36 digits, the lowest digit first. A random number
    /// gives a nonce with about 41 bits of entropy.
    #[must_use]
    pub fn from_number(mut number: u128) -> Self {
        let digits = std::iter::repeat_with(|| {
            let digit = u32::try_from(number % 36)
                .ok()
                .and_then(|digit| char::from_digit(digit, 36));
            number /= 36;
            digit
        });
        Self(digits.take(GENERATED_NONCE_CHARS).flatten().collect())
    }

    /// Returns the nonce of prompts that are only displayed and not sent to an agent.
    #[must_use]
    pub fn preview() -> Self {
        Self("preview".to_owned())
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Setting for nonces. In prompts and verdicts, the nonce is the attribute `run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoncePolicy {
    /// Prompts have no nonce, so a verdict that the agent copies from a file cannot be recognized.
    Off,
    /// Prompts have a nonce, and a verdict without it is ignored.
    #[default]
    On,
}

impl NoncePolicy {
    /// All policies.
    pub const ALL: [Self; 2] = [Self::Off, Self::On];

    /// Returns the value in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

impl FromStr for NoncePolicy {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == text)
            .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_plain_texts_are_nonces() {
        for text in ["k3f9x2ab", "0000", "preview", &"a".repeat(32)] {
            assert_eq!(Nonce::new(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "abc",
            "K3F9X2AB",
            "k3f9-x2a",
            "k3f9\"",
            "кккк",
            "k3 9x",
            &"a".repeat(33),
        ] {
            assert_eq!(
                Nonce::new(text).unwrap_err().kind(),
                ErrorKind::NameInvalid,
                "{text}"
            );
        }
        assert_eq!(Nonce::new("preview").unwrap(), Nonce::preview());
    }

    #[test]
    fn a_number_gives_eight_characters_the_lowest_digit_first() {
        for (number, text) in [
            (0, "00000000"),
            (35, "z0000000"),
            (36, "01000000"),
            (36_u128.pow(8), "00000000"),
        ] {
            assert_eq!(
                Nonce::from_number(number),
                Nonce::new(text).unwrap(),
                "{number}"
            );
        }
    }

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        for policy in NoncePolicy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.name());
        }
        assert_eq!("Off".parse::<NoncePolicy>(), Err(()));
    }
}
