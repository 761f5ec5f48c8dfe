//! Universal Agent Instruction Architecture, sections 9 and 10.1 and Appendices B and D: models, budgets, the assembler.

use agentd::compose::{AssemblyConfig, Counter, PromptAssembler, WorkOrder, budgets};
use agentd::models::{
    ArtifactProgress, ArtifactStatus, Mode, Reliability, StateDocument, Tier, TokenizerSpec,
};
use agentd::{ErrorKind, Pack, SearchPath};
use indexmap::IndexMap;
use serde_json::Value;

use crate::support::foreman_pack::{
    MODES, assembler, catalogue_with_mine, config, entry, file, layer_openers, o200k, pack, prompt,
    sections, state_of, turns, turns_shown, work,
};
use crate::support::{TestProject, capture_log};

/// 9.1 and 9.2: the text of each layer for a model.
#[test]
fn section_9_2_tier_based_prompt_assembly() {
    let table = [
        (
            "gpt-4o",
            [
                "identity.md",
                "process_map.md",
                "modes/architect.md",
                "protocols.md",
            ]
            .as_slice(),
        ),
        (
            "deepseek-chat",
            &[
                "identity.md",
                "process_map.medium.md",
                "modes/architect.md",
                "protocols.medium.md",
            ],
        ),
        (
            "llama3.2:3b",
            &[
                "identity.minimal.md",
                "modes/architect.minimal.md",
                "protocols.minimal.md",
            ],
        ),
    ];
    let all: std::collections::BTreeSet<_> =
        table.iter().flat_map(|(_, files)| files.iter()).collect();

    for (model, files) in table {
        let prompt = prompt(model, "architect", &work("section_6_1"));
        for name in &all {
            let text = file(&format!("packs/foreman/{name}"));
            let text = text.split("{{").next().unwrap().trim();
            assert_eq!(
                prompt.contains(text),
                files.contains(name),
                "{model}: {name}"
            );
        }
    }
}

/// 9.2 and 9.3: a model outside the matrix has the medium tier and medium reliability, which is
/// logged.
#[test]
fn section_9_2_an_unknown_model_is_medium() {
    let (prompt, log) = capture_log(|| prompt("brand-new-9000", "architect", &work("section_6_1")));
    let warned = log
        .iter()
        .any(|line| line.starts_with("WARN: ") && line.contains("`brand-new-9000`"));
    assert!(warned, "{log:?}");
    assert!(prompt.contains(file("packs/foreman/process_map.medium.md").trim()));
    assert!(prompt.contains("CRITICAL FORMAT REMINDER:"));
    assert!(!prompt.contains("## EXAMPLE TURN"));
}

/// 9.3: low and medium reliability get the reminder, high and very high do not. It names every tag,
/// and forbids JSON.
#[test]
fn section_9_3_xml_reliability_handling() {
    let table = [
        ("llama3.2:3b", true),
        ("deepseek-chat", true),
        ("gemini-2.0-flash", true),
        ("gpt-4o", false),
        ("claude-sonnet-4", false),
    ];

    for (model, reminded) in table {
        let prompt = prompt(model, "architect", &work("section_6_1"));
        let reminder = prompt
            .split_once("\n\nCRITICAL FORMAT REMINDER:\n")
            .map(|(_, rest)| rest);
        assert_eq!(reminder.is_some(), reminded, "{model}");

        let Some(reminder) = reminder else { continue };
        let reminder = reminder.split("\n\n").next().unwrap();
        assert_eq!(
            reminder
                .lines()
                .filter(|line| line.starts_with("- "))
                .count(),
            4,
            "{model}"
        );
        for word in ["<message>", "<thinking>", "<action type=\"...\">", "JSON"] {
            assert!(reminder.contains(word), "{model}: {word}");
        }
    }
}

#[test]
fn section_9_3_by_reliability_alone() {
    use Reliability::{High, Low, Medium, VeryHigh};

    for tier in [Tier::Full, Tier::Medium, Tier::Minimal] {
        for (reliability, reminded) in [
            (Low, true),
            (Medium, true),
            (High, false),
            (VeryHigh, false),
        ] {
            let work = work("section_6_1");
            let assembler =
                assembler(&work).with_catalogue(catalogue_with_mine(100_000, tier, reliability));
            let prompt = assembler
                .assemble(&config("mine", "editor"), &work, &[], "x", None)
                .unwrap();
            assert_eq!(
                prompt.contains("CRITICAL FORMAT REMINDER:"),
                reminded,
                "{tier:?}, {reliability:?}"
            );
            assert_eq!(
                prompt.contains("## EXAMPLE TURN"),
                reliability == Low,
                "{tier:?}, {reliability:?}"
            );
        }
    }
}

