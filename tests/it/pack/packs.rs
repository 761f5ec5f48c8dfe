//! Packs: a process as files, validated on load, shown and used from the command line.

use std::fs;

use agentd::{Pack, SearchPath};

use crate::support::{TestProject, files_below, repository, write};

/// Returns a project that contains only the pack of `tests/data/packs`.
fn bakery() -> TestProject {
    let project = TestProject::new();
    let folder = repository().join("tests/data/packs/bakery");
    for file in files_below(&folder) {
        write(
            &project.root().join("agentd/packs/bakery").join(&file),
            fs::read(folder.join(&file)).unwrap(),
        );
    }
    project
}

/// Takes one scripted turn, and returns the report.
fn turn(project: &TestProject, mode: &str, expect: &str, reply: &str) -> serde_json::Value {
    let script = format!(
        "format: 1\nturns:\n  - mode: {mode}\n    expect: [{}]\n    reply: {}\n",
        serde_json::to_string(expect).unwrap(),
        serde_json::to_string(reply).unwrap()
    );
    project.write("script.yaml", script);
    let args = [
        "turn",
        mode,
        "Two loaves",
        "--pack",
        "bakery",
        "--change",
        "monday",
        "--json",
    ];
    let run = project.run(
        &[
            &args[..],
            &["--agent", "scripted", "--script", "script.yaml"],
        ]
        .concat(),
    );
    run.last_line()
}

const MIX: &str = "<content_update target=\"recipe.md\">\nFlour\n</content_update>\n";
const WEIGH: &str = "<action type=\"note_weight\">\n<target>weights.md</target>\n<content>500 g</content>\n</action>\n";

/// A custom pack is a folder: its modes, marker, action and gate exist in no shipped pack and not
/// in Rust.
#[test]
fn custom_pack_folder_takes_a_turn_in_each_mode() {
    let project = bakery();
    let report = turn(
        &project,
        "mix",
        "## ORDER\n\nTwo loaves",
        &format!("{MIX}{WEIGH}Weighed."),
    );
    assert_eq!(report["report"]["state"]["mode"], "bake", "{report:#}");
    assert_eq!(project.read("agentd/changes/monday/recipe.md"), "Flour\n");
    assert_eq!(project.read("agentd/changes/monday/weights.md"), "500 g");

    let report = turn(
        &project,
        "bake",
        "# BAKE",
        "Out of the oven.\n<crust>golden</crust>\n",
    );
    assert_eq!(report["report"]["state"]["mode"], "sell", "{report:#}");
    assert_eq!(
        report["report"]["state"]["progress"]["markers"],
        serde_json::json!({}),
        "a new mode, a new page"
    );

    let report = turn(&project, "sell", "ring_bell", "Sold.");
    assert_eq!(report["report"]["state"]["ended"], true, "{report:#}");
}

#[test]
fn closed_gate_keeps_the_mode_and_is_reported() {
    let project = bakery();
    let report = turn(&project, "mix", "# MIX", MIX);
    assert_eq!(report["report"]["state"]["mode"], "mix");
    assert_eq!(
        report["report"]["closed_gate"],
        "done(\"files.write\") >= 2"
    );

    for reply in [
        "<crust>BURNT</crust>",
        "<crust>GOLDEN</crust>\n\n<crust>PALE</crust>",
        "<crust>PALE</crust>\n\n<crust>GOLDEN</crust>",
    ] {
        let report = turn(&project, "bake", "# BAKE", reply);
        assert_eq!(
            report["report"]["state"]["mode"], "bake",
            "{reply}: the most severe value counts"
        );
    }
}

#[test]
fn required_marker_is_never_guessed() {
    let project = bakery();
    project.write("agentd/changes/monday/recipe.md", "Flour\n");
    for reply in [
        "Golden, I think.",
        "<crust>crispy</crust>",
        "`<crust>GOLDEN</crust>`",
        "<thought><crust>GOLDEN</crust></thought>",
        "`<crust>BURNT</crust>` is wrong.\n<crust>GOLDEN</crust>",
        "<crust>GOLDEN</crust>\n\n<crust>BURNT, sadly</crust>",
    ] {
        let report = turn(&project, "bake", "# BAKE", reply);
        assert_eq!(report["fault"]["kind"], "MissingMarker", "{reply}");
        assert_eq!(report["report"]["state"]["mode"], "bake", "{reply}");
    }
}

