//! Redaction of secrets: in every common form, for any split of a text, and in variables set for
//! agents.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;

use agentd::config::Environment;
use agentd::secret::Secrets;
use proptest::prelude::*;

use crate::support::agent_output::shipped;

/// JSON, URLs and base64 each encode parts of it, so its forms differ.
const CANARY: &str = "sk-c4n\"ary\\/+?ü&=";

/// The encoded canary, worked out by hand and with the usual tools.
const FORMS: [&str; 8] = [
    CANARY,
    // In JSON.
    r#"sk-c4n\"ary\\/+?ü&="#,
    // In a URL: percent-encoded with upper and lower case digits.
    "sk-c4n%22ary%5C%2F%2B%3F%C3%BC%26%3D",
    "sk-c4n%22ary%5c%2f%2b%3f%c3%bc%26%3d",
    // `printf %s "$CANARY" | base64`, padded and not.
    "c2stYzRuImFyeVwvKz/DvCY9",
    "c2stYzRuImFyeVwvKz_DvCY9",
    // With one byte and with two bytes before it, and something after it.
    "eHNrLWM0biJhcnlcLys/w7wmPXg=",
    "eHhzay1jNG4iYXJ5XC8rP8O8Jj14",
];

fn secrets() -> Secrets {
    Secrets::new([("KEY".to_owned(), CANARY.as_bytes().to_vec())])
}

#[test]
fn secret_is_found_in_every_common_form() {
    for form in FORMS {
        let text = format!("before {form} after");
        let shown = secrets().redact(&text).into_owned();
        assert!(shown.contains("[secret KEY]"), "{form}: {shown}");
        // A base64 symbol can hold bits of two bytes: at most one remains on either side.
        let left = shown.replace("[secret KEY]", "");
        assert!(left.len() <= "before  after".len() + 6, "{form}: {shown}");
    }
    assert_eq!(
        secrets().redact(&format!("a{CANARY}b{CANARY}")),
        "a[secret KEY]b[secret KEY]"
    );
}

#[test]
fn text_without_secrets_is_unchanged() {
    let text = "sk-c4n and so on";
    assert!(matches!(secrets().redact(text), Cow::Borrowed(same) if same == text));
    assert_eq!(Secrets::default().redact(CANARY), CANARY);
    let short = Secrets::new([("PIN".to_owned(), b"1234567".to_vec())]);
    assert_eq!(
        short.redact("1234567"),
        "1234567",
        "short values occur in too many texts"
    );
}

#[test]
fn longest_secret_and_first_name_win() {
    let secrets = Secrets::new([
        ("SHORT".to_owned(), b"12345678".to_vec()),
        ("LONG".to_owned(), b"12345678-abc".to_vec()),
        ("SAME".to_owned(), b"12345678".to_vec()),
    ]);
    assert_eq!(
        secrets.redact("12345678-abc 12345678-ab 12345678"),
        "[secret LONG] [secret SHORT]-ab [secret SHORT]"
    );
}

#[test]
fn truncated_secret_is_redacted() {
    let end = |length: usize| CANARY[..length].to_owned();
    assert_eq!(
        secrets().redact(&format!("key {}", end(10))),
        "key [secret KEY]"
    );
    assert_eq!(
        secrets().redact(&format!("key {}", end(5))),
        "key sk-c4",
        "too short to recognise"
    );
}

#[test]
fn secret_split_at_every_byte_is_redacted() {
    for form in FORMS {
        let text = format!("<a>{form}</a>{form}");
        let whole = secrets().redact(&text).into_owned();
        for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            let mut stream = secrets().stream();
            let shown = [
                stream.push(&text[..at]),
                stream.push(&text[at..]),
                stream.finish(),
            ]
            .concat();
            assert_eq!(shown, whole, "{form} at {at}");
        }
        let mut stream = secrets().stream();
        let mut shown: String = text
            .chars()
            .map(|c| stream.push(c.encode_utf8(&mut [0; 4])))
            .collect();
        shown.push_str(&stream.finish());
        assert_eq!(shown, whole);
    }
}

#[test]
fn other_text_is_not_held_back() {
    let mut stream = secrets().stream();
    assert_eq!(stream.push("hello sk"), "hello ");
    assert_eq!(stream.push("y!"), "sky!");
}

#[test]
fn debug_output_does_not_print_secrets() {
    let mut stream = secrets().stream();
    let _held = stream.push("sk-c4n");
    let environment = Environment(vec![(OsString::from("KEY"), OsString::from(CANARY))]);
    let printed = format!("{:?} {stream:?} {environment:?}", secrets());
    assert!(
        !printed.contains("c4n") && printed.contains("KEY"),
        "{printed}"
    );
}

