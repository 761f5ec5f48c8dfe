//! Text for the terminal: each payload of a file is one test.

use std::borrow::Cow;

use agentd::models::{Screen, screen};
use libtest_mimic::Trial;
use serde::Deserialize;

use crate::support::{case_names, read_case};

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
        assert_eq!(screen(given), *shown);

        let mut by_characters = Screen::default();
        let pushed: String = given
            .chars()
            .map(|c| by_characters.push(c.encode_utf8(&mut [0; 4])).into_owned())
            .collect();
        assert_eq!(pushed, *shown, "one character at a time");

        assert!(
            given != shown || matches!(screen(given), Cow::Borrowed(_)),
            "unchanged text is not copied"
        );
    }
}
