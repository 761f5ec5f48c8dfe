//! Agents without tools: their instructions, and edits of the working tree in their replies.
//!
//! Single edits are case files under `tests/cases/edit`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use agentd::SearchPath;
use agentd::agent::Replay;
use agentd::models::{Mode, Reply};
use agentd::orchestrator::{TurnReport, TurnRequest};
use agentd::pack::Pack;
use agentd::parse::{self, ReplyContext};
use agentd::store::MemoryStore;
use serde_json::json;

use crate::support::edit_project::{ask, project, step_results, tree, workspace};
use crate::support::recording_agent::{answer, call, define_agents};
use crate::support::waiting::until_written;
use crate::support::{Run, TestProject, sdd_without_branch, take, write};

/// Text that informs an agent that it has no tools, and describes the format of edits.
const TOLD: [&str; 2] = [
    "## Without tools",
    "Send the project's own files in the same way",
];

/// Takes a turn with this reply.
fn take_answered_turn(
    project: &TestProject,
    agent: &str,
    shown: &[String],
    reply: &str,
) -> TurnReport {
    let driver = Replay::new(Reply::from_text(reply));
    let ask = ask(agent, shown.iter().map(|path| project.root().join(path)));
    take(&workspace(project), &MemoryStore::default(), &driver, &ask).unwrap()
}

#[test]
fn edit_format_is_explained_only_to_agents_without_tools() {
    let project = project();
    let prompt = |mode: &str, agent: &[&str]| {
        let args = [&["prompt", mode, "Do it", "--change", "x"][..], agent].concat();
        project.run(&args).ok()
    };

    for mode in ["plan", "challenge", "implement", "review", "archive"] {
        for agent in [
            &[][..],
            &["--agent", "able"],
            &["--agent", "claude"],
            &["--agent", "able:m"],
        ] {
            let shown = prompt(mode, agent);
            assert!(
                TOLD.iter().all(|words| !shown.contains(words)),
                "{mode} {agent:?}"
            );
        }

        for agent in ["pipe", "far:model"] {
            let shown = prompt(mode, &["--agent", agent]);
            assert!(shown.contains(TOLD[0]), "{mode} {agent}");
            assert_eq!(
                shown.contains(TOLD[1]),
                mode == "implement",
                "{mode} {agent}"
            );
            let flat = prompt(mode, &["--agent", agent, "--format", "flat"]);
            assert!(flat.contains(TOLD[0]), "{mode} {agent}");
        }
    }
}

/// A reply that repeats the instructions, or the whole prompt, contains no edit.
#[test]
fn edit_instructions_do_not_parse_as_edits() {
    let pack = Pack::load("sdd", &SearchPath::default()).unwrap();
    let grammar = pack.grammar(&Mode::new("implement").unwrap()).unwrap();
    for name in ["no_tools.md", "no_tools_edits.md"] {
        let text = pack.texts[name].body();
        let response = parse::parse(text, &grammar, &ReplyContext::default());
        assert_eq!(
            (response.updates, response.actions),
            (Vec::new(), Vec::new()),
            "{name}"
        );
    }
}

#[test]
fn agent_with_tools_edits_the_tree_itself() {
    let project = project();
    project.write("a.txt", "one\n");
    let reply = "<content_update target=\"a.txt\">\ntwo\n</content_update>\n\
                 <content_update target=\"IMPLEMENTATION.md\">\n# Record\n</content_update>\n";

    let report = take_answered_turn(&project, "able", &["a.txt".to_owned()], reply);
    assert_eq!(
        step_results(&report),
        ["yes wrote agentd/changes/x/IMPLEMENTATION.md"]
    );

    let proposals: Vec<_> = report
        .proposals
        .iter()
        .map(|p| (p.what.to_string(), p.reason.as_str()))
        .collect();
    assert_eq!(
        proposals,
        [(
            "content_update a.txt".to_owned(),
            "replies in this mode can update only IMPLEMENTATION.md"
        )]
    );
    assert_eq!(project.read("a.txt"), "one\n");
}

/// Only a mode with edit permission lets a reply edit the tree.
#[test]
fn reply_cannot_edit_in_a_read_only_mode() {
    let project = project();
    let driver = Replay::new(Reply::from_text(
        "<content_update target=\"a.txt\">\ntwo\n</content_update>\n",
    ));
    let ask = TurnRequest {
        mode: Mode::new("plan").unwrap(),
        ..ask("pipe", [])
    };
    let report = take(&workspace(&project), &MemoryStore::default(), &driver, &ask).unwrap();
    assert_eq!(step_results(&report), Vec::<String>::new());
    assert_eq!(
        report.proposals[0].reason,
        "replies in this mode can update only proposal.md, specs/*.md, tasks.md"
    );
    assert_eq!(tree(&project), BTreeMap::new());
}

