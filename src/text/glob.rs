//! Patterns for names and relative paths. `*` matches any text without `/`.

/// Returns true if a path matches a pattern; `*` does not match `/`.
///
/// ```
/// use agentd::text::glob::matches_path;
///
/// assert!(matches_path("specs/*.md", "specs/login.md"));
/// assert!(!matches_path("specs/*.md", "specs/old/login.md"));
/// ```
#[must_use]
pub fn matches_path(pattern: &str, path: &str) -> bool {
    let is_equally_deep = pattern.matches('/').count() == path.matches('/').count();
    is_equally_deep
        && pattern
            .split('/')
            .zip(path.split('/'))
            .all(|(pattern, name)| matches_name(pattern, name))
}

/// Returns true if a name matches a pattern with any number of `*`.
#[must_use]
pub fn matches_name(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = name.strip_prefix(start) else {
        return false;
    };

    // The leftmost match of each part leaves the most for the parts after it.
    for part in middle.split('*') {
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text_of_a_name() {
        let cases = [
            ("login.md", "login.md", true),
            ("login.md", "login.md2", false),
            ("*.md", "login.md", true),
            ("*.md", ".md", true),
            ("log*", "login.md", true),
            ("*og*", "login.md", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "x", true),
            ("", "x", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_star_does_not_cross_folders() {
        let cases = [
            ("specs/*.md", "specs/login.md", true),
            ("specs/*.md", "specs/a/login.md", false),
            ("*/*.md", "specs/login.md", true),
            ("*.md", "specs/login.md", false),
            ("specs/*", "specs", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches_path(pattern, path), expected, "{pattern} {path}");
        }
    }
}
