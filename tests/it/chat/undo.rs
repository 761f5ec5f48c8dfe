//! `/undo` undoes the last message and its effects.

use agentd::ErrorKind;
use agentd::models::Mode;
use agentd::orchestrator::{UndoReport, enter_mode, undo_message};
use agentd::store::Store;

use super::{Conversation, session};
use crate::support::recording_agent::{answer, call, calls, define_agents};
use crate::support::{TestProject, run_with_stdin};

const THEME: &str = "<message>Noted.</message>\n\
<action type=\"write_template\"><template>theme</template><content>\
<central_theme>Can trust be learned?</central_theme></content></action>\n\
<action type=\"save_decision\"><category>world</category><key>moons</key><value>two</value></action>";

const OTHER_THEME: &str = "<message>Changed.</message>\n\
<action type=\"write_template\"><template>theme</template><content>\
<central_theme>Can trust be bought?</central_theme><theme_statement>No.</theme_statement></content></action>\n\
<action type=\"save_decision\"><category>world</category><key>moons</key><value>three</value></action>";

fn novel(replies: Vec<&'static str>) -> Conversation {
    Conversation::with_replies(TestProject::new(), "foreman", vec![("agent", replies)])
}

fn undo(chat: &Conversation) -> agentd::Result<UndoReport> {
    undo_message(&chat.context(), &session())
}

/// Returns the session state and the history of the next prompt.
fn next_prompt(chat: &Conversation) -> String {
    chat.say("agent", "Next.").unwrap();
    let prompt = chat.last_prompt();
    let start = prompt.find("<session_state>").unwrap();
    prompt[start..].to_owned()
}

#[test]
fn message_after_message_is_taken_back() {
    let chat = novel(vec![THEME, OTHER_THEME, "<message>Go on.</message>"]);
    chat.say("agent", "The theme is trust.").unwrap();
    let first_file = chat.project.read("story/theme.md");
    chat.say("agent", "Make it darker.").unwrap();
    assert_ne!(chat.project.read("story/theme.md"), first_file);

    let report = undo(&chat).unwrap();
    assert_eq!(report.message, "Make it darker.");
    assert_eq!(report.turns, [2]);
    assert_eq!(
        report.undone,
        [
            "central_theme in story/theme.md",
            "theme_statement in story/theme.md",
            "knowledge.moons"
        ]
    );
    assert!(report.kept.is_empty(), "{:?}", report.kept);
    assert_eq!(chat.project.read("story/theme.md"), first_file);

    let prompt = next_prompt(&chat);
    assert!(prompt.contains("<completed>central_theme</completed>"));
    assert!(prompt.contains("key=\"moons\">\n      two\n"), "{prompt}");
    assert!(prompt.contains("The theme is trust."), "{prompt}");
    assert!(!prompt.contains("Make it darker."), "{prompt}");

    // The message without effects, then the first one, whose file did not exist before.
    assert_eq!(undo(&chat).unwrap().message, "Next.");
    let report = undo(&chat).unwrap();
    assert_eq!(report.message, "The theme is trust.");
    assert!(!chat.project.root().join("story/theme.md").exists());

    let error = undo(&chat).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TurnNotFound);
    let prompt = next_prompt(&chat);
    assert!(!prompt.contains("moons"), "{prompt}");
    assert!(!prompt.contains("CONVERSATION HISTORY"), "{prompt}");
}

#[test]
fn text_that_was_edited_since_is_kept() {
    let chat = novel(vec![OTHER_THEME]);
    chat.say("agent", "The theme is trust.").unwrap();
    let edited = chat.project.read("story/theme.md").replace("No.", "Never.");
    chat.project.write("story/theme.md", edited);

    let report = undo(&chat).unwrap();
    assert_eq!(
        report.kept,
        ["theme_statement in story/theme.md: changed since"]
    );
    assert_eq!(
        report.undone,
        ["central_theme in story/theme.md", "knowledge.moons"]
    );
    let file = chat.project.read("story/theme.md");
    assert!(file.contains("Never."), "{file}");
    assert!(!file.contains("trust"), "{file}");
}

#[test]
fn session_returns_to_the_mode_of_the_message() {
    let complete = super::gates::COMPLETE;
    let chat = novel(vec![complete]);
    super::gates::write_story_bible(&chat);
    let reply = chat.say("agent", "It is all there.").unwrap();
    assert_eq!(reply.mode, Mode::new("voice_calibration").unwrap());

    let report = undo(&chat).unwrap();
    assert_eq!(report.mode, Mode::new("architect").unwrap());
    assert_eq!(report.undone.len(), 4, "{:?}", report.undone);

    // A mode that the user chose after the message is kept.
    chat.say("agent", "Again.").unwrap();
    let director = Mode::new("director").unwrap();
    enter_mode(&chat.context(), &session(), &director, true).unwrap();
    assert_eq!(undo(&chat).unwrap().mode, director);
    let state = chat.store.state(&session()).unwrap();
    assert_eq!(state.mode, Some(director));
}

/// Killed after the files were restored, before the undo was recorded.
#[test]
fn killed_undo_is_completed_by_the_next_one() {
    let project = TestProject::new();
    let first = answer(&project, "first", THEME);
    let second = answer(&project, "second", OTHER_THEME);
    define_agents(
        &project,
        &[("first", &[&first], ""), ("second", &[&second], "")],
    );
    let chat = |agent: &str, input: &str, fail: &str| {
        let mut command = project.command(&["chat", "--agent", agent]);
        if !fail.is_empty() {
            command.env("AGENTD_FAIL", fail);
        }
        run_with_stdin(command, input.as_bytes())
    };
    chat("first", "One.\n", "").ok();
    let file = project.read("story/theme.md");
    chat("second", "Two.\n", "").ok();

    assert_eq!(chat("first", "/undo\n", "undoing=abort").code, -1);
    let run = chat("first", "/undo\n", "");
    assert_eq!(run.ok(), "undid: Two.\n  restored: knowledge.moons\n");
    assert_eq!(project.read("story/theme.md"), file);

    // The restored text is the agent's, so it may be replaced.
    chat("second", "Two again.\n", "").ok();
    let prompt = call(&project, "second", calls(&project, "second")).stdin;
    assert!(prompt.contains("USER: One."), "{prompt}");
    assert!(!prompt.contains("USER: Two."), "{prompt}");
    let file = project.read("story/theme.md");
    assert!(file.contains("Can trust be bought?"), "{file}");
}