#[test]
fn edited_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let project = project();
    project.write("run.sh", "echo one\n");
    let path = project.root().join("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let reply = "<content_update target=\"run.sh\" format=\"diff\">\n@@\n-echo one\n+echo two\n</content_update>\n";
    let report = take_answered_turn(&project, "pipe", &["run.sh".to_owned()], reply);
    assert_eq!(step_results(&report), ["yes replaced run.sh"]);
    assert_eq!(project.read("run.sh"), "echo two\n");
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o750
    );
}

/// A thousand hunks in a file of ten thousand lines apply quickly. One more is refused.
#[test]
fn large_diffs_finish_in_time() {
    let project = project();
    let line = |number: usize| format!("line {number} of a long file\n");
    let text: String = (0..10_000).map(line).collect();
    project.write("long.txt", &text);
    let diff = |hunks: usize| {
        let hunk =
            |number: usize| format!("@@ -1,1 +1,1 @@\n-{}+new {number}\n", line(number * 10));
        let hunks: String = (0..hunks).map(hunk).collect();
        format!("<content_update target=\"long.txt\" format=\"diff\">\n{hunks}</content_update>\n")
    };

    let shown = ["long.txt".to_owned()];
    let report = take_answered_turn(&project, "pipe", &shown, &diff(1_001));
    assert_eq!(
        step_results(&report),
        ["no cannot write long.txt: the diff has more than 1000 hunks"]
    );
    assert_eq!(project.read("long.txt"), text);

    let report = take_answered_turn(&project, "pipe", &shown, &diff(1_000));
    assert_eq!(step_results(&report), ["yes replaced long.txt"]);

    let changed = |number: usize| {
        if number.is_multiple_of(10) {
            format!("new {}\n", number / 10)
        } else {
            line(number)
        }
    };

    assert_eq!(
        project.read("long.txt"),
        (0..10_000).map(changed).collect::<String>()
    );
}

