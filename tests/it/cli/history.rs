//! Recorded data in the commands log, show, diff, replay, resume, usage and export, and files they
//! must not touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use agentd::store::blob_id;
use serde_json::{Value, json};

use crate::support::recording_agent::{answer, call, calls, define_agents};
use crate::support::{TestProject, files_below, write};

const PLAN: &str = "Planned.\n<content_update target=\"proposal.md\">\n# Login\n</content_update>\n<review>PASS</review>\n";

/// A project with three turns: `a/1` planned, `a/2` challenged, `b/1` crashed.
fn project() -> TestProject {
    let project = TestProject::new();
    project.disable_nonce();
    let (plan, challenge) = (
        answer(&project, "plan", PLAN),
        answer(
            &project,
            "challenge",
            "A gap.\n<review>NEEDS_REVISION</review>\n",
        ),
    );
    define_agents(
        &project,
        &[
            ("planner", &[&plan], "    model: gpt-4o\n"),
            ("critic", &[&challenge], ""),
            (
                "crashes",
                &["out half a reply", "err out of luck", "exit 3"],
                "",
            ),
            ("hangs", &["out begun", "hang"], ""),
        ],
    );
    project
        .run(&[
            "turn",
            "plan",
            "Add login",
            "--session",
            "a",
            "--agent",
            "planner",
        ])
        .ok();
    project
        .run(&[
            "turn",
            "challenge",
            "Look at it",
            "--session",
            "a",
            "--agent",
            "critic",
        ])
        .ok();

    let run = project.run(&[
        "turn",
        "plan",
        "Add logout",
        "--session",
        "b",
        "--agent",
        "crashes",
    ]);
    assert_eq!(run.code, 5, "{}", run.stderr);

    project
}

/// Returns the rows of a table without its header, each split into words.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn log_lists_the_turns() {
    let project = project();
    let log = project.run(&["log"]).ok();
    let rows = rows(&log);

    let head: Vec<_> = log.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        head,
        [
            "TURN", "STARTED", "MODE", "AGENT", "RESULT", "VERDICT", "CALLS", "TOKENS", "COST",
            "TIME"
        ]
    );

    let printed: Vec<_> = rows
        .iter()
        .map(|row| [row[0], row[2], row[3], row[4]])
        .collect();
    assert_eq!(
        printed,
        [
            ["a/1", "plan", "planner", "ok"],
            ["a/2", "challenge", "critic", "ok"],
            ["b/1", "plan", "crashes", "crashed"]
        ]
    );
    assert_eq!((rows[0][5], rows[1][5]), ("PASS", "NEEDS_REVISION"));
    assert!(
        rows[0][1].starts_with("20") && rows[0][1].ends_with('Z'),
        "{log}"
    );

    assert_eq!(self::rows(&project.run(&["log", "a"]).ok()).len(), 2);

    let newest = project.run(&["log", "-n", "1"]).ok();
    assert!(
        newest.lines().count() == 2 && newest.contains("b/1"),
        "{newest}"
    );

    let json = project.run(&["log", "a", "--json"]).json();
    assert_eq!(json.as_array().unwrap().len(), 2);

    let (first, second) = (&json[0], &json[1]);
    assert_eq!(
        (&first["session"], &first["turn"], &first["model"]),
        (&json!("a"), &json!(1), &json!("gpt-4o"))
    );
    assert_eq!(
        (&second["verdict"], &second["calls"], &second["model"]),
        (&json!("NEEDS_REVISION"), &json!(1), &Value::Null)
    );

    let json = project.run(&["log", "b", "--json"]).json();
    assert_eq!(
        json[0]["end"],
        json!({"end": "crashed", "code": 3, "signal": null})
    );
    assert_eq!(json[0]["verdict"], Value::Null);
}

