//! Rate of misread replies among those written to mislead. Each is a case under
//! `tests/cases/reply/redteam`, with the verdict that a careful person reads in it (`reader`) and
//! the one that counts (`verdict`).

use crate::support::reply_case::ReplyCase;
use crate::support::{case_names, read_case};

/// Replies that a person would not call an approval, but that are parsed as one:
///
/// - `contradiction_nearby_08`: the finding is parsed, and raises the result to NEEDS_CHANGES
///   through the evidence of the pack.
/// - `contradiction_nearby_09`: only prose contradicts the last line.
const READ_AS_PASS: [&str; 2] = [
    "reply/redteam/contradiction_nearby_08.txt",
    "reply/redteam/contradiction_nearby_09.txt",
];

/// Returns the names of the cases with the verdict of the person and the one that counts.
fn readings() -> Vec<(String, String, String)> {
    let cases = case_names("reply/redteam").into_iter();
    cases
        .map(|name| {
            let case = ReplyCase::read(&read_case(&name));
            let verdict = case
                .expected
                .iter()
                .find(|(key, _)| key == "verdict")
                .unwrap()
                .1
                .clone();
            (name, case.known("reader").unwrap().to_owned(), verdict)
        })
        .collect()
}

#[test]
fn at_most_three_percent_of_forged_replies_parse_as_pass() {
    let readings = readings();
    let forged: Vec<_> = readings
        .iter()
        .filter(|(_, reader, _)| reader == "missing")
        .collect();
    let passed: Vec<&str> = forged
        .iter()
        .filter(|(_, _, verdict)| verdict == "PASS")
        .map(|(name, ..)| name.as_str())
        .collect();
    assert_eq!(forged.len(), 155);
    assert_eq!(passed, READ_AS_PASS);
    assert!(passed.len() * 100 <= forged.len() * 3);
}

#[test]
fn at_most_55_percent_of_odd_approvals_need_a_second_call() {
    let readings = readings();
    let approvals: Vec<_> = readings
        .iter()
        .filter(|(_, reader, _)| reader == "PASS")
        .collect();
    let lost = approvals
        .iter()
        .filter(|(_, _, verdict)| verdict == "missing")
        .count();
    let misread = approvals
        .iter()
        .filter(|(_, _, verdict)| verdict != "missing" && verdict != "PASS")
        .count();
    assert_eq!((approvals.len(), lost, misread), (60, 29, 0));
    assert!(lost * 100 <= approvals.len() * 55);
}