/// `include_thinking_reminder: false` removes only the line about thinking.
#[test]
fn section_10_1_include_thinking_reminder() {
    for model in ["llama3.2:3b", "deepseek-chat", "gemini-2.0-flash", "gpt-4o"] {
        let work = StateDocument {
            history: turns(2, 3),
            ..work("section_6_1")
        };
        let assemble = |include_thinking_reminder| {
            let config = AssemblyConfig {
                include_thinking_reminder,
                ..config(model, "director")
            };
            assembler(&work)
                .assemble(&config, &work, &work.history, "Go on.", None)
                .unwrap()
        };

        let (with, without) = (assemble(true), assemble(false));
        let mut lines: Vec<&str> = with.lines().collect();
        if model != "gpt-4o" {
            let reminder = lines
                .iter()
                .position(|line| *line == "CRITICAL FORMAT REMINDER:")
                .unwrap();
            let about = |line: &&str| line.starts_with("- ") && line.contains("<thinking>");
            let thinking = reminder + lines[reminder..].iter().position(about).unwrap();
            lines.remove(thinking);
        }

        assert_eq!(without.lines().collect::<Vec<_>>(), lines, "{model}");
    }
}

/// 9.4: a note for every model with `gemini` in its name, in any case, after the reminder and
/// before the history.
#[test]
fn section_9_4_gemini_special_handling() {
    let note = file("packs/foreman/gemini_note.md");
    for word in ["JSON", "<message>", "<thinking>", "<action>"] {
        assert!(note.contains(word), "{word}");
    }
    let work = StateDocument {
        history: turns(2, 3),
        ..work("section_6_1")
    };

    for model in [
        "gpt-4o",
        "claude-opus-4",
        "llama3.2:3b",
        "deepseek-chat",
        "gem-ini",
    ] {
        assert!(
            !prompt(model, "architect", &work).contains(note.trim()),
            "{model}"
        );
    }

    for model in ["gemini-2.0-flash", "gemini-2.5-pro", "google/GEMINI-next"] {
        let prompt = prompt(model, "architect", &work);
        let parts = [
            "# OUTPUT PROTOCOLS",
            "CRITICAL FORMAT REMINDER:",
            note.trim(),
            "## CONVERSATION HISTORY",
        ];
        let places: Vec<_> = parts
            .iter()
            .map(|part| prompt.find(part).unwrap())
            .collect();
        assert!(places.is_sorted(), "{model}: {places:?}");
    }
}

/// Models of low reliability get an example between the reminder and the history.
#[test]
fn section_9_3_the_example_turn() {
    let work = StateDocument {
        history: turns(2, 3),
        ..work("section_6_1")
    };
    let prompt = prompt("llama3.2:3b", "architect", &work);
    let (user, assistant) = (
        file("packs/foreman/examples/architect.user.md"),
        file("packs/foreman/examples/architect.assistant.md"),
    );
    let parts = [
        "CRITICAL FORMAT REMINDER:".to_owned(),
        "## EXAMPLE TURN".to_owned(),
        format!("USER: {}", user.trim()),
        format!("ASSISTANT: {}", assistant.trim()),
        "## CONVERSATION HISTORY".to_owned(),
    ];
    let places: Vec<_> = parts
        .iter()
        .map(|part| prompt.find(part.as_str()))
        .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}"
    );
}

