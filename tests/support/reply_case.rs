//! Case files of replies: context, expectations and the reply itself.

use agentd::models::{CallOutcome, Marker, Mode, Response, TaskStatus, UpdateFormat};
use agentd::parse::{self, Grammar, ReplyContext};
use agentd::{ErrorKind, ReviewResult};
use serde_json::{Value, json};

use super::{case_names, read_case, shipped_pack};

/// A reply with its context and the expected response.
///
/// A case file has lines of `key: value`, sections of the prompt after `===== sent`, `===== ours` or
/// `===== own_history`, a line of `=====`, and the reply. The keys `pack`, `mode`, `finish`, `nonce`, `tasks` and `escapes` describe the context,
/// `reader` the verdict that a careful person reads in the reply; all other keys are expectations.
pub(crate) struct ReplyCase {
    known: Vec<(String, String)>,
    pub(crate) expected: Vec<(String, String)>,
    sent: String,
    ours: String,
    own_history: String,
    pub(crate) reply: Vec<u8>,
}

const KNOWN: [&str; 7] = [
    "pack", "mode", "finish", "nonce", "tasks", "escapes", "reader",
];

impl ReplyCase {
    pub(crate) fn read(text: &str) -> Self {
        let (head, reply) = text.split_once("\n=====\n").unwrap();
        let mut sections = head.split("\n===== ");
        let head = sections.next().unwrap();
        let lines = head.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.map(|line| line.split_once(':').unwrap_or_else(|| panic!("{line}")));
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.trim().to_owned()));
        let (known, expected): (Vec<_>, Vec<_>) =
            pairs.partition(|(key, _)| KNOWN.contains(&key.as_str()));
        let mut case = Self {
            known,
            expected,
            sent: String::new(),
            ours: String::new(),
            own_history: String::new(),
            reply: Vec::new(),
        };
        let escapes = case.known("escapes") == Some("yes");
        let bytes = |text: &str| {
            if escapes {
                unescaped(text)
            } else {
                text.as_bytes().to_vec()
            }
        };

        for section in sections {
            let (name, text) = section.split_once('\n').unwrap();
            let text = String::from_utf8(bytes(text)).unwrap();
            match name {
                "sent" => case.sent = text,
                "ours" => case.ours = text,
                "own_history" => case.own_history = text,
                other => panic!("unknown section {other}"),
            }
        }

        case.reply = bytes(reply);
        case
    }

    pub(crate) fn known(&self, key: &str) -> Option<&str> {
        self.known
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn grammar(&self) -> Grammar {
        let pack = self.known("pack").unwrap_or("sdd");
        let mode = self.known("mode").unwrap_or(if pack == "sdd" {
            "challenge"
        } else {
            "architect"
        });
        shipped_pack(pack)
            .grammar(&Mode::new(mode).unwrap())
            .unwrap()
    }

    pub(crate) fn context(&self) -> ReplyContext<'_> {
        let tasks = self.known("tasks");
        ReplyContext {
            ours: if self.ours.is_empty() {
                vec![]
            } else {
                vec![self.ours.as_str()]
            },
            sent: if self.sent.is_empty() {
                vec![]
            } else {
                vec![self.sent.as_str()]
            },
            own_history: if self.own_history.is_empty() {
                vec![]
            } else {
                vec![self.own_history.as_str()]
            },
            outcome: match self.known("finish").unwrap_or("stop") {
                "stop" => CallOutcome::Ok,
                "length" => CallOutcome::Cut,
                "killed" => CallOutcome::Stopped,
                "failed" => CallOutcome::Crashed {
                    code: Some(1),
                    signal: None,
                },
                other => panic!("unknown finish {other}"),
            },
            exit_code: None,
            nonce: self.known("nonce"),
            tasks: tasks.map(|tasks| tasks.split(',').map(|id| id.trim().to_owned()).collect()),
        }
    }

    /// Returns the expectations that the parsed reply does not meet.
    pub(crate) fn faults(&self) -> Vec<String> {
        let grammar = self.grammar();
        let response = parse::parse(&self.reply, &grammar, &self.context());
        let mut wrong = Vec::new();
        for (key, value) in &self.expected {
            let found = found(key, &response, &grammar);
            let right = match key.as_str() {
                "actions" | "updates" | "markers" | "tasks_done" => {
                    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
                    read(value) == read(&found)
                }
                // Each listed code must be present; there may be others.
                "problems" => {
                    let found: Vec<&str> = found.split(", ").collect();
                    value.split(',').all(|code| found.contains(&code.trim()))
                }
                _ => *value == found,
            };
            if !right {
                wrong.push(format!("{key} is {found:?}, not {value:?}"));
            }
        }

        wrong
    }
}

