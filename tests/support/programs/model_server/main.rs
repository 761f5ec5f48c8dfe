//! A stand-in for model servers that answers from a script, for tests.
//!
//! ```text
//! model_server --script FILE [--log FILE] [--bodies FOLDER] [--prompt FILE]
//! ```
//!
//! It prints its address on a line of stdout and serves until its stdin is closed. The path of a
//! request selects the dialect:
//!
//! ```text
//! POST …/messages, …/messages/count_tokens                            Anthropic
//! POST …/models/M:generateContent, :streamGenerateContent, :countTokens  Gemini
//! POST …/responses, …/chat/completions                                OpenAI, and all that speak as it does
//! GET  …/models                                                       a list for all of them
//! ```
//!
//! The script is YAML; see `script.rs` for its keys. `--log` gets one JSON object per request, with
//! secrets masked; see `log.rs` for its keys. `--bodies` gets the body of request 1 as file `1`,
//! and so on. `--prompt` is the text that requests are searched for; it is read again for each
//! request.
#![expect(
    clippy::disallowed_methods,
    reason = "a test program may start processes"
)]

mod anthropic;
mod chat;
mod dialect;
mod gemini;
mod http;
mod log;
mod responses;
mod script;
mod serve;

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, thread};

use crate::log::Log;
use crate::script::Script;
use crate::serve::Server;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(io::stderr(), "model_server: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Outcome<()> {
    let (mut script, mut log, mut bodies, mut prompt) = (None, None, None, None);
    let mut arguments = env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let place: &mut Option<PathBuf> = match flag.as_str() {
            "--script" => &mut script,
            "--log" => &mut log,
            "--bodies" => &mut bodies,
            "--prompt" => &mut prompt,
            _ => return Err(format!("{flag} is no flag of mine").into()),
        };
        *place = Some(
            arguments
                .next()
                .ok_or(format!("{flag} needs a path"))?
                .into(),
        );
    }

    let script = Script::read(&script.ok_or("--script FILE is missing")?)?;
    let server = Arc::new(Server {
        script,
        log: Log::new(log, bodies, prompt)?,
    });

    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(io::stdout(), "http://{}", listener.local_addr()?)?;
    io::stdout().flush()?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                // A client that disconnects is not an error, and often part of a test.
                let _gone = server.converse(connection);
            });
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
