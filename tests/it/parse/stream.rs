//! Replies that are still streaming: the text does not depend on the split, and the response equals
//! that of the whole reply.

use std::sync::LazyLock;

use agentd::SearchPath;
use agentd::models::{Mode, Response};
use agentd::pack::Pack;
use agentd::parse::{self, Grammar, ReplyContext, Stream};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::reply_case::ReplyCase;
use crate::support::{case_names, read_case};

/// Returns the text streamed from a reply that arrives in pieces, and its response.
fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    grammar: &Grammar,
    context: &ReplyContext<'_>,
) -> (String, Response) {
    let mut stream = Stream::new(grammar);
    let mut shown: String = pieces.into_iter().map(|piece| stream.push(piece)).collect();
    let (rest, response) = stream.finish(context);
    shown.push_str(&rest);
    (shown, response)
}

/// A grammar with actions, updates, verdicts and speakers.
fn grammar() -> &'static Grammar {
    static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
        let pack = Pack::load("foreman", &SearchPath::default()).unwrap();
        let grammar = pack.grammar(&Mode::new("architect").unwrap()).unwrap();
        Grammar {
            speakers: vec!["USER".to_owned(), "ASSISTANT".to_owned()],
            ..grammar
        }
    });
    &GRAMMAR
}

/// Returns the whole streamed text of a reply.
fn streamed_text(reply: &str) -> String {
    read([reply.as_bytes()], grammar(), &ReplyContext::default()).0
}

/// Parses every case byte by byte, and split in two: at each position of a short reply, at every
/// fifth of a longer one.
#[test]
fn stream_can_be_split_anywhere() {
    for name in case_names("reply") {
        let case = ReplyCase::read(&read_case(&name));
        let (reply, grammar, context) = (case.reply.as_slice(), case.grammar(), case.context());
        let response = parse::parse(reply, &grammar, &context);

        let whole = read([reply], &grammar, &context);
        assert_eq!(whole.1, response, "{name}");
        assert_eq!(
            read(reply.chunks(1), &grammar, &context),
            whole,
            "{name}, byte by byte"
        );

        let step = if reply.len() > 100 { 5 } else { 1 };
        for at in (0..reply.len()).step_by(step) {
            let (before, after) = reply.split_at(at);
            assert_eq!(
                read([before, after], &grammar, &context),
                whole,
                "{name}, cut at {at}"
            );
        }
    }
}

/// Updates whose text contains a line that would close them: only the end of the reply decides
/// which line does.
const UNCLEAR: [&str; 3] = [
    "reply/shapes/36b_two_closers_alone_on_their_lines.txt",
    "reply/shapes/36c_last_closer_not_alone.txt",
    "reply/shapes/36f_closer_in_fence_in_body.txt",
];