#[test]
fn show_prints_a_turn_and_its_parts() {
    let project = project();
    let printed = project.run(&["show", "a/1"]).ok();

    for words in [
        "turn       a/1\n",
        "mode       plan of pack sdd\n",
        "agent      planner\n",
        "model      gpt-4o\n",
        "call       1: ask, ok, ",
        "verdict    PASS\n",
        "done       wrote agentd/changes/a/proposal.md\n",
        "next       challenge\n",
    ] {
        assert!(printed.contains(words), "{words:?} is not in:\n{printed}");
    }

    let printed = project.run(&["show", "last"]).ok();
    assert!(
        printed.contains("turn       b/1\n") && printed.contains("output     out of luck\n"),
        "{printed}"
    );
    assert_eq!(
        project.run(&["show", "b", "--reply"]).ok(),
        "half a reply\n"
    );
    assert_eq!(project.run(&["show", "a/1", "--reply"]).ok(), PLAN);

    let response = project.run(&["show", "a/1", "--response"]).json();
    assert_eq!(response["message"], "Planned.");
    assert_eq!(response["updates"][0]["target"], "proposal.md");

    let fit = project.run(&["show", "a/1", "--fit"]).json();
    assert_eq!(
        (&fit["model"], &fit["window"]),
        (&json!("gpt-4o"), &json!(128_000))
    );
    assert_eq!(
        fit["bytes"],
        project.run(&["show", "a/1", "--prompt"]).ok().len()
    );

    let record = project.run(&["show", "a", "--json"]).json();
    assert_eq!(
        (&record["turn"]["started"]["turn"], &record["turn"]["next"]),
        (&json!(2), &json!("plan"))
    );
    assert_eq!(record["turn"]["calls"][0]["answered"]["end"], "ok");
}

#[test]
fn recorded_prompt_equals_the_sent_prompt() {
    let project = project();
    project.write("odd.txt", "a\r\nb]]>c\r<&>\u{7}\n");
    let base = [
        "turn",
        "challenge",
        "Look \"again\" <now>",
        "--session",
        "a",
        "--agent",
        "critic",
    ];
    let formats: [&[&str]; 5] = [
        &[],
        &["--format", "xml"],
        &["--format", "flat"],
        &["--format", "chat"],
        &["--format", "tools"],
    ];

    for (number, format) in formats.into_iter().enumerate() {
        let more = ["--file", "odd.txt", "--thought", "ü 漢\n\n# HEAD"];
        project.run(&[&base[..], &more, format].concat()).ok();
        let got = call(&project, "critic", number + 2).stdin;
        assert!(got.len() > 1_000 && got.contains("漢"), "{format:?}");
        assert_eq!(
            project.run(&["show", "last", "--prompt"]).ok(),
            got,
            "{format:?}"
        );
    }

    assert!(
        call(&project, "critic", 5).stdin.starts_with('['),
        "chat is a list of messages"
    );
}

#[test]
fn diff_compares_two_prompts_segment_by_segment() {
    let project = project();
    project
        .write("one.txt", "one\n")
        .write("two.txt", "two\n")
        .write("both.txt", "both\n");

    // The first and the last file include the surrounding tags, so there is one more segment at
    // either end.
    let turn = |text: &str, file: &str| {
        let args = [
            "turn",
            "plan",
            text,
            "--session",
            "c",
            "--agent",
            "planner",
            "--file",
            file,
        ];
        project
            .run(&[&args[..], &["--file", "both.txt", "--file", "odd.txt"]].concat())
            .ok();
    };

    project.write("odd.txt", "x");
    turn("Add login", "one.txt");
    project.write("one.txt", "one\nmore\n");
    turn("Add login", "one.txt");
    turn("Add logout", "two.txt");

    let diff = |old: &str, new: &str| -> BTreeMap<String, String> {
        let json = project.run(&["diff", old, new, "--json"]).json();
        let rows = json.as_array().unwrap().iter().map(|row| {
            let segment = if row["new"].is_null() {
                &row["old"]
            } else {
                &row["new"]
            };
            (
                segment["part"].as_str().unwrap().to_owned(),
                row["change"].as_str().unwrap().to_owned(),
            )
        });
        rows.collect()
    };

    let first = diff("c/1", "c/2");
    assert_eq!(first["file both.txt"], "same", "{first:?}");
    assert_eq!(first["file one.txt"], "changed");
    assert_eq!(first["instructions"], "same");
    assert_eq!(
        first["artifact proposal.md"], "added",
        "the first turn wrote it"
    );

    let second = diff("c/2", "c/3");
    assert_eq!(
        (&*second["file one.txt"], &*second["file two.txt"]),
        ("removed", "added")
    );
    assert_eq!(second["instructions"], "changed");
    assert!(diff("c/2", "c/2").values().all(|change| change == "same"));

    let text = project.run(&["diff", "c/1", "c/2"]).ok();
    assert!(
        text.contains("  files/both.txt (file both.txt): unchanged, "),
        "{text}"
    );
    assert!(
        text.contains(
            "\n--- c/1: files/one.txt (file one.txt)\n+++ c/2: files/one.txt (file one.txt)\n"
        ),
        "{text}"
    );
    assert!(text.contains("\n+more\n"), "{text}");
}