fn found(key: &str, response: &Response, grammar: &Grammar) -> String {
    let joined = |parts: Vec<String>, by: &str| {
        if parts.is_empty() {
            "none".to_owned()
        } else {
            parts.join(by)
        }
    };

    match key {
        "verdict" => match parse::verdict(response, grammar) {
            Ok(verdict) => verdict.map_or("none", ReviewResult::name).to_owned(),
            Err(error) if error.kind() == ErrorKind::MissingReviewMarker => "missing".to_owned(),
            Err(error) if error.kind() == ErrorKind::VerdictNotAllowed => "not allowed".to_owned(),
            Err(error) => panic!("{error:?}"),
        },
        "message" => response.message.replace('\n', "⏎"),
        "stray" => response.stray.replace('\n', "⏎"),
        "thoughts" => response.thoughts.join(" | "),
        "actions" => {
            let actions = response
                .actions
                .iter()
                .map(|action| json!({action.name.clone(): action.values}));
            Value::from(actions.collect::<Vec<_>>()).to_string()
        }
        "updates" => {
            let updates = response.updates.iter().map(|u| match u.format {
                UpdateFormat::Whole => json!({"target": u.target, "content": u.content}),
                format => json!({"target": u.target, "content": u.content, "format": format}),
            });
            Value::from(updates.collect::<Vec<_>>()).to_string()
        }
        "targets" => joined(
            response
                .updates
                .iter()
                .map(|update| update.target.clone())
                .collect(),
            " ",
        ),
        "markers" => serde_json::to_string(&response.markers).unwrap(),
        "tasks_done" => {
            let tasks = response.markers.iter().filter_map(|marker| match marker {
                Marker::TaskStatus { id, status } => {
                    let status = if *status == TaskStatus::Completed {
                        "COMPLETED"
                    } else {
                        "FAILED"
                    };
                    Some((id.clone(), Value::from(status)))
                }
                _ => None,
            });
            Value::from(tasks.collect::<serde_json::Map<_, _>>()).to_string()
        }
        "refused" => joined(
            response
                .proposals
                .iter()
                .map(|p| p.what.to_string())
                .collect(),
            "; ",
        ),
        "proposals" => joined(
            response
                .proposals
                .iter()
                .map(|p| format!("{} ({})", p.what, p.reason))
                .collect(),
            ", ",
        ),
        "problems" => joined(
            response
                .problems
                .iter()
                .map(|p| p.code.name().to_owned())
                .collect(),
            ", ",
        ),
        "complete" => if response.complete { "yes" } else { "no" }.to_owned(),
        other => panic!("unknown key {other}"),
    }
}

/// Decodes `\xff`, `\u200b`, `\r` and `\\` in cases with `escapes: yes`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let hex = |digits: &str| u32::from_str_radix(digits, 16).unwrap();
        rest = match after.as_bytes()[0] {
            b'x' => {
                out.push(u8::try_from(hex(&after[1..3])).unwrap());
                &after[3..]
            }
            b'u' => {
                let c = char::from_u32(hex(&after[1..5])).unwrap();
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                &after[5..]
            }
            b'r' => {
                out.push(b'\r');
                &after[1..]
            }
            b'\\' => {
                out.push(b'\\');
                &after[1..]
            }
            other => panic!("unknown escape {}", other as char),
        };
    }

    out.extend_from_slice(rest.as_bytes());
    out
}

/// Returns the replies of all cases, each with the prompt it answers.
pub(crate) fn all_replies() -> Vec<(Vec<u8>, String)> {
    let names = case_names("reply").into_iter();
    names
        .map(|name| ReplyCase::read(&read_case(&name)))
        .map(|case| (case.reply, case.sent))
        .collect()
}
