//! Requests: the token counter of a prompt, and the precision of its counts.

use agentd::agent::Drivers;
use agentd::compose::{
    AssemblyConfig, Counter, FitReport, PromptAssembler, PromptRequest, check_tools, compose,
};
use agentd::models::{
    Catalogue, ConversationTurn, CountKind, Format, Mode, ModelSpec, State, StateDocument,
};
use agentd::orchestrator::TurnContext;
use agentd::{ErrorKind, Pack, SearchPath};

fn report(request: &PromptRequest) -> FitReport {
    let pack = Pack::load("foreman", &SearchPath::default()).unwrap();
    let state = State::in_mode(Mode::new("architect").unwrap());
    compose(&pack, &state, request).unwrap().fit_report
}

fn catalogue() -> &'static Catalogue {
    Catalogue::built_in().unwrap()
}

fn with_count(request: PromptRequest) -> PromptRequest {
    PromptRequest {
        count: true,
        ..request
    }
}

/// claude-sonnet-5 counts as claude-4.7: 1.55 tokens per o200k token, with a margin of 1.23.
#[test]
fn request_uses_the_tokenizer_of_its_model() {
    let o200k = report(&with_count(
        PromptRequest::new("Hello").with_model(catalogue(), "gpt-4o"),
    ));
    assert_eq!(o200k.count, CountKind::Exact);

    let claude = report(&with_count(
        PromptRequest::new("Hello").with_model(catalogue(), "claude-sonnet-5"),
    ));
    assert_eq!(claude.count, CountKind::Calibrated);
    let ratio = claude.tokens.unwrap() as f64 / o200k.tokens.unwrap() as f64;
    assert!((1.85..2.0).contains(&ratio), "{ratio}");
}

/// A model given by the caller includes its counter.
#[test]
fn model_without_tokenizer_is_not_counted_as_o200k() {
    let model = catalogue().find("claude-sonnet-5").unwrap().clone();
    let by_hand = report(&with_count(PromptRequest {
        model: Some(model.clone()),
        ..PromptRequest::new("Hello")
    }));

    let built = report(&with_count(
        PromptRequest::new("Hello").with_model(catalogue(), "claude-sonnet-5"),
    ));
    assert_eq!(by_hand, built);

    let unheard_of = report(&with_count(PromptRequest {
        model: Some(ModelSpec {
            tokenizer: "unheard-of".to_owned(),
            ..model
        }),
        ..PromptRequest::new("Hello")
    }));
    assert_eq!(unheard_of.count, CountKind::Guess);
}

#[test]
fn count_without_a_model_is_an_estimate() {
    let report = report(&with_count(PromptRequest::new("Hello")));
    assert_eq!(
        (report.model, report.budget, report.count),
        (None, None, CountKind::Guess)
    );
}

#[test]
fn unknown_model_is_medium_with_estimated_counts() {
    let report = report(&PromptRequest::new("Hello").with_model(catalogue(), "nobody-7b"));
    assert_eq!(
        (report.window, report.count),
        (Some(32_768), CountKind::Guess)
    );
}

#[test]
fn request_can_be_composed_twice() {
    let pack = Pack::load("foreman", &SearchPath::default()).unwrap();
    let request = PromptRequest::new("Hello").with_model(catalogue(), "qwen-max");
    let [architect, director] = ["architect", "director"].map(|mode| {
        let state = State::in_mode(Mode::new(mode).unwrap());
        compose(&pack, &state, &request).unwrap().text()
    });
    assert!(architect.contains("<current_mode>ARCHITECT</current_mode>"));
    assert!(director.contains("<current_mode>DIRECTOR</current_mode>"));
    assert!(architect.ends_with("Hello") && director.ends_with("Hello"));
}

#[test]
fn missing_template_error_names_a_source() {
    let pack = Pack::load("sdd", &SearchPath::default()).unwrap();
    let error = compose(&pack, &State::default(), &PromptRequest::new("Hello")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateNotFound);
    assert!(error.hint().unwrap().contains("Templates::find"));
}

/// A caller needs no extra dependency for the types in signatures.
#[test]
fn types_of_other_crates_are_re_exported() {
    use agentd::indexmap::IndexMap;
    use agentd::serde_json::json;

    let pack = Pack::load("foreman", &SearchPath::default()).unwrap();
    let assembler = PromptAssembler::new(pack, Vec::new()).unwrap();
    let config = AssemblyConfig::new("gpt-4o", Mode::new("architect").unwrap());
    let focus = IndexMap::from([("active_file".to_owned(), "beats.md".to_owned())]);
    let text = assembler
        .assemble(
            &config,
            &StateDocument::default(),
            &[],
            "Go on",
            Some(&focus),
        )
        .unwrap();
    assert!(text.contains("beats.md"));

    check_tools(&[json!({"name": "ls", "input_schema": {"type": "object"}})]).unwrap();
    let schema: agentd::schemars::Schema = agentd::UnifiedPrompt::json_schema();
    assert!(schema.as_object().is_some());
}

#[test]
fn requests_and_counters_can_be_shared_between_threads() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<PromptRequest>();
    assert_send_and_sync::<Counter>();
    assert_send_and_sync::<Catalogue>();
}

/// The headings of a flat prompt only make sense as a whole, so it is one message.
#[test]
fn flat_text_is_one_user_message() {
    let pack = Pack::load("foreman", &SearchPath::default()).unwrap();
    let mut state = State::in_mode(Mode::new("architect").unwrap());
    state.document.history.push(ConversationTurn {
        user: "Hi".to_owned(),
        assistant: "Hello".to_owned(),
    });
    let draft = compose(&pack, &state, &PromptRequest::new("Go on")).unwrap();

    let messages = draft.messages();
    assert_eq!(messages.len(), 1);
    assert_eq!(
        (messages[0].role, &messages[0].content),
        ("user", &draft.text())
    );
    assert!(messages[0].content.contains("ASSISTANT: Hello"));

    let chat = PromptRequest {
        format: Some(Format::Chat),
        ..PromptRequest::new("Go on")
    };
    let chat = compose(&pack, &state, &chat).unwrap().messages();
    let roles: Vec<&str> = chat.iter().map(|message| message.role).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(chat[2].content, "Hello");
}

/// A server can keep everything in shared state and run turns on any thread.
#[test]
fn turns_run_on_any_thread() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<TurnContext<'_>>();
    assert_send_and_sync::<Pack>();
    assert_send_and_sync::<Drivers>();
}