#[test]
fn replay_parses_a_recorded_reply() {
    let project = project();
    let run = project.run(&["replay", "a/2"]);
    assert!(
        run.stderr.contains("recorded   verdict NEEDS_REVISION\n")
            && run.stderr.contains("now        verdict NEEDS_REVISION\n")
    );
    assert_eq!(run.ok(), "A gap.\n");

    let same = project.run(&["replay", "a/2", "--json"]).json();
    assert_eq!(
        (&same["turn"], &same["same"]),
        (&json!("a/2"), &json!(true))
    );
    assert_eq!(calls(&project, "critic"), 1, "nothing was sent");

    // The pack now defines other verdicts for a challenge.
    let pack = project.run(&["pack", "show", "sdd", "pack.yaml"]).ok();
    let changed = pack.replace(
        "verdicts: [PASS, NEEDS_REVISION, REJECTED]",
        "verdicts: [PASS, REJECTED]",
    );
    let changed = changed.replace(
        "    evidence: {findings.note: {BLOCKING: NEEDS_REVISION}}\n",
        "",
    );
    let changed = changed.replace(
        "{PASS: implement, NEEDS_REVISION: plan, REJECTED: stop}",
        "{PASS: implement, REJECTED: stop}",
    );
    assert_ne!(changed, pack);

    write(&project.user_folder().join("packs/sdd/pack.yaml"), changed);
    let run = project.run(&["replay", "a/2", "--json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);

    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&report["same"], &report["verdict_then"]),
        (&json!(false), &json!("NEEDS_REVISION"))
    );
    assert_eq!(report["verdict_now"], Value::Null);
    assert_eq!(
        project.run(&["replay", "a/1"]).code,
        0,
        "the plan is parsed as before"
    );
}

