//! Detection of secret variables by their name, and of passwords in URLs.

use super::NamePattern;

/// Rules for the names of secret variables, in the format of `data/secret_names.txt`.
#[derive(Clone, Debug, Default)]
pub struct SecretNames {
    words: Vec<String>,
    endings: Vec<String>,
    patterns: Vec<NamePattern>,
    exceptions: Vec<NamePattern>,
}

impl SecretNames {
    /// Parses rules, one per line; other lines are ignored.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut names = Self::default();
        for line in text.lines() {
            match line.trim().split_once(' ') {
                Some(("word", word)) => names.words.push(word.to_ascii_uppercase()),
                Some(("ending", ending)) => names.endings.push(ending.to_ascii_uppercase()),
                Some(("name", pattern)) => names.patterns.push(NamePattern::new(pattern)),
                Some(("not", pattern)) => names.exceptions.push(NamePattern::new(pattern)),
                _ => {}
            }
        }
        names
    }

    /// Returns true if a variable of this name is secret.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        let has_match =
            |patterns: &[NamePattern]| patterns.iter().any(|pattern| pattern.matches(name));
        if has_match(&self.exceptions) {
            return false;
        }

        let is_secret_word = |word: &String| {
            self.words.contains(word)
                || self
                    .endings
                    .iter()
                    .any(|ending| word.ends_with(ending.as_str()))
        };
        has_match(&self.patterns) || split_words(name).iter().any(is_secret_word)
    }
}

/// Returns the words of a name in upper case: `npm_authToken` has `NPM`, `AUTH` and `TOKEN`.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lowercase = false;
    for c in name.chars() {
        let is_boundary = !c.is_ascii_alphanumeric() || (was_lowercase && c.is_ascii_uppercase());
        if is_boundary {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_uppercase());
        }
        was_lowercase = c.is_ascii_lowercase();
    }

    words.retain(|word| !word.is_empty());
    words
}

/// Minimum length in bytes at which the user name in a URL without a password is taken for a token, as in
/// `https://TOKEN@host`.
const MIN_TOKEN_BYTES: usize = 16;

/// Returns the password, or the token, in a URL such as `redis://user:password@host/0`; `None` if there is none.
#[must_use]
pub(super) fn password_in_url(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | ':');
    if scheme.is_empty() || !scheme.chars().all(is_scheme) {
        return None;
    }

    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A password may contain `@`, or a `/` that is not encoded.
    let (user_info, _) = authority
        .rsplit_once('@')
        .or_else(|| rest.rsplit_once('@'))?;
    match user_info.split_once(':') {
        Some((_, password)) => Some(password).filter(|password| !password.is_empty()),
        None => Some(user_info).filter(|token| token.len() >= MIN_TOKEN_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(split_words("MY_API_KEY"), ["MY", "API", "KEY"]);
        assert_eq!(
            split_words("npm_config__authToken"),
            ["NPM", "CONFIG", "AUTH", "TOKEN"]
        );
        assert_eq!(
            split_words("spring.datasource-password"),
            ["SPRING", "DATASOURCE", "PASSWORD"]
        );
        assert_eq!(split_words("MONKEY"), ["MONKEY"]);
        assert_eq!(split_words("__"), [""; 0]);
    }

    #[test]
    fn a_password_in_a_url_is_found() {
        for (value, password) in [
            (
                "redis://:hunter2hunter2@cache:6379/0",
                Some("hunter2hunter2"),
            ),
            ("postgres://me:p@ss:word@db/x?sslmode=on", Some("p@ss:word")),
            ("postgres://me:with/slash@db/x", Some("with/slash")),
            ("jdbc:postgresql://me:word@db/x", Some("word")),
            (
                "https://github_pat_0123456789@example.com/x",
                Some("github_pat_0123456789"),
            ),
            ("ssh://git@example.com/x", None),
            ("https://example.com/a:b", None),
            ("http://localhost:8080", None),
            ("mail me@example.com: x", None),
            ("/usr/bin:/bin", None),
        ] {
            assert_eq!(password_in_url(value), password, "{value}");
        }
    }
}
