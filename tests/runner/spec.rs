//! Errors planted in spec, proposal and task documents.

use agentd::spec::{Fault, check_proposal, check_spec, check_tasks};
use libtest_mimic::Trial;

use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    let specs = trials_of("spec/spec", |case| check(case, check_spec));
    let tasks = trials_of("spec/tasks", |case| check(case, check_tasks));
    let proposals = trials_of("spec/proposal", |case| check(case, check_proposal));
    specs.into_iter().chain(tasks).chain(proposals).collect()
}

/// A case has one error per line, as `LINE WORDS`, or `ok`; a line of `=====`; and the document.
fn check(case: &str, faults_of: fn(&str) -> Vec<Fault>) {
    let (expected, document) = case.split_once("=====\n").unwrap();
    let expected: Vec<&str> = expected.lines().filter(|line| *line != "ok").collect();
    let found = faults_of(document);

    let agree = |(expected, fault): (&&str, &Fault)| {
        let (line, words) = expected.split_once(' ').unwrap();
        line.parse() == Ok(fault.line) && fault.message.contains(words)
    };
    let all = expected.len() == found.len() && expected.iter().zip(&found).all(agree);
    assert!(all, "expected {expected:#?}, found {found:#?}");
}
