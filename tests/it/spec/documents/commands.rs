//! `agentd spec`: output and exit codes of the commands.

use super::{SEEDS, login, seed};
use crate::support::TestProject;

#[test]
fn commands_check_list_and_show_specs() {
    let project = TestProject::new();
    assert_eq!(project.run(&["spec", "check"]).ok(), "");

    for id in SEEDS {
        project.write(&format!("agentd/specs/{id}.md"), seed(id));
    }
    project
        .write("agentd/changes/a/specs/login.md", login())
        .write("agentd/changes/archive/b/specs/x.md", "old");
    project.write("agentd/changes/README", "not a change");

    let run = project.run(&["spec", "check"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(
        run.stderr.contains("checked 4 files: 0 problems"),
        "{}",
        run.stderr
    );

    let expected = "SPEC                        VERSION  REQUIREMENTS  SCENARIOS  TITLE\n\
                    agent-orchestration-update  1        5             4          Agent Orchestration Update\n\
                    system-prompt-templates     1        5             4          System Prompt Templates\n\
                    unified-prompt-system       1        5             3          Unified Prompt System\n";
    assert_eq!(project.run(&["spec", "list"]).ok(), expected);

    let listed = project.run(&["spec", "list", "--json"]).json();
    assert_eq!(
        (&listed[2]["id"], &listed[2]["scenarios"]),
        (&"unified-prompt-system".into(), &3.into())
    );

    assert_eq!(
        project.run(&["spec", "show", SEEDS[0]]).ok(),
        seed(SEEDS[0])
    );

    let shown = project.run(&["spec", "show", SEEDS[0], "R5"]).ok();
    assert!(
        shown.starts_with("### R5 - Context Artifact Support\n\nThe unified prompt must support"),
        "{shown}"
    );
    assert!(shown.ends_with("persistence.\n\n### Scenario: Constructing a basic Plan prompt\n### Scenario: Rendering context files\n### Scenario: Error handling for missing templates\n"), "{shown}");

    let shown = project
        .run(&["spec", "show", SEEDS[0], "R5", "--json"])
        .json();
    assert_eq!(shown["requirement"]["priority"], "medium");
    assert_eq!(
        project.run(&["spec", "show", SEEDS[1], "--json"]).json()["requirements"][1]["id"],
        "R2"
    );
    project
        .run(&["spec", "show", "nope"])
        .fails(3, &["unknown spec `nope`", SEEDS[0]]);
    project.run(&["spec", "show", SEEDS[0], "R9"]).fails(
        3,
        &[
            "has no requirement `R9`",
            &format!("requirements of `{}`: R1, R2", SEEDS[0]),
        ],
    );
}

#[test]
fn problems_are_reported_with_file_and_line() {
    let project = TestProject::new();
    project.write(
        "agentd/specs/login.md",
        login().replace("total: 2", "total: 3"),
    );
    project.write(
        "agentd/changes/a/tasks.md",
        "- [ ] 1.1 a\n  - depends: 1.2\n",
    );
    project.write("agentd/changes/a/specs/log-in.md", login());
    let run = project.run(&["spec", "check"]);
    let expected = "agentd/specs/login.md:9: `total` is 3, but the body has 2 requirements\n\
                    agentd/changes/a/specs/log-in.md:2: the id is `login`, but the file is named `log-in.md`\n";
    assert_eq!((run.code, run.stdout.as_str()), (1, expected));

    let run = project.run(&[
        "-C",
        "agentd/changes/a",
        "spec",
        "check",
        "tasks.md",
        "--json",
    ]);
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(run.code, 1);
    assert_eq!(found[0]["file"], "tasks.md");
    assert_eq!(found[0]["findings"][0]["line"], 1);
    assert_eq!(
        found[0]["findings"][0]["message"],
        "task `1.1` depends on the unknown task `1.2`"
    );
    assert!(
        project
            .run(&["spec", "list"])
            .ok()
            .contains("login  -        -             -          (invalid: see")
    );
    project
        .run(&["spec", "show", "login", "R1"])
        .fails(3, &["agentd/specs/login.md:9:1", "`total` is 3"]);
    project
        .run(&["spec", "check", "nope.md"])
        .fails(3, &["nope.md"]);
}
