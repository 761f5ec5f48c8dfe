//! Canaries in every source of secrets, searched in every output of a turn.

use std::fs;
use std::process::Command;

use crate::support::recording_agent::{answer, call, define_agents};
use crate::support::{Run, TestProject, files_below};

/// The value of a secret variable. JSON and URLs each escape parts of it.
const CANARY: &str = "c4n\"ary\\/+?k3y&=0815";

/// The canary as encoded by `jq`, `python3 -c 'urllib.parse.quote'` and `base64`.
const IN_JSON: &str = "c4n\\\"ary\\\\/+?k3y&=0815";
const IN_URL: &str = "c4n%22ary%5C%2F%2B%3Fk3y%26%3D0815";
const IN_BASE64: &str = "YzRuImFyeVwvKz9rM3kmPTA4MTU";
/// With one byte before and one after it.
const IN_LONGER_BASE64: &str = "eGM0biJhcnlcLys/azN5Jj0wODE1eQ";

/// A secret that can be part of a file name. The agent may not see its variable.
const NAME: &str = "plain-c4nary-4711";

/// Texts that must not appear anywhere. The first and the last symbol of base64 may hold bits of
/// other bytes.
const FORMS: [&str; 6] = [
    CANARY,
    IN_JSON,
    IN_URL,
    IN_BASE64,
    "0biJhcnlcLys/azN5Jj0wODE1",
    NAME,
];

const SHOWN: &str = "[secret MINE_API_KEY]";

fn with_secrets(mut command: Command) -> Command {
    command
        .env("MINE_API_KEY", CANARY)
        .env("FOREIGN_TOKEN", NAME);
    command
}

/// Runs the program with the secrets in its environment. Its output must not contain one.
fn run(project: &TestProject, args: &[&str]) -> Run {
    let run = Run::from(with_secrets(project.command(args)).output().unwrap());
    for text in [&run.stdout, &run.stderr] {
        assert_no_canary(text.as_bytes(), &format!("{args:?}"));
    }
    run
}

fn assert_no_canary(bytes: &[u8], place: &str) {
    for form in FORMS {
        let found = bytes
            .windows(form.len())
            .position(|window| window == form.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(60)..(at + form.len() + 20).min(bytes.len())];
            panic!(
                "{form} is in {place}: {:?}",
                String::from_utf8_lossy(around)
            );
        }
    }
}

/// Searches every file of the ledger, and every output that can be produced from it.
fn assert_none_is_kept(project: &TestProject) {
    let folder = project.root().join(".agentd");
    for file in files_below(&folder) {
        assert_no_canary(
            &fs::read(folder.join(&file)).unwrap(),
            &file.display().to_string(),
        );
    }

    // Exported texts are not compressed. The variables are not set, so nothing is redacted now.
    let commands: [&[&str]; 13] = [
        &["export"],
        &["log"],
        &["log", "--json"],
        &["show", "last"],
        &["show", "last", "--json"],
        &["show", "last", "--prompt"],
        &["show", "last", "--reply"],
        &["show", "last", "--response"],
        &["show", "last", "--fit"],
        &["replay", "last"],
        &["replay", "last", "--json"],
        &["diff", "last", "last"],
        &["usage", "--json"],
    ];

    for args in commands {
        let run = project.run(args);
        // A turn without a complete reply has none to replay.
        assert!(
            run.code <= 1 || args[0] == "replay",
            "{args:?}: {}",
            run.stderr
        );
        assert_no_canary(run.stdout.as_bytes(), &format!("{args:?}"));
        assert_no_canary(run.stderr.as_bytes(), &format!("{args:?}"));
    }
}

/// A definition that lets an agent see one of the two variables.
const ALLOWED: &str = "    environment: [MINE_*]\n";

