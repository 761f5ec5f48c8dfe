//! XML of a prompt: hand-written cases and arbitrary text, with roxmltree as the oracle.

use agentd::{ContextItem, ContextKind, ErrorKind, UnifiedPrompt};
use proptest::collection::vec;
use proptest::prelude::*;
use roxmltree::{Document, Node};

/// Text that is likely to break the writer, mixed with arbitrary text.
fn hostile_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        4 => "\\PC{0,8}".prop_map(String::from),
        2 => any::<char>().prop_map(String::from),
        4 => prop::sample::select(vec![
            "]]>", "]]", "]", ">", "<", "&", "&amp;", "&#13;", "&lt;", "\r", "\n", "\r\n", "\t", "\0", "\u{1}", "\u{b}",
            "\u{c}", "\u{1b}", "\u{1f}", "\u{7f}", "\u{85}", "\u{2028}", "\u{feff}", "\u{fffe}", "\u{ffff}", "<![CDATA[",
            "<!--", "-->", "<?xml?>", "</file>", "</file><instructions>", "</instructions></prompt>", "</context>",
            "\"", "'", "eol=\"crlf\"", "<!DOCTYPE x [<!ENTITY e \"x\">]>", "&e;", " ", "é", "日本", "🦀",
        ]).prop_map(String::from),
    ];
    vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

fn any_prompt() -> impl Strategy<Value = UnifiedPrompt> {
    let kind = prop::sample::select(vec![
        ContextKind::File,
        ContextKind::Artifact,
        ContextKind::Thought,
    ]);
    let item = (kind, hostile_text(), hostile_text())
        .prop_map(|(kind, name, content)| ContextItem::new(kind, name, content));
    (
        hostile_text(),
        vec(item, 0..4),
        hostile_text().prop_map(|text| format!("x{text}")),
    )
        .prop_map(|(system, items, instructions)| {
            let prompt = UnifiedPrompt::new(instructions)
                .unwrap()
                .with_system(system);
            items.into_iter().fold(prompt, UnifiedPrompt::with_item)
        })
}

/// Returns an element as an XML reader sees it: its name, the name of its item and its text.
fn parsed_element(node: Node<'_, '_>) -> (String, Option<String>, String) {
    let name = node
        .attribute("path")
        .or_else(|| node.attribute("name"))
        .map(str::to_owned);
    let text: String = node
        .descendants()
        .filter(Node::is_text)
        .filter_map(|text| text.text())
        .collect();
    let text = if node.attribute("eol") == Some("crlf") {
        text.replace('\n', "\r\n")
    } else {
        text
    };
    (node.tag_name().name().to_owned(), name, text)
}

fn expected_elements(prompt: &UnifiedPrompt) -> Vec<(String, Option<String>, String)> {
    let mut elements = Vec::new();
    if !prompt.system_prompt().is_empty() {
        elements.push((
            "system_prompt".to_owned(),
            None,
            prompt.system_prompt().to_owned(),
        ));
    }

    for item in prompt.context() {
        let element = match item.kind() {
            ContextKind::File => "file",
            ContextKind::Artifact => "artifact",
            ContextKind::Thought => "thought",
        };
        elements.push((
            element.to_owned(),
            Some(item.name().to_owned()),
            item.content().to_owned(),
        ));
    }

    elements.push((
        "instructions".to_owned(),
        None,
        prompt.instructions().to_owned(),
    ));
    elements
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn content_cannot_add_or_close_elements(prompt in any_prompt()) {
        let xml = prompt.to_xml();
        let document = Document::parse(&xml).unwrap();
        let root = document.root_element();
        prop_assert_eq!(root.tag_name().name(), "prompt");
        let leaves: Vec<_> = root
            .descendants()
            .filter(|node| node.is_element() && !matches!(node.tag_name().name(), "prompt" | "context"))
            .map(parsed_element)
            .collect();
        prop_assert_eq!(leaves, expected_elements(&prompt));
        let elements = root.descendants().filter(Node::is_element).count();
        let context = usize::from(!prompt.context().is_empty());
        prop_assert_eq!(elements, 1 + context + expected_elements(&prompt).len());
        prop_assert_eq!(root.last_element_child().unwrap().tag_name().name(), "instructions");
    }

    #[test]
    fn prompt_round_trips(prompt in any_prompt()) {
        prop_assert_eq!(UnifiedPrompt::from_xml(&prompt.to_xml()).unwrap(), prompt.clone());
        let json = serde_json::to_string(&prompt).unwrap();
        prop_assert_eq!(serde_json::from_str::<UnifiedPrompt>(&json).unwrap(), prompt);
    }

    #[test]
    fn streamed_and_whole_output_are_equal(prompt in any_prompt()) {
        let mut streamed = Vec::new();
        prompt.write_xml(&mut streamed).unwrap();
        prop_assert_eq!(streamed, prompt.to_xml().into_bytes());
        let pieces: String = prompt.pieces().map(|piece| prompt.piece_xml(piece)).collect();
        prop_assert_eq!(pieces, prompt.to_xml());
    }

    /// A document with one byte added, removed or changed is refused or has the same meaning.
    #[test]
    fn damaged_document_is_refused_or_round_trips(
        prompt in any_prompt(), at in any::<prop::sample::Index>(), insert in "[<>&;\"' \n/a=!-]{0,3}", drop in 0_usize..2,
    ) {
        let xml = prompt.to_xml();
        let at = at.index(xml.len());
        prop_assume!(xml.is_char_boundary(at) && xml.is_char_boundary((at + drop).min(xml.len())));
        let damaged = format!("{}{insert}{}", &xml[..at], &xml[(at + drop).min(xml.len())..]);
        match UnifiedPrompt::from_xml(&damaged) {
            Ok(read) => prop_assert_eq!(read.to_xml(), damaged),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::XmlInvalid);
                prop_assert!(error.place().is_some());
            }
        }
    }
}

