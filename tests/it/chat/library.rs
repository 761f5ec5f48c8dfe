//! A conversation through the library.

use agentd::ErrorKind;
use agentd::models::{ActionOutcome, Mode};
use agentd::orchestrator::{ChangeRequest, LeaveWaiting, preview_chat, run_change};
use agentd::store::Store;

use super::{Conversation, options, session};

const REPLY: &str = "<thinking>\nShe hides something.\n</thinking>\n\
<message>\nWhat does Mara fear?\n</message>\n\
<action type=\"generate_scaffold\">\n<chapter>1</chapter>\n<scene>1</scene>\n<title>Gate</title>\n</action>";

#[test]
fn reply_has_message_thinking_actions_mode_and_gate() {
    let chat = Conversation::new("foreman", &[("first", REPLY)]);
    let reply = chat.say("first", "My hero is Mara.").unwrap();

    assert_eq!(reply.message, "What does Mara fear?");
    assert_eq!(reply.thinking, ["She hides something."]);
    assert_eq!(reply.mode, Mode::new("architect").unwrap());
    assert_eq!((reply.turn, reply.agent.as_str()), (1, "first"));
    assert!(!reply.ended);

    let [action] = &reply.actions[..] else {
        panic!("{:?}", reply.actions)
    };
    assert_eq!(action.action, "generate_scaffold");
    assert_eq!(action.outcome, ActionOutcome::Refused);
    assert_eq!(action.detail, "not allowed in this mode");
    assert!(
        action.text.contains("<title>Gate</title>"),
        "{}",
        action.text
    );
    assert!(reply.is_all_refused());

    let gate = reply.gate.unwrap();
    assert_eq!(gate.conditions.len(), 4);
    assert!(!gate.is_open());
}

#[test]
fn any_agent_takes_the_next_turn() {
    let chat = Conversation::new(
        "foreman",
        &[("first", REPLY), ("second", "<message>Noted.</message>")],
    );
    chat.say("first", "My hero is Mara.").unwrap();
    let reply = chat.say("second", "Being left.").unwrap();
    assert_eq!((reply.turn, reply.agent.as_str()), (2, "second"));
    assert_eq!(reply.message, "Noted.");
    assert!(!reply.is_all_refused());

    let prompt = chat.last_prompt();
    let (_, history) = prompt.split_once("## CONVERSATION HISTORY").unwrap();
    assert!(history.contains("USER: My hero is Mara."), "{history}");
    assert!(
        history.contains(&format!("ASSISTANT: {REPLY}")),
        "{history}"
    );
}

#[test]
fn preview_is_the_prompt_of_the_next_message() {
    let chat = Conversation::new("foreman", &[("first", "<message>Go on.</message>")]);
    chat.say("first", "My hero is Mara.").unwrap();

    let turns = chat.store.state(&session()).unwrap().turns;
    let preview =
        preview_chat(&chat.context(), &session(), "And then?", &options("first")).unwrap();
    assert_eq!(chat.store.state(&session()).unwrap().turns, turns);
    assert!(preview.state_text.starts_with("<session_state>\n"));
    assert!(preview.state_text.ends_with("</session_state>"));

    chat.say("first", "And then?").unwrap();
    assert_eq!(chat.last_prompt(), preview.assembly.draft.rendered());
}

#[test]
fn unknown_agent_is_refused_before_anything_is_recorded() {
    let chat = Conversation::new("foreman", &[]);
    let error = chat.say("nobody", "Hello").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownAgent);
    assert!(chat.store.events(&session()).unwrap().is_empty());
}

#[test]
fn pack_without_a_history_has_no_conversations() {
    let chat = Conversation::new("sdd", &[("first", "Planned.")]);
    let error = chat.say("first", "Add login").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPack);
    assert!(chat.calls.lock().unwrap().is_empty());
}

#[test]
fn change_with_a_chat_pack_is_refused_before_anything_is_paid() {
    let chat = Conversation::new("foreman", &[("first", REPLY)]);
    let request = ChangeRequest {
        request: Some("Write a novel".to_owned()),
        agent: options("first").agent,
        ..ChangeRequest::new(session())
    };
    let error = run_change(
        &chat.context(),
        &request,
        &mut LeaveWaiting,
        &mut |_| Ok(()),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherPack);
    assert_eq!(
        error.hint(),
        Some("start a conversation with `agentd chat --pack foreman`")
    );
    assert!(chat.calls.lock().unwrap().is_empty());
    assert!(chat.store.events(&session()).unwrap().is_empty());
}