#[test]
fn canary_never_reaches_prompt_ledger_or_terminal() {
    let project = TestProject::new();
    project.write(
        "agentd/project.md",
        format!("A shop. Its key is {CANARY}.\n"),
    );
    project.write(
        "agentd/changes/a/proposal.md",
        format!("# {NAME}\n{IN_BASE64}\n"),
    );
    project.write(
        "notes.md",
        format!("curl -H 'Key: {CANARY}' 'https://x.y/?key={IN_URL}'\n"),
    );
    project.write("data.json", format!("{{\"key\": \"{IN_JSON}\"}}\n"));
    project.write(&format!("{NAME}.txt"), "It is the name that is secret.\n");
    define_agents(
        &project,
        &[(
            "agent",
            &["out Planned.", "out <review>PASS</review>"],
            ALLOWED,
        )],
    );
    let (text, thought) = (
        format!("Use {CANARY}"),
        format!("I know {IN_LONGER_BASE64}"),
    );
    let (set, named) = (
        format!("SKELETON={NAME} and {CANARY}"),
        format!("{NAME}.txt"),
    );
    let given = [
        "--file",
        "notes.md",
        "--file",
        "data.json",
        "--file",
        &named,
        "--thought",
        &thought,
        "--set",
        &set,
    ];
    let ask = [
        &["plan", &text, "--session", "a", "--agent", "agent"][..],
        &given,
    ]
    .concat();
    for more in [&[][..], &["--json"], &["--explain"]] {
        run(&project, &[&["prompt"], &ask[..], more].concat()).ok();
    }
    run(&project, &[&["turn"], &ask[..]].concat()).ok();
    run(
        &project,
        &[&["turn"], &ask[..], &["--json", "--verbose"]].concat(),
    )
    .ok();

    let called = call(&project, "agent", 1);
    assert_no_canary(called.stdin.as_bytes(), "the prompt");

    for place in [
        "Its key is [secret MINE_API_KEY].",
        "# [secret FOREIGN_TOKEN]\n[secret MINE_API_KEY]",
        "Key: [secret MINE_API_KEY]' 'https://x.y/?key=[secret MINE_API_KEY]'",
        "{\"key\": \"[secret MINE_API_KEY]\"}",
        "<file path=\"[secret FOREIGN_TOKEN].txt\">",
        "[secret FOREIGN_TOKEN] and [secret MINE_API_KEY]",
        "<instructions>Use [secret MINE_API_KEY]</instructions>",
    ] {
        assert!(
            called.stdin.contains(place),
            "{place} is not in:\n{}",
            called.stdin
        );
    }

    assert_eq!(
        project.run(&["show", "a/1", "--prompt"]).ok(),
        called.stdin,
        "the sent bytes are the stored ones"
    );
    assert_none_is_kept(&project);

    // The agent gets the variable it may see unchanged, and no other.
    assert!(
        called
            .environment
            .contains(&format!("MINE_API_KEY={CANARY}")),
        "{:?}",
        called.variables()
    );
    assert!(!called.variables().contains(&"FOREIGN_TOKEN"));
    assert_no_canary(called.argv.join("\n").as_bytes(), "the arguments");
}

#[test]
fn canary_of_a_state_file_is_redacted() {
    let project = TestProject::new();
    define_agents(&project, &[("agent", &["out Yes."], ALLOWED)]);

    // Quoted so that no form of the secret is in the file: it only appears once parsed.
    let quoted = CANARY
        .replace('"', "\\x22")
        .replace('\\', "\\\\")
        .replace("\\\\x22", "\\x22");
    let state = format!(
        "mode: architect\nproject: {{title: {NAME}, tone: \"{quoted}\"}}\nhistory:\n  - {{user: \"{quoted}\", assistant: {NAME}}}\n\
         knowledge:\n  - {{category: world, key: key, value: \"{quoted}\"}}\n"
    );
    assert!(!state.contains(CANARY));
    project.write("state.yaml", state);
    let ask = [
        "architect",
        "What next?",
        "--pack",
        "foreman",
        "--session",
        "book",
        "--agent",
        "agent",
    ];
    let ask = [&ask[..], &["--state", "state.yaml"]].concat();
    let shown = run(&project, &[&["prompt"], &ask[..]].concat()).ok();
    assert!(
        shown.contains("<title>[secret FOREIGN_TOKEN]</title>"),
        "{shown}"
    );
    assert!(shown.matches(SHOWN).count() >= 3, "{shown}");
    run(&project, &[&["turn"], &ask[..]].concat()).ok();
    assert_eq!(call(&project, "agent", 1).stdin, shown);
    assert_none_is_kept(&project);

    // The error for an unreadable value does not contain it either.
    project.write("state.yaml", format!("history: {NAME}\n"));
    run(&project, &[&["turn"], &ask[..]].concat()).fails(3, &["StateInvalid"]);

    project.write("state.yaml", format!("{NAME}: x\n"));
    run(&project, &[&["prompt"], &ask[..]].concat())
        .fails(3, &["StateInvalid", "[secret FOREIGN_TOKEN]"]);
}

