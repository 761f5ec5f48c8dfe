//! Prompts are escaped for agents that would expand parts of them. roxmltree is the XML oracle.

use agentd::compose::{PromptRequest, compose};
use agentd::models::{
    ContextItem, ContextKind, ConversationTurn, Format, Mode, PromptExpansion, State,
    StateDocument, UnifiedPrompt,
};
use agentd::text::xml::escape_at_signs;
use agentd::{Pack, SearchPath};
use proptest::prelude::*;

use crate::support::{TestProject, write};

/// A file in the style of web frameworks: nearly every line contains an `@`.
const DECORATORS: &str = "import { Component } from '@angular/core';\n@Component({selector: 'app', a: 1 < 2 && true})\n\
    export class App {\n  @Input() name = 'joe@example.com';\n  @Output() done = x as unknown as ']]>';\n}\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prompt_without_at_signs_is_unchanged(
        system in "[@a<&>\\]\\[ \n!CDAT]{0,40}", name in "[@a<&\"]{1,8}", body in "[@a<&>\\]\\[\r\n!CDAT]{0,60}",
    ) {
        let prompt = UnifiedPrompt::new("Look at @this.").unwrap()
            .with_system(system)
            .with_item(ContextItem::new(ContextKind::File, name, body));
        let written = prompt.to_xml();
        let sent = escape_at_signs(&written);
        prop_assert!(!sent.contains('@'), "{}", sent);

        let texts = |xml: &str| -> Vec<String> {
            let document = roxmltree::Document::parse(xml).unwrap();
            document.descendants().filter(|node| node.is_element()).map(|node| {
                let name = node.attributes().map(|a| a.value().to_owned()).collect::<String>();
                let texts = node.children().filter(|child| child.is_text()).map(|child| child.text().unwrap_or_default());
                name + &texts.collect::<String>()
            }).collect()
        };

        prop_assert_eq!(texts(&sent), texts(&written));
        prop_assert_eq!(UnifiedPrompt::from_xml(&sent).unwrap(), prompt);
    }
}

#[test]
fn partly_escaped_at_signs_are_refused() {
    let written = UnifiedPrompt::new("Look at @this and @that.")
        .unwrap()
        .to_xml();
    let error = UnifiedPrompt::from_xml(&written.replacen('@', "&#64;", 1)).unwrap_err();
    assert_eq!(error.place().map(|place| place.line), Some(2), "{error:#}");
}

#[test]
fn at_signs_are_escaped_for_gemini() {
    let project = TestProject::new();
    project.write("src/app.ts", DECORATORS);
    let ask = [
        "prompt",
        "plan",
        "Look at @app.",
        "--file",
        "src/app.ts",
        "--agent",
    ];
    let shown = |agent: &str| project.run(&[&ask[..], &[agent]].concat()).ok();
    let gemini = shown("gemini");
    assert!(!gemini.contains('@'), "{gemini}");
    assert!(
        gemini.contains("]]>&#64;<![CDATA[Component({selector: 'app', a: 1 < 2 && true})\n"),
        "{gemini}"
    );
    assert!(!shown("gemini:gemini-2.5-flash").contains('@'));

    let document = roxmltree::Document::parse(&gemini).unwrap();
    let file = document
        .descendants()
        .find(|node| node.has_tag_name("file"))
        .unwrap();
    let text: String = file.children().filter_map(|child| child.text()).collect();
    assert_eq!(text, DECORATORS);

    UnifiedPrompt::from_xml(&gemini).unwrap();

    // For claude a variable disables the expansion of `@`, and codex never expands it.
    for agent in ["claude", "codex"] {
        assert!(shown(agent).contains("@Component({selector"), "{agent}");
    }
}

#[test]
fn flat_text_is_wrapped_for_gemini() {
    let project = TestProject::new();
    let ask = [
        "prompt",
        "architect",
        "Who is @anna? a < b ]]>",
        "--pack",
        "foreman",
        "--model",
        "gemini-2.5-pro",
        "--agent",
    ];
    let shown = |agent: &str| project.run(&[&ask[..], &[agent]].concat()).ok();

    let (gemini, codex) = (shown("gemini"), shown("codex"));
    assert!(
        codex.contains("Who is @anna?") && !codex.starts_with('<'),
        "{codex}"
    );
    assert!(
        gemini.starts_with("<prompt>") && !gemini.contains('@'),
        "{gemini}"
    );

    let document = roxmltree::Document::parse(&gemini).unwrap();
    let text: String = document
        .root_element()
        .children()
        .filter_map(|child| child.text())
        .collect();
    assert!(text == codex);

    let chat = project
        .run(&[&ask[..], &["gemini", "--format", "chat"]].concat())
        .ok();
    let messages: serde_json::Value = serde_json::from_str(&chat).unwrap();
    assert!(!chat.contains('@'), "{chat}");
    assert_eq!(messages[1]["content"], "Who is @anna? a < b ]]>");
}

