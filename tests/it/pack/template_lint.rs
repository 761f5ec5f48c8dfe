//! `agentd template check`: shipped templates are clean, and every removed part is reported.

use agentd::models::Mode;
use agentd::pack::{LintFinding, Prose, Template, lint};
use agentd::{Pack, SearchPath, pack};

use crate::support::{TestProject, repository};

fn findings(name: &str, text: &str) -> Vec<LintFinding> {
    let pack = Pack::load("sdd", &SearchPath::default()).unwrap();
    let prose = Prose {
        owner: pack::ProseOwner::Project,
        origin: name.to_owned(),
        text: text.to_owned().into(),
    };
    lint(&pack, &Template::read(name, &prose).unwrap())
}

fn shipped_templates() -> Vec<(String, String)> {
    let pack = Pack::load("sdd", &SearchPath::default()).unwrap();
    let names = pack.modes.values().flat_map(|mode| mode.templates.clone());
    let read = |name: &String| {
        std::fs::read_to_string(repository().join(format!("templates/system/{name}.md"))).unwrap()
    };
    names.map(|name| (name.clone(), read(&name))).collect()
}

/// Removes a part. The finding must name it.
fn check_without(name: &str, text: &str, part: &str, named: &str) {
    assert!(text.contains(part), "{name} has no {part:?}");
    let found = findings(name, &text.replace(part, "…"));
    assert!(
        found.iter().any(|finding| finding.message.contains(named)),
        "{name} without {part:?}: {found:?}"
    );
}

#[test]
fn shipped_templates_are_clean() {
    for (name, text) in shipped_templates() {
        assert_eq!(findings(&name, &text), [], "{name}");
    }
    TestProject::new().run(&["template", "check"]).ok();
}

#[test]
fn each_missing_part_is_named() {
    let pack = Pack::load("sdd", &SearchPath::default()).unwrap();
    for (name, text) in shipped_templates() {
        let mode = &pack.modes[&Mode::new(name.split_once('-').unwrap().1).unwrap()];
        for section in &pack.sections {
            check_without(
                &name,
                &text,
                &format!("## {section}\n"),
                &format!("missing section `## {section}`"),
            );
        }

        for variable in &mode.variables {
            let placeholder = format!("{{{{{variable}}}}}");
            check_without(
                &name,
                &text,
                &placeholder,
                &format!("required variable {placeholder} is not used"),
            );
        }

        for verdict in &mode.verdicts {
            let marker = format!("<review>{verdict}</review>");
            check_without(&name, &text, &marker, &format!("{marker} is missing"));
        }

        if mode.task_status {
            check_without(
                &name,
                &text,
                ">COMPLETED</task_status>",
                ">COMPLETED</task_status> is not mentioned",
            );
            check_without(
                &name,
                &text,
                ">FAILED</task_status>",
                ">FAILED</task_status> is not mentioned",
            );
            check_without(
                &name,
                &text,
                "<task_status id=\"",
                "<task_status id= is not mentioned",
            );
        } else {
            check_without(
                &name,
                &text,
                "<content_update target=\"",
                "<content_update target= is not mentioned",
            );
        }
        check_without(&name, &text, "<thought>", "<thought> is not mentioned");
        check_without(
            &name,
            &text,
            "<instructions>",
            "does not refer to <instructions>",
        );

        for word in &mode.focus {
            let found = findings(&name, &without_word(&text, word));
            let named =
                |finding: &LintFinding| finding.message == format!("`{word}` is not mentioned");
            assert!(found.iter().any(named), "{name} without {word}: {found:?}");
        }
    }
}

/// Removes a word from the prose in any case. The front matter is unchanged.
fn without_word(text: &str, word: &str) -> String {
    let (head, body) = text.split_once("\n---\n").unwrap();
    let mut body = body.replace("{{TASKS}}", "{{}}");
    while let Some(at) = body.to_lowercase().find(&word.to_lowercase()) {
        body.replace_range(at..at + word.len(), "");
    }
    format!("{head}\n---\n{}", body.replace("{{}}", "{{TASKS}}"))
}

