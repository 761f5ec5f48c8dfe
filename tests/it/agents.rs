//! Definitions of agents: what they may say, what is wrong with them and where, and what an agent gets to see.

use std::ffi::OsString;
use std::fs;

use agentd::ErrorKind;
use agentd::config::{Agents, Environment};

use crate::agent_output::shipped;
use crate::support::repository;

fn read(agents: &str) -> Result<Agents, agentd::Error> {
    Agents::read(&format!("format: 1\nagents:\n{agents}"), "agents.yaml")
}

#[test]
fn real_agents_can_be_described() {
    let text = fs::read_to_string(repository().join("tests/cases/agents/vendors.yaml")).unwrap();
    let agents = shipped().overlaid(&text, "vendors.yaml").unwrap();
    let names: Vec<&str> = agents.all().map(|spec| spec.name.as_str()).collect();
    assert_eq!(
        names,
        ["aider", "claude", "claude-json", "codex", "gemini", "gemini-json", "opencode", "qwen"]
    );
}

#[test]
fn the_example_of_the_page_is_read() {
    let page = fs::read_to_string(repository().join("docs/agents.md")).unwrap();
    let example = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let agents = Agents::read(example, "docs/agents.md").unwrap();
    assert_eq!(agents.all().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["mine", "other"]);
}

#[test]
fn what_is_shipped_names_no_vendor_yet() {
    assert_eq!(shipped().all().count(), 0);
}

#[test]
fn every_fault_of_a_definition_has_its_place_and_words() {
    let jsonl = "output: {kind: jsonl, text: [{path: t}]";
    let table = [
        ("  a: {argv: [x], colour: red}", 3, "colour"),
        ("  a: {}", 3, "argv"),
        ("  a: {argv: []}", 3, "`a`: `argv` is empty"),
        ("  a: {argv: [[x, y]]}", 3, "the first of `argv` is the command"),
        ("  a: {argv: ['{model}']}", 3, "the first of `argv` is the command"),
        (
            "  ok: {argv: [x]}\n  a: {argv: [x, '{promt_file}']}",
            4,
            "`{promt_file}` is no blank that is known here",
        ),
        ("  a: {argv: [x, 7]}", 3, "needs quotes"),
        ("  a: {argv: [x, '{permissions}']}", 3, "need each other"),
        ("  a: {argv: [x], permissions: {edit: [y]}}", 3, "need each other"),
        ("  a: {argv: [x, '-p={permissions}'], permissions: {edit: [y]}}", 3, "an argument of its own"),
        ("  a: {argv: [x, '{permissions}'], permissions: {all: [y]}}", 3, "all"),
        ("  a: {argv: [x, '{permissions}'], permissions: {edit: ['{permissions}']}}", 3, "cannot stand in"),
        ("  a: {argv: [x], prompt: file}", 3, "`prompt: file` and `{prompt_file}`"),
        ("  a: {argv: [x, '{prompt_file}']}", 3, "`prompt: file` and `{prompt_file}`"),
        ("  a: {argv: [x], prompt: argument}", 3, "argument"),
        ("  a: {argv: [x], output: {kind: xml}}", 3, "xml"),
        ("  a: {argv: [x], output: {join: ' '}}", 3, "nothing else"),
        ("  a: {argv: [x], output: {kind: json}}", 3, "where its `text` stands"),
        (&format!("  a: {{argv: [x], {jsonl}}}}}"), 3, "the `final` one"),
        (&format!("  a: {{argv: [x], {jsonl}, final: {{/type: x}}}}}}"), 3, "names are joined by `/`"),
        (
            &format!("  a: {{argv: [x], {jsonl}, final: {{t: x}}, usage: {{input: a//b}}}}}}"),
            3,
            "is not a path",
        ),
        ("  a: {argv: [x], ends: [{end: auth}]}", 3, "needs `contains` or `exit_codes`"),
        ("  a: {argv: [x], ends: [{end: tired, exit_codes: [1]}]}", 3, "tired"),
        ("  a: {argv: [x], environment: ['A B']}", 3, "\"A B\" is not a variable's name"),
        ("  a: {argv: [x], set: {A=B: c}}", 3, "cannot be set"),
        ("  ':a': {argv: [x]}", 3, "is not an agent's name"),
    ];
    for (written, line, words) in table {
        let error = read(written).expect_err(written);
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{written}");
        let place = error.place().unwrap_or_else(|| panic!("{written}: {error}"));
        assert_eq!((place.origin.as_str(), place.line), ("agents.yaml", line), "{written}: {error}");
        assert!(error.message().contains(words), "{written}: {error}");
    }
    let other = Agents::read("format: 2\n", "agents.yaml").unwrap_err();
    assert_eq!(other.place().unwrap().line, 1);
    let rule = Agents::read("format: 1\nends:\n  - {end: auth}\n", "agents.yaml").unwrap_err();
    assert_eq!(rule.place().unwrap().line, 3);
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect())
}

fn names(environment: &Environment) -> Vec<&str> {
    environment.0.iter().map(|(name, _)| name.to_str().unwrap()).collect()
}

#[test]
fn an_agent_sees_what_is_allowed_and_nothing_else() {
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
    assert_eq!(names(&seen), ["PATH", "LC_ALL", "https_proxy", "A_KEY", "B", "HOME"]);
    assert_eq!(seen.0[4].1, "c", "what is set wins");
    assert_eq!(seen.0[5].1, "/tmp");
}

#[test]
fn later_files_add_to_lists_and_replace_agents() {
    let user = "format: 1\nenvironment: [MINE]\nsecrets: [MY_SEED]\nends: [{end: refused, contains: [rate limit]}]\nagents: {a: {argv: [one]}, b: {argv: [two]}}";
    let project = "format: 1\nenvironment: [OURS]\nagents: {a: {argv: [three]}}";
    let agents = shipped().overlaid(user, "user").unwrap().overlaid(project, "project").unwrap();
    assert_eq!(agents.find("a").unwrap().argv[0].0, ["three"]);
    assert_eq!(agents.find("b").unwrap().argv[0].0, ["two"]);
    let ours = environment(&[("MINE", "1"), ("OURS", "2"), ("PATH", "3"), ("MY_SEED", "12345678")]);
    assert_eq!(names(&agents.variables(agents.find("b").unwrap(), &ours)), ["MINE", "OURS", "PATH"]);
    assert_eq!(agents.secrets(&ours), [("MY_SEED".to_owned(), b"12345678".to_vec())]);
    let words = &agents.failures().ends[0].contains;
    assert_eq!(words, &["rate limit"], "what comes later is asked first");
}