/// A pack whose prompts begin with a given text.
fn pack_with_prefix(text: &str) -> (tempfile::TempDir, Pack) {
    let folder = tempfile::tempdir().unwrap();
    let file =
        |name: &str, text: &str| write(&folder.path().join("agentd/packs/blunt").join(name), text);
    file("first.md", text);
    file(
        "pack.yaml",
        "format: 1\nname: blunt\ndescription: A trial.\nstart: go\nrendering: flat\nlayers:\n  \
         - {id: first, holds: text, text: first.md, class: pinned, zone: stable}\n  \
         - {id: history, holds: history, class: elastic, zone: session}\n  \
         - {id: message, holds: instructions, class: pinned, zone: turn}\n\
         modes:\n  go: {permission: read-only, next: {otherwise: done}}\n",
    );
    let pack = Pack::load(
        "blunt",
        &SearchPath::new(Some(folder.path().to_path_buf()), None),
    )
    .unwrap();
    (folder, pack)
}

#[test]
fn text_that_starts_like_a_command_is_wrapped() {
    let state = State {
        mode: Some(Mode::new("go").unwrap()),
        ..State::default()
    };
    let sent = |text: &str, expands: &[PromptExpansion]| {
        let (_folder, pack) = pack_with_prefix(text);
        let (instructions, expands) = (Some("now".to_owned()), expands.to_vec());
        compose(
            &pack,
            &state,
            &PromptRequest {
                instructions,
                expands,
                ..PromptRequest::default()
            },
        )
        .unwrap()
        .rendered()
    };

    let wrapped = "<prompt><![CDATA[/help me & @x\n\n---\n\n# instructions\n\nnow]]></prompt>\n";
    assert_eq!(sent("/help me & @x", &[PromptExpansion::Slashes]), wrapped);
    assert_eq!(
        sent("help me", &[PromptExpansion::Slashes]),
        "help me\n\n---\n\n# instructions\n\nnow"
    );
    assert_eq!(
        sent("/help me", &[]),
        "/help me\n\n---\n\n# instructions\n\nnow"
    );
}

/// Escaping makes a prompt longer. The fit accounts for that.
#[test]
fn escaped_history_stays_within_the_window() {
    let (_folder, pack) = pack_with_prefix("Talk.");
    let turn = |index: usize| ConversationTurn {
        user: format!("q{index} {}", "@a ".repeat(50)),
        assistant: "@b".repeat(30),
    };
    let work = StateDocument {
        history: (0..40).map(turn).collect(),
        ..StateDocument::default()
    };
    let state = State {
        mode: Some(Mode::new("go").unwrap()),
        document: work,
        ..State::default()
    };
    let catalogue = agentd::models::Catalogue::built_in().unwrap();

    for (format, window) in [Format::Flat, Format::Xml]
        .into_iter()
        .flat_map(|format| [(format, 3_000), (format, 9_000)])
    {
        let model = agentd::models::ModelSpec {
            window,
            ..catalogue.find("gpt-4o").unwrap().clone()
        };
        let request = |expands: Vec<PromptExpansion>| PromptRequest {
            instructions: Some("Go on.".to_owned()),
            format: Some(format),
            model: Some(model.clone()),
            expands,
            ..PromptRequest::default()
        };

        let kept = |request| {
            let draft = compose(&pack, &state, &request).unwrap();
            let tokens = bpe_openai::o200k_base().count(&draft.rendered()) as u64;
            assert!(tokens <= window, "{format:?} {window}: {tokens}");
            draft
                .fit_report
                .blocks
                .iter()
                .find(|row| row.block == "history")
                .unwrap()
                .kept
        };

        let (without, with) = (
            kept(request(Vec::new())),
            kept(request(vec![PromptExpansion::AtSigns])),
        );
        assert!(
            0 < with && with < without,
            "{format:?} {window}: {with} of {without}"
        );
    }
}
