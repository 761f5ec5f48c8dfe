//! `agentd fix`: one prompt, one edit, checks, one review, one commit.

use agentd::models::SessionId;

use super::input::{from_here, text};
use super::review::LIGHT;
use super::run::ChangeRunner;
use crate::args::{Args, FixArgs};
use crate::project;
use crate::terminal::Outcome;

/// The longest name that is made from a request.
const LONGEST: usize = 40;

pub(super) fn run(args: &Args, given: &FixArgs) -> Outcome {
    let request = text(&given.request)?;
    let session = match &given.name {
        Some(name) => SessionId::new(name.as_str())?,
        None => free_name(args, &name_of(&request))?,
    };
    let files = given
        .files
        .iter()
        .map(|path| from_here(args, path))
        .collect::<agentd::Result<_>>()?;
    let mut runner = ChangeRunner::open(args, "agentd fix", &session, Some(LIGHT), &given.options)?;
    runner.request.files = files;
    runner.request.request = Some(request);
    runner.run()
}

/// Returns a name that no session has yet: the one that is wanted, or that with a number.
fn free_name(args: &Args, wanted: &str) -> agentd::Result<SessionId> {
    let mut session = SessionId::new(wanted)?;
    let mut number = 1;
    while project::pack_of(args, &session)?.is_some() {
        number += 1;
        session = SessionId::new(format!("{wanted}-{number}"))?;
    }
    Ok(session)
}

/// Makes a name of a request: `fix-typo-in-readme`.
fn name_of(request: &str) -> String {
    let letters = request.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            ' '
        }
    });
    let letters: String = letters.collect();
    let mut name = "fix".to_owned();
    for word in letters.split_whitespace() {
        if name.len() + word.len() >= LONGEST {
            break;
        }
        name.push('-');
        name.push_str(word);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_request_makes_a_name() {
        assert_eq!(
            name_of("Typo in README: \"recieve\"!"),
            "fix-typo-in-readme-recieve"
        );
        assert_eq!(name_of("…"), "fix");
        assert!(name_of(&"word ".repeat(40)).len() <= 40);
    }
}
