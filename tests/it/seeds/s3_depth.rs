//! Depth-aware task prompting of Prompt Builder.

use agentd::{ErrorKind, Pack};
use serde_json::{Value, json};

use crate::seeds::s3_builder::{SEPARATOR, block, body, builder, depth, object, system};

#[test]
fn depth_0_loads_the_plan_structure_guide_with_max_steps() {
    let text = depth(json!({"depth": 0, "max_depth": 3, "max_steps": 5})).unwrap();
    let rules = body("plan-structure-guide").replace("{{max_steps}}", "5");
    assert!(rules.contains("a plan of at most 5 steps"));
    assert_eq!(text, block("execution_rules", &rules));
}

#[test]
fn depths_between_load_controlled_splitting_with_both_numbers() {
    for (now, most) in [(1, 3), (2, 3), (1, 2)] {
        let text = depth(json!({"depth": now, "max_depth": most, "max_steps": 5})).unwrap();
        let rules = body("controlled-splitting")
            .replace("{{current_depth}}", &now.to_string())
            .replace("{{max_depth}}", &most.to_string());
        assert!(rules.contains(&format!("at depth {now} of at most {most}")));
        assert_eq!(text, block("execution_rules", &rules));
    }
}

#[test]
fn maximum_depth_and_above_load_the_execution_focus() {
    for (now, most) in [(3, 3), (4, 3), (1, 1), (1, 0)] {
        let text = depth(json!({"depth": now, "max_depth": most, "max_steps": 5})).unwrap();
        assert_eq!(
            text,
            block("execution_rules", &body("execution-focus")),
            "{now} of {most}"
        );
    }
}

#[test]
fn depth_0_is_the_root_for_any_maximum() {
    for most in [
        json!({}),
        json!({"max_depth": 0}),
        json!({"max_depth": 1}),
        json!({"max_depth": 9}),
    ] {
        let mut data = object(most);
        data.extend(object(json!({"depth": 0, "max_steps": 5})));
        let text = depth(Value::from(data.clone())).unwrap();
        assert!(text.contains("a plan of at most 5 steps"), "{data:?}");
    }
}

#[test]
fn task_depth_without_rules_is_an_error() {
    for data in [
        json!({}),
        json!({"max_depth": 3}),
        json!({"depth": 1}),
        json!({"depth": "x", "max_depth": 3}),
        json!({"depth": -1, "max_depth": 3}),
        json!({"depth": -1, "max_depth": -2}),
    ] {
        let error = depth(data.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingVariable, "{data}");
        assert_eq!(
            error.hint(),
            Some("set `depth` and `max_depth` to numbers, 0 or greater")
        );
    }
}

/// A pack without rules for task depth uses the shipped ones.
#[test]
fn task_depth_works_with_any_pack() {
    let manifest = "\
format: 1
name: own
description: Has no rules for depths.
start: cook
rendering: flat
layers:
  - {id: identity, holds: text, text: cook.md, class: pinned, zone: stable}
  - {id: context, holds: artifacts, heading: \"## Context: {name}\", class: required, zone: turn}
  - {id: message, holds: instructions, class: pinned, zone: turn}
modes:
  cook: {permission: read-only, next: {otherwise: done}}
";
    let pack = Pack::from_files("own", [("pack.yaml", manifest), ("cook.md", "You cook.")]);
    let mut builder = builder().with_pack(pack.unwrap());
    let data = object(json!({"depth": 3, "max_depth": 3}));
    builder.add_context_section("task_depth", &data).unwrap();

    let rules = block("execution_rules", &body("execution-focus"));
    assert_eq!(
        system(&builder),
        ["You cook.".to_owned(), rules].join(SEPARATOR)
    );
}

#[test]
fn only_add_context_section_turns_task_depth_into_rules() {
    let mut builder = builder();
    builder.add_context("task_depth", "depth 0 of 3");
    assert_eq!(system(&builder), block("task_depth", "depth 0 of 3"));
}
