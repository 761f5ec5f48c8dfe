//! State, gates and actions of a chat pack that is not shipped.

use agentd::models::Mode;
use agentd::store::Store;
use serde_json::json;

use super::follow_ups::incident;
use super::session;

const SEVERITY: &str = "<message>Two.</message>\n\
<action type=\"set_severity\"><level>2</level><reason>Search is down</reason></action>";

const EVENTS: &str = "<message>Noted.</message>\n\
<action type=\"record_event\"><at>14:03</at><what>Search is down</what><source>log</source></action>\n\
<action type=\"record_event\"><at>14:05</at><what>It is up again</what><source>person</source></action>";

const RETRACTED: &str = "<message>Removed.</message>\n\
<action type=\"retract_event\"><at>14:05</at><what>It is up again</what><source>person</source></action>";

#[test]
fn values_are_set_added_and_removed_by_actions() {
    let talk = "<message>Go on.</message>";
    let chat = incident(vec![SEVERITY, EVENTS, talk, RETRACTED, talk]);

    // The severity is the gate of the first mode.
    let reply = chat.say("agent", "Search is down for everybody.").unwrap();
    assert_eq!(reply.mode, Mode::new("timeline").unwrap());
    let severity = |chat: &super::Conversation| {
        let state = chat.store.state(&session()).unwrap();
        state.document.value_at("incident.severity").cloned()
    };
    assert_eq!(severity(&chat), Some(json!(2)));

    chat.say("agent", "The log says 14:03.").unwrap();
    let prompt = chat.last_prompt();
    assert!(
        prompt.contains(
            "<event at=\"14:03\" source=\"log\">Search is down</event>\n    \
             <event at=\"14:05\" source=\"person\">It is up again</event>"
        ),
        "{prompt}"
    );

    chat.say("agent", "That was a mistake.").unwrap();
    chat.say("agent", "What do we have?").unwrap();
    let prompt = chat.last_prompt();
    assert!(prompt.contains("<event at=\"14:03\""), "{prompt}");
    assert!(!prompt.contains("<event at=\"14:05\""), "{prompt}");
}
