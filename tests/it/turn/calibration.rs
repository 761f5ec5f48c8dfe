//! Measured figures: token counts reported by calls, and their effect on prompts.

use agentd::models::{MeasuredValue, Measurement, ProbeCondition, ProbeTask};
use agentd::store::{SqliteStore, Store};
use serde_json::{Value, json};

use crate::support::{TestProject, write};

const REPLY: &str = "Nothing to plan.\\n";

/// Creates a project with agents that print events. One calls a tool, and one might.
fn project() -> TestProject {
    let project = TestProject::new();
    let agent = |name: &str, tools: &str, before: &str| {
        let say = r#"{"t":"say","text":"<review>PASS</review>"}"#;
        let end = r#"{"t":"end","input":9000,"read":500,"write":100}"#;
        format!(
            "  {name}:\n    argv: [sh, -c, 'cat > /dev/null; printf \"%s\\n\" \"$EVENTS\"']\n    model: gpt-4o\n    \
             set: {{EVENTS: '{before}{say}\n\n        {end}'}}\n    output:\n      kind: jsonl\n      \
             text: [{{when: {{t: say}}, path: text}}]\n      final: {{t: end}}\n{tools}      \
             usage: {{input: input, cache_read: read, cache_write: write}}\n"
        )
    };

    let tools = "      tools: [{t: tool}]\n";
    let tool = "{\"t\":\"tool\"}\n\n        ";
    let agents = [
        agent("one", tools, ""),
        agent("busy", tools, tool),
        agent("silent", "", ""),
    ]
    .concat();
    write(
        &project.user_folder().join("agents.yaml"),
        format!("format: 1\nagents:\n{agents}"),
    );
    project
}

fn turn(project: &TestProject, agent: &str) -> Value {
    let run = project.run(&["turn", "plan", "Add login", "--agent", agent, "--json"]);
    assert!(run.code == 0, "{}", run.stderr);
    run.report()
}

fn measured(project: &TestProject, model: &str) -> Value {
    project.run(&["models", "show", model, "--json"]).json()["measured"].clone()
}

/// Returns our token count of the prompt that the agents get.
fn our_count(project: &TestProject) -> u64 {
    let prompt = project
        .run(&["prompt", "plan", "Add login", "--agent", "one"])
        .ok();
    let counted = project
        .run_with_stdin(
            &["tokens", "--model", "gpt-4o", "--json"],
            prompt.as_bytes(),
        )
        .json();
    counted["count"]["tokens"].as_u64().unwrap()
}

#[test]
fn three_single_request_calls_calibrate_the_count() {
    let project = project();
    let before = project
        .run(&["prompt", "plan", "Add login", "--agent", "one", "--json"])
        .json();
    assert!(
        !project.root().join(".agentd").exists(),
        "a preview creates no ledger"
    );
    assert_eq!(before["measured"]["calibration"]["samples"], 0);

    let ours = our_count(&project);
    for _ in 0..2 {
        assert_eq!(turn(&project, "one")["report"]["warnings"], json!([]));
    }

    let few = project.run(&["prompt", "plan", "Add login", "--agent", "one", "--explain"]);
    assert!(
        few.stderr.contains("too few samples to use (2 samples)"),
        "{}",
        few.stderr
    );

    turn(&project, "one");

    let found = measured(&project, "gpt-4o");
    let calibration = &found["one"]["calibration"];
    assert_eq!(
        (&calibration["factor"], &calibration["samples"]),
        (&json!(1.0), &json!(3))
    );

    // The nonce differs from turn to turn, and so does the token count of each occurrence.
    let overhead = calibration["overhead"].as_u64().unwrap();
    assert!(
        overhead.abs_diff(9_600 - ours) < 40,
        "{overhead}, and the prompt has {ours}"
    );

    let shown = project.run(&["models", "show", "gpt-4o"]).ok();
    assert!(
        shown.contains("measured   one: 1.00 × agentd's count + "),
        "{shown}"
    );
    assert!(shown.contains("tokens overhead (3 samples)"), "{shown}");

    let after = project
        .run(&["prompt", "plan", "Add login", "--agent", "one", "--json"])
        .json();
    let beside = |prompt: &Value| prompt["fit"]["overhead"].as_u64().unwrap();
    assert_eq!(beside(&after), beside(&before) + overhead);

    let other = project
        .run(&["prompt", "plan", "Add login", "--agent", "busy", "--json"])
        .json();
    assert_eq!(
        beside(&other),
        beside(&before),
        "measurements belong to one agent"
    );

    let printed = project
        .run(&["prompt", "plan", "Add login", "--agent", "one", "--explain"])
        .stderr;
    assert!(
        printed.contains("measured   1.00 × agentd's count + ") && printed.contains("(3 samples)"),
        "{printed}"
    );
}

#[test]
fn calls_with_several_requests_are_not_samples() {
    let project = project();
    turn(&project, "busy");
    turn(&project, "silent");
    assert_eq!(measured(&project, "gpt-4o"), json!({}));
    turn(&project, "one");
    assert_eq!(
        measured(&project, "gpt-4o")["one"]["calibration"]["samples"],
        1
    );
}

