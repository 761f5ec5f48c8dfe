//! Probes: correct replies score 100 %, one defect changes one score, and a failed call is not a
//! wrong reply.

use agentd::ErrorKind;
use agentd::agent::{Drivers, Scripted};
use agentd::models::{AgentName, ComplianceRate, MeasuredKind, ProbeCondition, ProbeTask};
use agentd::ops::Operations;
use agentd::orchestrator::{
    ConditionEffect, Origin, Probe, ProbeReport, ProbeTurn, Run, TurnContext, Workspace,
    WorkspaceOptions, probe_agent,
};
use agentd::store::{MeasurementQuery, MemoryStore, Store};
use serde_json::json;

use crate::support::{TestProject, write};

/// The correct replies, in the order of the cases.
const RIGHT: [&str; 10] = [
    "<message>The build is green again.</message>",
    "<message>Moving it.</message>\n<action type=\"move_file\"><from>draft.md</from><to>archive/draft.md</to></action>",
    "<message>All checks hold.</message>\n<review run=\"{{NONCE}}\">PASS</review>",
    "<thinking>Paint, not light.</thinking>\n<message>Mix Yellow and blue.</message>",
    "<message>I will.</message>\n<action type=\"set_reminder\">\n<text>take the kettle off the stove</text>\n<minutes>15</minutes>\n</action>",
    "<message>Check 2 fails.</message>\n<review run=\"{{NONCE}}\">NEEDS_CHANGES</review>",
    "<message>Exactly when `a < b && b < c` holds for all three.</message>",
    "<message>Done.</message>\n<action type=\"tag_note\"><note>shopping</note><colour>red</colour></action>",
    "<message>Checks 1 and 2 fail.</message>\n<review run=\"{{NONCE}}\">MAJOR_ISSUES</review>",
    "<message>Smaller.</message>\n<action type=\"resize_image\"><image>cat.png</image><percent>50</percent></action>",
];