/// Every mode shows its own example, marked as an example in each format. A chat has no message of it that could be
/// taken for a turn of the conversation.
#[test]
fn section_9_3_the_example_turn_is_marked_in_every_format() {
    let project = TestProject::new();
    for mode in MODES {
        let example = |role: &str| {
            let text = file(&format!("packs/foreman/examples/{mode}.{role}.md"));
            text.trim().to_owned()
        };
        let flat = format!(
            "## EXAMPLE TURN\n\nUSER: {}\n\nASSISTANT: {}",
            example("user"),
            example("assistant")
        );
        let prompt = |format: &str| {
            let args = [
                "prompt",
                mode,
                "Start",
                "--pack",
                "foreman",
                "--model",
                "llama3.2:3b",
            ];
            project
                .run(&[&args[..], &["--format", format]].concat())
                .ok()
        };

        assert!(prompt("flat").contains(&flat), "{mode}");

        let messages: Vec<Value> = serde_json::from_str(&prompt("chat")).unwrap();
        let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["system", "user"], "{mode}");
        assert!(messages[0]["content"].as_str().unwrap().contains(&flat));
        assert_eq!(messages[1]["content"], "Start");

        let tools: Value = serde_json::from_str(&prompt("tools")).unwrap();
        assert!(tools["system_prompt"].as_str().unwrap().contains(&flat));

        let xml = prompt("xml");
        let marked = format!(
            "<artifact name=\"example/user\">## EXAMPLE TURN\n\n{}</artifact>",
            example("user")
        );
        assert!(xml.contains(&marked), "{mode}: {xml}");
        assert!(xml.contains("<artifact name=\"example/assistant\">"));
    }
}

/// 10.1's `AssemblyConfig`: ten entries, ten turns, and the reminder.
#[test]
fn section_10_1_assembly_config_defaults() {
    let config = config("gpt-4o", "architect");
    assert_eq!(
        (config.max_kb_entries, config.max_conversation_turns),
        (10, 10)
    );
    assert!(config.include_thinking_reminder);
}

#[test]
fn section_10_1_max_conversation_turns() {
    let work = StateDocument {
        history: turns(25, 1),
        ..StateDocument::default()
    };
    assert_eq!(
        turns_shown(&prompt("gpt-4o", "architect", &work)),
        (16..=25).collect::<Vec<_>>()
    );

    for (limit, first) in [(3, 23), (25, 1), (100, 1)] {
        let config = AssemblyConfig {
            max_conversation_turns: limit,
            ..config("gpt-4o", "architect")
        };
        let prompt = assembler(&work)
            .assemble(&config, &work, &work.history, "Go on.", None)
            .unwrap();
        assert_eq!(
            turns_shown(&prompt),
            (first..=25).collect::<Vec<_>>(),
            "{limit}"
        );
    }

    let none = AssemblyConfig {
        max_conversation_turns: 0,
        ..config("gpt-4o", "architect")
    };
    let prompt = assembler(&work)
        .assemble(&none, &work, &work.history, "Go on.", None)
        .unwrap();
    assert!(!prompt.contains("## CONVERSATION HISTORY"));
}

/// The typed work order of 10.1 gives the session state that 10.1 generates.
#[test]
fn section_10_1_typed_work_order() {
    let order = WorkOrder {
        project_title: "The Last Starship".to_owned(),
        protagonist_name: "Elena Vance".to_owned(),
        templates: vec![ArtifactProgress {
            name: "Theme".to_owned(),
            status: ArtifactStatus::Complete,
            ..ArtifactProgress::default()
        }],
        notebooks: IndexMap::from([("nb_1".to_owned(), "world_building".to_owned())]),
    };
    let prompt = prompt("gpt-4o", "architect", &order.into());
    assert_eq!(
        state_of(&prompt),
        "<session_state>\n  <current_mode>ARCHITECT</current_mode>\n  <completion_pct>100</completion_pct>\n  \
         <project>\n    <title>The Last Starship</title>\n    <protagonist>Elena Vance</protagonist>\n  </project>\n  \
         <work_order>\n    <template name=\"Theme\" status=\"complete\"/>\n  </work_order>\n  \
         <notebooks>\n    <notebook id=\"nb_1\" role=\"world_building\"/>\n  </notebooks>\n</session_state>"
    );
}

