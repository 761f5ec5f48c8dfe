//! Values that must not be seen: in every common form, wherever a text is split, and in what is set for agents.

use std::borrow::Cow;
use std::ffi::OsString;

use agentd::config::Environment;
use agentd::secret::Secrets;
use proptest::prelude::*;

use crate::support::agent_output::shipped;

/// Its forms differ: it holds what JSON, URLs and base64 each write in their own way.
const CANARY: &str = "sk-c4n\"ary\\/+?ü&=";

/// The canary as others write it, worked out by hand and with the tools that write it so.
const FORMS: [&str; 8] = [
    CANARY,
    // In JSON.
    r#"sk-c4n\"ary\\/+?ü&="#,
    // In a URL: percent-encoded with large and small digits.
    "sk-c4n%22ary%5C%2F%2B%3F%C3%BC%26%3D",
    "sk-c4n%22ary%5c%2f%2b%3f%c3%bc%26%3d",
    // `printf %s "$CANARY" | base64`, padded and not.
    "c2stYzRuImFyeVwvKz/DvCY9",
    "c2stYzRuImFyeVwvKz_DvCY9",
    // After one byte, and after two, with something behind it.
    "eHNrLWM0biJhcnlcLys/w7wmPXg=",
    "eHhzay1jNG4iYXJ5XC8rP8O8Jj14",
];

fn secrets() -> Secrets {
    Secrets::new([("KEY".to_owned(), CANARY.as_bytes().to_vec())])
}

#[test]
fn a_secret_is_found_in_every_common_form() {
    for form in FORMS {
        let text = format!("before {form} after");
        let shown = secrets().redact(&text).into_owned();
        assert!(shown.contains("[secret KEY]"), "{form}: {shown}");
        // A symbol of base64 can hold bits of two bytes: at most one stays on either side.
        let left = shown.replace("[secret KEY]", "");
        assert!(left.len() <= "before  after".len() + 6, "{form}: {shown}");
    }
    assert_eq!(secrets().redact(&format!("a{CANARY}b{CANARY}")), "a[secret KEY]b[secret KEY]");
}

#[test]
fn a_text_without_secrets_is_left_alone() {
    let text = "sk-c4n and so on";
    assert!(matches!(secrets().redact(text), Cow::Borrowed(same) if same == text));
    assert_eq!(Secrets::default().redact(CANARY), CANARY);
    let short = Secrets::new([("PIN".to_owned(), b"1234567".to_vec())]);
    assert_eq!(short.redact("1234567"), "1234567", "what is short stands in too many texts");
}

#[test]
fn the_longest_secret_wins_and_the_first_name() {
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
fn a_secret_that_is_cut_off_is_not_told_in_part() {
    let end = |length: usize| CANARY[..length].to_owned();
    assert_eq!(secrets().redact(&format!("key {}", end(10))), "key [secret KEY]");
    assert_eq!(secrets().redact(&format!("key {}", end(5))), "key sk-c4", "too little to be told");
}

#[test]
fn a_secret_split_at_every_byte_never_comes_through() {
    for form in FORMS {
        let text = format!("<a>{form}</a>{form}");
        let whole = secrets().redact(&text).into_owned();
        for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            let mut stream = secrets().stream();
            let shown = [stream.push(&text[..at]), stream.push(&text[at..]), stream.finish()].concat();
            assert_eq!(shown, whole, "{form} at {at}");
        }
        let mut stream = secrets().stream();
        let mut shown: String = text.chars().map(|c| stream.push(c.encode_utf8(&mut [0; 4]))).collect();
        shown.push_str(&stream.finish());
        assert_eq!(shown, whole);
    }
}

#[test]
fn what_cannot_be_a_secret_is_not_held_back() {
    let mut stream = secrets().stream();
    assert_eq!(stream.push("hello sk"), "hello ");
    assert_eq!(stream.push("y!"), "sky!");
}

#[test]
fn what_knows_secrets_does_not_print_them() {
    let mut stream = secrets().stream();
    let _held = stream.push("sk-c4n");
    let environment = Environment(vec![(OsString::from("KEY"), OsString::from(CANARY))]);
    let printed = format!("{:?} {stream:?} {environment:?}", secrets());
    assert!(!printed.contains("c4n") && printed.contains("KEY"), "{printed}");
}

#[test]
fn variables_are_secret_by_their_names() {
    let agents = shipped()
        .overlaid("format: 1\nagents: {a: {argv: [a], set: {A_TOKEN: of-the-file, A: b}}}", "a.yaml");
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
    let environment =
        Environment(names.iter().map(|(name, _)| (OsString::from(name), OsString::from("value"))).collect());
    let found: Vec<String> =
        agents.unwrap().secrets(&environment).into_iter().map(|(name, _)| name).collect();
    let expected = names.iter().filter(|(_, secret)| *secret).map(|(name, _)| *name).chain(["A_TOKEN"]);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

proptest! {
    /// Whatever the secrets and wherever the text is split, no secret comes through, and the split makes no difference.
    #[test]
    fn no_secret_comes_through_any_split(
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
