//! Agent definitions: valid keys, errors with their location, and the variables an agent sees.

use std::ffi::OsString;
use std::fs;

use agentd::ErrorKind;
use agentd::config::{Agents, Environment, Switches, TestExtent};

use crate::support::agent_output::shipped;
use crate::support::repository;

fn read(agents: &str) -> Result<Agents, agentd::Error> {
    Agents::read(&format!("format: 1\nagents:\n{agents}"), "agents.yaml")
}

#[test]
fn shipped_agents_state_how_they_were_tested() {
    let agents = shipped();
    let tried: Vec<(&str, TestExtent)> = agents
        .all()
        .map(|spec| (spec.name.as_str(), spec.tried))
        .collect();
    let table = [
        ("aider", TestExtent::Documented),
        ("amp", TestExtent::Help),
        ("claude", TestExtent::Measured),
        ("codex", TestExtent::Measured),
        ("copilot", TestExtent::Ran),
        ("cursor-agent", TestExtent::Documented),
        ("gemini", TestExtent::Measured),
        ("goose", TestExtent::Documented),
        ("opencode", TestExtent::Ran),
        ("qwen", TestExtent::Ran),
    ];
    assert_eq!(tried, table);

    // A tested agent has a version, and no definition makes an agent resume a session or passes a
    // role separately.
    for spec in agents.all() {
        assert!(
            spec.tried_with.is_some() || spec.tried == TestExtent::Documented,
            "{}",
            spec.name
        );
        let argv = format!("{:?} {:?}", spec.argv, spec.permissions);
        for word in [
            "--resume",
            "--continue",
            "--session-id",
            "system-prompt",
            "system_prompt",
        ] {
            assert!(!argv.contains(word), "{}: {word}", spec.name);
        }
    }
}

#[test]
fn examples_of_the_guide_are_valid() {
    let page = fs::read_to_string(repository().join("docs/guide/your-own-agent.md")).unwrap();
    let examples: Vec<&str> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();

    let names: Vec<Vec<String>> = examples
        .iter()
        .map(|example| Agents::read(example, "docs/guide/your-own-agent.md").unwrap())
        .map(|agents| agents.all().map(|spec| spec.name.to_string()).collect())
        .collect();

    let no_agent: [&str; 0] = [];
    assert_eq!(names[..2], [["my-agent"], ["my-agent"]]);
    assert_eq!(names[2], no_agent);
    assert_eq!(names.len(), 3);
}

#[test]
fn example_of_the_page_parses() {
    let page = fs::read_to_string(repository().join("docs/reference/agents.md")).unwrap();
    let example = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();

    let agents = Agents::read(example, "docs/reference/agents.md").unwrap();
    assert_eq!(
        agents
            .all()
            .map(|spec| spec.name.as_str())
            .collect::<Vec<_>>(),
        ["mine", "other"]
    );
}