#[test]
fn section_10_1_active_context() {
    let mut work = StateDocument::default();
    let shown = |work: &StateDocument, given: Option<&IndexMap<String, String>>| {
        assembler(work)
            .assemble(&config("gpt-4o", "director"), work, &[], "Go on.", given)
            .unwrap()
    };
    assert_eq!(sections(state_of(&shown(&work, None))), ["work_order"]);
    work.sections.insert(
        "active_context".into(),
        serde_json::json!({"file": "own.md"}),
    );
    assert!(shown(&work, None).contains("    <file>own.md</file>\n"));
    let given = IndexMap::from([("scene".to_owned(), "given".to_owned())]);
    let prompt = shown(&work, Some(&given));
    assert!(prompt.contains("  <active_context>\n    <scene>given</scene>\n  </active_context>\n"));
    assert!(!prompt.contains("own.md"));
}

/// `clear_cache`: a changed prompt file is read again, and not before.
#[test]
fn section_10_1_clear_cache() {
    let project = TestProject::new();
    let identity = "agentd/packs/foreman/identity.md";
    project.write(identity, "# THE FOREMAN\n\nThe old one.\n");
    let pack = Pack::load("foreman", &SearchPath::new(Some(project.root()), None)).unwrap();
    let assembler = PromptAssembler::new(pack, Vec::new()).unwrap();
    let assemble = || {
        let work = StateDocument::default();
        assembler
            .assemble(&config("gpt-4o", "architect"), &work, &[], "Go on.", None)
            .unwrap()
    };

    assert!(
        assemble()
            .starts_with("# THE FOREMAN\n\nThe old one.\n\n---\n\n# THE WRITING PROCESS MAP\n")
    );

    project.write(identity, "# THE FOREMAN\n\nThe new one.\n");
    assert!(assemble().contains("The old one."));

    assembler.clear_cache();
    assert!(assemble().starts_with("# THE FOREMAN\n\nThe new one.\n\n---\n\n"));
}

#[test]
fn section_10_1_an_unknown_mode_is_refused() {
    let work = StateDocument::default();
    let error = assembler(&work)
        .assemble(&config("gpt-4o", "plan"), &work, &[], "Go on.", None)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownMode);
}

/// The table of Appendix B, for each mode.
const APPENDIX_B: [(&str, [u64; 3]); 5] = [
    ("identity", [500, 500, 200]),
    ("process_map", [1_000, 400, 0]),
    ("mode_rules", [800, 600, 300]),
    ("session_state", [800, 400, 150]),
    ("protocols", [800, 600, 200]),
];

#[test]
fn appendix_b_every_rung_is_within_its_budget() {
    let counter = Counter::new(TokenizerSpec::default());
    let rows = budgets(&pack(), &counter).unwrap();

    for mode in MODES.map(|mode| Mode::new(mode).unwrap()) {
        for (layer, budget) in APPENDIX_B {
            for (tier, budget) in Tier::ALL.into_iter().zip(budget) {
                let row = rows
                    .iter()
                    .find(|row| row.mode == mode && row.tier == tier && row.layer == layer);
                let row = row.unwrap();
                assert_eq!(row.budget, Some(budget), "{mode} {tier:?} {layer}");
                assert!(row.tokens.unwrap_or(0) <= budget, "{row:?}");
                let is_prose = layer != "session_state";
                assert_eq!(row.tokens.is_some(), is_prose, "{row:?}");
                assert_eq!(
                    row.tokens.is_some_and(|tokens| tokens > 0),
                    is_prose && budget > 0,
                    "{row:?}"
                );
            }
        }
    }
}

/// Section 6.3: the state of section 6.1 takes up to 800 tokens at full and 150 at minimal.
#[test]
fn section_6_3_size_of_a_state_at_each_tier() {
    let work = work("section_6_1");
    for (model, most) in [
        ("gpt-4o", 800),
        ("deepseek-chat", 400),
        ("llama3.2:3b", 150),
    ] {
        for mode in MODES {
            let tokens = o200k(state_of(&prompt(model, mode, &work)));
            assert!(tokens <= most, "{mode}, {model}: {tokens} tokens");
        }
    }
}

/// Subtotal of Appendix B: the five layers before the conversation together, with the state of 6.1.
#[test]
fn appendix_b_subtotal() {
    let work = work("section_6_1");
    let table = [
        (Tier::Full, 3_900),
        (Tier::Medium, 2_500),
        (Tier::Minimal, 850),
    ];

    for (tier, subtotal) in table {
        for mode in MODES {
            let assembler = assembler(&work).with_catalogue(catalogue_with_mine(
                100_000,
                tier,
                Reliability::High,
            ));
            let prompt = assembler
                .assemble(&config("mine", mode), &work, &[], "Go on.", None)
                .unwrap();
            let tokens = o200k(prompt.split_once("## CURRENT MESSAGE").unwrap().0);
            assert!(tokens <= subtotal, "{mode}, {tier:?}: {tokens} tokens");
        }
    }
}

