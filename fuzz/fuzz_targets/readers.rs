//! Gives arbitrary text to every reader that takes text: YAML, TOML, front matter, conditions, XML and documents.

#![no_main]

use std::sync::LazyLock;

use agentd::agent::Scripted;
use agentd::config::{Agents, Settings};
use agentd::models::{Catalogue, StateDocument};
use agentd::pack::{Pack, Prose, ProseOwner, ProseText, Rule, SearchPath, Template};
use agentd::spec::{self, Spec, Tasks};
use agentd::{ErrorKind, Result, UnifiedPrompt};
use libfuzzer_sys::fuzz_target;

const ORIGIN: &str = "fuzz";

/// The pack whose state files are read.
static FOREMAN: LazyLock<Pack> =
    LazyLock::new(|| Pack::load("foreman", &SearchPath::default()).unwrap());

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };

    check(text, ErrorKind::ConfigInvalid, Agents::read(text, ORIGIN));
    check(text, ErrorKind::ConfigInvalid, Settings::default().overlaid(text, ORIGIN));
    check(text, ErrorKind::ConfigInvalid, Catalogue::read(text, ORIGIN));
    check(text, ErrorKind::ScriptInvalid, Scripted::read(text, ORIGIN));

    let prose = Prose { owner: ProseOwner::Project, origin: ORIGIN.to_owned(), text: text.to_owned().into() };
    check(text, ErrorKind::TemplateInvalid, ProseText::read("identity.md", &prose));
    check(text, ErrorKind::TemplateInvalid, Template::read("BASE-plan", &prose));

    check_state(text);
    check_prompt(text);
    check_condition(text);
    check_documents(text);
});

/// Checks that an error has the expected kind, a message, and a place inside the text.
fn check<T>(text: &str, kind: ErrorKind, result: Result<T>) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    assert_eq!(error.kind(), kind, "{error:#}");
    assert!(!error.message().trim().is_empty());
    if let Some(place) = error.place() {
        let lines = text.split('\n').count();
        assert!((1..=lines + 1).contains(&place.line), "line {} of {lines}: {error:#}", place.line);
        assert!(place.column >= 1, "{error:#}");
    }
    // Formatting an error must not panic either.
    assert!(!format!("{error:#}").is_empty());
    None
}

/// A state that was read and written as JSON reads back as the same state.
fn check_state(text: &str) {
    let Some(work) = check(text, ErrorKind::StateInvalid, StateDocument::read(text, ORIGIN, &FOREMAN.state)) else { return };
    assert!(work.completion_percent() <= 100);
    let json = serde_json::to_string(&work).unwrap();
    assert_eq!(StateDocument::read(&json, ORIGIN, &FOREMAN.state).unwrap(), work);
}

/// A prompt that was read from XML and written again reads back as the same prompt.
fn check_prompt(text: &str) {
    let Some(prompt) = check(text, ErrorKind::XmlInvalid, UnifiedPrompt::from_xml(text)) else { return };
    assert_eq!(UnifiedPrompt::from_xml(&prompt.to_xml()).unwrap(), prompt);
}

/// The fault of a condition points into its text, at the start of a character.
fn check_condition(text: &str) {
    if let Err(fault) = Rule::parse(text) {
        assert!(text.is_char_boundary(fault.offset), "offset {} of {}", fault.offset, text.len());
    }
}

/// Faults of documents have a line of the document; ticking tasks changes their boxes and nothing else.
fn check_documents(text: &str) {
    let lines = text.split('\n').count();
    for name in ["proposal.md", "tasks.md", "specs/login.md"] {
        for fault in spec::check_file(name, text) {
            assert!((1..=lines + 1).contains(&fault.line), "{name}: {fault:?}");
        }
    }
    assert_eq!(Spec::read(text).is_ok(), spec::check_spec(text).is_empty());

    let tasks = Tasks::read(text);
    let open: Vec<&str> = tasks.open().iter().map(|task| task.id.as_str()).collect();
    let ticked = spec::tick(text, &open);
    let done = Tasks::read(&ticked);
    assert_eq!(ticked.len(), text.len());
    assert!(done.open().is_empty(), "{:?}", done.open());
    assert_eq!(done.tasks.len(), tasks.tasks.len());
    assert_eq!(spec::tick(&ticked, &open), ticked);
}
