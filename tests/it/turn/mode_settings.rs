//! Settings of one mode: its model, its permission and its limits.

use crate::support::{Run, TestProject, write_program};

/// A project with two agents that report how they were called, and settings.
fn project(settings: &str) -> TestProject {
    let project = TestProject::new();
    let agent = project.home().join("agent");
    let script = "#!/bin/sh\ncat >/dev/null\nsleep ${NAP:-0}\necho \"called with: $*\"\n";
    write_program(&agent, script);
    let described = |name: &str| {
        format!(
            "  {name}:\n    argv: [{}, \"{{permissions}}\", [--model, \"{{model}}\"]]\n    model: own\n    \
             environment: [NAP]\n    permissions: {{read-only: [--read], edit: [--edit]}}\n",
            agent.display()
        )
    };

    let agents = format!(
        "format: 1\nagents:\n{}{}",
        described("one"),
        described("two")
    );
    crate::support::write(&project.user_folder().join("agents.yaml"), agents);
    project.write("agentd/config.toml", format!("format = 1\n{settings}"));
    project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 x\n");
    project.run(&["trust"]).ok();
    project
}

fn reply(run: &Run) -> String {
    assert!(
        run.stdout.starts_with("called with: "),
        "{}\n{}",
        run.stdout,
        run.stderr
    );
    run.stdout
        .trim_start_matches("called with: ")
        .trim()
        .to_owned()
}

#[test]
fn model_of_a_mode_applies_to_its_agent_and_flags_override_it() {
    let project = project(
        "[modes.plan]\nagent = \"one\"\nmodel = \"set\"\n[modes.challenge]\nagent = \"one:named\"\nmodel = \"set\"\n",
    );
    let cases: [(&[&str], &str, &str); 7] = [
        (&["plan"], "one", "set"),
        (&["plan", "--model", "given"], "one", "given"),
        (&["plan", "--agent", "one"], "one", "set"),
        (&["plan", "--agent", "one:other"], "one:other", "other"),
        (&["plan", "--agent", "two"], "two", "own"),
        (&["challenge", "--change", "a"], "one:named", "named"),
        (
            &["challenge", "--change", "a", "--agent", "one"],
            "one",
            "own",
        ),
    ];

    for (flags, agent, model) in cases {
        let with = |command| [&[command][..], flags, &["Go"]].concat();
        assert_eq!(
            reply(&project.run(&with("turn"))),
            format!("--read --model {model}"),
            "{flags:?}"
        );
        let shown = project
            .run(&[&with("prompt")[..], &["--json"]].concat())
            .json();
        assert_eq!(
            (&shown["agent"], &shown["fit"]["model"]),
            (&agent.into(), &model.into()),
            "{flags:?}"
        );
    }
}

#[test]
fn settings_can_restrict_the_permissions_of_a_mode() {
    let turn = [
        "turn",
        "implement",
        "Go",
        "--change",
        "a",
        "--agent",
        "one",
        "--model",
        "m",
    ];
    assert_eq!(reply(&project("").run(&turn)), "--edit --model m");

    let lowered = project("[modes.implement]\npermission = \"read-only\"\n");
    assert_eq!(reply(&lowered.run(&turn)), "--read --model m");

    // A permission beyond that of the pack is refused.
    let raised = project("")
        .write(
            "agentd/config.toml",
            "format = 1\n[modes.plan]\npermission = \"edit\"\n",
        )
        .run(&turn);
    raised.fails(4, &["config.toml:3", "`read-only`"]);
}

/// agentd writes the files of an agent without tools, but not in a read-only mode.
#[test]
fn edits_are_refused_in_a_mode_restricted_to_reading() {
    for (settings, edited) in [
        ("", true),
        ("[modes.implement]\npermission = \"read-only\"\n", false),
    ] {
        let project = project(settings);
        let reply = "<content_update target=\\\"new.txt\\\">\\nhello\\n</content_update><task_status>COMPLETED</task_status>";
        let agents = format!(
            "format: 1\nagents:\n  pipe:\n    argv: [printf, \"{reply}\"]\n    tools: false\n"
        );
        crate::support::write(&project.user_folder().join("agents.yaml"), agents);

        project.run(&[
            "turn",
            "implement",
            "Go",
            "--change",
            "a",
            "--agent",
            "pipe",
        ]);
        assert_eq!(
            project.root().join("new.txt").exists(),
            edited,
            "{settings}"
        );
    }
}

#[test]
fn limits_of_a_mode_override_the_general_ones() {
    let settings = "[limits]\nwall_seconds = 1\ngrace_seconds = 0\n[modes.plan]\nwall_seconds = 600\n\
                    [modes.challenge]\nidle_seconds = 1\nwall_seconds = 600\n";
    let project = project(settings);
    let turn = |mode, nap| {
        let args = ["turn", mode, "Go", "--change", "a", "--agent", "one"];
        Run::from(project.command(&args).env("NAP", nap).output().unwrap())
    };
    assert_eq!(reply(&turn("plan", "1.1")), "--read --model own");
    turn("challenge", "600").fails(5, &["was stopped after 1 s without output"]);
    turn("implement", "600").fails(5, &["1 s", "wall_seconds"]);
}

#[test]
fn settings_of_an_unknown_mode_are_reported() {
    let run = project("[modes.plann]\nmodel = \"x\"\n").run(&["prompt", "plan", "Go"]);
    assert!(
        run.stderr.contains("unknown mode `plann` in the settings"),
        "{}",
        run.stderr
    );
}