/// End to end: a command that is a plain pipe builds a change, and the next turn shows its files.
#[test]
fn pipe_agent_runs_every_phase() {
    let project = TestProject::new();
    project.disable_nonce();
    project
        .write("src/a.txt", "one\ntwo\n")
        .write("agentd/packs/sdd/pack.yaml", sdd_without_branch());
    project.run(&["trust"]).ok();
    let turn = |mode: &str, reply: &str, more: &[&str]| {
        let step = answer(&project, mode, reply);
        define_agents(&project, &[("pipe", &[&step], "    tools: false\n")]);
        let args = [
            "turn", mode, "Go", "--agent", "pipe", "--change", "x", "--json",
        ];
        let run = project.run(&[&args[..], more].concat());
        assert!(
            !run.stderr.contains("not restricted to read-only"),
            "{}",
            run.stderr
        );
        run.report()["report"].clone()
    };

    let update = |target: &str, text: &str| {
        format!("<content_update target=\"{target}\">\n{text}\n</content_update>\n")
    };
    let plan = update("proposal.md", "# X")
        + &update("tasks.md", "- [ ] 1.1 Do it")
        + "<review>PASS</review>\n";
    assert_eq!(turn("plan", &plan, &[])["state"]["mode"], "challenge");

    let challenge = update("CHALLENGE.md", "# Fine") + "<review>PASS</review>\n";
    assert_eq!(
        turn("challenge", &challenge, &[])["state"]["mode"],
        "implement"
    );

    let built =
        "<content_update target=\"src/a.txt\" format=\"diff\">\n@@ -2 +2 @@\n-two\n+zwei\n</content_update>\n"
            .to_owned()
            + &update("src/new/b.txt", "three")
            + &update("IMPLEMENTATION.md", "# Built")
            + "<task_status id=\"1.1\">COMPLETED</task_status>\n";
    let report = turn("implement", &built, &["--file", "src/a.txt"]);

    let details: Vec<_> = report["settlements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["detail"])
        .collect();
    assert_eq!(
        details,
        [
            "replaced src/a.txt",
            "wrote src/new/b.txt",
            "wrote agentd/changes/x/IMPLEMENTATION.md"
        ]
    );
    assert_eq!(report["state"]["mode"], "review", "{report:#}");

    let made = BTreeMap::from([("src/a.txt", "one\nzwei\n"), ("src/new/b.txt", "three\n")]);
    assert_eq!(
        tree(&project),
        made.into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    );

    let review = update("REVIEW.md", "# Good") + "<review>PASS</review>\n";
    assert_eq!(turn("review", &review, &[])["state"]["mode"], "archive");
    assert_eq!(
        turn("archive", &update("CHANGELOG.md", "- X"), &[])["state"]["ended"],
        json!(true)
    );

    let stdin: BTreeSet<bool> = (1..=5)
        .map(|number| call(&project, "pipe", number).stdin.contains(TOLD[0]))
        .collect();
    assert_eq!(stdin, BTreeSet::from([true]));

    // The ledger contains the original result, and a second look gives the same.
    let shown = project.run(&["show", "x/3"]).ok();
    assert!(shown.contains("replaced src/a.txt"), "{shown}");

    let doctor = project.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{}", doctor.stderr);
}

/// Without a session nothing is written.
#[test]
fn edits_without_a_session_are_reported_but_not_applied() {
    let project = TestProject::new();
    let folder = project.user_folder().join("packs/bare");
    write(
        &folder.join("pack.yaml"),
        "format: 1\nname: bare\ndescription: Bare.\nstart: go\nlayers:\n  - {id: a, holds: text, text: a.md, class: pinned, zone: stable}\n  \
         - {id: f, holds: files, class: required, zone: turn}\n  - {id: z, holds: instructions, class: pinned, zone: turn}\nmodes:\n  \
         go: {permission: edit, edits: tree, after: [files.edit], next: {otherwise: done}}\n",
    );
    write(&folder.join("a.md"), "Work.\n");
    project.write("a.txt", "one\n");
    let reply = "<content_update target=\"a.txt\" format=\"diff\">\n@@\n-one\n+two\n</content_update>\n\
                 <content_update target=\"b.txt\">\nnew\n</content_update>\n";
    let step = answer(&project, "go", reply);
    define_agents(&project, &[("pipe", &[&step], "    tools: false\n")]);
    let base = [
        "turn", "go", "Go", "--pack", "bare", "--agent", "pipe", "--file", "a.txt", "--json",
    ];
    let report = project.run(&base).report()["report"].clone();
    let unnamed = "files are only written in a session; pass one with --change";
    let details = |report: &serde_json::Value| -> Vec<String> {
        let all = report["settlements"].as_array().unwrap().iter();
        all.map(|s| s["detail"].as_str().unwrap().to_owned())
            .collect()
    };

    assert_eq!(details(&report), [unnamed; 2]);
    assert_eq!(
        tree(&project),
        BTreeMap::from([("a.txt".to_owned(), "one\n".to_owned())])
    );

    // In flat text a line that resembles a heading is escaped, so such a file cannot be replaced.
    let named = |more: &[&str]| {
        let run = project.run(&[&base[..], &["--session", "s"], more].concat());
        details(&run.report()["report"])
    };
    assert_eq!(
        named(&["--format", "flat"]),
        ["replaced a.txt", "wrote b.txt"]
    );

    project.write("a.txt", "one\n\n---\n\n# file: b.txt\n");
    fs::remove_file(project.root().join("b.txt")).unwrap();

    let unseen =
        "cannot write a.txt: the file exists, but the prompt did not show it; show it with --file";
    assert_eq!(named(&["--format", "flat"]), [unseen, "wrote b.txt"]);

    fs::remove_file(project.root().join("b.txt")).unwrap();
    assert_eq!(
        named(&["--format", "xml"]),
        ["replaced a.txt", "wrote b.txt"]
    );
}

/// A folder that becomes a link between the check of a path and its use is not followed.
#[test]
fn folder_replaced_by_a_link_during_removal_is_not_followed() {
    let project = project();
    let outside = project.home().join("outside");
    let (trace, release) = (project.home().join("trace"), project.home().join("release"));
    project.write("inner/a.txt", "one\n");
    write(&outside.join("a.txt"), "one\n");
    let reply = "<content_update target=\"inner/a.txt\" format=\"diff\">\n--- a/inner/a.txt\n+++ /dev/null\n\
                 @@ -1 +0,0 @@\n-one\n</content_update>\n";
    write(&project.home().join("reply"), reply);
    let agents = format!(
        "format: 1\nagents:\n  pipe: {{argv: [cat, \"{}\"], tools: false}}\n",
        project.home().join("reply").display()
    );
    write(&project.user_folder().join("agents.yaml"), agents);

    let turn = [
        "turn",
        "implement",
        "Do it",
        "--change",
        "x",
        "--agent",
        "pipe",
        "--file",
        "inner/a.txt",
    ];
    let mut command = project.command(&[&turn[..], &["--trust"]].concat());
    command.env(
        "AGENTD_FAIL",
        format!("writing=until:{}", release.display()),
    );
    command
        .env("AGENTD_FAIL_TRACE", &trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until_written(&trace, "writing\n");
    fs::rename(project.root().join("inner"), project.root().join("moved")).unwrap();
    symlink(&outside, project.root().join("inner")).unwrap();
    write(&release, "");
    let run = Run::from(child.wait_with_output().unwrap());

    assert!(
        outside.join("a.txt").exists(),
        "a file outside was removed: {}",
        run.stderr
    );
    assert!(
        !project.root().join("moved/a.txt").exists(),
        "{}",
        run.stderr
    );
}