#[test]
fn canary_printed_by_an_agent_is_redacted() {
    let project = TestProject::new();
    let update = format!(
        "<content_update target=\"proposal.md\">\nkey = {CANARY}\n</content_update>\n<review>PASS</review>\n"
    );
    let update = answer(&project, "update", &update);
    let forms = [CANARY, IN_JSON, IN_URL, IN_BASE64, IN_LONGER_BASE64];
    let mut steps: Vec<String> = forms
        .iter()
        .map(|form| format!("out It is {form}."))
        .collect();

    // For any split into pieces, and for output that ends in the middle of it.
    steps.extend([1, 3, 7].map(|size| format!("split {size} again {CANARY} and {IN_URL},\n")));
    steps.push(format!("err warning: {CANARY}"));
    let well: Vec<&str> = steps
        .iter()
        .map(String::as_str)
        .chain([update.as_str()])
        .collect();
    let cut = format!("split 4 the key is {}", &CANARY[..15]);
    let failing: Vec<&str> = steps
        .iter()
        .map(String::as_str)
        .chain([cut.as_str(), "exit 3"])
        .collect();
    let quota = [
        &format!("err usage limit reached, resets at {NAME}"),
        "exit 1",
    ];
    define_agents(
        &project,
        &[
            ("works", &well, ALLOWED),
            ("fails", &failing, ALLOWED),
            ("broke", &quota, ALLOWED),
        ],
    );

    for more in [&[][..], &["--json"]] {
        let args = ["turn", "plan", "Go", "--session", "a", "--agent"];
        run(&project, &[&args[..], &["works"], more].concat()).ok();
        assert_eq!(
            run(&project, &[&args[..], &["fails"], more].concat()).code,
            5
        );
        assert_eq!(
            run(&project, &[&args[..], &["broke"], more].concat()).code,
            5
        );
    }

    let reply = project.run(&["show", "a/1", "--reply"]).ok();
    assert!(
        reply.starts_with("It is [secret MINE_API_KEY].\nIt is [secret MINE_API_KEY].\n"),
        "{reply}"
    );
    assert!(reply.matches(SHOWN).count() >= 9, "{reply}");

    let failed = project.run(&["show", "a/2", "--reply"]).ok();
    assert!(!failed.contains(&CANARY[..12]), "{failed}");
    assert!(
        project
            .run(&["show", "a/2"])
            .ok()
            .contains("output     warning: [secret MINE_API_KEY]")
    );
    assert_eq!(
        project.read("agentd/changes/a/proposal.md"),
        "key = [secret MINE_API_KEY]\n"
    );
    assert_none_is_kept(&project);
}

