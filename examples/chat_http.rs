//! A chat with a model of an OpenAI-compatible server: `chat_http BASE_URL MODEL`, one message per line of stdin.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has the terminal and its arguments to itself"
)]

use std::env;
use std::io;

use agentd::compose::{PromptRequest, compose};
use agentd::models::{Catalogue, ConversationTurn, Format, State};
use agentd::parse::{ReplyContext, parse};
use agentd::serde_json::{Value, from_reader, json};
use agentd::{Pack, SearchPath};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, model] = arguments.as_slice() else {
        return Err("usage: chat_http BASE_URL MODEL".into());
    };
    let pack = Pack::load("foreman", &SearchPath::default())?;
    let mut state = State::in_mode(pack.start.clone());

    for line in io::stdin().lines() {
        let line = line?;
        let request = PromptRequest {
            format: Some(Format::Chat),
            ..PromptRequest::new(line.as_str()).with_model(Catalogue::built_in()?, model)
        };
        let messages = compose(&pack, &state, &request)?.messages();
        let body = json!({"model": model, "messages": messages}).to_string();
        let mut answer = ureq::post(format!("{url}/v1/chat/completions"))
            .header("Content-Type", "application/json")
            .send(body)?;
        let answer: Value = from_reader(answer.body_mut().as_reader())?;
        let reply = answer["choices"][0]["message"]["content"].as_str();

        let grammar = pack.grammar(&pack.start)?;
        let response = parse(reply.ok_or("no reply")?, &grammar, &ReplyContext::default());
        println!("{}", response.message);
        state.document.history.push(ConversationTurn {
            user: line,
            assistant: response.message,
        });
    }
    Ok(())
}