#[test]
fn replay_to_another_agent_has_no_effects() {
    let project = project();
    let sent = project.run(&["show", "a/1", "--prompt"]).ok();
    project.write("agentd/changes/a/proposal.md", "mine\n");
    let run = project.run(&["replay", "a/1", "--agent", "echo", "--json"]);
    let report = run.last_line()["report"].clone();
    let session = report["session"].as_str().unwrap();
    assert!(session.starts_with("replay-"), "{session}");
    assert_eq!(report["prompt_bytes"], sent.len());

    let started: Value = serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&started["event"], &started["model"]),
        (&json!("started"), &Value::Null),
        "not the command of the planner"
    );
    assert_eq!(
        project.run(&["show", session, "--reply"]).ok(),
        sent,
        "an echo is the prompt"
    );

    // A command gets the same bytes, but its requests are not carried out.
    let run = project.run(&["replay", "a/1", "--agent", "planner", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(call(&project, "planner", 2).stdin, sent);
    assert_eq!(project.read("agentd/changes/a/proposal.md"), "mine\n");
    assert_eq!(run.last_line()["report"]["settlements"][0]["done"], false);
    assert_eq!(
        rows(&project.run(&["log", "a"]).ok()).len(),
        2,
        "the session is unchanged"
    );
}

#[test]
fn recorded_reply_can_answer_another_turn() {
    let project = project();
    let args = [
        "turn",
        "plan",
        "Add search",
        "--session",
        "d",
        "--agent",
        "replay:a/1",
    ];
    assert_eq!(project.run(&args).ok(), "Planned.\n");
    assert_eq!(project.read("agentd/changes/d/proposal.md"), "# Login\n");
    assert_eq!(calls(&project, "planner"), 1);

    let used = project.run(&["usage", "d", "--json"]).json();
    assert_eq!(
        (&used[0]["tokens"], &used[0]["calls"]),
        (&json!(0), &json!(1)),
        "a replay costs nothing"
    );

    // The outcome of the recorded call counts as well.
    project
        .run(&["turn", "plan", "x", "--agent", "replay:b/1"])
        .fails(5, &["AgentCrashed"]);
    project
        .run(&["turn", "plan", "x", "--agent", "replay:b/9"])
        .fails(3, &["TurnNotFound", "unknown turn `b/9`"]);
}

#[test]
fn usage_is_summed() {
    let project = project();
    let json = project.run(&["usage", "--json"]).json();

    let agents: Vec<_> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["agent"].as_str().unwrap())
        .collect();
    assert_eq!(
        agents,
        ["critic", "planner", "crashes"],
        "by session and agent"
    );
    assert!(
        json[1]["micro_dollars"].as_u64().unwrap() > 0,
        "gpt-4o has a price: {json}"
    );
    assert_eq!(json[0]["micro_dollars"], 0);

    let table = project.run(&["usage"]).ok();
    let all = rows(&table).pop().unwrap();

    let tokens: u64 = json
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(
        all[..4],
        ["total", "3", "3", tokens.to_string().as_str()],
        "{table}"
    );
    assert_eq!(
        project
            .run(&["usage", "b", "--json"])
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn export_prints_events_and_texts_with_hashes() {
    let project = project();
    let lines: Vec<Value> = project
        .run(&["export"])
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut texts = BTreeMap::new();

    for line in lines.iter().filter(|line| line["hash"].is_string()) {
        let (id, text) = (
            line["hash"].as_str().unwrap(),
            line["text"].as_str().unwrap(),
        );
        assert_eq!(blob_id(text.as_bytes()).0, id);
        texts.insert(id, text);
    }

    let events: Vec<&Value> = lines
        .iter()
        .filter(|line| line["event"].is_object())
        .collect();
    assert_eq!(
        events.len() + lines.iter().filter(|line| line["hash"].is_string()).count(),
        lines.len()
    );

    let names: Vec<_> = events
        .iter()
        .filter(|line| line["session"] == "b")
        .map(|line| &line["event"]["event"])
        .collect();
    assert_eq!(
        names,
        ["entered", "started", "called", "launched", "answered"]
    );

    let answered = events
        .iter()
        .find(|line| line["event"]["event"] == "answered")
        .unwrap();
    assert_eq!(texts[answered["event"]["reply"].as_str().unwrap()], PLAN);

    let started = events
        .iter()
        .find(|line| line["event"]["event"] == "started")
        .unwrap();
    let prompt = started["event"]["prompt"].as_array().unwrap().iter();
    let pieces = prompt.flat_map(|segment| segment["texts"].as_array().unwrap());
    let prompt: String = pieces.map(|id| texts[id.as_str().unwrap()]).collect();
    assert_eq!(
        prompt,
        call(&project, "planner", 1).stdin,
        "the segments are the prompt"
    );

    let one = project.run(&["export", "b"]).ok();
    assert!(
        one.lines().all(|line| !line.contains("\"session\":\"a\"")),
        "{one}"
    );
}

#[test]
fn errors_name_the_cause_and_a_remedy() {
    let empty = TestProject::new();
    for args in [["log", "--json"], ["usage", "--json"]] {
        let run = empty.run(&args);
        assert!(
            run.stderr.contains("no turns yet; take one with"),
            "{}",
            run.stderr
        );
        assert_eq!(run.json(), json!([]));
    }

    let none: [&[&str]; 7] = [
        &["log", "a"],
        &["show", "last"],
        &["diff", "a", "b"],
        &["replay", "last"],
        &["replay", "last", "--agent", "echo"],
        &["resume", "a"],
        &["export"],
    ];
    for args in none {
        empty.run(args).fails(
            3,
            &["TurnNotFound", "no turns in", "take one with `agentd turn`"],
        );
    }

    let run = empty.run(&["resume"]);
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (0, "", "note: nothing to resume\n")
    );

    empty.run(&["prompt", "plan", "x", "--session", "a"]).ok();
    empty.run(&["doctor", "--json"]).json();
    assert!(
        !empty.root().join(".agentd").exists(),
        "a read-only command creates no ledger"
    );

    let project = project();
    let cases: [(&[&str], &[&str]); 12] = [
        (
            &["log", "nope"],
            &["TurnNotFound", "no turns in session `nope`", "`agentd log`"],
        ),
        (&["usage", "nope"], &["TurnNotFound", "`nope`"]),
        (&["export", "nope"], &["TurnNotFound", "`nope`"]),
        (&["resume", "nope"], &["TurnNotFound", "`nope`"]),
        (
            &["show", "a/3"],
            &["TurnNotFound", "unknown turn `a/3`", "`agentd log`"],
        ),
        (&["show", "nope"], &["TurnNotFound", "unknown turn `nope`"]),
        (&["show", "a/x"], &["NameInvalid", "SESSION/NUMBER"]),
        (&["show", "../a"], &["NameInvalid"]),
        (&["log", "a b"], &["NameInvalid", "invalid session id"]),
        (&["diff", "a/1", "a/9"], &["TurnNotFound", "a/9"]),
        (&["replay", "b/2"], &["TurnNotFound", "b/2"]),
        (&["resume", "../a"], &["NameInvalid"]),
    ];

    for (args, words) in cases {
        project.run(args).fails(3, words);
    }
    project
        .run(&["replay", "a/1", "--agent", "nobody"])
        .fails(3, &["UnknownAgent", "`planner`"]);
    project
        .run(&["show", "a/1", "--prompt", "--reply"])
        .fails(2, &["cannot be used with"]);

    let stderr = project.run(&["show", "a/3", "--json"]).fails(3, &[]);
    let error: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&error["error"]["kind"], &error["error"]["exit_code"]),
        (&json!("TurnNotFound"), &json!(3))
    );
}

