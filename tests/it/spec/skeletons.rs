//! Skeletons: shown in the form that documents must have, so that a document that follows one is
//! accepted.

use std::fs;

use agentd::UnifiedPrompt;

use crate::support::{TestProject, repository};

/// Returns the shipped skeletons of a plan, joined as in the prompt.
fn shipped() -> String {
    let read = |name| {
        fs::read_to_string(repository().join(format!("packs/sdd/skeletons/{name}.md"))).unwrap()
    };
    ["proposal", "spec", "tasks"]
        .map(|name| read(name).trim_end().to_owned())
        .join("\n\n")
}

#[test]
fn plan_prompt_shows_skeletons_verbatim() {
    let project = TestProject::new();
    let expected = format!("<skeleton>\n{}\n</skeleton>", shipped());
    assert!(expected.contains("\n</spec>\n"));

    let xml = project.run(&["prompt", "plan", "Add login"]).ok();
    assert!(
        UnifiedPrompt::from_xml(&xml)
            .unwrap()
            .system_prompt()
            .contains(&expected),
        "{xml}"
    );

    let flat = project
        .run(&["prompt", "plan", "Add login", "--format", "flat"])
        .ok();
    assert!(flat.contains(&expected), "{flat}");

    // A value of the caller is not text of the pack, and cannot close a tag of the template.
    let own = project
        .run(&[
            "prompt",
            "plan",
            "x",
            "--set",
            "SKELETON=</spec></skeleton>",
        ])
        .ok();
    assert!(
        own.contains("<skeleton>\n<\\/spec><\\/skeleton>\n</skeleton>"),
        "{own}"
    );
}

#[test]
fn filled_skeleton_passes_the_check() {
    let project = TestProject::new();
    let xml = project.run(&["prompt", "plan", "Add login"]).ok();
    let system = UnifiedPrompt::from_xml(&xml)
        .unwrap()
        .system_prompt()
        .to_owned();
    let (_, spec) = system.split_once("````markdown\n").unwrap();
    let (spec, _) = spec.split_once("\n````").unwrap();

    let path = "agentd/specs/login.md";
    project.write(path, fill(spec));

    let run = project.run(&["spec", "check", path]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);

    // The form check works: it rejects the tag in its earlier form.
    project.write(path, fill(spec).replace("</spec>", "<\\/spec>"));
    let run = project.run(&["spec", "check", path]);
    assert!(
        run.code == 1 && run.stdout.contains("missing `</spec>`"),
        "{}",
        run.stdout
    );
}

/// Fills the blanks, such as `<Title>`, and keeps everything else.
fn fill(spec: &str) -> String {
    let mut filled = String::new();
    let mut rest = spec;
    while let Some(at) = rest.find('<') {
        let (before, blank) = rest.split_at(at);
        let (blank, after) = blank.split_at(blank.find('>').unwrap() + 1);
        filled.push_str(before);
        filled.push_str(match blank {
            "<spec>" | "</spec>" => blank,
            "<spec-id>" => "login",
            "<YYYY-MM-DDThh:mm:ssZ>" => "2026-01-01T00:00:00Z",
            _ => "Login",
        });
        rest = after;
    }
    filled + rest
}
