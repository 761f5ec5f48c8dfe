//! Commands of a pack: each error has a place and a hint.

use agentd::pack::{Pack, PackProblem};
use agentd::{ErrorKind, SearchPath};

const HEAD: &str = "\
format: 1
name: trial
description: A trial.
start: go
layers:
  - {id: identity, holds: text, text: identity.md, class: pinned, zone: stable}
  - {id: state, holds: state, class: required, zone: turn}
  - {id: history, holds: history, class: elastic, zone: session}
  - {id: request, holds: instructions, class: pinned, zone: turn}
modes:
  go: {permission: read-only, next: {otherwise: done}}
";

const STATE: &str = "\
sections:
  project: {fields: {title: text, locked: boolean, tags: words}}
  plans: {holds: artifacts, element: plan}
";

/// Returns the problems of a pack with these commands, which start at line 13.
fn problems(commands: &str) -> Vec<PackProblem> {
    let files = [
        ("pack.yaml", format!("{HEAD}commands:\n{commands}")),
        ("state.yaml", STATE.to_owned()),
        (
            "artifacts.yaml",
            "artifacts: {plan: {title: Plan}}\n".to_owned(),
        ),
        ("identity.md", "You plan.\n".to_owned()),
    ];
    let files = files.map(|(name, text)| (format!("packs/trial/{name}"), text));
    let places = SearchPath::default().with_files(files);
    Pack::check("trial", &places).unwrap().problems
}

#[test]
fn valid_commands_have_no_problem() {
    let commands = "
  lock:
    description: Lock it
    modes: [go]
    steps:
      - {operation: state.set, with: {path: project.locked, value: true}}
      - {operation: artifact.status, with: {artifact: plan, status: complete}}
  tag-2:
    description: Tag it
    steps:
      - {operation: state.add, with: {path: project.tags, value: urgent}}
      - {operation: state.remove, with: {path: project.title}}
      - {operation: knowledge.save, with: {category: rule, key: a, value: b, source: user}}
";
    assert_eq!(problems(commands), []);
}

#[test]
fn errors_have_a_place_and_a_hint() {
    let step = |step: &str| format!("  lock: {{description: Lock it, steps: [{step}]}}\n");
    let cases = [
        (
            "  quit: {description: Stop, steps: [{operation: state.remove, with: {path: project.title}}]}\n"
                .to_owned(),
            "13:9: `/quit` is a built-in command",
            "choose a name other than /state, /prompt, /mode, /model, /undo, /help, /quit",
        ),
        (
            "  lock: {description: Lock it, steps: []}\n".to_owned(),
            "13:9: command `lock` has no steps",
            "add a step to `steps`, such as `{operation: state.set, with: {path: project.title, value: A}}`",
        ),
        (
            "  lock:\n    description: Lock it\n    modes: [go, gone]\n    steps: [{operation: state.remove, with: {path: project.title}}]\n"
                .to_owned(),
            "15:17: command `lock` lists the unknown mode `gone`",
            "known modes: go",
        ),
        (
            step("{operation: files.write, with: {target: a.md}}"),
            "13:52: command `lock` cannot run the operation `files.write`",
            "commands can run state.set, state.add, state.remove, artifact.status, knowledge.save",
        ),
        (
            step("{operation: artifact.status, with: {artifact: plane, status: complete}}"),
            "13:86: `artifact.status` of command `lock`: unknown artifact `plane`",
            "artifacts.yaml declares plan",
        ),
        (
            step("{operation: state.set, with: {path: project.locked, value: 1}}"),
            "13:99: `state.set` of command `lock`: the field cannot have the value 1",
            "the field is of type boolean",
        ),
    ];
    for (commands, message, hint) in cases {
        let found = problems(&commands);
        let [problem] = &found[..] else {
            panic!("{commands}: {found:?}")
        };
        let expected = format!("memory:packs/trial/pack.yaml:{message}");
        assert_eq!(problem.to_string(), expected);
        assert_eq!(problem.hint.as_deref(), Some(hint), "{commands}");
    }
}

#[test]
fn pack_with_a_wrong_command_is_not_loaded() {
    let manifest = format!("{HEAD}commands:\n  lock: {{description: Lock it, steps: []}}\n");
    let files = [
        ("pack.yaml", manifest),
        ("identity.md", "You plan.\n".to_owned()),
    ];
    let error = Pack::from_files("trial", files).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PackInvalid);
    assert!(error.message().contains("command `lock` has no steps"));
}
