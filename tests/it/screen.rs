//! Text in a terminal: nothing that others wrote can drive it, whatever it is and however it is cut into pieces.

use std::borrow::Cow;

use agentd::models::{Screen, screen};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::support::cases;

/// Says by itself what may be in a terminal, apart from the code that it judges.
fn is_allowed(c: char) -> bool {
    let code = u32::from(c);
    let control = code < 0x20 || (0x7f..0xa0).contains(&code);
    let hidden = [0x61c, 0x200e, 0x200f, 0x2028, 0x2029].contains(&code)
        || (0x202a..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code)
        || (0xfff9..=0xfffb).contains(&code)
        || (0xe0000..=0xe007f).contains(&code);
    c == '\n' || c == '\t' || !(control || hidden)
}

/// Returns what is shown of a text that comes one character at a time.
fn by_characters(text: &str) -> String {
    let mut screen = Screen::default();
    text.chars().map(|c| screen.push(c.encode_utf8(&mut [0; 4])).into_owned()).collect()
}

#[test]
fn each_payload_is_shown_as_it_says() {
    for (file, text) in cases("screen") {
        let payloads: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert!(payloads.len() >= 25, "{file}");
        for payload in payloads {
            let [case, given, expected] =
                ["case", "given", "shown"].map(|key| payload[key].as_str().unwrap());
            assert_eq!(screen(given), expected, "{case}");
            assert_eq!(by_characters(given), expected, "{case}, one character at a time");
            assert!(given != expected || matches!(screen(given), Cow::Borrowed(_)), "{case}");
        }
    }
}

/// Text with many characters that mean something to a terminal.
fn hostile() -> impl Strategy<Value = String> {
    let any = any::<char>();
    let meant = prop::sample::select(
        "\u{1b}\u{1b}\u{1b}[]P_^X\\;?0m( \u{7}\u{8}\u{18}\r\n\n\t\u{7f}\u{84}\u{90}\u{9b}\u{9c}\u{9d}\u{9f}\
         \u{61c}\u{200d}\u{200e}\u{2028}\u{202e}\u{2066}\u{fe0f}\u{fffa}\u{e0041}\u{e0100}aé漢😀"
            .chars()
            .collect::<Vec<_>>(),
    );
    vec(prop_oneof![1 => any, 4 => meant], 0..60).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_what_is_allowed_is_shown_however_the_text_is_cut(
        pieces in vec(prop_oneof![4 => hostile(), 1 => any::<String>()], 0..6),
    ) {
        let text = pieces.concat();
        let shown = screen(&text);
        prop_assert!(shown.chars().all(is_allowed), "{shown:?}");
        let mut in_pieces = Screen::default();
        let joined: String = pieces.iter().map(|piece| in_pieces.push(piece).into_owned()).collect();
        prop_assert_eq!(&joined, &shown);
        prop_assert_eq!(&by_characters(&text), &shown);
        prop_assert_eq!(screen(&shown), Cow::Borrowed(&*shown));
    }

    #[test]
    fn text_without_controls_is_returned_as_it_is(text in any::<String>()) {
        let text: String = text.chars().filter(|c| is_allowed(*c)).collect();
        prop_assert!(matches!(screen(&text), Cow::Borrowed(same) if same == text));
    }

    /// Whatever came before, the next line is all there.
    #[test]
    fn nothing_reaches_over_a_line_end(before in hostile(), line in "[ -~é漢]{0,20}") {
        let text = format!("{before}\n{line}");
        let shown = screen(&text);
        prop_assert_eq!(shown.rsplit('\n').next().unwrap(), line);
    }
}
