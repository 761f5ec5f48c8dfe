//! Actions whose result the agent gets at once, in a follow-up call.

use std::fs;

use agentd::models::ActionOutcome;

use super::Conversation;
use crate::support::{TestProject, files_below, repository, write};

const EVENT: &str = "<message>I noted it.</message>\n\
<action type=\"record_event\"><at>14:03</at><what>Search is down</what><source>log</source></action>";

/// Returns a conversation with the pack `postmortem`, in which `record_event` answers.
pub(super) fn incident(replies: Vec<&'static str>) -> Conversation {
    let project = TestProject::new();
    let folder = repository().join("tests/data/packs/postmortem");
    for file in files_below(&folder) {
        let text = fs::read(folder.join(&file)).unwrap();
        write(
            &project.root().join("agentd/packs/postmortem").join(&file),
            text,
        );
    }
    Conversation::with_replies(project, "postmortem", vec![("agent", replies)])
}

#[test]
fn agent_is_called_again_with_the_result() {
    let chat = incident(vec![EVENT, "<message>Who is on call?</message>"]);
    let reply = chat.say("agent", "Search is down.").unwrap();

    assert_eq!((reply.turn, reply.follow_ups), (2, 1));
    assert_eq!(reply.message, "I noted it.\n\nWho is on call?");
    let [action] = &reply.actions[..] else {
        panic!("{:?}", reply.actions)
    };
    assert_eq!(action.outcome, ActionOutcome::Done);

    let prompt = chat.last_prompt();
    assert!(
        prompt.contains(
            "<result action=\"record_event\" outcome=\"done\" target=\"events\">added to events"
        ),
        "{prompt}"
    );
    assert!(prompt.contains("USER: Search is down."), "{prompt}");
    assert!(
        prompt.contains("Commander: (No new message. The session state has the results"),
        "{prompt}"
    );
}

#[test]
fn agent_is_called_again_at_most_three_times() {
    let chat = incident(vec![EVENT]);
    let reply = chat.say("agent", "Search is down.").unwrap();
    assert_eq!((reply.turn, reply.follow_ups), (4, 3));
    assert_eq!(chat.calls.lock().unwrap().len(), 4);
}

#[test]
fn refused_action_has_no_follow_up_call() {
    let refused = "<message>m</message>\n<action type=\"record_event\"><at>14:03</at></action>";
    let chat = incident(vec![refused]);
    let reply = chat.say("agent", "Search is down.").unwrap();
    assert_eq!(reply.follow_ups, 0);
    assert_eq!(reply.actions[0].outcome, ActionOutcome::Refused);
    assert_eq!(chat.calls.lock().unwrap().len(), 1);
}