/// The mode, the schema and the operation decide which actions run. Any other action is listed but
/// not run.
#[test]
fn actions_run_only_as_the_pack_allows() {
    let project = bakery();
    project.write("agentd/changes/monday/recipe.md", "Flour\n");
    let cases = [
        (
            "mix",
            "<action type=\"burn_down\"></action>",
            "not allowed in this mode",
        ),
        ("mix", "<action type=\"knead\"></action>", "unknown action"),
        (
            "mix",
            "<action type=\"note_weight\"><target>weights.md</target></action>",
            "`content` is missing",
        ),
        (
            "mix",
            "<action type=\"note_weight\"><target>recipe.md</target><content>x</content></action>",
            "`target` is not one of weights.md",
        ),
        (
            "mix",
            "<action type=\"note_weight\"><target>weights.md</target><content>x</content>",
            "the closing tag is missing",
        ),
        (
            "mix",
            "<action type=\"note_weight\">{\"target\": \"weights.md\"}</action>",
            "`content` is missing",
        ),
        (
            "mix",
            "<action type=\"jot\"><target>../evil.md</target><content>x</content></action>",
            "not a plain relative path",
        ),
        (
            "mix",
            "<action type=\"jot\"><target>secret.md</target><content>x</content></action>",
            "replies in this mode can update only recipe.md, weights.md",
        ),
        (
            "sell",
            "<action type=\"ring_bell\"><times>3</times></action>",
            "the pack defines no operation for this action",
        ),
        (
            "sell",
            "<action type=\"ring_bell\"><times>three</times></action>",
            "`times` is not of type integer",
        ),
    ];

    for (mode, reply, reason) in cases {
        let report = turn(&project, mode, "ORDER", reply);
        let proposals = report["report"]["proposals"].as_array().unwrap();
        assert_eq!(proposals.len(), 1, "{reply}: {report:#}");
        assert!(
            proposals[0]["reason"].as_str().unwrap().contains(reason),
            "{reply}: {}",
            proposals[0]["reason"]
        );
        assert_eq!(
            report["report"]["settlements"].as_array().unwrap().len(),
            0,
            "{reply}"
        );
    }

    assert_eq!(
        files_below(&project.root().join("agentd/changes")).len(),
        1,
        "nothing was written"
    );
}

/// An action of the pack is also listed in a mode without actions. Array items are checked against
/// the schema.
#[test]
fn action_schema_is_enforced() {
    let project = bakery();
    let actions = project.read("agentd/packs/bakery/actions.yaml");
    let weights = "      content: {type: array, required: true, items: string}";
    let actions: Vec<&str> = actions
        .lines()
        .map(|line| {
            if line.contains("content: {type: string") {
                weights
            } else {
                line
            }
        })
        .collect();
    project
        .write("agentd/packs/bakery/actions.yaml", actions.join("\n"))
        .write("agentd/changes/monday/recipe.md", "Flour\n");
    let weigh = |content: &str| WEIGH.replace("500 g", content);

    let report = turn(&project, "mix", "ORDER", &weigh("[1, 2]"));
    assert_eq!(
        report["report"]["proposals"][0]["reason"],
        "`content` is not of type array"
    );

    turn(&project, "mix", "ORDER", &weigh("[\"500 g\"]"));
    assert_eq!(
        project.read("agentd/changes/monday/weights.md"),
        "[\"500 g\"]"
    );

    let report = turn(
        &project,
        "bake",
        "BAKE",
        &format!("{WEIGH}<crust>PALE</crust>"),
    );
    assert_eq!(
        report["report"]["proposals"][0]["reason"],
        "not allowed in this mode"
    );
}