#[test]
fn unexpected_content_is_named_with_its_line() {
    let project = TestProject::new();
    let plan = std::fs::read_to_string(repository().join("templates/system/BASE-plan.md")).unwrap();
    let plan = plan.replacen(
        "## Role\n",
        "## Role\n<review>REJECTED</review>\n<review>PASS|REJECTED</review>\n{{ SKELETON }}\n",
        1,
    );
    project.write("templates/system/BASE-plan.md", &plan);
    project.write("templates/system/CODEX-plan.md", "---\nnope: 1\n---\n");

    let run = project.run(&["template", "check"]);
    assert_eq!(run.code, 1);

    let expected = [
        "templates/system/BASE-plan.md:16: {{ SKELETON }} is not a placeholder and is sent as text; write {{SKELETON}} (placeholder)",
        "templates/system/BASE-plan.md:14: <review>REJECTED</review> is not a verdict of this mode (marker)",
        "templates/system/BASE-plan.md:15: <review>PASS|REJECTED</review> shows several verdicts; show only one (marker)",
    ];
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[..3], expected);
    assert!(
        lines[3].starts_with("templates/system/CODEX-plan.md:2: unknown field"),
        "{}",
        lines[3]
    );
    assert_eq!(lines.len(), 4);
    assert!(
        run.stderr.contains("checked 11 templates: 4 problems"),
        "{}",
        run.stderr
    );

    project.run(&["template", "check", "GEMINI-plan"]).ok();
    project
        .run(&["template", "check", "NO-plan"])
        .fails(4, &["unknown template `NO-plan`"]);
}

#[test]
fn likely_mistakes_are_named() {
    let project = TestProject::new();
    let plan = std::fs::read_to_string(repository().join("templates/system/BASE-plan.md")).unwrap();
    project
        .write(
            "templates/system/BASE-plan.md",
            plan.replace("  - SKELETON\n", "  - SKELETON\n  - TASKS\n"),
        )
        .write("templates/system/LOCAL-plan.md", "{{PROJECT_STRUCTRE}}")
        .write("templates/system/BASE-plam.md", "x")
        .write("templates/system/base-plan.md", "x")
        .write("templates/system/BASE-review.md", " \n");
    std::os::unix::fs::symlink(
        "nowhere",
        project.root().join("templates/system/BASE-archive.md"),
    )
    .unwrap();
    let run = project.run(&["template", "check"]);
    let expected = [
        "templates/system/BASE-plan.md: required variable {{TASKS}} is not used (placeholder)",
        "templates/system/LOCAL-plan.md:1: unknown variable {{PROJECT_STRUCTRE}} (placeholder)",
        "templates/system/BASE-plam.md: pack `sdd` has no mode `plam` (mode)",
        "templates/system/base-plan.md: invalid template name \"base-plan\" (readable)",
        "templates/system/BASE-review.md: templates/system/BASE-review.md is empty (readable)",
        "is a broken symlink (readable)",
    ];

    for words in expected {
        assert!(
            run.stdout.contains(words),
            "{words} is not in:\n{}",
            run.stdout
        );
    }

    let challenge =
        std::fs::read_to_string(repository().join("templates/system/CODEX-challenge.md")).unwrap();
    let softened = challenge.replace(
        "You MUST output <review>PASS</review> or",
        "Output <review>PASS</review> or",
    );
    project.write("templates/system/CODEX-challenge.md", softened);
    let markers =
        "<review>FAIL</review>\n<task_status id=\"1\">COMPLETED</task_status>\n{{  TASKS }}\n";
    let crlf = plan
        .replacen("## Role\n", &format!("## Role\n{markers}"), 1)
        .replace("<instructions>", "it")
        .replace('\n', "\r\n");
    project.write("templates/system/BASE-plan.md", crlf);
    let run = project.run(&["template", "check"]);

    for words in [
        "CODEX-challenge.md: missing sentence: You MUST output <review>PASS</review> or <review>NEEDS_REVISION</review> (sentence)",
        "<review>FAIL</review> is not a verdict (marker)",
        "this mode does not read <task_status>; remove it (marker)",
        "{{  TASKS }} is not a placeholder and is sent as text; write {{TASKS}} (placeholder)",
        "the last paragraph does not refer to <instructions> (ending)",
    ] {
        assert!(
            run.stdout.contains(words),
            "{words} is not in:\n{}",
            run.stdout
        );
    }

    project
        .run(&["prompt", "review", "x"])
        .fails(4, &["is empty", "--built-in"]);
    project
        .run(&["prompt", "archive", "x"])
        .fails(3, &["is a broken symlink"]);
    let shown = project
        .run(&["template", "show", "review", "--built-in"])
        .ok();
    assert_eq!(
        shown,
        std::fs::read_to_string(repository().join("templates/system/BASE-review.md")).unwrap()
    );
}