#[test]
fn text_of_a_reply_without_problems_is_its_message() {
    let mut compared = 0;
    for name in case_names("reply") {
        let case = ReplyCase::read(&read_case(&name));
        let (shown, response) = read(case.reply.chunks(3), &case.grammar(), &case.context());
        let plain = response.problems.is_empty() && response.stray.is_empty();
        if plain && !UNCLEAR.contains(&name.as_str()) {
            assert_eq!(shown, response.message, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 150, "{compared}");
}

#[test]
fn text_of_a_well_formed_reply_is_its_message() {
    let action = "<action type=\"save_decision\">\n  <category>world</category>\n  <key>moons</key>\n  \
                  <value>two</value>\n</action>\n";
    let update = "<content_update target=\"chapter_1\">\n# One\n\n```\n<message>not shown</message>\n```\n\
                  </content_update>\n";
    let review = "<review>PASS</review>\n";
    let messages = [
        "Hello.",
        "\nTwo lines,\nthen a blank one:\n\n- a list\n- of two\n",
        "It is `a < b`, so Vec<String> & co. stay, and so does x < y > z.",
        "Write `<action type=\"save_decision\">` and not `</message>`.",
        "See:\n\n```xml\n<message>quoted</message>\n<review>PASS</review>\n```\n\nThat is all.",
        "See:\n```\n</message>\n```",
        "> <review>PASS</review> is a quote\n\n1. > <thought>and this\n",
        "Größe: 漢字 😀 <b>bold</b> <br/>\n~~~\n<think>\n~~~\n",
        "``two ` ticks <thought>``, \\`one <i>tick</i>\\`, and one more ` alone",
    ];

    for message in messages {
        for reply in [
            format!("<message>{message}</message>\n"),
            format!(
                "<thinking>\nHm, `</thinking>`?\n</thinking>\n\n<message>{message}</message>\n{action}"
            ),
            format!("<think>a</thought><message>{message}</message>{review}{update}"),
            format!(
                "{update}{action}{review}<thought>a <thought>b</thought> c</thought>\n<message>{message}</message>"
            ),
            format!("<Message>{message}\n</MESSAGE>\n< review >PASS</ review >\n{action}{action}"),
            format!("<message>{message}\n\n{review}</message>"),
        ] {
            for size in [1, 5, 10_000] {
                let (shown, response) = read(
                    reply.as_bytes().chunks(size),
                    grammar(),
                    &ReplyContext::default(),
                );
                assert_eq!(response.message, message.trim(), "{reply}");
                assert_eq!(shown, response.message, "{reply}");
            }
        }
    }
}

#[test]
fn streamed_text_matches_expected_text() {
    let table = [
        ("", ""),
        (" \n ", ""),
        ("Hello.\n", "Hello."),
        ("<thought>a</thought>\n\nHello.", "Hello."),
        ("<THINK>a</reasoning>Hello.", "Hello."),
        ("<thinking>a <think>b</think> c</thinking>d", "d"),
        ("<thought>a ` b</thought>c", "c"),
        ("<thought>a `</thought>` b\n</thought>c", "c"),
        ("a <thought>b</thought> c", "a  c"),
        ("<message>a</message><message>b</message>", "a\n\nb"),
        ("Sure.\n<message>a</message>\nBye.", "Sure.\n\na\n\nBye."),
        ("if a < b { x <= y }", "if a < b { x <= y }"),
        (
            "Vec<String>, <T: Into<X>>, <ns:b>",
            "Vec<String>, <T: Into<X>>, <ns:b>",
        ),
        ("`a < b` and `<message>`", "`a < b` and `<message>`"),
        ("```\n<message>\n```\nb", "```\n<message>\n```\nb"),
        (
            "- ~~~ x\n  <review>PASS</review>\n  ~~~\n<review>PASS</review>b",
            "- ~~~ x\n  <review>PASS</review>\n  ~~~\nb",
        ),
        ("<message>\n```\na\n```</message>b", "```\na\n```\n\nb"),
        ("```a``` <review>PASS</review>", "```a```"),
        ("> <thought>\nb", "> <thought>\nb"),
        ("a\n<action type=\"x\"><y>z</y></action>\nb", "a\n\nb"),
        (
            "<invoke name=\"x\">y</invoke><function=x>y</function><tool_call>{}</tool_call>a",
            "a",
        ),
        (
            "<function_calls>\n<invoke name=\"x\">y</invoke>\n</function_calls>a",
            "a",
        ),
        ("<save_decision><key>a</key></save_decision>b", "b"),
        (
            "<message>Use <save_decision> for it.</message>\n",
            "Use <save_decision> for it.",
        ),
        ("Use <save_decision> for it.", "Use <save_decision> for it."),
        ("The <content_update> tag.", "The <content_update> tag."),
        ("<action type=\"x\">a<message>b</message>", "b"),
        ("<content_update target=\"a\">b</content_update>c", "c"),
        (
            "<content_update target=\"a\">b </content_update>, c\n</content_update>\nd",
            "d",
        ),
        ("<content_update target=\"a\">b <review>PASS</review>", ""),
        (
            "The <review> tag, a <review>",
            "The <review> tag, a <review>",
        ),
        ("a <review run=\"x\">PASS</review>.", "a ."),
        ("<unknown>a</unknown>", "<unknown>a</unknown>"),
        ("</action></review>a</message>", "a"),
        ("<thought>a", ""),
        ("<thought>a\n<message>b</message>", "b"),
        ("<thought>a <thought>b</thought>\n<message>c</message>", "c"),
        ("<thought>a\n<message>b <thought>c\n<message>d", "b d"),
        ("a\n</think>\nb", "a\n\nb"),
        ("an ` alone <thought>b</thought> c", "an ` alone  c"),
        (
            "an ` alone <thought>b</thought>\n\nc ` d",
            "an ` alone \n\nc ` d",
        ),
        ("a\\`<thought>b</thought>` c", "a\\`` c"),
        ("<!-- <thought> -->a", "<!-- <thought> -->a"),
        ("<!--><thought>b</thought>a", "<!-->a"),
        ("<![CDATA[<thought>]]]>a", "<thought>]a"),
        ("<message>a</message>\nUSER: b\n<message>c</message>", "a"),
        ("<message>a</message>\nUSE: b", "a\n\nUSE: b"),
        ("a <mess", "a"),
        ("a <messy", "a <messy"),
        ("\u{FEFF}a", "a"),
        ("<message\na", "<message\na"),
        ("<message a=\"<b>\">c</message>", "c"),
    ];
    let wrong: Vec<String> = table
        .into_iter()
        .filter(|(reply, expected)| streamed_text(reply) != *expected)
        .map(|(reply, expected)| {
            format!(
                "{reply:?} shows {:?}, not {expected:?}",
                streamed_text(reply)
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn text_is_emitted_as_soon_as_possible() {
    let table: [&[(&str, &str)]; 12] = [
        &[("Hel", "Hel"), ("lo.", "lo."), (" ", ""), ("a", " a")],
        &[("a <", "a"), ("mes", ""), ("sage>", ""), ("b", "\n\nb")],
        &[("a <", "a"), ("= b", " <= b")],
        &[("a < b ", "a < b"), ("c", " c")],
        &[("Vec<Str", "Vec"), ("ing>", "<String>")],
        &[("a <b", "a"), (">", " <b>")],
        &[("<thought>a", ""), ("b</thou", ""), ("ght>c", "c")],
        &[
            ("```r", "```r"),
            ("ust\nlet a <", "ust\nlet a <"),
            ("message>", "message>"),
        ],
        &[
            ("`a", "`a"),
            (" b", " b"),
            (" <", ""),
            ("c>", ""),
            ("`", ""),
            (".", " <c>`."),
        ],
        &[("<review>PA", ""), ("SS</review>a", "a")],
        &[("~~", "~~"), ("~<message>", "~<message>")],
        &[
            ("a <action type=\"x\">b", "a"),
            ("</action", ""),
            (">c", " c"),
        ],
    ];

    for pieces in table {
        let mut stream = Stream::new(grammar());
        let found: Vec<String> = pieces
            .iter()
            .map(|(piece, _)| stream.push(piece.as_bytes()))
            .collect();
        let expected: Vec<&str> = pieces.iter().map(|(_, shown)| *shown).collect();
        assert_eq!(found, expected, "{pieces:?}");
    }
}

#[test]
fn held_back_text_is_bounded() {
    for start in [
        "<message ",
        "<aaaa",
        "< ",
        "<message a=\"",
        "`<b>",
        "<review>",
        "<review>`",
        "<!-",
        "- 1. <",
    ] {
        let mut stream = Stream::new(grammar());
        let shown = stream.push(format!("{start}{}", "x".repeat(3_000)).as_bytes());
        assert_eq!(shown, format!("{start}{}", "x".repeat(3_000)));
    }
}

#[test]
fn invalid_bytes_are_replaced_as_in_a_whole_reply() {
    let replies: [&[u8]; 6] = [
        b"a\xFFb\xF0\x9F\x98",
        b"\xE6\xBC\xA2\xE6\xBC",
        b"\xED\xA0\x80<thought>\xC3</thought>\xC3\xA9",
        b"\xF0\x9F\x98\x80\xF0\x9F<",
        b"\xC0\x80\x80<mess\xC2age>a</message>",
        b"\xEF\xBB\xBFa\xEF\xBB",
    ];

    for reply in replies {
        let text = String::from_utf8_lossy(reply);
        assert_eq!(
            read(reply.chunks(1), grammar(), &ReplyContext::default()).0,
            streamed_text(&text),
            "{text:?}"
        );
    }

    let bytes = b"a\xFF\xE6\xBCb\xF0\x9F\x98";
    assert_eq!(
        read(bytes.chunks(1), grammar(), &ReplyContext::default()).0,
        "a\u{FFFD}\u{FFFD}b\u{FFFD}"
    );
}

/// Each of these is large enough that a parser that rescans would not finish.
#[test]
fn hostile_replies_are_streamed_completely() {
    let shapes = [
        "<",
        "<review>",
        "<thought>",
        "<thought>`",
        "<message>",
        "<save_decision>",
        "<message><save_decision></message>",
        "<content_update>",
        "<action type=\"a\">",
        "<tool_call><thought>",
        "```\n",
        "`a ``b ",
        "`a\n",
        "`<think>",
        "- - > ",
        "<review a=\"",
        "<!--",
        "<![CDATA[]]",
        "</think>",
        "< a:",
        "<task_status><review>",
        "\\",
        " ",
    ];

    for shape in shapes {
        let mut stream = Stream::new(grammar());
        let reply = shape.repeat(60_000 / shape.len());
        let mut length = 0;
        for piece in reply.as_bytes().chunks(9) {
            length += stream.push(piece).len();
        }
        assert!(length <= reply.len(), "{shape}");
        let reply = shape.repeat(4_000 / shape.len());
        let (text, response) = read(
            reply.as_bytes().chunks(9),
            grammar(),
            &ReplyContext::default(),
        );
        assert!(text.len() <= 2 * reply.len(), "{shape}");
        assert_eq!(
            response,
            parse::parse(&reply, grammar(), &ReplyContext::default()),
            "{shape}"
        );
    }
}

/// Text that depends on the end of the reply is parsed again from one position, whatever its
/// length.
#[test]
fn long_remainder_is_emitted_at_the_end() {
    for start in [
        "<thought>\n<message>",
        "<save_decision>",
        "<content_update>",
        "<action type=\"x\"><message>",
    ] {
        let rest = "<b>x</b> `<c>` ".repeat(12_000);
        let mut stream = Stream::new(grammar());
        assert_eq!(
            stream.push(format!("{start}{rest}").as_bytes()),
            "",
            "{start}"
        );
        let (shown, _) = stream.finish(&ReplyContext::default());
        assert!(shown.ends_with(rest.trim_end()), "{start}");
    }
}

/// Replies made of syntax, and of arbitrary text.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let meant = prop::sample::select(vec![
        "<",
        ">",
        "/",
        "</",
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        "\n\n",
        " ",
        "\t",
        "\\",
        "\"",
        "'",
        "=",
        ":",
        "-",
        "- ",
        "1. ",
        "> ",
        "# ",
        "a",
        "b<c",
        "é",
        "漢",
        "😀",
        "\u{A0}",
        "\u{200B}",
        "\u{FEFF}",
        "\r\n",
        "]]>",
        "-->",
        "<!--",
        "<![CDATA[",
        "<message>",
        "</message>",
        "<mess",
        "age>",
        "<thought>",
        "</think>",
        "<thinking ",
        "<review>",
        "PASS",
        "</review>",
        "<review run=\"<a>\">",
        "<action type=\"save_decision\">",
        "</action>",
        "<save_decision>",
        "</save_decision>",
        "<save_decision/>",
        "<content_update target=\"a\">",
        "<content_update>",
        "</content_update>",
        "<tool_call>",
        "</tool_call>",
        "<function=",
        "<function_calls>",
        "<invoke name=\"x\">",
        "</invoke>",
        "<task_status id=\"1\">",
        "</task_status>",
        "USER:",
        "< ns:message >",
        "<review a=\"",
        "<re\u{200B}view>",
    ]);
    let piece = prop_oneof![
        12 => meant.prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        1 => vec(any::<u8>(), 1..3),
        1 => prop::sample::select(vec![&b"\xF0\x9F"[..], b"\xE6", b"\xC3", b"\xED\xA0\x80", b"\xFF"]).prop_map(<[u8]>::to_vec),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_does_not_depend_on_the_split(
        reply in any_bytes(),
        sizes in vec(prop_oneof![1_usize..4, 1_usize..40], 1..20),
    ) {
        let (grammar, context) = (grammar(), ReplyContext::default());
        let whole = read([reply.as_slice()], grammar, &context);
        prop_assert_eq!(&whole.1, &parse::parse(&reply, grammar, &context));
        prop_assert_eq!(&read(reply.chunks(1), grammar, &context), &whole);
        let mut rest = reply.as_slice();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*size));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(&read(pieces, grammar, &context), &whole);
    }
}

/// Fragments of a message that can appear in any order.
fn any_message() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "`",
        "``",
        "```",
        "```\n",
        "\n```\n",
        "~~~\n",
        "\n",
        "\n\n",
        " ",
        "a",
        "é",
        "> ",
        "- ",
        "1. ",
        "# ",
        "<b>",
        "<",
        "x < y",
        "\t",
        "\r\n",
        "~~~",
        "<b",
        "</b>",
        "<!-- c -->",
        "<![CDATA[d]]>",
        "<review>PASS</review>",
        "<review run='a'>PASS</review>",
        "<task_status id=\"1\">COMPLETED</task_status>",
        "\n<thought>t</thought>\n",
        "\n<thought>`x`</thought>\n",
    ]);
    vec(pieces, 0..16).prop_map(|pieces| format!("<message>{}\n\n</message>", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Code, quotes and markers in any order: the text equals that of the whole reply, unless the
    /// reply is malformed.
    #[test]
    fn text_equals_the_message_of_plain_replies(reply in any_message()) {
        let (shown, response) = read(reply.as_bytes().chunks(4), grammar(), &ReplyContext::default());
        let harmless = ["quoted_effect", "cut_tag", "repeated_effect"];
        let plain = response.problems.iter().all(|problem| harmless.contains(&problem.code.name()));
        if plain && response.stray.is_empty() {
            prop_assert_eq!(shown, response.message);
        }
    }
}