/// A false fact does not open a gate, even without a comparison.
#[test]
fn false_fact_does_not_open_a_gate() {
    let project = bakery();
    let manifest = project.read("agentd/packs/bakery/pack.yaml");
    let manifest = manifest.replace(
        "    gate: done(\"files.write\") >= 2",
        "    gate: state(\"oven.hot\")",
    );
    project
        .write("agentd/packs/bakery/pack.yaml", manifest)
        .write(
            "agentd/packs/bakery/state.yaml",
            "sections: {oven: {fields: {hot: boolean}}}\n",
        )
        .write("state.yaml", "oven: {hot: false}\n");
    let script = "format: 1\nturns:\n  - reply: Done.\n  - reply: Done.\n";
    project.write("script.yaml", script);
    let args = [
        "turn", "mix", "Go", "--pack", "bakery", "--change", "monday", "--agent", "scripted",
    ];
    let args = [
        &args[..],
        &["--script", "script.yaml", "--state", "state.yaml", "--json"],
    ]
    .concat();
    assert_eq!(
        project.run(&args).report()["report"]["state"]["mode"],
        "mix"
    );
    project.write("state.yaml", "oven: {hot: true}\n");
    assert_eq!(
        project.run(&args).report()["report"]["state"]["mode"],
        "bake"
    );
}

#[test]
fn conditions_and_variables_select_the_text() {
    let project = bakery();
    let prompt = |more: &[&str]| {
        project
            .run(&[&["prompt", "mix", "Go", "--pack", "bakery"], more].concat())
            .ok()
    };
    assert!(!prompt(&[]).contains("# RYE"));
    assert!(prompt(&["--set", "flour=rye"]).contains("# RYE"));
    let small = prompt(&["--model", "llama3.2:3b"]);
    assert!(small.contains("Weigh.") && !small.contains("recipe.md"));
}

#[test]
fn yaml_bomb_is_refused_at_once() {
    let deep = format!("format: {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let wide = format!(
        "format: 1\nname: trial\ndescription: {}\n",
        "x".repeat(2_000_000)
    );
    let many: String = (0..100_000)
        .map(|index| format!("k{index}: [1, 2, 3]\n"))
        .collect();
    for bomb in [deep, wide, many] {
        let project = TestProject::new();
        project.write("agentd/packs/trial/pack.yaml", &bomb);
        let run = project.run(&["pack", "show", "trial"]);
        assert!(matches!(run.code, 3 | 4), "{}", run.stderr);
        assert!(run.stderr.len() < 3_000, "the message is short");
    }
}

