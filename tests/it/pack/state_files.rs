//! `state.yaml` and `artifacts.yaml`: faults with their places, and the state of packs other than the foreman.

use agentd::compose::PromptRequest;
use agentd::models::{Mode, State, StateDocument};
use agentd::{ErrorKind, Pack, compose};

/// Manifest of a pack with a state layer and two modes.
const MANIFEST: &str = "\
format: 1
name: trial
description: A trial.
start: go
layers:
  - {id: a, holds: text, text: a.md, class: pinned, zone: stable}
  - {id: state, holds: state, class: required, zone: turn}
  - {id: z, holds: instructions, class: pinned, zone: turn}
modes:
  go: {permission: read-only, next: {otherwise: rest}}
  rest: {permission: read-only, next: {otherwise: done}}
";

fn load(files: &[(&'static str, &'static str)]) -> agentd::Result<Pack> {
    let base = [("pack.yaml", MANIFEST), ("a.md", "You try things.")];
    Pack::from_files("trial", base.into_iter().chain(files.iter().copied()))
}

#[test]
fn faults_of_state_files_have_their_place() {
    let table: &[(&str, &str, &str)] = &[
        (
            "sections: {a: {}}\n",
            "1:15",
            "needs exactly one of `fields`, `list` and `holds`",
        ),
        (
            "sections:\n  A b: {fields: {x: text}}\n",
            "2:8",
            "invalid name \"A b\"",
        ),
        (
            "sections:\n  a:\n    fields: {x: colour}\n",
            "3:17",
            "unknown field type `colour`",
        ),
        (
            "sections:\n  a: {holds: knowledge}\n  b: {holds: knowledge}\n",
            "3:6",
            "another section already has `holds: knowledge`",
        ),
        (
            "sections:\n  a: {holds: artifacts}\n",
            "2:6",
            "`holds: artifacts` needs `element`",
        ),
        (
            "sections:\n  a: {fields: {x: text}, element: item}\n",
            "2:6",
            "`element` is only for `holds: artifacts`",
        ),
        (
            "sections:\n  a: {fields: {x: text}, medium: [y]}\n",
            "2:6",
            "has no field `y`",
        ),
        (
            "sections:\n  a: {fields: {x: text}}\nminimal: {m: a.y}\n",
            "3:14",
            "`a` has no field `y`",
        ),
        (
            "sections:\n  a: {fields: {x: text}}\nminimal: {m: b.y}\n",
            "3:14",
            "the state has no section `b`",
        ),
        (
            "sections:\n  a: {fields: {x: text}}\nmodes: {stay: {shown: [a]}}\n",
            "3:15",
            "pack.yaml has no mode `stay`",
        ),
        (
            "sections:\n  a: {fields: {x: text}}\nmodes: {go: {shown: [b]}}\n",
            "3:13",
            "unknown section `b`",
        ),
        (
            "sections:\n  a: {fields: {x: text}}\nmodes: {go: {summarized: [a]}}\n",
            "3:13",
            "section `a` has no `summary`",
        ),
    ];

    for (text, place, message) in table {
        let error = load(&[("state.yaml", text)]).unwrap_err();
        let shown = format!("{error:#}");
        assert_eq!(error.kind(), ErrorKind::PackInvalid, "{shown}");
        assert!(shown.contains(message), "{message:?} is not in:\n{shown}");
        assert!(
            shown.contains(&format!("state.yaml:{place}")),
            "{place} is not in:\n{shown}"
        );
    }
}

#[test]
fn faults_of_artifact_files_have_their_place() {
    let state = "sections: {work: {holds: artifacts, element: item}}\n";
    let table: &[(&str, &str, &str, &str)] = &[
        (
            "sections: {a: {fields: {x: text}}}\n",
            "artifacts:\n  plan: {title: Plan}\n",
            "2:9",
            "no section with `holds: artifacts`",
        ),
        (
            state,
            "artifacts:\n  plan: {title: Plan, file: ../plan.md, fields: {x: {title: X}}}\n",
            "2:9",
            "is not the path of a Markdown file in the project",
        ),
        (
            state,
            "artifacts:\n  plan: {title: Plan, file: plan.md}\n",
            "2:9",
            "artifact `plan` has a `file` but no `fields`",
        ),
        (
            state,
            "artifacts:\n  plan: {title: Plan, fields: {goal: {title: Goal}}}\n",
            "2:9",
            "artifact `plan` has `fields` but no `file`",
        ),
        (
            state,
            "artifacts:\n  plan: {title: The Plan}\n",
            "2:9",
            "so its key must be `the_plan`",
        ),
        (
            state,
            "artifacts:\n  plan: {title: Plan, modes: [stay]}\n",
            "2:9",
            "pack.yaml has no mode `stay`",
        ),
        (
            state,
            "artifacts:\n  plan:\n    title: Plan\n    file: p.md\n    fields: {x: {title: One}, y: {title: one}}\n",
            "3:5",
            "two fields have the title",
        ),
    ];

    for (state, text, place, message) in table {
        let error = load(&[("state.yaml", state), ("artifacts.yaml", text)]).unwrap_err();
        let shown = format!("{error:#}");
        assert!(shown.contains(message), "{message:?} is not in:\n{shown}");
        assert!(
            shown.contains(&format!("artifacts.yaml:{place}")),
            "{place} is not in:\n{shown}"
        );
    }
}

#[test]
fn pack_without_state_file_shows_its_mode_and_nothing_else() {
    let pack = load(&[]).unwrap();
    let state = State::in_mode(Mode::new("go").unwrap());
    let request = PromptRequest::new("Go on.");
    let text = compose(&pack, &state, &request).unwrap().text();
    let state_start = text.find("<session_state>").unwrap();
    assert!(
        text[state_start..]
            .starts_with("<session_state>\n  <current_mode>GO</current_mode>\n</session_state>"),
        "{text}"
    );
}

#[test]
fn list_sections_and_words_are_rendered_as_declared() {
    let pack = load(&[(
        "state.yaml",
        "sections:\n  crew:\n    list: {element: member, attributes: [role], text: name}\n  \
         ship:\n    fields: {name: text, tags: words, armed: boolean, decks: number}\n    \
         summary: [name]\n\
         modes: {rest: {summarized: [crew, ship]}}\n",
    )])
    .unwrap();
    let document = StateDocument::read(
        "crew: [{role: pilot, name: Ada & Co}, {role: cook}]\n\
         ship: {decks: 3, armed: false, tags: [old, fast], name: Swift}\n",
        "state.yaml",
        &pack.state,
    )
    .unwrap();

    let shown = |mode: &str| {
        let state = State {
            document: document.clone(),
            ..State::in_mode(Mode::new(mode).unwrap())
        };
        let text = compose(&pack, &state, &PromptRequest::new("Go on."))
            .unwrap()
            .text();
        let (_, rest) = text.split_once("<session_state>\n").unwrap();
        rest.split_once("</session_state>").unwrap().0.to_owned()
    };

    assert_eq!(
        shown("go"),
        "  <current_mode>GO</current_mode>\n  \
         <crew>\n    <member role=\"pilot\">Ada &amp; Co</member>\n    <member role=\"cook\"/>\n  </crew>\n  \
         <ship>\n    <name>Swift</name>\n    <tags>old, fast</tags>\n    <armed>false</armed>\n    \
         <decks>3</decks>\n  </ship>\n"
    );
    assert_eq!(
        shown("rest"),
        "  <current_mode>REST</current_mode>\n  <crew count=\"2\"/>\n  \
         <ship>\n    <name>Swift</name>\n  </ship>\n"
    );
}