/// Returns the tokens of history in a prompt with the state of 6.1, 200 turns and the message of
/// 500 tokens of Appendix B, and the tokens of one turn.
fn history_with_a_long_message(
    tier: Tier,
    reliability: Reliability,
    window: u64,
    mode: &str,
) -> (u64, u64) {
    let work = StateDocument {
        history: turns(200, 40),
        ..work("section_6_1")
    };
    let turn = &work.history[0];
    let one_turn = o200k(&format!(
        "\n\nUSER: {}\n\nASSISTANT: {}",
        turn.user, turn.assistant
    ));
    let message = "why ".repeat(490);
    assert!((480..=500).contains(&o200k(&message)));

    let assembler = assembler(&work).with_catalogue(catalogue_with_mine(window, tier, reliability));
    let config = AssemblyConfig {
        max_conversation_turns: 1_000,
        ..config("mine", mode)
    };
    let prompt = assembler
        .assemble(&config, &work, &work.history, &message, None)
        .unwrap();
    let (_, rest) = prompt.split_once("## CONVERSATION HISTORY").unwrap();
    (
        o200k(rest.split_once("## CURRENT MESSAGE").unwrap().0),
        one_turn,
    )
}

/// With the total budgets of Appendix B and its message of 500 tokens, the conversation gets its
/// 4000, 2000 or 500 tokens, or less than one turn below that. At medium this includes the reminder
/// for the models of Appendix C.
#[test]
fn appendix_b_conversation_floor() {
    let table = [
        (Tier::Full, Reliability::High, 12_400, 4_000),
        (Tier::Medium, Reliability::High, 7_000, 2_000),
        (Tier::Medium, Reliability::Medium, 7_000, 2_000),
        (Tier::Minimal, Reliability::High, 2_850, 500),
    ];
    for (tier, reliability, window, floor) in table {
        for mode in MODES {
            let (history, one_turn) = history_with_a_long_message(tier, reliability, window, mode);
            assert!(
                history + one_turn >= floor,
                "{mode}, {tier:?}: {history} tokens of history"
            );
        }
    }
}

/// For the models of Appendix C at minimal, the reminder and the example also take room, which
/// Appendix B does not plan for: with a message of 500 tokens the conversation gets at least 400
/// tokens, not always 500.
#[test]
fn appendix_b_not_yet_met_at_minimal_the_example_shortens_the_conversation() {
    let histories = MODES
        .map(|mode| history_with_a_long_message(Tier::Minimal, Reliability::Low, 2_850, mode).0);
    assert!(
        histories.iter().all(|history| *history >= 400),
        "{histories:?}"
    );
    assert!(
        histories.iter().any(|history| *history < 500),
        "{histories:?}"
    );
}

/// Compares line by line. A line `[...]` of the expected text matches one or more lines of prose; a line that ends with
/// `...` matches a line that starts with the rest of it.
fn assert_shape(expected: &str, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let chunks: Vec<Vec<&str>> = expected
        .lines()
        .collect::<Vec<_>>()
        .split(|line| *line == "[...]")
        .map(<[_]>::to_vec)
        .collect();
    let mut at = 0;

    for (number, chunk) in chunks.iter().enumerate() {
        let skipped = if number == 0 { 0 } else { 1 };
        let found =
            (at + skipped..=lines.len()).find(|start| starts_with_lines(&lines[*start..], chunk));
        let found =
            found.unwrap_or_else(|| panic!("not found after line {at}: {chunk:#?}\nin:\n{text}"));
        assert!(number > 0 || found == 0, "the first line differs");
        at = found + chunk.len();
    }

    assert_eq!(at, lines.len(), "lines after the last: {:?}", &lines[at..]);
}

/// Returns true if the lines start with the expected ones.
fn starts_with_lines(lines: &[&str], expected: &[&str]) -> bool {
    lines.len() >= expected.len()
        && lines
            .iter()
            .zip(expected)
            .all(|(line, expected)| match expected.strip_suffix("...") {
                Some(start) => line.starts_with(start),
                None => line == expected,
            })
}