#[test]
fn definition_errors_have_a_location_and_a_message() {
    let jsonl = "output: {kind: jsonl, text: [{path: t}]";
    let table = [
        ("  a: {argv: [x], colour: red}", 3, "colour"),
        ("  a: {}", 3, "argv"),
        ("  a: {argv: []}", 3, "`a`: `argv` is empty"),
        (
            "  a: {argv: [[x, y]]}",
            3,
            "the first item of `argv` must be the command",
        ),
        (
            "  a: {argv: ['{model}']}",
            3,
            "the first item of `argv` must be the command",
        ),
        (
            "  ok: {argv: [x]}\n  a: {argv: [x, '{promt_file}']}",
            4,
            "unknown placeholder `{promt_file}`",
        ),
        ("  a: {argv: [x, 7]}", 3, "quote numbers and booleans"),
        (
            "  a: {argv: [x, '{permissions}']}",
            3,
            "`argv` has `{permissions}`, but `permissions` is not set",
        ),
        (
            "  a: {argv: [x], permissions: {edit: [y]}}",
            3,
            "`permissions` is set, but `argv` has no `{permissions}`",
        ),
        (
            "  a: {argv: [x, '-p={permissions}'], permissions: {edit: [y]}}",
            3,
            "must be a separate argument",
        ),
        (
            "  a: {argv: [x, '{permissions}'], permissions: {all: [y]}}",
            3,
            "all",
        ),
        (
            "  a: {argv: [x, '{permissions}'], permissions: {edit: ['{permissions}']}}",
            3,
            "is not allowed in",
        ),
        (
            "  a: {argv: [x], prompt: file}",
            3,
            "`prompt: file` is set, but `argv` has no `{prompt_file}`",
        ),
        (
            "  a: {argv: [x, '{prompt_file}']}",
            3,
            "`argv` has `{prompt_file}`, but `prompt: file` is not set",
        ),
        ("  a: {argv: [x], prompt: argument}", 3, "argument"),
        ("  a: {argv: [x], output: {kind: xml}}", 3, "xml"),
        (
            "  a: {argv: [x], output: {join: ' '}}",
            3,
            "allows only `exit_codes`",
        ),
        (
            "  a: {argv: [x], output: {kind: json}}",
            3,
            "`output` needs `text`",
        ),
        (
            &format!("  a: {{argv: [x], {jsonl}}}}}"),
            3,
            "`output` needs `final`",
        ),
        (
            &format!("  a: {{argv: [x], {jsonl}, final: {{/type: x}}}}}}"),
            3,
            "join names with `/`",
        ),
        (
            &format!("  a: {{argv: [x], {jsonl}, final: {{t: x}}, usage: {{input: a//b}}}}}}"),
            3,
            "invalid path",
        ),
        (
            &format!("  a: {{argv: [x], {jsonl}, final: {{t: x}}, tools: [{{}}]}}}}"),
            3,
            "is empty and would match every event",
        ),
        (
            "  a: {argv: [x], ends: [{end: auth}]}",
            3,
            "needs `contains` or `exit_codes`",
        ),
        (
            "  a: {argv: [x], ends: [{end: tired, exit_codes: [1]}]}",
            3,
            "tired",
        ),
        (
            "  a: {argv: [x], environment: ['A B']}",
            3,
            "invalid variable name or pattern \"A B\"",
        ),
        (
            "  a: {argv: [x], set: {A=B: c}}",
            3,
            "invalid variable name \"A=B\" under `set`",
        ),
        ("  ':a': {argv: [x]}", 3, "invalid agent name"),
        ("  a: {argv: [x], expands: [dollars]}", 3, "dollars"),
        (
            "  a: {argv: [x, '{own}']}",
            3,
            "unknown placeholder `{own}`",
        ),
        (
            "  a: {argv: [x], switches: {own: {about: y, on: {argv: [z]}}}}",
            3,
            "`{own}` is not in `argv`",
        ),
        (
            "  a: {argv: [x], switches: {own: {on: {argv: [z]}}}}",
            3,
            "about",
        ),
        (
            "  a: {argv: [x, '-o={own}'], switches: {own: {about: y, on: {argv: [z]}}}}",
            3,
            "unknown placeholder `{own}`",
        ),
        (
            "  a: {argv: [x, '{permissions}'], permissions: {edit: [], command: [y]}}",
            3,
            "has no `{command}`",
        ),
        (
            "  a: {argv: [x, '{command}']}",
            3,
            "unknown placeholder `{command}`",
        ),
    ];

    for (written, line, words) in table {
        let error = read(written).expect_err(written);
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{written}");
        let place = error
            .place()
            .unwrap_or_else(|| panic!("{written}: {error}"));
        assert_eq!(
            (place.origin.as_str(), place.line),
            ("agents.yaml", line),
            "{written}: {error}"
        );
        assert!(error.message().contains(words), "{written}: {error}");
    }

    let other = Agents::read("format: 2\n", "agents.yaml").unwrap_err();
    assert_eq!(other.place().unwrap().line, 1);

    let rule = Agents::read("format: 1\nends:\n  - {end: auth}\n", "agents.yaml").unwrap_err();
    assert_eq!(rule.place().unwrap().line, 3);
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment(
        variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect(),
    )
}

fn names(environment: &Environment) -> Vec<&str> {
    environment
        .0
        .iter()
        .map(|(name, _)| name.to_str().unwrap())
        .collect()
}

#[test]
fn agent_sees_only_allowed_variables() {
    let agents = shipped()
        .overlaid(
            "format: 1\nagents:\n  a:\n    argv: [a]\n    environment: [A_*]\n    unset: [A_SYSTEM_MD]\n    set: {HOME: /tmp, B: c}\n",
            "a.yaml",
        )
        .unwrap();
    let ours = environment(&[
        ("HOME", "/home/me"),
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("https_proxy", "http://proxy"),
        ("A_KEY", "k"),
        ("A_SYSTEM_MD", "x.md"),
        ("GITHUB_TOKEN", "t"),
        ("LD_PRELOAD", "x.so"),
        ("B", "ours"),
    ]);

    let seen = agents.variables(agents.find("a").unwrap(), &ours);
    assert_eq!(
        names(&seen),
        ["PATH", "LC_ALL", "https_proxy", "A_KEY", "B", "HOME"]
    );
    assert_eq!(seen.0[4].1, "c", "a set variable wins");
    assert_eq!(seen.0[5].1, "/tmp");
}

