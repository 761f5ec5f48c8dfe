//! A valid pack with one error at a time: each is reported with its location.

use agentd::ops::Operations;
use agentd::pack::{PackReport, ProblemSeverity};
use agentd::{Pack, SearchPath};

use crate::support::{TestProject, files_below, repository};

const FOLDER: &str = "agentd/packs/incident";

fn incident_project() -> TestProject {
    let project = TestProject::new();
    let source = repository().join("tests/data/packs/incident");
    for file in files_below(&source) {
        let path = format!("{FOLDER}/{}", file.display());
        project.write(&path, std::fs::read(source.join(&file)).unwrap());
    }
    project
}

/// Returns the problems as `SEVERITY FILE:LINE:COLUMN: WORDS`, those about unknown operations last.
fn problems(project: &TestProject) -> Vec<String> {
    let places = SearchPath::new(Some(project.root()), None);
    let PackReport {
        problems,
        operations,
        ..
    } = Pack::check("incident", &places).unwrap();
    let known = Operations::shipped();
    let unknown = operations
        .iter()
        .filter(|named| !known.is_registered(named.operation.as_str()))
        .filter_map(|named| {
            let error = known.find_act(named.operation.as_str()).err()?;
            Some(format!("error {}: {}", named.place, error.message()))
        })
        .collect::<Vec<_>>();
    let shown = problems.iter().map(|problem| {
        let severity = match problem.severity {
            ProblemSeverity::Error => "error",
            ProblemSeverity::Warning => "warning",
        };
        format!("{severity} {problem}")
    });
    shown
        .chain(unknown)
        .map(|line| line.replace(&format!("{FOLDER}/"), ""))
        .collect()
}

