//! Patterns for relative paths, as packs write them, and what cannot be seen in texts.

/// Tells characters that cannot be seen.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}')
}

/// Tells whether a path matches a pattern in which `*` stands for any name, but not for `/`.
#[must_use]
pub fn matches_pattern(pattern: &str, path: &str) -> bool {
    let (patterns, names) = (pattern.split('/'), path.split('/'));
    pattern.matches('/').count() == path.matches('/').count()
        && patterns.zip(names).all(|(pattern, name)| match pattern.split_once('*') {
            None => pattern == name,
            Some((before, after)) => {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            }
        })
}
