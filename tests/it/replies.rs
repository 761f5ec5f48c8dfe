//! Replies and what must be made of them: a file per case.

use agentd::parse::{self, Grammar};
use agentd::{ErrorKind, ReviewResult};

use crate::support::cases;

/// A case is lines of `key: value`, a line of `=====`, and the reply. Keys: `verdict` (a value, `missing` or
/// `not allowed`), `message`, `updates`, `tasks`, `thoughts`, `proposals`, `problems` (counts or names).
#[test]
fn each_case_is_read_as_it_says() {
    for (name, case) in cases("reply") {
        let (expected, reply) = case.split_once("=====\n").unwrap();
        let grammar = Grammar {
            verdicts: vec![ReviewResult::Pass, ReviewResult::NeedsRevision, ReviewResult::Rejected],
            verdict_required: true,
            task_status: true,
        };
        let response = parse::parse(reply, &grammar);
        for line in expected.lines() {
            let (key, value) = line.split_once(": ").unwrap();
            let names = |names: Vec<String>| names.join(", ");
            let found = match key {
                "verdict" => match parse::verdict(&response, &grammar) {
                    Ok(verdict) => verdict.map_or("none", ReviewResult::name).to_owned(),
                    Err(error) if error.kind() == ErrorKind::MissingReviewMarker => "missing".to_owned(),
                    Err(error) if error.kind() == ErrorKind::VerdictNotAllowed => "not allowed".to_owned(),
                    Err(error) => panic!("{error:?}"),
                },
                "message" => response.message.replace('\n', "⏎"),
                "updates" => {
                    names(response.updates.iter().map(|u| format!("{}={:?}", u.target, u.content)).collect())
                }
                "markers" => serde_json::to_string(&response.markers).unwrap(),
                "thoughts" => names(response.thoughts.clone()),
                "proposals" => {
                    names(response.proposals.iter().map(|p| format!("{} ({})", p.what, p.reason)).collect())
                }
                "problems" => names(response.problems.iter().map(|p| p.code.to_owned()).collect()),
                other => panic!("{name}: unknown key {other}"),
            };
            assert_eq!(found, value, "{name}: {key}");
        }
    }
}

/// Reading is linear and never panics: each of these is large enough to hang a quadratic reader.
#[test]
fn hostile_replies_are_read_to_the_end() {
    let grammar = Grammar::any_review();
    let shapes = [
        "<",
        "<review>",
        "<content_update target=\"a\">",
        "<thought>",
        "```\n",
        "`a ``b ",
        "> <review",
        "<!--",
    ];
    for shape in shapes {
        let reply = shape.repeat(200_000 / shape.len());
        assert_eq!(
            parse::verdict(&parse::parse(&reply, &grammar), &grammar).unwrap_err().kind(),
            ErrorKind::MissingReviewMarker
        );
    }
}
