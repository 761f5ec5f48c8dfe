//! Replies compared with the prompt that was sent: examples of the pack, and the assistant's own history.

use agentd::agent::Scripted;
use agentd::models::{ConversationTurn, Format, Mode, StateDocument};
use agentd::orchestrator::{TurnReport, TurnRequest, Workspace, WorkspaceOptions};
use agentd::store::MemoryStore;
use serde_json::json;

use crate::support::{TestProject, take};

const DECISION: &str = "<action type=\"save_decision\"><category>character</category><key>elena_flaw</key>\
                        <value>She cannot trust anyone since the fire</value></action>";

/// Takes one turn of the foreman in mode `architect`.
fn take_foreman_turn(reply: &str, ask: &TurnRequest) -> TurnReport {
    let project = TestProject::new();
    let options = WorkspaceOptions::default().with_pack("foreman");
    let workspace = Workspace::open(project.root(), options).unwrap();
    let script = json!({"format": 1, "turns": [{"reply": reply}]}).to_string();
    let driver = Scripted::read(&script, "script").unwrap();

    take(&workspace, &MemoryStore::default(), &driver, ask).unwrap()
}

fn architect(text: &str) -> TurnRequest {
    TurnRequest::new(Mode::new("architect").unwrap(), text)
}

fn refusals(report: &TurnReport) -> Vec<String> {
    let proposals = report.response.proposals.iter();
    proposals
        .map(|proposal| format!("{}: {}", proposal.what, proposal.reason))
        .collect()
}

fn with_history(user: &str, assistant: &str) -> Option<StateDocument> {
    let turn = ConversationTurn {
        user: user.to_owned(),
        assistant: assistant.to_owned(),
    };
    Some(StateDocument {
        history: vec![turn],
        ..StateDocument::default()
    })
}

#[test]
fn an_action_of_the_assistants_history_can_be_sent_again() {
    let earlier = format!("<message>Recorded.</message>\n{DECISION}");
    let again = format!("<message>Once more.</message>\n{DECISION}");

    for format in [Format::Flat, Format::Chat, Format::Xml] {
        let ask = TurnRequest {
            work: with_history("She was in the fire.", &earlier),
            format: Some(format),
            ..architect("It was not saved.")
        };
        let report = take_foreman_turn(&again, &ask);

        assert_eq!(refusals(&report), Vec::<String>::new(), "{format:?}");
        assert_eq!(report.response.actions.len(), 1);
        assert_eq!(report.response.actions[0].values["key"], "elena_flaw");
    }
}

#[test]
fn an_action_that_the_person_wrote_is_an_echo() {
    let again = format!("<message>Once more.</message>\n{DECISION}");
    for format in [Format::Flat, Format::Chat, Format::Xml] {
        let ask = TurnRequest {
            work: with_history(DECISION, "<message>I see.</message>"),
            format: Some(format),
            ..architect("Go on.")
        };
        let report = take_foreman_turn(&again, &ask);

        assert_eq!(
            refusals(&report),
            ["action save_decision: the text repeats the prompt"],
            "{format:?}"
        );
    }
}

/// The full list of actions shows `pim_lie` as an example; the minimal one does not.
#[test]
fn only_examples_that_were_sent_are_copies() {
    let reply = "<message>Saved.</message>\n<action type=\"save_decision\"><value>Help is debt</value>\
                 <key>pim_lie</key><category>character</category></action>";
    let ask = |model: &str| TurnRequest {
        model: Some(model.to_owned()),
        ..architect("He thinks that help is debt.")
    };

    let full = take_foreman_turn(reply, &ask("gpt-4o"));
    assert_eq!(
        refusals(&full),
        ["action save_decision: the values are copied from an example in the prompt"]
    );

    let minimal = take_foreman_turn(reply, &ask("llama3.2:3b"));
    assert_eq!(refusals(&minimal), Vec::<String>::new());
    assert_eq!(minimal.response.actions[0].values["key"], "pim_lie");
}

/// The beat sheet is the template of the example in the prompt, and of many replies.
#[test]
fn a_status_of_the_beat_sheet_is_accepted_at_every_tier() {
    let reply = "<message>The beats are done.</message>\n\
                 <action type=\"update_status\"><template>beat_sheet</template><status>complete</status></action>\n\
                 <action type=\"update_status\"><template>theme</template><status>in_progress</status>\
                 <missing>[\"theme_statement\"]</missing></action>";
    for model in ["gpt-4o", "deepseek-chat", "llama3.2:3b"] {
        let ask = TurnRequest {
            model: Some(model.to_owned()),
            ..architect("All fifteen beats are there.")
        };
        let report = take_foreman_turn(reply, &ask);

        assert_eq!(refusals(&report), Vec::<String>::new(), "{model}");
        let actions = &report.response.actions;
        assert_eq!(
            json!(actions[0].values),
            json!({"template": "beat_sheet", "status": "complete"})
        );
        assert_eq!(
            json!(actions[1].values),
            json!({"template": "theme", "status": "in_progress", "missing": ["theme_statement"]})
        );
    }
}