/// Name of the error, the file, the replaced text, and the expected report.
type Fault = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip]
const FAULTS: [Fault; 43] = [
    ("unknown key", "pack.yaml", "zone: stable", "zne: stable", "error pack.yaml:14:67: unknown field `zne`"),
    ("duplicate key", "pack.yaml", "start: triage", "start: triage\nstart: triage", "error pack.yaml:6:1: duplicate key `start`"),
    ("missing key", "pack.yaml", "description: An", "# An", "error pack.yaml:28:1: missing field `description`"),
    ("wrong type", "pack.yaml", "full: 4000", "full: many", "error pack.yaml:7:17: expected a whole number"),
    ("key without a colon", "pack.yaml", "start: triage", "start triage", "error pack.yaml:5:1: `:` is missing after this key"),
    ("empty manifest", "pack.yaml", "*", "", "error pack.yaml:1:1: a value is missing here"),
    ("unknown class", "pack.yaml", "class: pinned, zone: stable", "class: pined, zone: stable", "error pack.yaml:14:59: unknown variant `pined`"),
    ("class that cannot be", "pack.yaml", "holds: history, heading: \"## CONVERSATION\", class: elastic", "holds: history, class: required", "error pack.yaml:21:5: layer `history`: `class` must be `elastic`, because the content grows"),
    ("missing file", "pack.yaml", "text: identity.md", "text: idendity.md", "error pack.yaml:14:39: missing file `idendity.md`"),
    ("file that leads out", "pack.yaml", "text: identity.md", "text: ../identity.md", "error pack.yaml:14:39: invalid file name \"../identity.md\""),
    ("unknown start", "pack.yaml", "start: triage", "start: triag", "error pack.yaml:5:8: `start` names the unknown mode `triag`"),
    ("next that leads nowhere", "pack.yaml", "PASS: publish", "PASS: publsh", "error pack.yaml:44:5: `next` of mode `review` names the unknown mode `publsh`"),
    ("next that leaves a result open", "pack.yaml", "{PASS: publish, NEEDS_CHANGES: analysis}", "{PASS: publish}", "error pack.yaml:44:5: `next` of mode `review` does not cover all results"),
    ("result that cannot be", "pack.yaml", "next: {otherwise: done}", "next: {otherwise: done, FAILED: stop}", "error pack.yaml:53:5: `next` of mode `publish` names `FAILED`"),
    ("unknown verdict", "pack.yaml", "[PASS, NEEDS_CHANGES]", "[PASS, FINE]", "error pack.yaml:48:22: unknown variant `FINE`"),
    ("verdict required of none", "pack.yaml", "    markers: [release]", "    markers: [release]\n    verdict_required: true", "error pack.yaml:53:5: mode `publish` requires a verdict but allows none"),
    ("alias of no mode", "pack.yaml", "rca: analysis", "rca: analyses", "error pack.yaml:10:16: alias `rca` refers to the unknown mode `analyses`"),
    ("judges of no mode", "pack.yaml", "judges: analysis", "judges: analyses", "error pack.yaml:44:5: `judges` of mode `review` names the unknown mode `analyses`"),
    ("unknown marker", "pack.yaml", "markers: [release]", "markers: [relaese]", "error pack.yaml:53:5: unknown marker `relaese`"),
    ("marker that is taken", "pack.yaml", "{release: [YES, NO]}", "{release: [YES, NO], message: [YES]}", "error pack.yaml:11:40: invalid marker name \"message\""),
    ("unknown fact", "pack.yaml", "mode_turns < 9", "rounds < 9", "error pack.yaml:55:11: unknown fact `rounds`"),
    ("condition that cannot be read", "pack.yaml", "mode_turns < 9", "mode_turns <", "error pack.yaml:55:54: expected a name, a number or a string, found the end of the condition"),
    ("unknown variable", "urgent.md", "{{level}}", "{{levle}}", "error urgent.md:1:23: `levle` is not a variable of the pack"),
    ("value of no variable", "pack.yaml", "{level: severity}", "{levle: severity}", "error pack.yaml:16:5: layer `urgent` sets `levle` to `severity`: `levle` is not in `variables`"),
    ("unknown action", "pack.yaml", "  set_severity: {", "  set_severty: {", "error pack.yaml:25:16: action `set_severty` is not defined in actions.yaml"),
    ("action for no mode", "pack.yaml", "modes: [analysis]", "modes: [analyses]", "error pack.yaml:26:11: action `assign` lists the unknown mode `analyses`"),
    ("circle", "pack.yaml", "next: {otherwise: done}", "next: {otherwise: triage}", "cannot reach `done` or `stop`"),
    ("folder and name", "pack.yaml", "name: incident", "name: incidents", "error pack.yaml:3:7: `name` is \"incidents\", but the folder of the pack is \"incident\""),
    ("file that is not UTF-8", "identity.md", "*", "\u{FF}", "identity.md` is not UTF-8 text"),
    ("empty file", "identity.md", "*", "", "identity.md is empty"),
    ("order of layers", "pack.yaml", "{id: request, holds: instructions, heading: \"## NOW\", class: pinned, zone: turn}", "{id: more, holds: text, text: identity.md, class: pinned, zone: turn}", "error pack.yaml:22:5: the last layer must hold the instructions"),
    ("unknown operation", "pack.yaml", "    updates: [analysis.md]\n    after: [files.write]", "    before: [git.pull]\n    updates: [analysis.md]\n    after: [files.write]", "error pack.yaml:39:14: unknown operation `git.pull`"),
    ("action whose operation never runs", "pack.yaml", "operation: files.write", "operation: git.commit", "error pack.yaml:25:46: action `set_severity` is never executed"),
    ("gate on an operation that never runs", "pack.yaml", "done(\"files.write\")", "done(\"git.commit\")", "error pack.yaml:33:11: the gate of `triage` needs done(\"git.commit\"), but the mode does not run it, so the process never leaves the mode"),
    ("gate that never opens", "pack.yaml", "mode_turns < 9", "turns < 0", "error pack.yaml:55:11: the gate of `publish` never opens: `turns < 0` is never true"),
    ("required marker that no prose names", "modes/publish.md", "*", "Publish it.\n", "warning pack.yaml:54:15: mode `publish` requires the marker `release`, but its prompt does not ask for it"),
    ("actions without their list", "modes/triage.md", "{{AVAILABLE_ACTIONS}}", "Do it.", "warning identity.md:1:1: the prompt of mode `triage` does not mention these actions: set_severity"),
    ("update that leads out", "pack.yaml", "[analysis.md]", "[\"../analysis.md\"]", "error pack.yaml:39:15: `updates` of mode `analysis`: \"../analysis.md\" matches no target"),
    ("placeholder that is not closed", "urgent.md", "{{level}}", "{{level", "warning urgent.md:1:23: `{{level` is not closed and is sent as text"),
    ("placeholder with blanks", "urgent.md", "{{level}}", "{{ level }}", "warning urgent.md:1:23: `{{ level }}` is not a placeholder and is sent as text"),
    ("number in quotes", "pack.yaml", "severity == 1", "severity == \"1\"", "warning pack.yaml:16:47: `severity == \"1\"` in layer `urgent` is never true"),
    ("action without an operation", "pack.yaml", "modes: [analysis], operation: none", "modes: [analysis]", "warning pack.yaml:26:11: action `assign` has no operation, so every request for it is refused"),
    ("answer without an operation", "pack.yaml", "modes: [analysis], operation: none", "modes: [analysis], operation: none, answers: true", "error pack.yaml:26:11: action `assign` sets `answers`, but has no `operation`"),
];

#[test]
fn valid_pack_has_no_problem() {
    assert_eq!(problems(&incident_project()), [""; 0]);
}

/// The errors of a manual trial: at least one of each kind that was detected then, and the ten that
/// were not.
#[test]
fn every_pack_error_is_reported() {
    let mut wrong = Vec::new();
    for (what, file, from, to, expected) in FAULTS {
        let project = incident_project();
        let path = format!("{FOLDER}/{file}");
        let text = project.read(&path);
        let broken = match from {
            "*" => to.to_owned(),
            from => text.replacen(from, to, 1),
        };
        assert_ne!(broken, text, "{what}");
        // U+00FF represents the byte 0xFF, which is not valid UTF-8.
        let bytes = if broken == "\u{FF}" {
            vec![0xFF]
        } else {
            broken.into_bytes()
        };
        project.write(&path, bytes);

        let reported = problems(&project);
        if !reported.iter().any(|line| line.contains(expected)) {
            wrong.push(format!(
                "{what}: {expected}\n    {}",
                reported.join("\n    ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
