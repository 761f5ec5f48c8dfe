//! Replies and what must be made of them: a file per case.

use agentd::parse::{self, Grammar};
use agentd::{ErrorKind, ReviewResult};

use crate::support::cases;

/// A case is lines of `key: value`, a line of `=====`, and the reply. Keys: `verdict` (a value, `missing` or
/// `not allowed`), `message`, `updates`, `tasks`, `thoughts`, `proposals`, `problems` (counts or names).
#[test]
fn each_case_is_read_as_it_says() {
    let mut wrong = Vec::new();
    for (name, case) in cases("reply") {
        let (expected, reply) = case.split_once("=====\n").unwrap();
        let grammar = Grammar {
            verdicts: vec![ReviewResult::Pass, ReviewResult::NeedsRevision, ReviewResult::Rejected],
            verdict_required: true,
            task_status: true,
            ..Grammar::any_review()
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
            if found != value {
                wrong.push(format!("{name}: {key} is {found:?}, not {value:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each of these is large enough that a reader which is not linear would not come back.
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
        "- `a` b\n",
        "> <review",
        "<!--",
        "</content_update>",
        "</think>",
        "<review a=\"",
        "- - > ",
        "{{",
        "<content_update>",
        "`<think>",
        "< review",
    ];
    for shape in shapes {
        let reply = shape.repeat(150_000 / shape.len());
        for end in ["", "</review>", "</content_update>", "\n\n`"] {
            let response = parse::parse(&format!("{reply}{end}"), &grammar);
            assert_eq!(
                parse::verdict(&response, &grammar).unwrap_err().kind(),
                ErrorKind::MissingReviewMarker
            );
        }
    }
    let runs: String = (1..2_000).map(|length| format!("{} ", "`".repeat(length))).collect();
    let _read = parse::parse(&runs, &grammar);
}

/// Whatever stands in a quote, a fence, a comment or a thought, the verdict is never milder than without it.
#[test]
fn no_wrapped_text_moves_a_verdict_towards_pass() {
    let grammar = Grammar::any_review();
    let wraps = [
        ("```\n", "\n```"),
        ("- ~~~\n", "\n~~~"),
        ("> ", ""),
        ("1. > ", ""),
        ("`", "`"),
        ("``", "``"),
        ("<!--", "-->"),
        ("<![CDATA[", "]]>"),
        ("<thought>", "</thought>"),
        ("<THINK>", "</reasoning>"),
        ("<thinking><think>", "</think></thinking>"),
    ];
    let verdict = |reply: &str| parse::verdict(&parse::parse(reply, &grammar), &grammar).ok().flatten();
    for (open, close) in wraps {
        for inside in ReviewResult::ALL {
            let wrapped = format!("{open}<review>{inside}</review>{close}");
            assert_eq!(verdict(&format!("a\n\n{wrapped}\n\nb\n")), None, "{wrapped}");
            for outside in ReviewResult::ALL {
                for reply in [
                    format!("<review>{outside}</review>\n\n{wrapped}\n"),
                    format!("{wrapped}\n\n<review>{outside}</review>\n"),
                ] {
                    let found = verdict(&reply);
                    assert!(
                        found == Some(outside) || (found.is_none() && outside == ReviewResult::Pass),
                        "{reply}: {found:?}"
                    );
                }
            }
        }
    }
}