#[test]
fn variables_are_secret_by_their_names() {
    let agents = shipped().overlaid(
        "format: 1\nagents: {a: {argv: [a], set: {A_TOKEN: of-the-file, A: b}}}",
        "a.yaml",
    );
    let names = [
        ("ANTHROPIC_API_KEY", true),
        ("GITHUB_TOKEN", true),
        ("AWS_SECRET_ACCESS_KEY", true),
        ("AWS_SESSION_TOKEN", true),
        ("db_password", true),
        ("CLIENT_SECRET", true),
        ("HOME", false),
        ("MAX_TOKENS", false),
        ("KEYBOARD", false),
    ];
    let environment = Environment(
        names
            .iter()
            .map(|(name, _)| (OsString::from(name), OsString::from("value")))
            .collect(),
    );
    let found: Vec<String> = agents
        .unwrap()
        .secrets(&environment)
        .into_iter()
        .map(|(name, _)| name)
        .collect();

    let expected = names
        .iter()
        .filter(|(_, secret)| *secret)
        .map(|(name, _)| *name)
        .chain(["A_TOKEN"]);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

/// Invisible parts of a text that another program may remove later.
const UNSEEN: [&str; 22] = [
    "\u{1b}[0m",
    "\u{1b}[38;5;196m",
    "\u{1b}[K",
    "\u{1b}]8;;http://x\u{7}",
    "\u{1b}]0;title\u{1b}\\",
    "\u{1b}(B",
    "\u{1b}c",
    "\u{9b}1m",
    "\u{1b}[",
    "\0",
    "\u{8}",
    "\u{7}",
    "\u{7f}",
    "\u{85}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{2060}",
    "\u{feff}",
    "\u{202e}",
    "\u{fe0f}",
    "\u{e0041}",
];

#[test]
fn secret_with_invisible_characters_is_redacted() {
    for unseen in UNSEEN {
        // An unterminated control sequence includes the next character.
        let middle = if unseen == "\u{1b}[" {
            format!("{unseen}m")
        } else {
            unseen.to_owned()
        };
        for cut in (1..CANARY.len()).filter(|cut| CANARY.is_char_boundary(*cut)) {
            let text = format!(
                "a\u{1b}[1mb {}{middle}{} c\u{200d}d",
                &CANARY[..cut],
                &CANARY[cut..]
            );
            let shown = secrets().redact(&text).into_owned();
            assert_eq!(
                shown, "a\u{1b}[1mb [secret KEY] c\u{200d}d",
                "{unseen:?} at {cut}"
            );
        }
    }

    let text = "no secret: a\u{1b}[1mb\u{1b}[0m, sk-c4n\u{1b}[0m.";
    assert_eq!(secrets().redact(text), text);
}

/// Parsing removes tags and thoughts from a reply. The secret is no longer known when the ledger is
/// read again.
#[test]
fn secret_split_by_markup_is_redacted() {
    let secrets = Secrets::new([("KEY".to_owned(), b"s3cret-canary".to_vec())]);
    for (text, expected) in [
        (
            "x s3cret<b></b>-canary y",
            "x [secret KEY]<b></b>[secret KEY] y",
        ),
        (
            "s3<thinking>why s3?</thinking>cret-canary",
            "[secret KEY]<thinking>why s3?</thinking>[secret KEY]",
        ),
        (
            "<![CDATA[s3cret]]>-can<i>ary",
            "<![CDATA[[secret KEY]]]>[secret KEY]<i>[secret KEY]",
        ),
        (
            "s3cret\u{1b}[0m</message>-canary",
            "[secret KEY]\u{1b}[0m</message>[secret KEY]",
        ),
        ("s3cret<b>-canarx", "s3cret<b>-canarx"),
        ("s3cret-canarx", "s3cret-canarx"),
        ("s <b>3cret-canary</b>", "s <b>3cret-canary</b>"),
    ] {
        assert_eq!(secrets.redact_markup(text), expected, "{text:?}");
    }
}

/// Markup in the value and in the reply look the same, so the search skips both.
#[test]
fn secret_that_contains_markup_is_redacted() {
    let secrets = Secrets::new([("KEY".to_owned(), b"s3<cr>et[-can]ary".to_vec())]);
    for (text, expected) in [
        (
            "s3<cr<b></b>>et[-can]ary.",
            "[secret KEY]<[secret KEY]<b></b>>[secret KEY][[secret KEY]][secret KEY].",
        ),
        (
            "x s3<think>why</think><cr>et[-can]ary",
            "x [secret KEY]<think>why</think><[secret KEY]>[secret KEY][[secret KEY]][secret KEY]",
        ),
        ("s3<cr<b></b>>et[-can]arx", "s3<cr<b></b>>et[-can]arx"),
    ] {
        assert_eq!(secrets.redact_markup(text), expected, "{text:?}");
    }

    // Fewer than 8 characters without markup occur in too many texts.
    let short = Secrets::new([("KEY".to_owned(), b"<<abc>[defg]>".to_vec())]);
    assert_eq!(short.redact_markup("abc<b></b>defg"), "abc<b></b>defg");
}

#[test]
fn secret_in_json_and_xml_escapes_is_redacted() {
    let canary = "k3y&<\"a'/b>+=ü-0815";
    let secrets = Secrets::new([("KEY".to_owned(), canary.as_bytes().to_vec())]);

    for form in [
        r#"k3y&<\"a'/b>+=ü-0815"#,
        r#"k3y&<\"a'\/b>+=ü-0815"#,
        r#"k3y\u0026\u003c\"a\u0027/b\u003e\u002b\u003dü-0815"#,
        r#"k3y\u0026\u003C\"a'/b\u003E+=ü-0815"#,
        r#"k3y&<\"a'/b>+=\u00fc-0815"#,
        "k3y&amp;&lt;\"a'/b>+=ü-0815",
        "k3y&amp;&lt;\"a'/b&gt;+=ü-0815",
        "k3y&amp;&lt;&quot;a&apos;/b&gt;+=ü-0815",
        "k3y&amp;&lt;&#34;a&#39;/b&gt;+=ü-0815",
        "&#107;&#51;&#121;&#38;&#60;&#34;&#97;&#39;&#47;&#98;&#62;&#43;&#61;&#252;&#45;&#48;&#56;&#49;&#53;",
        "%6B%33%79%26%3C%22%61%27%2F%62%3E%2B%3D%C3%BC%2D%30%38%31%35",
    ] {
        assert_eq!(
            secrets.redact(&format!("x {form} y")),
            "x [secret KEY] y",
            "{form}"
        );
    }
}

/// Line breaks as written by encoders: indented, in JSON, in a diff, in a quote and in a comment.
const BREAKS: [&str; 12] = [
    "\n", "\r\n", "\r", "\n    ", "\r\n\t", r"\n", r"\r\n", r"\\n", "\n+", "\r\n-  ", "\n> ",
    r"\n# ",
];

/// Encodes bytes in base64 without padding, independently of the program's implementation.
fn in_base64(bytes: &[u8]) -> String {
    let symbols = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    bits.chunks(6)
        .map(|bits| {
            let value = (0..6).fold(0, |value, at| value << 1 | bits.get(at).unwrap_or(&0));
            char::from(symbols[usize::from(value)])
        })
        .collect()
}

/// Breaks a text into lines of this many characters.
fn break_lines(text: &str, width: usize, line_break: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let lines: Vec<String> = chars
        .chunks(width)
        .map(|line| line.iter().collect())
        .collect();
    lines.join(line_break)
}

#[test]
fn multiline_base64_is_redacted_at_every_offset() {
    assert_eq!(
        in_base64(b"any carnal pleasure"),
        "YW55IGNhcm5hbCBwbGVhc3VyZQ"
    );

    let secrets = secrets();
    for offset in 0..=80 {
        let text = format!("{}{CANARY}, and more after it", "x".repeat(offset));
        let whole = in_base64(text.as_bytes());
        let expected = secrets.redact(&whole).into_owned();
        assert!(expected.contains("[secret KEY]"), "{offset}: {expected}");

        for line_break in BREAKS {
            for width in [1, 7, 64, 76] {
                let shown = secrets
                    .redact(&break_lines(&whole, width, line_break))
                    .into_owned();
                // A line break within the secret is removed with it, and the others stay.
                assert_eq!(
                    shown.replace(line_break, ""),
                    expected,
                    "{line_break:?} after {width}, offset {offset}"
                );
            }
        }
    }
}

#[test]
fn base64_lines_that_start_with_a_plus_are_redacted() {
    // Twelve bytes are a line of sixteen symbols, and the first six bits of 0xFB are the symbol
    // `+`.
    let value: Vec<u8> = (0..60)
        .map(|at| if at % 12 == 0 { 0xFB } else { at })
        .collect();
    let secrets = Secrets::new([("KEY".to_owned(), value.clone())]);
    for line_break in BREAKS {
        let lines = break_lines(&in_base64(&value), 16, line_break);
        let text = format!("key:{line_break}{lines}");
        let expected = format!("key:{line_break}[secret KEY]");
        assert_eq!(secrets.redact(&text), expected, "{line_break:?}");
    }
}

#[test]
fn multiline_key_is_redacted_in_json_and_diff() {
    let pem = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2Vw\nBCIEIEl0ZGlz\n-----END KEY-----\n";
    let secrets = Secrets::new([("KEY".to_owned(), pem.as_bytes().to_vec())]);

    for (text, expected) in [
        (format!("a\n{pem}b"), "a\n[secret KEY]\nb"),
        (pem.replace('\n', "\r\n"), "[secret KEY]\r\n"),
        (
            format!(" {}", pem.replace('\n', "\n  ")),
            " [secret KEY]\n  ",
        ),
        (
            format!("@@\n+{}c", pem.replace('\n', "\n+")),
            "@@\n+[secret KEY]\n+c",
        ),
        (
            format!("{{\"key\": \"{}\"}}", pem.replace('\n', "\\n")),
            "{\"key\": \"[secret KEY]\"}",
        ),
    ] {
        assert_eq!(secrets.redact(&text), expected, "{text:?}");
    }
}

#[test]
fn line_breaks_and_backslashes_without_secrets_stay() {
    let text = "c2stYzRu\n  ImFy\r\n+eVwv\\nKz, C:\\new\n\n- sk-c4n\n\"arx\n";
    assert!(matches!(secrets().redact(text), Cow::Borrowed(same) if same == text));
}

proptest! {
    /// Base64 in lines is redacted like base64 in one line, for any line breaks and any split. One
    /// symbol next to a break may stay: the last one, which also holds bits of the next byte, or an
    /// `n` at the start of the value that is mistaken for the one of a written `
    /// `. In a repetitive value another of its occurrences may be found.
    #[test]
    fn multiline_base64_is_always_redacted(
        value in proptest::collection::vec(any::<u8>(), 8..60),
        before in proptest::collection::vec(any::<u8>(), 0..90),
        after in proptest::collection::vec(any::<u8>(), 0..20),
        width in 1_usize..80,
        line_break in 0_usize..BREAKS.len(),
        cuts in proptest::collection::vec(0_usize..400, 0..6),
    ) {
        let secrets = Secrets::new([("S".to_owned(), value.clone())]);
        let distinct: BTreeSet<&u8> = value.iter().collect();
        let repeats_itself = distinct.len() < 5;
        let whole = in_base64(&[before, value, after].concat());
        let text = break_lines(&whole, width, BREAKS[line_break]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut stream = secrets.stream();
        let mut shown: String = cuts.windows(2).map(|cut| stream.push(&text[cut[0]..cut[1]])).collect();

        shown.push_str(&stream.finish());
        prop_assert_eq!(&shown, &secrets.redact(&text));

        let joined = shown.replace(BREAKS[line_break], "");
        prop_assert!(joined.contains("[secret S]"), "{}", joined);
        if !repeats_itself {
            let expected = secrets.redact(&whole);
            prop_assert_eq!(&secrets.redact(&joined), &joined, "something is left to redact");
            prop_assert!(joined.len() <= expected.len() + 2, "{} is not {}", joined, expected);
        }
    }

    /// For any split and any invisible characters, the visible text contains no secret.
    #[test]
    fn secrets_are_not_reassembled(
        parts in proptest::collection::vec((0_usize..UNSEEN.len() + 8, "[ab]{0,5}"), 1..14),
        value in "[ab]{8,10}",
        cuts in proptest::collection::vec(0_usize..120, 0..6),
    ) {
        let secrets = Secrets::new([("S".to_owned(), value.clone().into_bytes())]);
        let text: String = parts.iter().map(|(unseen, words)| {
            format!("{words}{}", UNSEEN.get(*unseen).unwrap_or(&""))
        }).collect();
        let mut cuts: Vec<usize> =
            cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut stream = secrets.stream();
        let mut shown: String = cuts.windows(2).map(|cut| stream.push(&text[cut[0]..cut[1]])).collect();
        shown.push_str(&stream.finish());
        prop_assert_eq!(&shown, &secrets.redact(&text));
        prop_assert!(!shown.contains(&value), "{:?}", shown);
        prop_assert!(!agentd::text::terminal::filter_terminal_text(&shown).contains(&value), "{:?}", shown);
    }

    /// For any secrets and any split, no secret remains, and the split makes no difference.
    #[test]
    fn secrets_are_redacted_at_any_split(
        values in proptest::collection::vec("[ab]{8,12}", 1..4),
        text in "[abc]{0,60}",
        cuts in proptest::collection::vec(0_usize..60, 0..6),
    ) {
        let secrets = Secrets::new(values.iter().enumerate().map(|(n, value)| (format!("{n}"), value.clone().into_bytes())));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut stream = secrets.stream();
        let mut shown: String = cuts.windows(2).map(|cut| stream.push(&text[cut[0]..cut[1]])).collect();
        shown.push_str(&stream.finish());
        for value in &values {
            prop_assert!(!shown.contains(value.as_str()), "{}", shown);
        }
        prop_assert_eq!(shown, secrets.redact(&text));
    }
}