const APPENDIX_D_MESSAGE: &str =
    "I think she learns to trust, but only specific people - not everyone";

/// Appendix D, with the lines of prose that it quotes.
#[test]
fn appendix_d_example_assembled_prompt() {
    let work = work("appendix_d");
    let config = config("gpt-4o", "architect");
    let prompt = assembler(&work)
        .assemble(&config, &work, &work.history, APPENDIX_D_MESSAGE, None)
        .unwrap();
    assert_shape(&file("tests/data/golden/appendix_d.txt"), &prompt);
}

#[test]
fn appendix_d_by_the_command() {
    let project = TestProject::new();
    project.write("state.yaml", file("tests/data/state/appendix_d.yaml"));
    let args = [
        "--pack",
        "foreman",
        "--state",
        "state.yaml",
        "--model",
        "gpt-4o",
    ];
    let args = [
        &["prompt", "architect", APPENDIX_D_MESSAGE],
        args.as_slice(),
    ]
    .concat();
    assert_shape(
        &file("tests/data/golden/appendix_d.txt"),
        &project.run(&args).ok(),
    );
}

/// A long session: the state of 6.1, two hundred turns, fifty entries.
fn long_session() -> StateDocument {
    let knowledge = (1..=50)
        .map(|n| entry("world", &format!("law{n}"), &"the law holds ".repeat(8)))
        .collect();
    StateDocument {
        history: turns(200, 60),
        knowledge,
        ..work("section_6_1")
    }
}

fn assert_fits(prompt: &str, window: u64, reserve: u64, what: &str) {
    let tokens = o200k(prompt);
    assert!(
        tokens <= window - reserve,
        "{what}: {tokens} of {window} less {reserve}"
    );

    let found = layer_openers(prompt);
    let places = [
        "# THE FOREMAN",
        "<session_state>",
        "# OUTPUT PROTOCOLS",
        "## CONVERSATION HISTORY",
    ];
    let order: Vec<_> = places
        .iter()
        .map(|opener| found.iter().position(|line| line == opener))
        .collect();
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{what}: {found:?}"
    );
    assert_eq!(found.last(), Some(&"## CURRENT MESSAGE"), "{what}");

    let shown = turns_shown(prompt);
    assert_eq!(
        shown,
        (201 - shown.len()..=200).collect::<Vec<_>>(),
        "{what}"
    );
}

/// The same session for 8K, 32K, 200K and 1M tokens: never over the window, always in order.
#[test]
fn section_9_1_one_state_fits_every_window() {
    let work = long_session();
    let table = [
        ("llama3.2:3b", 8_192, 1_000),
        ("mistral:7b", 32_768, 2_000),
        ("claude-sonnet-4", 200_000, 4_000),
        ("gemini-2.0-flash", 1_000_000, 4_000),
    ];

    for ((model, window, reserve), turns) in
        table.into_iter().flat_map(|row| [(row, 10), (row, 1_000)])
    {
        let config = AssemblyConfig {
            max_conversation_turns: turns,
            ..config(model, "director")
        };
        let prompt = assembler(&work)
            .assemble(&config, &work, &work.history, "Go on.", None)
            .unwrap();
        assert_fits(&prompt, window, reserve, model);
    }
}

/// Windows in which every token matters, at every tier and with an exact count.
#[test]
fn section_9_1_a_tight_window_is_never_exceeded() {
    let work = long_session();
    for (tier, reserve, smallest) in [
        (Tier::Full, 4_000, 8_192),
        (Tier::Medium, 2_000, 5_000),
        (Tier::Minimal, 1_000, 2_500),
    ] {
        for window in (smallest..smallest + 3_000).step_by(149) {
            let assembler = assembler(&work).with_catalogue(catalogue_with_mine(
                window,
                tier,
                Reliability::Medium,
            ));
            let config = AssemblyConfig {
                max_conversation_turns: 1_000,
                ..config("mine", "director")
            };
            let prompt = assembler
                .assemble(&config, &work, &work.history, "Go on.", None)
                .unwrap();
            assert_fits(&prompt, window, reserve, &format!("{tier:?} {window}"));
        }
    }
}
