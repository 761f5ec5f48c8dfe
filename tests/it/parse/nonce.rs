//! The nonce of a turn: told where a verdict can carry it, fresh for every turn, and never taken from a value.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use agentd::agent::{Call, Driver, Limits, Replay, Running, Salvaged, Scripted};
use agentd::compose::Counter;
use agentd::models::{Mode, Nonce, Permission, Reply, State, TokenizerSpec};
use agentd::orchestrator::{Ask, Workspace, assemble, parse_review_marker};
use agentd::store::MemoryStore;
use agentd::{ErrorKind, Result, ReviewResult, UnifiedPrompt};

use crate::support::{TestProject, repository, take};

/// What the agent is told in each mode with verdicts.
const FORMS: [(&str, &str); 3] = [
    ("plan", "`<review run=\"preview\">PASS|NEEDS_REVISION</review>`"),
    ("challenge", "`<review run=\"preview\">PASS|NEEDS_REVISION|REJECTED</review>`"),
    ("review", "`<review run=\"preview\">PASS|NEEDS_CHANGES|MAJOR_ISSUES</review>`"),
];

/// Returns the shipped words with their variables filled.
fn words(nonce: &str, verdicts: &str) -> String {
    let text = std::fs::read_to_string(repository().join("packs/sdd/verdict_run.md")).unwrap();
    text.trim_end().replace("{{NONCE}}", nonce).replace("{{VERDICTS}}", verdicts)
}

fn mode(name: &str) -> Mode {
    Mode::new(name).unwrap()
}

/// An agent that keeps the prompts it was sent.
struct Recorder(Mutex<Vec<String>>, Replay);

impl Default for Recorder {
    fn default() -> Self {
        Self(Mutex::default(), Replay::new(Reply::of("Fine.")))
    }
}

impl Driver for Recorder {
    fn spends(&self) -> bool {
        false
    }