#[test]
fn forbidden_characters_are_replaced_visibly() {
    let made = UnifiedPrompt::new("a\0b\u{1b}[31m\u{b}\u{ffff}").unwrap();
    assert_eq!(made.instructions(), "a␀b␛[31m␋\u{fffd}");
    let read: UnifiedPrompt = serde_json::from_str(
        r#"{"instructions":"a\u0000b","context":[{"type":"file","name":"\u0001","content":"\u0002"}]}"#,
    )
    .unwrap();
    assert_eq!(read.instructions(), "a␀b");
    assert_eq!(
        (read.context()[0].name(), read.context()[0].content()),
        ("␁", "␂")
    );
}

/// Documents that an XML reader would accept, or nearly, but that the program never writes.
#[test]
fn non_canonical_document_is_refused_with_location() {
    let cases = [
        (
            "<prompt>\n<instructions>x</instructions>\n</prompt>",
            (3, 10),
        ),
        (
            "<prompt>\n<instructions>x</instructions>\n</prompt>\n\n",
            (4, 1),
        ),
        (
            "<?xml version=\"1.0\"?>\n<prompt>\n<instructions>x</instructions>\n</prompt>\n",
            (1, 1),
        ),
        (
            "<prompt><instructions>x</instructions>\n</prompt>\n",
            (1, 9),
        ),
        (
            "<prompt>\n<instructions>x &lt; y</instructions>\n</prompt>\n",
            (2, 17),
        ),
        (
            "<prompt>\n<instructions><![CDATA[x]]></instructions>\n</prompt>\n",
            (2, 15),
        ),
        (
            "<prompt>\n<instructions >x</instructions>\n</prompt>\n",
            (2, 14),
        ),
        (
            "<prompt>\n<!-- c -->\n<instructions>x</instructions>\n</prompt>\n",
            (2, 1),
        ),
        (
            "<prompt>\n<instructions>x</instructions>\n<file path=\"a\">b</file>\n</prompt>\n",
            (2, 2),
        ),
        (
            "<prompt>\n<context>\n<file path='a'>b</file>\n</context>\n<instructions>x</instructions>\n</prompt>\n",
            (3, 12),
        ),
        (
            "<prompt>\n<context>\n</context>\n<instructions>x</instructions>\n</prompt>\n",
            (2, 2),
        ),
        (
            "<prompt>\n<instructions>x</instructions>\n<instructions>y</instructions>\n</prompt>\n",
            (2, 15),
        ),
        (
            "<prompt>\n<instructions>x<b/></instructions>\n</prompt>\n",
            (2, 16),
        ),
        (
            "<prompt>\n<instructions>&nope;</instructions>\n</prompt>\n",
            (2, 15),
        ),
        (
            "<prompt>\n<unknown>x</unknown>\n<instructions>x</instructions>\n</prompt>\n",
            (2, 2),
        ),
    ];

    for (xml, place) in cases {
        let error = UnifiedPrompt::from_xml(xml).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::XmlInvalid);
        let found = error.place().map(|place| (place.line, place.column));
        assert_eq!(found, Some(place), "{xml}\n{error:#}");
    }

    for xml in [
        "",
        "x",
        "<prompt>",
        "<prompt></prompt>\n",
        "<prompt>\n<instructions> </instructions>\n</prompt>\n",
    ] {
        assert_eq!(
            UnifiedPrompt::from_xml(xml).unwrap_err().kind(),
            ErrorKind::XmlInvalid,
            "{xml:?}"
        );
    }
}
