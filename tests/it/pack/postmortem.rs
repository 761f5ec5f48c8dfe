//! A chat pack that is not a novel: the postmortem of an incident, with its own sections, at 8K, 32K and 200K.

use agentd::compose::PromptRequest;
use agentd::models::{Catalogue, Mode, State, StateDocument, Tier};
use agentd::parse::{self, ReplyContext};
use agentd::{Pack, compose};

use crate::support::{files_below, read_data, repository};

/// A model with a window of 200,000, of 32,768 and of 8,192 tokens: full, medium and minimal.
const MODELS: [&str; 3] = ["claude-sonnet-4", "mistral:7b", "llama3.2:3b"];

const MODES: [&str; 5] = ["triage", "timeline", "analysis", "review", "publish"];

/// Words of the pack `foreman`. A prompt of this pack has none of them.
const WORDS_OF_THE_NOVEL: [&str; 16] = [
    "antipattern",
    "beat",
    "chapter",
    "draft",
    "foreman",
    "genre",
    "manuscript",
    "notebook",
    "novel",
    "protagonist",
    "scene",
    "story",
    "template",
    "theme",
    "voice",
    "writer",
];

const STATE: &str = "
incident: {title: Checkout is down, severity: 1, customers_affected: true, commander: Ada}
services: [{name: checkout, status: down}, {name: search, status: slow}]
events:
  - {at: '14:01', source: log, what: Deploy 42 starts}
  - {at: '14:03', source: metric, what: 'Errors > 50 %'}
responders: {on_call: [Ada, Ben], hand_overs: [{at: '15:00', to: Ben}]}
documents:
  - {name: Timeline, status: complete}
  - {name: Root Cause, status: in_progress, completed: [trigger], missing: [cause]}
  - {name: Follow-ups, status: not_started}
knowledge:
  - {category: impact, key: orders, value: 1200 orders were lost.}
  - {category: cause, key: index, value: Migration 42 dropped an index.}
history:
  - {user: Is it the deploy?, assistant: <message>It began two minutes earlier.</message>}
";

fn postmortem() -> Pack {
    let folder = repository().join("tests/data/packs/postmortem");
    let files = files_below(&folder).into_iter().map(|path| {
        let text = read_data(&format!("packs/postmortem/{}", path.display()));
        (path.display().to_string(), text)
    });
    Pack::from_files("postmortem", files).unwrap()
}

/// Returns the prompt of a state for a model in a mode.
fn prompt(pack: &Pack, model: &str, mode: &str, state: &str) -> String {
    let state = State {
        document: StateDocument::read(state, "state.yaml", &pack.state).unwrap(),
        ..State::in_mode(Mode::new(mode).unwrap())
    };
    let request = PromptRequest {
        model: Some(Catalogue::built_in().unwrap().find(model).unwrap().clone()),
        ..PromptRequest::new("Why?")
    };
    compose(pack, &state, &request).unwrap().text()
}

/// Returns the content of the only session state of a prompt.
fn shown_state(prompt: &str) -> &str {
    assert_eq!(prompt.matches("<session_state>").count(), 1, "{prompt}");
    let (_, rest) = prompt.split_once("<session_state>\n").unwrap();
    rest.split_once("</session_state>").unwrap().0
}