/// Text removed from a reply must not join the pieces of a secret on both sides of it.
#[test]
fn canary_printed_in_pieces_is_not_reassembled() {
    let project = TestProject::new();
    let (start, end) = CANARY.split_at(9);
    let apart = [
        "\u{1b}[0m",
        "\u{1b}[01;31m\u{1b}[K",
        "\u{1b}]8;;http://x\u{7}",
        "\u{9b}m",
        "\u{8}",
        "\u{200b}",
        "\u{ad}",
        "\r\u{0}",
        "<thinking>x</thinking>",
        "<think></think>",
        "<![CDATA[",
        "]]>",
        "</message>",
        "</foo>",
        "<review>",
        "<!-- x -->",
    ];
    let lines: String = apart
        .iter()
        .map(|apart| format!("It is {start}{apart}{end}.\n"))
        .collect();
    let escaped = CANARY.replace('&', "&amp;").replace('"', "&quot;");
    let json = CANARY
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('/', "\\/")
        .replace('&', "\\u0026");
    let reply = format!(
        "{lines}<content_update target=\"proposal.md\">\n{lines}{escaped}\n{json}\n</content_update>\n\
         <action type=\"question\"><text>{lines}{escaped}</text></action>\n<review>PASS</review>\n"
    );
    for (index, reply) in [
        reply.clone(),
        format!("<message>{lines}{escaped} {json}</message>"),
        lines,
    ]
    .iter()
    .enumerate()
    {
        let step = answer(&project, &format!("reply{index}"), reply);
        let failing = [
            &step,
            "err error: c4n\"ary\\/\u{1b}[0m+?k3y&=0815",
            "exit 3",
        ];
        define_agents(
            &project,
            &[("works", &[&step], ALLOWED), ("fails", &failing, ALLOWED)],
        );
        for agent in ["works", "fails"] {
            for more in [&[][..], &["--json"]] {
                let session = format!("{agent}-{index}");
                let args = [
                    "turn",
                    "plan",
                    "Go",
                    "--session",
                    &session,
                    "--agent",
                    agent,
                ];
                run(&project, &[&args[..], more].concat());
            }
        }
    }

    assert_none_is_kept(&project);
    for file in files_below(&project.root().join("agentd")) {
        let content = fs::read(project.root().join("agentd").join(&file)).unwrap();
        assert_no_canary(&content, &file.display().to_string());
    }
}

/// The canary's base64 in lines, as broken by `fold`, and the same after one more byte. No line may
/// appear anywhere.
const LINES: [&str; 3] = ["YzRuImFyeV", "wvKz9rM3km", "PTA4MTU"];
const LINES_OF_LONGER: [&str; 3] = ["biJhcnlcLy", "s/azN5Jj0w", "ODE1eQ"];

/// In a prompt, in a diff, in plain replies, in the JSON of an agent, and in its error message.
#[test]
fn canary_in_multiline_base64_is_redacted() {
    let project = TestProject::new();
    let forms = |line_break: &str| {
        format!(
            "data: {}{line_break}end eGM0{}{line_break}end",
            LINES.join(line_break),
            LINES_OF_LONGER.join(line_break)
        )
    };

    let breaks = ["\n", "\r\n", "\n      ", "\n+", "\n> ", "\\n"];
    let text: String = breaks
        .iter()
        .map(|line_break| forms(line_break) + "\n")
        .collect();
    project.write("notes.md", &text);
    let reply = format!(
        "{text}<content_update target=\"proposal.md\">\n{text}</content_update>\n<review>PASS</review>\n"
    );
    let plain = answer(&project, "plain", &reply);
    let event = serde_json::json!({"type": "text", "text": reply}).to_string() + "\n";
    let in_json = answer(&project, "json", &event);
    let jsonl = format!(
        "{ALLOWED}    output: {{kind: jsonl, text: [{{path: text}}], final: {{type: end}}}}\n"
    );
    let failing = [
        &in_json,
        "err error: YzRuImFyeV",
        "err wvKz9rM3km",
        "err PTA4MTU",
        "exit 3",
    ];
    define_agents(
        &project,
        &[
            ("plain", &[&plain], ALLOWED),
            ("json", &[&in_json], &jsonl),
            ("fails", &failing, &jsonl),
        ],
    );

    for agent in ["plain", "json", "fails"] {
        for more in [&[][..], &["--json"]] {
            let args = [
                "turn",
                "plan",
                "Go",
                "--file",
                "notes.md",
                "--session",
                agent,
            ];
            let run = run(&project, &[&args[..], &["--agent", agent], more].concat());
            assert_no_line(run.stdout.as_bytes(), "stdout");
            assert_no_line(run.stderr.as_bytes(), "stderr");
        }

        assert_no_line(call(&project, agent, 1).stdin.as_bytes(), "the prompt");
        for part in ["--prompt", "--reply", "--json"] {
            let shown = project.run(&["show", &format!("{agent}/1"), part]);
            assert_no_line(shown.stdout.as_bytes(), part);
        }
    }

    assert_no_line(project.run(&["export"]).stdout.as_bytes(), "the export");
    assert_none_is_kept(&project);

    let written = project.read("agentd/changes/plain/proposal.md");
    assert_no_line(written.as_bytes(), "a written file");
    assert_eq!(
        written.matches(SHOWN).count(),
        2 * breaks.len(),
        "{written}"
    );
}