#[test]
fn truncated_prompt_is_warned_about_and_not_a_sample() {
    let project = TestProject::new();
    let script = format!(
        "format: 1\nturns:\n- {{reply: \"{REPLY}<review>PASS</review>\", usage: {{input: 300}}}}\n"
    );
    project.write("cut.yaml", script);
    let args = [
        "turn",
        "plan",
        "Add login",
        "--agent",
        "scripted",
        "--script",
        "cut.yaml",
        "--model",
    ];
    let run = project.run(&[&args[..], &["llama3.2:3b", "--json"]].concat());
    let warning = "scripted reports 300 tokens for a prompt of about 1,";
    assert!(run.stderr.contains(warning), "{}", run.stderr);

    let report = run.report();
    let printed = report["report"]["warnings"][0].as_str().unwrap();
    assert!(
        printed.starts_with(warning)
            && printed.ends_with("the prompt may have been truncated before it reached the model")
    );

    let found = measured(&project, "llama3.2:3b");
    assert_eq!(
        found["scripted"]["calibration"],
        json!({"factor": 1.0, "overhead": 0, "samples": 0, "cut": 1})
    );

    let shown = project.run(&["models", "show", "llama3.2:3b"]).ok();
    assert!(
        shown.contains("scripted: no token counts (0 samples, 1 prompt probably truncated)"),
        "{shown}"
    );
}

#[test]
fn failed_calls_and_calls_without_model_are_not_samples() {
    let project = TestProject::new();
    project.write(
        "cut.yaml",
        "format: 1\nturns:\n- {reply: half, end: cut, usage: {input: 5000}}\n",
    );
    let args = [
        "turn",
        "plan",
        "Add login",
        "--agent",
        "scripted",
        "--script",
        "cut.yaml",
    ];
    assert_eq!(
        project
            .run(&[&args[..], &["--model", "gpt-4o"]].concat())
            .code,
        5
    );

    project.write(
        "cut.yaml",
        "format: 1\nturns:\n- {reply: <review>PASS</review>, usage: {input: 5}}\n",
    );
    let run = project.run(&args);
    assert!(
        run.code == 0 && !run.stderr.contains("reports"),
        "{}",
        run.stderr
    );
    assert_eq!(measured(&project, "gpt-4o"), json!({}));
}

#[test]
fn measured_reliability_replaces_only_an_estimate() {
    let project = TestProject::new();
    let store = SqliteStore::open(&project.root()).unwrap();
    let probe = |model: &str, right: bool| {
        let (condition, task, case) = (
            ProbeCondition::Plain,
            ProbeTask::Message,
            "hello".to_owned(),
        );
        let figure = MeasuredValue::Protocol {
            condition,
            task,
            case,
            right,
        };
        let measurement = Measurement {
            agent: "ollama".to_owned(),
            model: Some(model.to_owned()),
            figure,
        };
        store
            .measure(&measurement, std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    };

    let prompt = || {
        let args = [
            "prompt",
            "architect",
            "What next?",
            "--pack",
            "foreman",
            "--model",
            "llama3.2:3b",
        ];
        let run = project.run(&[&args[..], &["--explain"]].concat());
        (run.stdout.contains("## EXAMPLE TURN"), run.stderr)
    };

    (0..9).for_each(|_| probe("llama3.2:3b", true));
    let (has_example, printed) = prompt();
    assert!(
        has_example
            && printed.contains("xml        low (guessed; measure it with `agentd probe AGENT`)"),
        "{printed}"
    );

    probe("llama3.2:3b", true);
    let (has_example, printed) = prompt();
    let words = "very_high (measured: 10 of 10 probe turns correct)";
    assert!(!has_example && printed.contains(words), "{printed}");
    assert!(
        project
            .run(&["models", "show", "llama3.2:3b"])
            .ok()
            .contains(words)
    );

    // Nothing was measured for the other agent.
    let args = [
        "prompt",
        "architect",
        "What next?",
        "--pack",
        "foreman",
        "--model",
        "llama3.2:3b",
        "--agent",
    ];
    assert!(
        project
            .run(&[&args[..], &["vllm"]].concat())
            .ok()
            .contains("## EXAMPLE TURN")
    );
    assert!(
        !project
            .run(&[&args[..], &["ollama:llama3.2:3b"]].concat())
            .ok()
            .contains("## EXAMPLE TURN")
    );

    let row = project
        .run(&["models", "show", "llama3.2:3b", "--json"])
        .json();
    let settings = format!(
        "format = 1\n[[models]]\nid = \"llama3.2:3b\"\nprovider = \"ollama\"\nwindow = {}\ntokenizer = {}\ntier = \
         \"minimal\"\nxml_reliability = \"low\"\ninstruction_following = \"low\"\nsource = \"me\"\n",
        row["window"], row["tokenizer"]
    );
    write(&project.user_folder().join("config.toml"), settings);

    let (has_example, printed) = prompt();
    assert!(
        has_example && printed.contains("xml        low (from the settings)"),
        "{printed}"
    );
}