#[test]
fn sections_are_shown_as_declared_at_each_tier() {
    let pack = postmortem();
    let full = "  <current_mode>ANALYSIS</current_mode>
  <completion_pct>50</completion_pct>
  <incident>
    <title>Checkout is down</title>
    <severity>1</severity>
    <customers_affected>true</customers_affected>
    <commander>Ada</commander>
  </incident>
  <events>
    <event at=\"14:01\" source=\"log\">Deploy 42 starts</event>
    <event at=\"14:03\" source=\"metric\">Errors &gt; 50 %</event>
  </events>
  <responders>
    <on_call>Ada, Ben</on_call>
    <hand_overs>
      <hand_over at=\"15:00\">Ben</hand_over>
    </hand_overs>
  </responders>
  <documents>
    <document name=\"Timeline\" status=\"complete\"/>
    <document name=\"Root Cause\" status=\"in_progress\">
      <completed>trigger</completed>
      <missing>cause</missing>
    </document>
    <document name=\"Follow-ups\" status=\"not_started\"/>
  </documents>
  <evidence>
    <entry category=\"impact\" key=\"orders\">
      1200 orders were lost.
    </entry>
    <entry category=\"cause\" key=\"index\">
      Migration 42 dropped an index.
    </entry>
  </evidence>
";
    let medium = "  <current_mode>ANALYSIS</current_mode>
  <completion_pct>50</completion_pct>
  <incident>
    <title>Checkout is down</title>
    <severity>1</severity>
  </incident>
  <events>
    <event at=\"14:01\" source=\"log\">Deploy 42 starts</event>
    <event at=\"14:03\" source=\"metric\">Errors &gt; 50 %</event>
  </events>
  <documents>
    <document name=\"Timeline\" status=\"complete\"/>
    <document name=\"Root Cause\" status=\"in_progress\" missing=\"cause\"/>
    <document name=\"Follow-ups\" status=\"not_started\"/>
  </documents>
  <evidence>
    <entry category=\"cause\" key=\"index\">
      Migration 42 dropped an index.
    </entry>
  </evidence>
";
    let minimal = "  <current_mode>ANALYSIS</current_mode>
  <completion_pct>50</completion_pct>
  <incident>Checkout is down</incident>
  <severity>1</severity>
";

    for (model, expected) in MODELS.into_iter().zip([full, medium, minimal]) {
        let prompt = prompt(&pack, model, "analysis", STATE);
        assert_eq!(shown_state(&prompt), expected, "{model}");
        assert!(prompt.ends_with("\n\n---\n\n## NOW\n\nCommander: Why?"));
        assert!(prompt.contains("USER: Is it the deploy?"), "{model}");
    }
}

#[test]
fn modes_show_summarize_and_omit_sections() {
    let pack = postmortem();
    let review = "  <current_mode>REVIEW</current_mode>
  <completion_pct>50</completion_pct>
  <incident>
    <title>Checkout is down</title>
  </incident>
  <events count=\"2\"/>
  <documents>
    <document name=\"Timeline\" status=\"complete\"/>
    <document name=\"Root Cause\" status=\"in_progress\" missing=\"cause\"/>
    <document name=\"Follow-ups\" status=\"not_started\"/>
  </documents>
";
    let publish = "  <current_mode>PUBLISH</current_mode>
  <completion_pct>50</completion_pct>
  <incident>
    <title>Checkout is down</title>
    <severity>1</severity>
  </incident>
  <documents complete=\"1\" total=\"3\"/>
";
    for (mode, expected) in [("review", review), ("publish", publish)] {
        let prompt = prompt(&pack, "mistral:7b", mode, STATE);
        assert_eq!(shown_state(&prompt), expected, "{mode}");
    }
}

#[test]
fn new_session_lists_the_documents_of_its_mode() {
    let pack = postmortem();
    let names = |mode: &str| {
        let prompt = prompt(&pack, "claude-sonnet-4", mode, "");
        let starts = shown_state(&prompt).split("<document name=\"").skip(1);
        starts
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("timeline"), ["Timeline"]);
    assert_eq!(names("analysis"), ["Timeline", "Root Cause", "Follow-ups"]);
}

#[test]
fn no_prompt_has_a_word_of_the_novel() {
    let pack = postmortem();
    for mode in MODES {
        for model in MODELS {
            for state in ["", STATE] {
                let prompt = prompt(&pack, model, mode, state).to_lowercase();
                for word in WORDS_OF_THE_NOVEL {
                    assert!(!prompt.contains(word), "{mode}, {model}: {word}\n{prompt}");
                }
            }
        }
    }
}

#[test]
fn windows_and_tiers_of_the_models() {
    let catalogue = Catalogue::built_in().unwrap();
    let found = MODELS.map(|model| {
        let model = catalogue.find(model).unwrap();
        (model.window, model.tier)
    });
    assert_eq!(
        found,
        [
            (200_000, Tier::Full),
            (32_768, Tier::Medium),
            (8_192, Tier::Minimal)
        ]
    );
}

#[test]
fn examples_of_its_actions_are_valid_replies() {
    let pack = postmortem();
    let mut found = 0;
    for mode in MODES {
        let prompt = prompt(&pack, "claude-sonnet-4", mode, STATE);
        let grammar = pack.grammar(&Mode::new(mode).unwrap()).unwrap();
        for part in prompt.split("<example>").skip(1) {
            let example = part.split("</example>").next().unwrap();
            let response = parse::parse(example, &grammar, &ReplyContext::default());
            assert_eq!(response.actions.len(), 1, "{mode}: {example}");
            assert!(response.proposals.is_empty(), "{mode}: {example}");
            found += 1;
        }
    }
    assert_eq!(found, 7, "one for each action of a mode");
}