#[test]
fn every_shipped_pack_is_clean() {
    let project = TestProject::new();
    let run = project.run(&["pack", "check"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    for name in ["foreman", "light", "probe", "sdd", "taskqueue"] {
        assert!(
            run.stdout.contains(&format!("{name} (tokens / budget)\n")),
            "{name}"
        );
    }
    assert_eq!(run.stdout.matches("no problems").count(), 5);
}

/// A prompt that fills the whole window leaves no room for the reply.
#[test]
fn every_shipped_pack_leaves_room_for_the_reply() {
    for name in ["foreman", "light", "probe", "sdd", "taskqueue"] {
        let reserve = Pack::load(name, &SearchPath::default())
            .unwrap()
            .reserve
            .unwrap();
        assert!(
            reserve.minimal >= 1_000 && reserve.medium >= 2_000 && reserve.full >= 4_000,
            "{name}"
        );
    }
}

#[test]
fn prose_over_its_budget_is_a_finding() {
    let project = bakery();
    let run = project.run(&["pack", "check", "bakery"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(
        run.stdout
            .contains("layer `step` has 31 tokens, over its budget of 20 (bake at minimal tier)"),
        "{}",
        run.stdout
    );

    let json = project.run(&["pack", "check", "bakery", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json[0]["name"], "bakery");
    assert!(
        json[0]["layers"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["layer"] == "step" && row["budget"] == 20)
    );
}

/// The text of the full tier is `NAME.md`, so a file for that tier is not suggested.
#[test]
fn hint_for_a_budget_names_a_file_of_the_tier() {
    let project = bakery();
    let manifest = project.read("agentd/packs/bakery/pack.yaml");
    let manifest = manifest.replace("{full: 200, medium: 200,", "{full: 2, medium: 2,");
    project.write("agentd/packs/bakery/pack.yaml", manifest);

    let run = project.run(&["pack", "check", "bakery"]);
    let hints: Vec<&str> = run
        .stdout
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("hint: shorten"))
        .collect();
    assert!(
        hints.contains(&"hint: shorten the text, or raise `budget` of the layer"),
        "{hints:?}"
    );
    assert!(
        hints.iter().any(|hint| hint.contains("NAME.medium.md")),
        "{hints:?}"
    );
    assert!(!run.stdout.contains("NAME.full.md"), "{hints:?}");
}

/// A pack that loads may still name an unknown operation. The check reports it.
#[test]
fn unknown_operation_is_a_finding() {
    let project = bakery();
    let manifest = project.read("agentd/packs/bakery/pack.yaml");
    let manifest = manifest
        .replace("after: [files.write]", "after: [files.wirte]")
        .replace("done(\"files.write\")", "done(\"files.wrte\")");
    project.write("agentd/packs/bakery/pack.yaml", manifest);
    let run = project.run(&["pack", "check", "bakery"]);
    assert_eq!(run.code, 1);
    for (place, name) in [("25:13", "files.wirte"), ("26:11", "files.wrte")] {
        let finding =
            format!("error: agentd/packs/bakery/pack.yaml:{place}: unknown operation `{name}`");
        assert!(run.stdout.contains(&finding), "{}", run.stdout);
    }
}

/// An operation under `before` must inspect; one under `after` or `finish`, or of an action, must act.
#[test]
fn operation_of_the_wrong_kind_is_a_finding() {
    let project = bakery();
    let manifest = project.read("agentd/packs/bakery/pack.yaml");
    let manifest = manifest.replace(
        "after: [files.write]",
        "before: [files.edit]\n    after: [files.write]\n    finish: [specs.show]",
    );
    project.write("agentd/packs/bakery/pack.yaml", manifest);
    let run = project.run(&["pack", "check", "bakery"]);
    assert_eq!(run.code, 1);
    for finding in [
        "pack.yaml:25:14: operation `files.edit` cannot run before a turn\n    hint: `before` allows change.require,",
        "pack.yaml:27:14: operation `specs.show` can only run before a turn\n    hint: `after` and `finish` allow artifact.status, artifact.write, change.archive,",
    ] {
        assert!(run.stdout.contains(finding), "{}", run.stdout);
    }
}

/// An agent must not decide when a branch is merged, nor edit the task list.
#[test]
fn action_cannot_ask_for_an_operation_that_only_agentd_plans() {
    let project = bakery();
    let manifest = project.read("agentd/packs/bakery/pack.yaml");
    assert!(manifest.contains("operation: files.write"), "{manifest}");
    for operation in ["git.merge", "git.commit", "tasks.tick", "checks.run"] {
        let asking = manifest.replace("operation: files.write", &format!("operation: {operation}"));
        project.write("agentd/packs/bakery/pack.yaml", asking);
        let run = project.run(&["pack", "check", "bakery"]);
        let finding = format!(
            "actions cannot use the operation `{operation}`\n    hint: actions can use artifact.status, artifact.write, files.edit, files.write, findings.note, knowledge.save, state.add, state.remove, state.set\n"
        );
        assert_eq!(run.code, 1);
        assert!(run.stdout.contains(&finding), "{}", run.stdout);
    }
}

#[test]
fn aliases_and_conditions_must_name_existing_parameters() {
    let project = bakery();
    let actions = project.read("agentd/packs/bakery/actions.yaml");
    let faulty = actions.replace(
        "[weights.md]",
        "[weights.md], aliases: {large: [huge]}, unless: nothing",
    );
    assert_ne!(faulty, actions);
    project.write("agentd/packs/bakery/actions.yaml", faulty);
    let error = Pack::load("bakery", &SearchPath::new(Some(project.root()), None)).unwrap_err();
    for fault in [
        "names `large`, which is not in its `enum`",
        "names the unknown parameter `nothing`",
    ] {
        assert!(error.message().contains(fault), "{error:#}");
    }
}

#[test]
fn example_of_an_action_must_fit_its_parameters() {
    let project = bakery();
    let actions = project.read("agentd/packs/bakery/actions.yaml");
    let faulty = actions.replace(
        "Write anything anywhere\"",
        "Write anything anywhere\"\n    example: {target: a.md, colour: brown}",
    );
    assert_ne!(faulty, actions);
    project.write("agentd/packs/bakery/actions.yaml", faulty);
    let error = Pack::load("bakery", &SearchPath::new(Some(project.root()), None)).unwrap_err();
    for fault in [
        "action `jot`: `example` has no value for `content`",
        "action `jot`: `example` names the unknown parameter `colour`",
    ] {
        assert!(error.message().contains(fault), "{error:#}");
    }
}

/// The prose of a pack can be shown and used as the start of a custom one.
#[test]
fn file_of_a_pack_is_shown() {
    let project = TestProject::new();
    let shown = project
        .run(&["pack", "show", "foreman", "identity.minimal.md"])
        .ok();
    assert_eq!(
        shown,
        fs::read_to_string(repository().join("packs/foreman/identity.minimal.md")).unwrap()
    );
    project
        .run(&["pack", "show", "foreman", "../sdd/pack.yaml"])
        .fails(3, &["has no file", "identity.md"]);
}

#[test]
fn unknown_variable_is_an_error() {
    let project = TestProject::new();
    let args = ["prompt", "task-agent", "Go", "--pack", "taskqueue", "--set"];
    project
        .run(&[&args[..], &["deph=1"]].concat())
        .fails(3, &["has no variable `deph`", "current_depth, depth"]);
    let run = project.run(&[&args[..], &["depth=1"]].concat());
    assert!(
        run.stderr
            .contains("omitting layer `execution_rules`: none of its conditions is met"),
        "{}",
        run.stderr
    );
}

#[test]
fn list_and_show_describe_packs() {
    let project = bakery();
    let list = project.run(&["pack", "list"]).ok();
    assert!(
        list.contains("bakery     project   Bread, from the recipe to the counter."),
        "{list}"
    );

    let show = project.run(&["pack", "show", "bakery"]).ok();
    for words in [
        "mix   otherwise → bake",
        "gate: done(\"files.write\") >= 2",
        "actions: note_weight",
        "when flour == \"rye\"",
    ] {
        assert!(show.contains(words), "{words:?} is not in:\n{show}");
    }

    let json = project.run(&["pack", "show", "bakery", "--json"]).json();
    assert_eq!(json["modes"]["bake"]["next"]["otherwise"], "sell");
    assert_eq!(json["markers"]["crust"][2], "BURNT");
    project.run(&["pack", "show", "nothing"]).fails(
        4,
        &[
            "unknown pack `nothing`",
            "known packs: bakery, foreman, light, probe, sdd",
        ],
    );
}

#[test]
fn new_pack_works_at_once_and_is_never_overwritten() {
    let project = TestProject::new();
    project.run(&["pack", "new", "letters"]).ok();
    assert_eq!(project.run(&["pack", "check", "letters"]).code, 0);

    let prompt = project
        .run(&["prompt", "draft", "Thank the referee", "--pack", "letters"])
        .ok();
    assert!(
        prompt.ends_with("<instructions>Thank the referee</instructions>\n</prompt>\n"),
        "{prompt}"
    );

    project.write("agentd/packs/letters/identity.md", "Mine.");
    assert!(
        project
            .run(&["pack", "new", "letters"])
            .ok()
            .contains("kept agentd/packs/letters/identity.md")
    );
    assert_eq!(project.read("agentd/packs/letters/identity.md"), "Mine.");

    project.run(&["pack", "new", "null"]).ok();
    assert_eq!(
        project.run(&["pack", "check", "null"]).code,
        0,
        "a name that YAML would parse as another type"
    );
    project
        .run(&["pack", "new", "foreman"])
        .fails(3, &["pack `foreman` already exists"]);
    project
        .run(&["pack", "new", "../letters"])
        .fails(3, &["invalid pack name"]);
}

/// A file of the project overrides a shipped one, and the prompt reports it.
#[test]
fn project_overrides_one_text_of_a_shipped_pack() {
    let project = TestProject::new();
    project.write(
        "agentd/packs/foreman/identity.md",
        "# THE FOREWOMAN\n\nShe leads.\n",
    );

    let run = project.run(&["prompt", "architect", "Go", "--pack", "foreman"]);
    assert!(
        run.stderr
            .contains("note: using agentd/packs/foreman/identity.md of this project"),
        "{}",
        run.stderr
    );
    assert!(
        run.ok()
            .starts_with("# THE FOREWOMAN\n\nShe leads.\n\n---\n\n# THE WRITING PROCESS MAP")
    );
}
