//! Front matter: each case is a template and the complaint it must draw, or none.

use crate::support::{TestProject, cases};

/// A case is `LINE:COLUMN WORDS` or `ok`, a line of `=====`, and the file `templates/system/BASE-plan.md`.
#[test]
fn each_case_draws_its_complaint_at_its_place() {
    for (name, case) in cases("front_matter") {
        let (expected, template) = case.split_once("=====\n").unwrap();
        let project = TestProject::new();
        project.write("templates/system/BASE-plan.md", template);
        let run = project.run(&["prompt", "plan", "x"]);
        if expected.trim() == "ok" {
            run.ok();
            continue;
        }
        let (place, words) = expected.trim().split_once(' ').unwrap();
        let place = format!("--> templates/system/BASE-plan.md:{place}\n");
        let stderr = run.fails(4, &[&place, words, "TemplateInvalid", "^"]);
        assert!(stderr.lines().count() < 12, "{name}: {stderr}");
    }
}
