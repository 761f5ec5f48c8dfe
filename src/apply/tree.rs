//! Checks paths of the working tree that a reply wants to edit.

use crate::models::paths;
use crate::pack::DEFINITIONS;

/// Maximum length of a path in bytes.
const MAX_PATH_BYTES: usize = 1_000;

/// Characters allowed in names in addition to letters and digits of any script. No file system gives
/// them a special meaning.
const ALLOWED_MARKS: &str = " !#$%&'()+,-.;=@[]^_{}~";

/// Folders of git and of this program, refused at any depth. `git~1` is the short name of `.git` on Windows.
const FOREIGN_FOLDERS: [&str; 3] = [".git", "git~1", paths::LOCAL_FOLDER];

/// Returns the reason why a reply may not edit a path; `None` if it may.
pub(super) fn find_path_fault(path: &str) -> Option<String> {
    if path.len() > MAX_PATH_BYTES {
        return Some(format!("the target is longer than {MAX_PATH_BYTES} bytes"));
    }
    if !path.split('/').all(is_portable_name) {
        return Some("the target is not a plain path inside the project".to_owned());
    }

    // Case-insensitive file systems fold case in different ways. Converting to upper and then to lower case also covers
    // characters such as `ſ`.
    let folded = path.to_uppercase().to_lowercase();
    if let Some(name) = folded
        .split('/')
        .find(|name| FOREIGN_FOLDERS.contains(name))
    {
        return Some(format!("`{name}` is not part of the working tree"));
    }

    let is_below = |place: &&str| {
        folded
            .strip_prefix(*place)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // A turn writes to its own change through the `updates` of its mode.
    if is_below(&paths::CHANGES_FOLDER) {
        return Some("folders of changes cannot be edited".to_owned());
    }

    let definition = DEFINITIONS.iter().find(|place| is_below(place))?;
    Some(format!(
        "`{definition}` defines prompts and permissions of agents; replies cannot edit it"
    ))
}

/// Returns true for a name that is valid and means the same on every system.
fn is_portable_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || ALLOWED_MARKS.contains(c);
    name.chars().all(is_allowed)
        && !matches!(name, "" | "." | "..")
        && !name.starts_with(' ')
        && !name.ends_with([' ', '.'])
}
