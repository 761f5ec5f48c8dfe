//! Front matter of templates: each case is a template and the error it must cause, or none.

use libtest_mimic::Trial;

use crate::support::TestProject;
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("front_matter", check)
}

/// A case is `LINE:COLUMN WORDS` or `ok`, a line of `=====`, and the file `templates/system/BASE-plan.md`.
fn check(case: &str) {
    let (expected, template) = case.split_once("=====\n").unwrap();
    let project = TestProject::new();
    project.write("templates/system/BASE-plan.md", template);
    let run = project.run(&["prompt", "plan", "x"]);

    if expected.trim() == "ok" {
        run.ok();
        return;
    }
    let (place, words) = expected.trim().split_once(' ').unwrap();
    let place = format!("--> templates/system/BASE-plan.md:{place}\n");
    let stderr = run.fails(4, &[&place, words, "TemplateInvalid", "^"]);
    assert!(stderr.lines().count() < 12, "{stderr}");
}
