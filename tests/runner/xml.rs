//! Prompts as XML: each case is a prompt as JSON, a line of `=====`, and the XML it must give.

use agentd::UnifiedPrompt;
use libtest_mimic::Trial;

use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("xml", check)
}

fn check(case: &str) {
    let (json, expected) = case.split_once("=====\n").unwrap();
    let prompt: UnifiedPrompt = serde_json::from_str(json).unwrap();

    assert_eq!(prompt.to_xml(), expected);
    assert_eq!(UnifiedPrompt::from_xml(expected).unwrap(), prompt);
}