/// One scripted turn: a reply, or a call that fails.
#[derive(Clone, Copy)]
enum ScriptedCall<'a> {
    Says(&'a str),
    Ends(&'a str),
}

fn script(turns: &[ScriptedCall<'_>]) -> String {
    let turns = turns.iter().map(|turn| match turn {
        ScriptedCall::Says(reply) => {
            format!("- {{reply: {}, usage: {{output: 10}}}}\n", json!(reply))
        }
        ScriptedCall::Ends(end) => format!("- {{end: {end}}}\n"),
    });
    format!("format: 1\nturns:\n{}", turns.collect::<String>())
}

/// Returns the turns of a probe with correct replies. Each case is asked under three conditions.
fn all_right(cases: usize) -> Vec<ScriptedCall<'static>> {
    RIGHT
        .iter()
        .cycle()
        .take(cases)
        .flat_map(|reply| [ScriptedCall::Says(reply); 3])
        .collect()
}

struct Bench {
    project: TestProject,
    workspace: Workspace,
    store: MemoryStore,
    run: Run,
}

impl Bench {
    fn new() -> Self {
        let project = TestProject::new();
        let workspace = Workspace::open(
            project.root(),
            WorkspaceOptions::default().with_pack("probe"),
        )
        .unwrap();
        Self {
            project,
            workspace,
            store: MemoryStore::default(),
            run: Run::new("test").unwrap(),
        }
    }

    fn probe(
        &self,
        turns: &[ScriptedCall<'_>],
        model: Option<&str>,
    ) -> agentd::Result<ProbeReport> {
        self.probe_with_callback(turns, model, &mut |_| {})
    }

    fn probe_with_callback(
        &self,
        turns: &[ScriptedCall<'_>],
        model: Option<&str>,
        printed: &mut dyn FnMut(&ProbeTurn),
    ) -> agentd::Result<ProbeReport> {
        let driver = Scripted::read(&script(turns), "script.yaml").unwrap();
        let drivers = Drivers::default();
        let context = TurnContext {
            workspace: &self.workspace,
            store: &self.store,
            drivers: &drivers,
            operations: &Operations::shipped(),
            run: &self.run,
        };
        let wanted = Probe {
            agent: AgentName::new("scripted").unwrap(),
            model: model.map(str::to_owned),
            turns: Some(turns.len() / 3),
        };
        probe_agent(&context, &driver, &wanted, &mut |asked, _, all| {
            assert_eq!(all, turns.len());
            printed(asked);
        })
    }

    fn measurement_count(&self) -> usize {
        let wanted = MeasurementQuery {
            kind: MeasuredKind::Protocol,
            agent: Some("scripted"),
            model: None,
        };
        self.store.measurements(&wanted).unwrap().len()
    }
}

fn cells(report: &ProbeReport) -> Vec<(ProbeCondition, ProbeTask, ComplianceRate)> {
    let all = ProbeCondition::ALL
        .into_iter()
        .flat_map(|condition| ProbeTask::ALL.map(|task| (condition, task)));
    all.map(|(condition, task)| (condition, task, report.share(condition, Some(task))))
        .collect()
}

#[test]
fn correct_replies_score_100_percent() {
    let bench = Bench::new();
    let report = bench.probe(&all_right(10), Some("gpt-4o")).unwrap();
    assert!(report.fault.is_none());

    let wrong: Vec<&ProbeTurn> = report
        .asked
        .iter()
        .filter(|asked| asked.right != Some(true))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for condition in ProbeCondition::ALL {
        let of = |task| report.share(condition, Some(task)).all;
        assert_eq!(ProbeTask::ALL.map(of), [3, 4, 3]);
        assert_eq!(
            report.share(condition, None),
            ComplianceRate { right: 10, all: 10 }
        );
    }

    assert_eq!(
        report.help(ProbeCondition::Example),
        Some(ConditionEffect::DoesNotHelp),
        "there is nothing to improve"
    );
    assert_eq!(
        (bench.measurement_count(), report.kept),
        (30, ComplianceRate { right: 10, all: 10 })
    );

    let (reliability, origin) = report.reliability.unwrap();
    assert_eq!(
        (reliability.name(), origin),
        ("very_high", Origin::Measured)
    );
    assert!(
        !bench.project.root().join("agentd").exists(),
        "the project is untouched"
    );
}

/// Each defect is planted in the reply to one of the first three cases, under one condition.
#[test]
fn each_defect_lowers_only_its_score() {
    let action = |fields: &str| {
        format!("<message>Moving it.</message>\n<action type=\"move_file\">{fields}")
    };
    let fields = "<from>draft.md</from><to>archive/draft.md</to>";
    let verdict = "<review run=\"{{NONCE}}\">PASS</review>";
    let pass = |said: &str| format!("<message>All checks hold.</message>\n{said}");
    let message: Vec<String> = [
        "<message>The build is green again.",
        "The build is green again.",
        "Sure!\n<message>The build is green again.</message>",
        "<message>The build is green again.</message>\n<message>Really.</message>",
        "<message>The build is red.</message>",
        "<message></message>",
        "```xml\n<message>The build is green again.</message>\n```",
        "{\"message\": \"The build is green again.\"}",
        "<message>The build is green again.</message>\n<review>PASS</review>",
        "<think>hm\n<message>The build is green again.</message>",
    ]
    .map(str::to_owned)
    .into();
    let actions = vec![
        action(fields),
        action("<from>draft.md</from><to>archive</to></action>"),
        action("<from>draft.md</from></action>"),
        action(&format!(
            "{fields}</action>\n<action type=\"tag_note\"><note>a</note><colour>red</colour></action>"
        )),
        action(&format!("{fields}</action>")).replace("move_file", "copy_file"),
        format!(
            "```xml\n{}\n```\nDone.",
            action(&format!("{fields}</action>"))
        ),
        format!("<message>Moving it. <action type=\"move_file\">{fields}</action></message>"),
        "<message>Moving it.</message>".to_owned(),
    ];
    let verdicts = vec![
        pass(&verdict.replace("PASS", "NEEDS_CHANGES")),
        pass(&verdict.replace("PASS", "FINE")),
        pass(&format!("{verdict}\nThat is all.")),
        pass(&format!("So it is {verdict}")),
        pass("<review run=\"{{NONCE}}\">PASS"),
        pass(&format!("<!-- {verdict} -->")),
        pass(""),
    ];
    let defects = [(0, message), (1, actions), (2, verdicts)];

    for (case, replies) in &defects {
        for (nth, reply) in replies.iter().enumerate() {
            let condition = nth % 3;
            let mut turns = all_right(3);
            turns[case * 3 + condition] = ScriptedCall::Says(reply);
            let report = Bench::new().probe(&turns, None).unwrap();
            let expected: Vec<_> =
                cells_of_one_each(|at, task| u64::from((at, task) != (condition, *case)));
            assert_eq!(cells(&report), expected, "{reply}");
        }
    }
}

/// Returns the cells of a probe with one reply each. The callback decides whether a reply is
/// correct.
fn cells_of_one_each(
    right: impl Fn(usize, usize) -> u64,
) -> Vec<(ProbeCondition, ProbeTask, ComplianceRate)> {
    let mut cells = Vec::new();
    for (at, condition) in ProbeCondition::ALL.into_iter().enumerate() {
        for (nth, task) in ProbeTask::ALL.into_iter().enumerate() {
            cells.push((
                condition,
                task,
                ComplianceRate {
                    right: right(at, nth),
                    all: 1,
                },
            ));
        }
    }
    cells
}

#[test]
fn failed_calls_are_counted_and_fatal_ones_end_the_probe() {
    let bench = Bench::new();
    let mut turns = all_right(3);
    (turns[0], turns[4], turns[5]) = (
        ScriptedCall::Ends("crashed"),
        ScriptedCall::Ends("timed-out"),
        ScriptedCall::Ends("crashed"),
    );

    let report = bench.probe(&turns, None).unwrap();
    assert!(report.fault.is_none());

    let failed: Vec<_> = report.failed().into_iter().collect();
    assert_eq!(failed.iter().map(|(_, times)| times).sum::<u64>(), 3);
    assert!(failed.contains(&("crashed", 2)), "{failed:?}");
    assert_eq!(
        report.share(ProbeCondition::Plain, None),
        ComplianceRate { right: 2, all: 2 }
    );
    assert_eq!(
        report.share(ProbeCondition::Reminder, Some(ProbeTask::Action)),
        ComplianceRate::default()
    );
    assert_eq!(bench.measurement_count(), 6);

    let mut turns = all_right(3);
    turns[2] = ScriptedCall::Ends("auth");

    let report = Bench::new().probe(&turns, None).unwrap();
    assert_eq!(
        report.fault.as_ref().map(agentd::Error::kind),
        Some(ErrorKind::AgentAuth)
    );
    assert_eq!(report.asked.len(), 3);
}

#[test]
fn significant_gains_are_distinguished_from_chance() {
    let bench = Bench::new();
    let wrong = ScriptedCall::Says("no tags");
    let mut turns = all_right(10);
    for (at, turn) in turns.iter_mut().enumerate() {
        let condition = at % 3;
        // Correct out of 10: 3 without help, 5 with a reminder, 10 with an example.
        if (condition == 0 && at >= 9) || (condition == 1 && at >= 15) {
            *turn = wrong;
        }
    }

    let report = bench.probe(&turns, Some("llama3.2:3b")).unwrap();
    assert_eq!(
        report.share(ProbeCondition::Plain, None),
        ComplianceRate { right: 3, all: 10 }
    );
    assert_eq!(
        report.help(ProbeCondition::Reminder),
        Some(ConditionEffect::MayHelp)
    );
    assert_eq!(
        report.help(ProbeCondition::Example),
        Some(ConditionEffect::Helps)
    );
    assert_eq!(
        report
            .reliability
            .map(|(reliability, _)| reliability.name()),
        Some("low")
    );
}

#[test]
fn stopped_probe_keeps_its_results() {
    let bench = Bench::new();
    let mut seen = 0;
    let stop = bench.run.stop.clone();

    let report = bench
        .probe_with_callback(&all_right(3), None, &mut |_| {
            seen += 1;
            if seen == 4 {
                stop.ask();
            }
        })
        .unwrap();
    assert_eq!(
        report.fault.as_ref().map(agentd::Error::kind),
        Some(ErrorKind::AgentStopped)
    );
    assert_eq!((report.asked.len(), bench.measurement_count()), (4, 4));
}

#[test]
fn failing_first_turn_is_an_error() {
    let error = Bench::new().probe(&[], None).unwrap();
    assert!(error.asked.is_empty() && error.fault.is_none());

    let bench = Bench::new();
    let driver = Scripted::read("format: 1\nturns: []\n", "script.yaml").unwrap();
    let drivers = Drivers::default();
    let context = TurnContext {
        workspace: &bench.workspace,
        store: &bench.store,
        drivers: &drivers,
        operations: &Operations::shipped(),
        run: &bench.run,
    };
    let wanted = Probe {
        agent: AgentName::new("scripted").unwrap(),
        model: None,
        turns: None,
    };

    let error = probe_agent(&context, &driver, &wanted, &mut |_, _, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ScriptMismatch);
}

#[test]
fn command_prints_a_table_and_logs_the_turns() {
    let project = TestProject::new();
    let mut turns = all_right(10);
    turns[0] = ScriptedCall::Says("The build is green again.");
    turns[4] = ScriptedCall::Ends("crashed");
    project.write("script.yaml", script(&turns));

    // A probe ignores an agent that the settings choose for a mode of another pack.
    write(
        &project.user_folder().join("config.toml"),
        "format = 1\n[modes.plan]\nagent = \"claude\"\n",
    );
    assert!(
        project
            .run(&["pack", "show", "probe", "cases.yaml"])
            .ok()
            .contains("- name: green-build")
    );

    let args = [
        "probe",
        "scripted",
        "--script",
        "script.yaml",
        "--model",
        "llama3.2:3b",
    ];
    let run = project.run(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);

    let expected = "\
CONDITION  TASK     CORRECT  RATE   95 % INTERVAL
plain      message  2/3      67 %   21 to 94 %
plain      action   4/4      100 %  51 to 100 %
plain      verdict  3/3      100 %  44 to 100 %
plain      all      9/10     90 %   60 to 98 %
reminder   message  3/3      100 %  44 to 100 %
reminder   action   3/3      100 %  44 to 100 %
reminder   verdict  3/3      100 %  44 to 100 %
reminder   all      9/9      100 %  70 to 100 %
example    message  3/3      100 %  44 to 100 %
example    action   4/4      100 %  51 to 100 %
example    verdict  3/3      100 %  44 to 100 %
example    all      10/10    100 %  72 to 100 %
";
    assert_eq!(run.stdout, expected);

    for words in [
        "note: request 1 of 30: plain message green-build: wrong",
        "note: request 5 of 30: reminder action move-draft: crashed",
        "note: request 30 of 30: example action half-size: correct",
        "failed     1 crashed; failed calls are not counted as wrong replies",
        "measured   high without help: 9 of 10 correct",
        "reminder   may help (more turns needed): 100 % instead of 90 %",
        "prompts    for llama3.2:3b: high (measured: 9 of 10 turns without help correct)",
    ] {
        assert!(run.stderr.contains(words), "{words}:\n{}", run.stderr);
    }

    assert!(!run.stderr.contains("warning"), "{}", run.stderr);

    let log = project.run(&["log", "-n", "100", "--json"]).json();
    assert_eq!(log.as_array().unwrap().len(), 30);

    let sessions = log
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["session"].as_str().unwrap());
    assert!(
        sessions
            .into_iter()
            .all(|session| session.starts_with("probe-"))
    );

    let shown = project.run(&["models", "show", "llama3.2:3b"]).ok();
    assert!(
        shown.contains("xml        high (measured: 9 of 10 probe turns correct)"),
        "{shown}"
    );
    assert!(
        shown.contains("scripted: 9 of 10 probe turns correct"),
        "{shown}"
    );

    project.write("script.yaml", script(&all_right(1)));
    let json = project
        .run(&[&args[..], &["--turns", "1", "--json"]].concat())
        .json();
    assert_eq!(
        json["cells"].as_array().unwrap().len(),
        6,
        "one task and the total, under three conditions"
    );
    assert_eq!(json["cells"][0]["share"], 1.0);
    assert_eq!(
        (&json["kept"]["right"], &json["kept"]["all"]),
        (&json!(10), &json!(11))
    );
    assert_eq!(json["used"], json!({"xml": "high", "origin": "measured"}));
    assert_eq!(json["asked"][2]["condition"], "example");

    project
        .run(&["probe", "nobody"])
        .fails(3, &["UnknownAgent"]);
    project
        .run(&["probe", "scripted"])
        .fails(3, &["--script FILE"]);
    assert_eq!(project.run(&["probe", "scripted", "--turns", "0"]).code, 2);
}

#[test]
fn inconsistent_cases_are_reported_with_location() {
    let table = [
        (
            "format: 2\ncases: []\n",
            "unsupported format 2 of probe cases; expected 1",
        ),
        ("format: 1\ncases: []\n", "no cases"),
        (
            "format: 1\ncases:\n  - {name: a, ask: b, expect: {}}\n",
            "case `a` needs exactly one of",
        ),
        (
            "format: 1\ncases:\n  - {name: a, ask: b, expect: {message: [], verdict: PASS}}\n",
            "case `a` needs exactly one of",
        ),
        (
            "format: 1\ncases:\n  - {name: a, ask: b, expect: {verdict: FINE}}\n",
            "FINE",
        ),
        (
            "format: 1\ncases:\n  - {name: a, ask: b, expect: {message: []}}\n  - {name: a, ask: b, expect: {message: []}}\n",
            "duplicate case `a`",
        ),
    ];
    for (text, words) in table {
        let project = TestProject::new();
        project.write("agentd/packs/probe/cases.yaml", text);
        project
            .run(&["probe", "echo"])
            .fails(4, &["PackInvalid", words, "agentd/packs/probe/cases.yaml:"]);
    }
}
