//! Token counts, and the model catalogue.

use agentd::compose::Counter;
use agentd::models::{Catalogue, CountKind, Reliability, Tier, TokenizerSpec};

use crate::support::TestProject;

fn catalogue() -> &'static Catalogue {
    Catalogue::built_in().unwrap()
}

/// Counts that the vocabulary's publisher documents.
#[test]
fn o200k_counts_match_published_values() {
    let counter = Counter::new(TokenizerSpec::default());
    let cases = [
        ("hello world", 2),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 8),
        ("", 0),
    ];

    for (text, tokens) in cases {
        let count = counter.count(text);
        assert_eq!(
            (count.tokens, count.upper_bound, count.kind),
            (tokens, tokens, CountKind::Exact),
            "{text}"
        );
        assert_eq!(counter.count(text), count, "counted from the cache");
    }
}

#[test]
fn other_families_use_factor_and_margin() {
    let catalogue = catalogue();
    let count = |id: &str, text: &str| {
        Counter::new(catalogue.tokenizer(catalogue.find(id).unwrap())).count(text)
    };
    let english = "word ".repeat(1_000);
    let exact = count("gpt-4o", &english).tokens as f64;

    let claude = count("claude-sonnet-5-5", &english);
    assert_eq!(claude.kind, CountKind::Calibrated);
    assert_eq!(claude.tokens as f64, (exact * 1.55).ceil());
    assert_eq!(claude.upper_bound as f64, (exact * 1.55 * 1.23).ceil());

    let japanese = "東京の天気はどうですか。".repeat(50);
    let exact = count("gpt-4o", &japanese).tokens as f64;
    assert_eq!(
        count("claude-sonnet-5-5", &japanese).tokens as f64,
        (exact * 1.55).ceil(),
        "never below the ascii factor"
    );
    assert_eq!(
        count("mistral:7b", &japanese).tokens as f64,
        (exact * 1.45).ceil()
    );
    assert_eq!(
        count("grok-4.7", "").upper_bound,
        700,
        "the overhead of the call"
    );
}