#[test]
fn commands_leave_the_tree_clean_and_the_ledger_private() {
    let project = TestProject::new();
    define_agents(
        &project,
        &[
            ("planner", &["out Planned."], ""),
            ("crashes", &["exit 3"], ""),
        ],
    );
    let status = || {
        let mut git = Command::new("git");
        let output = git
            .args(["status", "--porcelain"])
            .current_dir(project.root())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };

    project
        .run(&["turn", "plan", "x", "--session", "a", "--agent", "planner"])
        .ok();
    assert_eq!(
        project
            .run(&["turn", "plan", "x", "--agent", "crashes"])
            .code,
        5
    );

    let commands: [&[&str]; 9] = [
        &["log"],
        &["show", "a"],
        &["show", "a", "--response"],
        &["diff", "a", "last"],
        &["replay", "a"],
        &["replay", "a", "--agent", "echo"],
        &["resume"],
        &["usage"],
        &["export"],
    ];
    for args in commands {
        project.run(args);
        assert_eq!(status(), "", "{args:?}");
    }

    let mode = |path: &str| {
        fs::metadata(project.root().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };

    assert_eq!((mode(".agentd"), mode(".agentd/ledger.db")), (0o700, 0o600));
    assert_eq!(project.read(".agentd/.gitignore"), "*\n");

    for file in files_below(&project.root().join(".agentd")) {
        assert_eq!(
            mode(&format!(".agentd/{}", file.display())) & 0o077,
            0,
            "{}",
            file.display()
        );
        assert!(
            !file.starts_with("calls"),
            "{} remains of a finished call",
            file.display()
        );
    }
}

#[test]
fn turn_json_streams_events_and_ends_with_the_report() {
    let project = project();
    let args = [
        "turn",
        "plan",
        "Add search",
        "--session",
        "e",
        "--agent",
        "planner",
        "--json",
    ];
    let run = project.run(&args);
    let lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut names: Vec<&str> = lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();

    names.dedup();
    assert_eq!(
        names,
        ["started", "called", "said", "answered", "settled", "report"],
        "{}",
        run.stderr
    );

    let said: String = lines
        .iter()
        .filter(|line| line["event"] == "said")
        .map(|line| line["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, PLAN);
    assert_eq!(
        (&lines[0]["session"], &lines[0]["agent"], &lines[0]["model"]),
        (&json!("e"), &json!("planner"), &json!("gpt-4o"))
    );

    let report = &lines.last().unwrap()["report"];
    assert_eq!(
        (&report["verdict"], &report["calls"]),
        (&json!("PASS"), &json!(1))
    );

    let run = project.run(&[
        "turn",
        "plan",
        "x",
        "--session",
        "e",
        "--agent",
        "crashes",
        "--json",
    ]);
    assert_eq!(run.code, 5);
    assert_eq!(run.last_line()["fault"]["kind"], "AgentCrashed");

    let error: Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["exit_code"], 5);
}
