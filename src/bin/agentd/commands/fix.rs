//! `agentd fix`: one prompt, one edit, checks, one review, one commit.

use agentd::models::Mode;
use agentd::models::SessionId;
use agentd::orchestrator::Ask;

use super::ask::{from_here, text};
use super::lead::Leader;
use super::review::LIGHT;
use crate::args::{Args, FixArgs};
use crate::out::Outcome;

/// The longest name that is made from a request.
const LONGEST: usize = 40;

pub(super) fn run(args: &Args, given: &FixArgs) -> Outcome {
    let request = text(&given.request)?;
    let name = given.name.clone().unwrap_or_else(|| name_of(&request));
    let session = SessionId::new(name)?;
    let files = given.files.iter().map(|path| from_here(args, path)).collect::<agentd::Result<_>>()?;
    let mut leader = Leader::open(args, "agentd fix", &session, Some(LIGHT), &given.lead)?;
    leader.ask = Some(Ask { files, ..Ask::new(Mode::new("fix")?, "") });
    leader.go(Some(request), None)
}

/// Makes a name of a request: `fix-typo-in-readme`.
fn name_of(request: &str) -> String {
    let letters =
        request.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
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
        assert_eq!(name_of("Typo in README: \"recieve\"!"), "fix-typo-in-readme-recieve");
        assert_eq!(name_of("…"), "fix");
        assert!(name_of(&"word ".repeat(40)).len() <= 40);
    }
}