fn assert_no_line(bytes: &[u8], place: &str) {
    let text = String::from_utf8_lossy(bytes);
    for line in LINES.iter().chain(&LINES_OF_LONGER) {
        assert!(!text.contains(line), "{line} is in {place}: {text}");
    }
}

/// Output of a running agent is in a file. The next run removes the file of a killed run.
#[test]
fn canary_is_absent_after_a_crash_and_a_resume() {
    for (point, agent, printed) in [
        ("replied", "ends", "recovered the reply of a/1"),
        ("recorded", "hangs", "the call of a/1 is lost"),
    ] {
        let project = TestProject::new();
        let said = format!("split 5 The key is {CANARY} or {NAME}.");
        define_agents(
            &project,
            &[
                ("ends", &[&said], ALLOWED),
                ("hangs", &[&said, "hang"], ALLOWED),
            ],
        );
        let mut turn = with_secrets(project.command(&[
            "turn",
            "plan",
            "Go",
            "--session",
            "a",
            "--agent",
            agent,
        ]));
        let output = turn
            .env("AGENTD_FAIL", format!("{point}=abort"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), None, "it was killed");

        if agent == "ends" {
            let raw = fs::read(project.root().join(".agentd/calls/a.1.1/stdout")).unwrap();
            assert!(
                String::from_utf8_lossy(&raw).contains(CANARY),
                "there is something to clean up"
            );
        }

        let resumed = run(&project, &["resume"]);
        assert!(resumed.stderr.contains(printed), "{}", resumed.stderr);

        resumed.ok();
        let runs = project.root().join(".agentd/calls");
        assert!(
            !runs.exists() || files_below(&runs).is_empty(),
            "{:?}",
            files_below(&runs)
        );
        assert_none_is_kept(&project);

        let reply = project.run(&["show", "a", "--reply"]).ok();

        // The partial output of a stopped agent is kept.
        let whole = "The key is [secret MINE_API_KEY] or [secret FOREIGN_TOKEN].";

        // Less than eight bytes of a secret cannot be distinguished from other text.
        assert!(
            if agent == "ends" {
                reply == whole
            } else {
                !reply.contains(&CANARY[..8])
            },
            "{reply}"
        );
    }
}

/// No driver redacts a scripted reply while it streams, but it is recorded all the same.
#[test]
fn encoded_key_of_a_scripted_reply_is_not_recorded() {
    const KEY: &str = "sk-CANARY-0123/456&789<abcdef";

    let forms = [
        KEY,
        "sk-CANARY-0123/456&amp;789&lt;abcdef",
        r"sk-CANARY-0123\/456&789<abcdef",
        r"sk-CANARY-0123/456\u0026789\u003cabcdef",
        "sk-CANARY-0123%2F456%26789%3Cabcdef",
        "c2stQ0FOQVJZLTAxMjMvNDU2Jjc4OTxhYmNkZWY=",
        "eHNrLUNBTkFSWS0wMTIzLzQ1NiY3ODk8YWJjZGVm",
    ];
    let project = TestProject::new();
    let reply = format!("Done: {}\n<review>PASS</review>\n", forms.join("\n"));
    let script = serde_json::json!({"format": 1, "turns": [{"reply": reply}]});
    project
        .write("script.yaml", script.to_string())
        .disable_nonce();

    for args in [
        &[
            "turn",
            "plan",
            "Go",
            "--agent",
            "scripted",
            "--script",
            "script.yaml",
        ][..],
        &["show", "last", "--reply"],
        &["export"],
    ] {
        let output = project
            .command(args)
            .env("ANTHROPIC_API_KEY", KEY)
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{args:?}");
        assert!(shown.contains("[secret ANTHROPIC_API_KEY]"), "{shown}");
        for form in forms {
            // Without its ends, which hold other bits in base64.
            let middle = &form[4..form.len() - 4];
            assert!(!shown.contains(middle), "{args:?} shows {form}: {shown}");
        }
    }
}