#[test]
fn hostile_text_is_counted_completely() {
    let counter = Counter::new(TokenizerSpec::default());
    let random: Vec<u8> = (0..1_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for text in [
        " ".repeat(1_000_000),
        "a".repeat(1_000_000),
        "\n".repeat(1_000_000),
        String::from_utf8_lossy(&random).into_owned(),
    ] {
        let tokens = counter.count(&text).tokens;
        assert!(tokens > 0 && tokens <= text.len() as u64);
    }
}

/// Appendix C and section 9.1 as the catalogue must hold them: window, tier, XML reliability,
/// instruction following.
#[test]
fn section_9_1_and_appendix_c_the_twelve_models() {
    use Reliability::{High, Low, Medium as Fair, VeryHigh};
    use Tier::{Full, Medium, Minimal};

    let expected = [
        ("gpt-4o", 128_000, Full, High, High),
        ("gpt-4o-mini", 128_000, Full, High, High),
        ("claude-sonnet-4", 200_000, Full, VeryHigh, VeryHigh),
        ("claude-opus-4", 200_000, Full, VeryHigh, VeryHigh),
        ("gemini-2.0-flash", 1_000_000, Full, Fair, High),
        ("grok-2", 131_072, Full, High, High),
        ("deepseek-chat", 64_000, Medium, Fair, Fair),
        ("qwen-plus", 131_072, Medium, Fair, Fair),
        ("qwen-max", 32_768, Medium, Fair, Fair),
        ("mistral-large", 128_000, Full, High, High),
        ("llama3.2:3b", 8_192, Minimal, Low, Low),
        ("mistral:7b", 32_768, Medium, Fair, Fair),
    ];
    let catalogue = catalogue();

    for (id, window, tier, xml, following) in expected {
        let model = catalogue.find(id).unwrap();
        let found = (
            model.window,
            model.tier,
            model.xml_reliability,
            model.instruction_following,
        );
        assert_eq!(found, (window, tier, xml, following), "{id}");
    }
}

#[test]
fn inconsistent_catalogue_is_refused() {
    let row = "  - {id: a, provider: p, window: 1, tokenizer: t, tier: full, xml_reliability: high, instruction_following: high, source: s}\n";
    let head = "format: 1\nas_of: x\ntokenizers: {t: {kind: exact}}\nmodels:\n";
    assert!(Catalogue::read(&format!("{head}{row}"), "m").is_ok());

    let cases = [
        (format!("{head}{row}{row}"), (6, "duplicate model `a`")),
        (
            format!("{head}{}", row.replace("tokenizer: t", "tokenizer: u")),
            (5, "has the unknown tokenizer"),
        ),
        (
            format!("{head}{}", row.replace("tier: full", "tier: huge")),
            (5, "unknown variant"),
        ),
        (
            format!("{head}{}", row.replace("window: 1", "window: 0")),
            (5, "has no context window"),
        ),
        (
            head.replace("format: 1", "format: 2") + row,
            (1, "unsupported format"),
        ),
    ];

    for (text, (line, words)) in cases {
        let error = Catalogue::read(&text, "m").unwrap_err();
        assert_eq!(
            error.place().map(|place| place.line),
            Some(line),
            "{error:#}"
        );
        assert!(error.message().contains(words), "{error:#}");
    }
}

#[test]
fn commands_show_models_and_count_tokens() {
    let project = TestProject::new();
    let list = project.run(&["models", "list", "--json"]).json();
    assert!(list.as_array().unwrap().len() > 40);
    assert!(
        project
            .run(&["models", "list"])
            .ok()
            .contains("llama3.2:3b         ollama")
    );
    assert_eq!(
        project.run(&["models", "show", "gpt-4o", "--json"]).json()["window"],
        128_000
    );
    project
        .run(&["models", "show", "nope"])
        .fails(3, &["UnknownModel", "[[models]]"]);

    project
        .write("a.txt", "hello world")
        .write("agentd/packs/sdd/pack.yaml", "broken: [");
    assert_eq!(project.run(&["tokens", "a.txt"]).ok(), "2\n");

    let json = project
        .run_with_stdin(
            &["tokens", "--json", "--model", "claude-sonnet-5-5"],
            b"hello world",
        )
        .json();
    assert_eq!(
        json["count"],
        serde_json::json!({"tokens": 4, "upper_bound": 4, "kind": "calibrated"})
    );

    let unknown = project.run(&["tokens", "a.txt", "--model", "nope"]);
    assert!(
        unknown
            .stderr
            .contains("unknown model `nope`: assuming tier medium, context window 32768")
    );
    assert!(unknown.stderr.contains("guess"));

    let row = "[[models]]\nid = \"mine\"\nprovider = \"me\"\nwindow = 4096\ntokenizer = \"llama3\"\ntier = \"minimal\"\n\
               xml_reliability = \"low\"\ninstruction_following = \"low\"\nsource = \"me\"\n";
    project.write("agentd/config.toml", format!("format = 1\n{row}"));
    assert!(
        project
            .run(&["models", "show", "mine"])
            .ok()
            .contains("4096 tokens")
    );

    project.write(
        "agentd/config.toml",
        format!("format = 1\n{}", row.replace("llama3", "x")),
    );
    project
        .run(&["models", "list"])
        .fails(4, &["ConfigInvalid", "has the unknown tokenizer `x`"]);
}

#[test]
fn measured_factor_corrects_counts_and_bounds() {
    let plain = Counter::new(TokenizerSpec::default());
    let corrected = Counter::new(TokenizerSpec {
        margin: 1.25,
        ..TokenizerSpec::default()
    })
    .corrected(1.5);

    for text in [
        "hello world",
        "fn main() { println!(\"<x>\") }",
        "größe 漢字 😀",
    ] {
        let o200k = plain.count(text).tokens;
        let count = corrected.count(text);
        assert_eq!(count.tokens, (o200k * 3).div_ceil(2), "{text}");
        assert_eq!(
            count.upper_bound,
            (o200k * 15).div_ceil(8),
            "the margin stays: {text}"
        );
        assert_eq!(count.kind, CountKind::Calibrated);
        assert!(
            corrected.max_tokens_for_bytes(text.len()) >= count.upper_bound,
            "{text}"
        );
    }

    let halved = Counter::new(TokenizerSpec::default()).corrected(0.5);
    assert!(halved.max_tokens_for_bytes(11) >= halved.max_tokens("hello world"));
}