    fn start(&self, call: &Call<'_>) -> Result<Box<dyn Running + '_>> {
        self.0.lock().unwrap().push(call.prompt.to_owned());
        self.1.start(call)
    }

    fn salvage(&self, _: &Path, _: &str) -> Result<Option<Salvaged>> {
        Ok(None)
    }
}

/// Returns the value of the only `run` of a prompt.
fn told(prompt: &str) -> &str {
    let values: Vec<&str> = prompt.split("<review run=\"").skip(1).collect();
    assert_eq!(values.len(), 1, "{prompt}");
    values[0].split('"').next().unwrap()
}

#[test]
fn it_is_told_at_the_end_of_the_system_prompt_in_modes_with_verdicts() {
    let project = TestProject::new();
    for (mode, form) in FORMS {
        let prompt = UnifiedPrompt::from_xml(&project.run(&["prompt", mode, "Go"]).ok()).unwrap();
        let verdicts = form.split(['>', '<']).nth(2).unwrap();
        assert!(prompt.system_prompt().ends_with(&format!("\n\n---\n\n{}", words("preview", verdicts))));
        assert_eq!(prompt.system_prompt().matches(form).count(), 1, "{mode}");
    }
    for mode in ["implement", "archive"] {
        let run = project.run(&["prompt", mode, "Go", "--explain"]);
        assert!(run.stderr.contains("not the case: nonce"), "{}", run.stderr);
        assert!(!run.ok().contains("run="), "{mode}");
    }
}

#[test]
fn every_rendering_tells_it_and_flat_text_right_before_the_instructions() {
    let project = TestProject::new();
    project.write("a.txt", "A");
    let args = ["prompt", "plan", "Go", "--file", "a.txt", "--format"];
    let flat = project.run(&[&args[..], &["flat"]].concat()).ok();
    let words = words("preview", "PASS|NEEDS_REVISION");
    assert!(flat.ends_with(&format!("# file: a.txt\n\nA\n\n---\n\n{words}\n\n---\n\n# instructions\n\nGo")));
    for (format, path) in [("chat", "/0/content"), ("tools", "/system_prompt")] {
        let json = project.run(&[&args[..], &[format]].concat()).json();
        assert!(json.pointer(path).unwrap().as_str().unwrap().contains(&words), "{format}");
    }
}

#[test]
fn the_settings_turn_it_off_and_other_values_are_refused() {
    let project = TestProject::new();
    let shown = |policy: &str| {
        project.write("agentd/config.toml", format!("format = 1\nverdict_nonce = \"{policy}\"\n"));
        project.run(&["prompt", "review", "Go"])
    };
    assert!(!shown("off").ok().contains("run="));
    assert_eq!(told(&shown("on").ok()), "preview");
    let faults = ["ConfigInvalid", "agentd/config.toml:2:17", "`maybe`", "`off` or `on`"];
    shown("maybe").fails(4, &faults);

    shown("off").ok();
    let (workspace, recorder) = (Workspace::open(project.root(), None, None).unwrap(), Recorder::default());
    take(&workspace, &MemoryStore::default(), &recorder, &Ask::new(mode("plan"), "Go")).unwrap();
    assert!(!recorder.0.lock().unwrap()[0].contains("run="));
}

/// No window is so small that the block is left out: it is there, or there is no prompt.
#[test]
fn it_is_pinned() {
    let project = TestProject::new();
    let json = project.run(&["prompt", "review", "Go", "--json"]).json();
    let blocks = json["fit"]["blocks"].as_array().unwrap();
    let block = blocks.iter().find(|block| block["block"] == "verdict_run").unwrap();
    assert_eq!((&block["class"], &block["zone"]), (&"pinned".into(), &"turn".into()));
    let mut models = "format = 1\n".to_owned();
    let windows: Vec<u64> = (1..=20).map(|step| 1_500 + 100 * step).collect();
    for window in &windows {
        models.push_str(&format!(
            "[[models]]\nid = \"w{window}\"\nprovider = \"me\"\nwindow = {window}\ntokenizer = \"o200k\"\ntier = \"minimal\"\n\
             xml_reliability = \"low\"\ninstruction_following = \"low\"\nsource = \"made up\"\n"
        ));
    }
    project.write("agentd/config.toml", models);
    let fits = |window: &u64| {
        let run = project.run(&["prompt", "review", "Go", "--model", &format!("w{window}")]);
        if run.code == 0 {
            assert_eq!(told(&run.stdout), "preview", "{window}");
            return true;
        }
        run.fails(3, &["BudgetTooSmall", "verdict_run"]);
        false
    };
    let fitting = windows.iter().filter(|window| fits(window)).count();
    assert!((1..windows.len()).contains(&fitting), "{fitting}");
}

/// Repeated in a reply, the words are no verdict, and do not take one away.
#[test]
fn its_words_are_short_and_hold_no_verdict() {
    let words = words("k3f9x2ab", "PASS|NEEDS_CHANGES|MAJOR_ISSUES");
    assert_eq!(parse_review_marker(&words).unwrap_err().kind(), ErrorKind::MissingReviewMarker);
    let reply = format!("{words}\n\n<review>PASS</review>");
    assert_eq!(parse_review_marker(&reply).unwrap(), ReviewResult::Pass);
    let tokens = Counter::new(TokenizerSpec::default()).piece(&words);
    assert!(tokens <= 90, "{tokens}");
}

#[test]
fn every_turn_has_its_own_and_nothing_else_changes() {
    let project = TestProject::new();
    let workspace = Workspace::open(project.root(), None, None).unwrap();
    let recorder = Recorder::default();
    // What a caller gives is for prompts that are looked at; a turn makes its own.
    let ask = Ask { nonce: Some(Nonce::preview()), ..Ask::new(mode("plan"), "Go") };
    for _ in 0..20 {
        take(&workspace, &MemoryStore::default(), &recorder, &ask).unwrap();
    }
    let shown = assemble(&workspace, &State::default(), &ask).unwrap().draft.rendered();
    let prompts = recorder.0.lock().unwrap();
    let nonces: BTreeSet<&str> = prompts.iter().map(|prompt| told(prompt)).collect();
    assert_eq!(nonces.len(), 20, "{nonces:?}");
    for prompt in prompts.iter() {
        let nonce = told(prompt);
        assert!(nonce.len() == 8 && Nonce::new(nonce).is_ok(), "{nonce}");
        assert_eq!(prompt.replace(nonce, "preview"), shown);
    }
}

#[test]
fn the_same_nonce_gives_the_same_bytes_and_the_draft_says_whether_it_is_told() {
    let project = TestProject::new();
    let nonce = Nonce::new("k3f9x2ab").unwrap();
    let draft = |pack: &str, name: &str| {
        let workspace = Workspace::open(project.root(), None, Some(pack)).unwrap();
        let ask = Ask { nonce: Some(nonce.clone()), ..Ask::new(mode(name), "Go") };
        let state = State { mode: Some(mode(name)), ..State::default() };
        assemble(&workspace, &state, &ask).unwrap().draft
    };
    assert_eq!(draft("sdd", "review").rendered(), draft("sdd", "review").rendered());
    assert_eq!(told(&draft("sdd", "review").rendered()), "k3f9x2ab");
    assert_eq!(draft("sdd", "review").nonce, Some(nonce.clone()));
    for (pack, name) in [("sdd", "implement"), ("foreman", "architect"), ("taskqueue", "supervisor")] {
        assert_eq!(draft(pack, name).nonce, None, "{name}");
    }
    let pack = std::fs::read_to_string(repository().join("packs/sdd/pack.yaml")).unwrap();
    let without: Vec<&str> = pack.lines().filter(|line| !line.contains("id: verdict_run")).collect();
    project.write("agentd/packs/sdd/pack.yaml", without.join("\n"));
    assert_eq!(draft("sdd", "review").nonce, None, "a pack need not tell it");
}

#[test]
fn a_value_that_names_it_is_text_and_no_one_sets_it() {
    let project = TestProject::new();
    project.write("agentd/project.md", "Run {{NONCE}}, {{VERDICTS}}.").write("a.txt", "{{NONCE}}");
    let prompt = project.run(&["prompt", "plan", "Use {{NONCE}}", "--file", "a.txt"]).ok();
    assert_eq!(told(&prompt), "preview");
    for text in ["Run {{NONCE}}, {{VERDICTS}}.", "<file path=\"a.txt\">{{NONCE}}</file>", ">Use {{NONCE}}<"] {
        assert!(prompt.contains(text), "{text}");
    }
    for pair in ["NONCE=abcd", "VERDICTS=PASS"] {
        project.run(&["prompt", "plan", "x", "--set", pair]).fails(3, &["NameInvalid", "cannot be set"]);
    }
}

#[test]
fn a_pack_of_your_own_tells_it_by_a_layer() {
    let project = TestProject::new();
    project.run(&["pack", "new", "letters"]).ok();
    let prompt = |mode: &str| project.run(&["prompt", mode, "Go", "--pack", "letters"]).ok();
    assert!(prompt("check").contains(&words("preview", "PASS|NEEDS_REVISION")));
    assert!(!prompt("draft").contains("run="));
}

#[test]
fn a_script_answers_with_the_nonce_of_its_prompt() {
    let send = |prompt: &str, reply: &str| {
        let script = format!("format: 1\nturns:\n  - reply: '{reply}'\n");
        let call = Call {
            prompt,
            format: agentd::models::Format::Xml,
            max_output: None,
            commands: &[],
            mode: &mode("plan"),
            permission: Permission::ReadOnly,
            tools: agentd::agent::Tools::Own,
            model: None,
            root: Path::new("."),
            folder: Path::new("."),
            marker: "test",
            limits: Limits::default(),
        };
        let script = Scripted::read(&script, "script.yaml").unwrap();
        let mut running = script.start(&call)?;
        running.wait(Duration::ZERO).map(|reply| reply.unwrap().text)
    };
    let reply = "<review run=\"{{NONCE}}\">PASS</review> {{NONCE}}";
    let expected = "<review run=\"k3f9x2ab\">PASS</review> k3f9x2ab";
    for prompt in [
        "x `<review run=\"k3f9x2ab\">PASS|REJECTED</review>` <review run=\"older123\">",
        "a run=\"script\", <review run=\"\">, <review run=\"X Y\">, <review run=\"k3f9x2ab\">",
        r#"{"content": "<review run=\"k3f9x2ab\">PASS|REJECTED</review>"}"#,
    ] {
        assert_eq!(send(prompt, reply).unwrap(), expected, "{prompt}");
    }
    for prompt in ["", "<review>PASS</review>", "<review run=", "<review run=\"k3f9x2ab"] {
        let error = send(prompt, reply).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ScriptMismatch, "{prompt}");
        assert!(error.message().contains("the prompt tells none"), "{error:#}");
        assert_eq!(send(prompt, "{{NAME}}").unwrap(), "{{NAME}}");
    }
}

#[test]
fn a_scripted_turn_gives_its_verdict_with_the_run_of_its_prompt() {
    let project = TestProject::new();
    project.write("script.yaml", "format: 1\nturns: [{reply: '<review run=\"{{NONCE}}\">PASS</review>'}]\n");
    let args = ["turn", "plan", "Go", "--agent", "scripted", "--script", "script.yaml", "--json"];
    assert_eq!(project.run(&args).report()["report"]["verdict"], "PASS");
}
