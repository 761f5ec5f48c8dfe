//! Replies: each case is a reply and the response it must be parsed into.
//!
//! `attack` holds attempts to forge a verdict or an effect; `shapes` the known malformed shapes by number.

use libtest_mimic::Trial;

use crate::support::reply_case::ReplyCase;
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("reply", check)
}

fn check(case: &str) {
    let faults = ReplyCase::read(case).faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
