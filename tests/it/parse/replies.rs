//! Rules that hold for all replies. Single replies are case files under `tests/cases/reply`.

use agentd::models::{ProblemCode, Severity};
use agentd::parse::{self, Grammar, ReplyContext};
use agentd::{ErrorKind, ReviewResult};

use crate::support::reply_case::ReplyCase;
use crate::support::{case_names, read_case};

/// Files in `shapes` are numbered by the 62 known shapes of malformed replies.
#[test]
fn each_of_62_shapes_has_a_case() {
    let shapes = case_names("reply/shapes");
    for number in 1..=62 {
        let prefix = format!("reply/shapes/{number:02}");
        let own: Vec<_> = shapes
            .iter()
            .filter(|name| name.starts_with(&prefix))
            .collect();
        assert!(!own.is_empty(), "no file for shape {number}");
        for name in own {
            assert!(
                !ReplyCase::read(&read_case(name)).expected.is_empty(),
                "{name} expects nothing"
            );
        }
    }
}

/// Each of these is large enough that a non-linear parser would not finish.
#[test]
fn hostile_replies_are_parsed_completely() {
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
        "</review>",
        "<think></think>`a` ",
        "a <content_update target=\"b\">",
        "<review a=\"b\"c=\"",
        "[",
        "&lt;",
    ];

    for shape in shapes {
        let reply = shape.repeat(30_000 / shape.len());
        for end in ["", "</review>", "</content_update>", "\n\n`"] {
            let response =
                parse::parse(format!("{reply}{end}"), &grammar, &ReplyContext::default());
            assert_eq!(
                parse::verdict(&response, &grammar).unwrap_err().kind(),
                ErrorKind::MissingReviewMarker
            );
        }
    }

    let runs: String = (1..2_000)
        .map(|length| format!("{} ", "`".repeat(length)))
        .collect();
    let _read = parse::parse(&runs, &grammar, &ReplyContext::default());
}

/// Text in a quote, a fence, a comment or a thought never makes the verdict milder. Without a
/// nonce, a more severe verdict counts anywhere outside thoughts.
#[test]
fn wrapped_text_never_moves_a_verdict_towards_pass() {
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
    let verdict = |reply: &str| {
        parse::verdict(
            &parse::parse(reply, &grammar, &ReplyContext::default()),
            &grammar,
        )
        .ok()
        .flatten()
    };

    for (open, close) in wraps {
        for inside in ReviewResult::ALL {
            let wrapped = format!("{open}<review>{inside}</review>{close}");
            let is_thought = open.to_ascii_lowercase().contains("th");
            let counted = Some(inside).filter(|inside| !is_thought && *inside > ReviewResult::Pass);
            assert_eq!(
                verdict(&format!("a\n\n{wrapped}\n\nb\n")),
                counted,
                "{wrapped}"
            );
            for outside in ReviewResult::ALL {
                for reply in [
                    format!("<review>{outside}</review>\n\n{wrapped}\n"),
                    format!("{wrapped}\n\n<review>{outside}</review>\n"),
                ] {
                    let found = verdict(&reply);
                    let worst = counted.max(Some(outside));
                    assert!(
                        found == worst || (found.is_none() && worst == Some(ReviewResult::Pass)),
                        "{reply}: {found:?}"
                    );
                }
            }
        }
    }
}

/// A pack can rename the tags.
#[test]
fn alternative_tag_names_are_parsed() {
    let mut grammar = Grammar::any_review();
    grammar
        .tags
        .insert("mensaje".to_owned(), "message".to_owned());
    grammar
        .tags
        .insert("urteil".to_owned(), "review".to_owned());
    let reply = "<mensaje>Hola.</mensaje> fuera <Urteil>REJECTED</Urteil>";

    let response = parse::parse(reply, &grammar, &ReplyContext::default());
    assert_eq!(
        (response.message.as_str(), response.stray.as_str()),
        ("Hola.", "fuera")
    );
    assert_eq!(
        parse::verdict(&response, &grammar).unwrap(),
        Some(ReviewResult::Rejected)
    );
}

/// Every code is documented with its severity and its message.
#[test]
fn every_code_is_documented() {
    let page =
        std::fs::read_to_string(crate::support::repository().join("docs/reference/replies.md"))
            .unwrap();
    for code in ProblemCode::ALL {
        let severity = if code.severity() == Severity::Note {
            "note"
        } else {
            "warning"
        };
        let row = format!("| `{code}` | {severity} | {} |", code.message());
        assert!(page.contains(&row), "{row}");
    }
}
