//! Text for the terminal: each payload of a file is one test.

use std::borrow::Cow;

use libtest_mimic::Trial;
use serde::Deserialize;

use crate::support::{case_names, read_case};
use agentd::text::terminal::{TerminalFilter, filter_terminal_text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    case: String,
    given: String,
    shown: String,
}

pub(crate) fn trials() -> Vec<Trial> {
    case_names("screen")
        .iter()
        .flat_map(|file| payload_trials(file))
        .collect()
}

fn payload_trials(file: &str) -> Vec<Trial> {
    let payloads: Vec<Payload> = serde_json::from_str(&read_case(file)).unwrap();
    let trial = |payload: Payload| {
        let name = format!("{file}/{}", payload.case.replace(' ', "_"));
        Trial::test(name, move || {
            payload.check();
            Ok(())
        })
    };
    payloads.into_iter().map(trial).collect()
}

impl Payload {
    fn check(&self) {
        let Self { given, shown, .. } = self;
        assert_eq!(filter_terminal_text(given), *shown);

        let mut by_characters = TerminalFilter::default();
        let pushed: String = given
            .chars()
            .map(|c| by_characters.push(c.encode_utf8(&mut [0; 4])).into_owned())
            .collect();
        assert_eq!(pushed, *shown, "one character at a time");

        assert!(
            given != shown || matches!(filter_terminal_text(given), Cow::Borrowed(_)),
            "unchanged text is not copied"
        );
    }
}
