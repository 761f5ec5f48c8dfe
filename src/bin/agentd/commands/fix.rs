//! `agentd fix`: one prompt, one edit, checks, one review, one commit.

use agentd::models::SessionId;

use super::input::{read_argument, resolve_path};
use super::review::LIGHT;
use super::run::ChangeRunner;
use crate::args::{Args, FixArgs};
use crate::project;
use crate::terminal::CommandResult;

/// Maximum length in bytes of a name that is derived from a request.
const MAX_NAME_BYTES: usize = 40;

pub(super) fn run(args: &Args, given: &FixArgs) -> CommandResult {
    let request = read_argument(&given.request)?;
    let session = match &given.name {
        Some(name) => SessionId::new(name.as_str())?,
        None => find_free_name(args, &derive_name(&request))?,
    };
    let files = given
        .files
        .iter()
        .map(|path| resolve_path(args, path))
        .collect::<agentd::Result<_>>()?;

    let mut runner = ChangeRunner::open(args, "agentd fix", &session, Some(LIGHT), &given.options)?;
    runner.request.files = files;
    runner.request.request = Some(request);
    runner.run()
}

/// Returns a name that no session has yet: `wanted`, with a number appended if it is taken.
fn find_free_name(args: &Args, wanted: &str) -> agentd::Result<SessionId> {
    let mut session = SessionId::new(wanted)?;
    let mut number = 1;
    while project::find_pack(args, &session)?.is_some() {
        number += 1;
        session = SessionId::new(format!("{wanted}-{number}"))?;
    }
    Ok(session)
}

/// Derives a name from a request, such as `fix-typo-in-readme`.
fn derive_name(request: &str) -> String {
    let words = request.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            ' '
        }
    });
    let words: String = words.collect();

    let mut name = "fix".to_owned();
    for word in words.split_whitespace() {
        if name.len() + word.len() >= MAX_NAME_BYTES {
            break;
        }
        name.push('-');
        name.push_str(word);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::derive_name;

    #[test]
    fn name_is_derived_from_request() {
        assert_eq!(
            derive_name("Typo in README: \"recieve\"!"),
            "fix-typo-in-readme-recieve"
        );
        assert_eq!(derive_name("…"), "fix");
        assert!(derive_name(&"word ".repeat(40)).len() <= 40);
    }
}