#[test]
fn later_files_add_to_lists_and_replace_agents() {
    let user = "format: 1\nenvironment: [MINE]\nsecrets: [MY_SEED]\nends: [{end: refused, contains: [rate limit]}]\nagents: {a: {argv: [one]}, b: {argv: [two]}}";
    let project = "format: 1\nenvironment: [OURS]\nagents: {a: {argv: [three]}}";

    let agents = shipped()
        .overlaid(user, "user")
        .unwrap()
        .overlaid(project, "project")
        .unwrap();
    assert_eq!(agents.find("a").unwrap().argv[0].0, ["three"]);
    assert_eq!(agents.find("b").unwrap().argv[0].0, ["two"]);

    let ours = environment(&[
        ("MINE", "1"),
        ("OURS", "2"),
        ("PATH", "3"),
        ("MY_SEED", "12345678"),
    ]);
    assert_eq!(
        names(&agents.variables(agents.find("b").unwrap(), &ours)),
        ["MINE", "OURS", "PATH"]
    );
    assert_eq!(
        agents.secrets(&ours),
        [("MY_SEED".to_owned(), b"12345678".to_vec())]
    );

    let words = &agents.failures().ends[0].contains;
    assert_eq!(words, &["rate limit"], "later files come first");
}

fn switches(agent: &str, switch: &str, on: bool) -> Switches {
    [(agent.to_owned(), [(switch.to_owned(), on)].into())].into()
}

#[test]
fn switch_adds_arguments_and_variables_and_has_a_default() {
    let agents = || {
        read("  a:\n    argv: [x, '{own}', z]\n    switches:\n      own: {about: y, default: true, on: {argv: [[--own, 1a]]}, off: {argv: [--none], set: {OWN: '0'}}}").unwrap()
    };
    let argv = |agents: &Agents| {
        let spec = agents.find("a").unwrap();
        let words: Vec<String> = spec
            .argv
            .iter()
            .flat_map(|argument| argument.0.clone())
            .collect();
        (words.join(" "), spec.set.get("OWN").cloned())
    };

    assert_eq!(
        argv(&agents().switched(&Switches::new()).unwrap()),
        ("x --own 1a z".to_owned(), None)
    );

    let off = agents().switched(&switches("a", "own", false)).unwrap();
    assert_eq!(argv(&off), ("x --none z".to_owned(), Some("0".to_owned())));

    let unknown = agents().switched(&switches("a", "hers", true)).unwrap_err();
    assert_eq!(
        (unknown.kind(), unknown.hint()),
        (ErrorKind::ConfigInvalid, Some("switches of `a`: own"))
    );

    let nobody = agents().switched(&switches("b", "own", true)).unwrap_err();
    assert!(nobody.to_string().contains("unknown agent `b`"), "{nobody}");
}

#[test]
fn agent_name_may_include_its_model() {
    let text = "format: 1\nagents:\n  claude: {argv: [claude], model: m}\n  'a:b': {argv: [x]}\n\
                providers:\n  ollama: {dialect: openai, base_url: 'http://127.0.0.1:1/v1'}\n";
    let agents = Agents::read(text, "agents.yaml").unwrap();

    for (name, model, tools) in [
        ("claude", Some("m"), true),
        ("claude:opus", Some("opus"), true),
        ("ollama:llama3.2:3b", Some("llama3.2:3b"), false),
        ("a:b", None, true),
    ] {
        assert!(agents.known(name).is_some(), "{name}");
        assert_eq!(
            (agents.model(name), agents.has_tools(name)),
            (model, tools),
            "{name}"
        );
    }

    for name in ["ollama", "ollama:", "nobody", "nobody:x"] {
        assert!(agents.known(name).is_none(), "{name}");
    }
}

#[test]
fn provider_errors_have_a_location_and_a_message() {
    for (written, words) in [
        (
            "p: {dialect: openai, base_url: 'ftp://x'}",
            "must be an http or https URL",
        ),
        (
            "p: {dialect: openai, base_url: 'https://'}",
            "must be an http or https URL",
        ),
        (
            "p: {dialect: openai, base_url: 'https://a:b@host/v1'}",
            "a user name or password",
        ),
        (
            "p: {dialect: openai, base_url: 'https://host/v1', key: 'sk 1'}",
            "not the key itself",
        ),
        ("p: {dialect: soap, base_url: 'https://host/v1'}", "soap"),
        (
            "'p:q': {dialect: openai, base_url: 'https://host/v1'}",
            "cannot contain `:`",
        ),
    ] {
        let error = Agents::read(
            &format!("format: 1\nproviders:\n  {written}\n"),
            "agents.yaml",
        )
        .expect_err(written);
        assert!(format!("{error:#}").contains(words), "{written}: {error:#}");
        assert_eq!(error.place().map(|place| place.line), Some(3), "{written}");
    }
}

#[test]
fn model_servers_and_pipes_have_no_tools() {
    let text = "format: 1\nproviders:\n  far: {dialect: openai, base_url: \"https://far.example/v1\"}\nagents:\n  \
                own: {argv: [own]}\n  pipe: {argv: [llm], tools: false}\n";
    let agents = Agents::read(text, "test").unwrap();
    for (name, tools) in [
        ("own", true),
        ("own:m", true),
        ("pipe", false),
        ("pipe:m", false),
        ("far:m", false),
        ("else", true),
    ] {
        assert_eq!(agents.has_tools(name), tools, "{name}");
    }
}
