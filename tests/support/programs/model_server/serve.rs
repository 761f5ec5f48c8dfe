//! One connection: reads requests and sends the replies of the script.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Outcome;
use crate::dialect::{Answer, Dialect, Event, RequestKind, RequestPosition};
use crate::http::{Connection, Request};
use crate::log::{Entry, Log};
use crate::script::{Reply, Script};

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) script: Script,
    pub(crate) log: Log,
}

/// State of a connection after an answer.
#[derive(PartialEq, Eq)]
enum ConnectionState {
    Next,
    Break,
}

/// A break or a stall in an answer.
#[derive(Clone, Copy)]
enum Fault {
    Cut(usize),
    Stall(usize),
}

impl Server {
    /// Answers the requests of a connection until one side closes it.
    pub(crate) fn converse(&self, stream: TcpStream) -> Outcome<()> {
        let mut connection = Connection::new(stream)?;
        while let Some(request) = connection.read()? {
            let is_last = request
                .headers
                .get("connection")
                .is_some_and(|value| value == "close");
            if self.answer(&mut connection, &request)? == ConnectionState::Break || is_last {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, connection: &mut Connection, request: &Request) -> Outcome<ConnectionState> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut entry = self.log.open(request, &body);
        let found = Dialect::of(&request.path).filter(|_| request.method == "POST");
        let Some((dialect, wish)) = found else {
            let is_list =
                request.method == "GET" && request.path.split('?').next().is_some_and(is_list);
            let (status, answer) = if is_list {
                (
                    200,
                    json!({"object": "list", "data": [], "models": [], "has_more": false}),
                )
            } else {
                (
                    404,
                    json!({"error": {"message": "nothing is served there"}}),
                )
            };
            entry.status = Some(status);
            self.log.close(&entry)?;
            return whole(connection, status, &answer.to_string(), &BTreeMap::new());
        };
        entry.dialect = Some(dialect.name());
        if wish == RequestKind::Count {
            entry.status = Some(200);
            self.log.close(&entry)?;
            let answer = dialect.count(request.body.len()).to_string();
            return whole(connection, 200, &answer, &BTreeMap::new());
        }

        let reply = self.script.next(&String::from_utf8_lossy(&request.body))?;
        self.play(connection, dialect, &mut entry, &reply)
    }

    fn play(
        &self,
        connection: &mut Connection,
        dialect: Dialect,
        entry: &mut Entry,
        reply: &Reply,
    ) -> Outcome<ConnectionState> {
        let raw_status = reply.raw.as_ref().map(|raw| raw.status);
        entry.status = (!reply.hang).then(|| reply.status.or(raw_status).unwrap_or(200));

        // Before the answer, so that a client that has read it finds the request in the log.
        self.log.close(entry)?;
        thread::sleep(Duration::from_secs_f64(reply.delay));
        if reply.hang {
            connection.wait_for_the_end();
            return Ok(ConnectionState::Break);
        }

        if let Some(raw) = &reply.raw {
            connection.start(
                raw.status,
                &raw.content_type,
                Some(raw.body.len()),
                &reply.headers,
            )?;
            connection.send(raw.body.as_bytes())?;
            return Ok(ConnectionState::Next);
        }

        if let Some(status) = reply.status {
            let failure = dialect.failure(status, &reply.message).to_string();
            return whole(connection, status, &failure, &reply.headers);
        }

        let model = entry.model.clone().unwrap_or_else(|| "scripted".to_owned());
        let answer = dialect.answer(
            reply,
            RequestPosition {
                number: entry.number,
                model: &model,
            },
        );
        if entry.stream {
            stream(connection, dialect, answer, reply)
        } else {
            plain(connection, &answer, reply)
        }
    }
}

fn is_list(path: &str) -> bool {
    path.ends_with("/models")
}

fn whole(
    connection: &mut Connection,
    status: u16,
    body: &str,
    headers: &BTreeMap<String, String>,
) -> Outcome<ConnectionState> {
    connection.start(status, "application/json", Some(body.len()), headers)?;
    connection.send(body.as_bytes())?;
    Ok(ConnectionState::Next)
}

/// Sends an answer in one piece. A fault occurs in its middle.
fn plain(connection: &mut Connection, answer: &Answer, reply: &Reply) -> Outcome<ConnectionState> {
    let text = answer.whole.to_string();
    let Some(fault) = fault(reply) else {
        return whole(connection, 200, &text, &reply.headers);
    };
    connection.start(200, "application/json", Some(text.len()), &reply.headers)?;
    connection.send(&text.as_bytes()[..text.len() / 2])?;
    Ok(inject_fault(connection, fault))
}

/// Sends an answer as events.
fn stream(
    connection: &mut Connection,
    dialect: Dialect,
    answer: Answer,
    reply: &Reply,
) -> Outcome<ConnectionState> {
    let mut events = answer.events;
    if reply.error_event {
        events.truncate(place_after(&events, usize::MAX));
        events.push(dialect.failure_event(&reply.message));
    }

    let fault = fault(reply);
    if let Some(Fault::Cut(count) | Fault::Stall(count)) = fault {
        events.truncate(place_after(&events, count));
    }
    connection.start(200, "text/event-stream", None, &reply.headers)?;
    for event in &events {
        connection.piece(&event.text())?;
    }
    if let Some(fault) = fault {
        return Ok(inject_fault(connection, fault));
    }
    connection.finish()?;
    Ok(ConnectionState::Next)
}

fn fault(reply: &Reply) -> Option<Fault> {
    reply
        .cut_after
        .map(Fault::Cut)
        .or(reply.stall_after.map(Fault::Stall))
}

fn inject_fault(connection: &mut Connection, fault: Fault) -> ConnectionState {
    if matches!(fault, Fault::Stall(_)) {
        connection.wait_for_the_end();
    }
    ConnectionState::Break
}

/// Returns the number of events up to this many pieces of the text, or up to its last piece;
/// without a text, all but the last event.
fn place_after(events: &[Event], count: usize) -> usize {
    let pieces: Vec<usize> = (0..events.len())
        .filter(|&at| events[at].is_piece)
        .collect();
    match pieces.get(count) {
        Some(&next) => next,
        None => pieces
            .last()
            .map_or(events.len().saturating_sub(1), |last| last + 1),
    }
}
