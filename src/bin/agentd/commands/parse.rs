//! `agentd parse`: what is made of a reply, and why.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use agentd::models::{
    AgentName, CallOutcome, Grammar, Marker, Mode, Nonce, Response, ReviewResult, Severity,
    UpdateFormat,
};
use agentd::orchestrator::Workspace;
use agentd::pack::{FoundTemplate, LayerContent};
use agentd::parse::{self, Context};
use agentd::{Error, Pack, Place, Result, ops};
use serde_json::{Value, json};

use super::input::{from_here, stdin_bytes};
use crate::args::{Args, FinishArg, ParseArgs};
use crate::terminal::{self, Outcome};
use crate::{exit, project};

/// The most problems that are shown to people.
const SHOWN: usize = 20;

pub(super) fn run(args: &Args, given: &ParseArgs) -> Outcome {
    let reply = match &given.file {
        file if file == Path::new("-") => stdin_bytes()?,
        file => ops::read_reply(&from_here(args, file)?)?,
    };
    let prompt = given
        .prompt
        .as_ref()
        .map(|path| ops::read_text(&from_here(args, path)?))
        .transpose()?;
    let workspace = workspace(args, given)?;
    let pack = workspace.as_ref().map(|workspace| &workspace.pack);
    let run = given.run.as_deref().map(Nonce::new).transpose()?;
    let mode = pack.map(|pack| mode(pack, given)).transpose()?;
    let grammar = grammar(pack.zip(mode.as_ref()))?;
    let template = workspace
        .as_ref()
        .zip(mode.as_ref())
        .and_then(|(workspace, mode)| template(workspace, mode));
    let texts = pack
        .iter()
        .flat_map(|pack| pack.texts.values())
        .chain(template.as_ref().map(|found| &found.template.text));
    let context = Context {
        ours: texts.map(|text| text.body()).collect(),
        sent: prompt.iter().map(String::as_str).collect(),
        outcome: match given.finish {
            FinishArg::Stop => CallOutcome::Ok,
            FinishArg::Length => CallOutcome::Cut,
            FinishArg::Killed => CallOutcome::Stopped,
            FinishArg::Failed => CallOutcome::Crashed {
                code: None,
                signal: None,
            },
        },
        nonce: run.as_ref().map(Nonce::as_str),
        ..Context::default()
    };
    let response = parse::parse(&reply, &grammar, &context);
    let verdict = parse::verdict(&response, &grammar);
    let verdict = parse::required_markers(&response, &grammar).and(verdict);
    if given.json {
        terminal::json(&envelope(&response, &verdict))?;
    } else {
        let text = shown(
            &response,
            verdict.as_ref().ok().copied().flatten(),
            !grammar.verdicts.is_empty(),
        );
        terminal::data(|out| out.write_all(text.as_bytes()))?;
        tell(&response, &reply, &given.file.display().to_string());
    }
    let troubled = response
        .problems
        .iter()
        .any(|problem| problem.severity == Severity::Warning);
    match verdict {
        Err(error) => Err(error.into()),
        Ok(_) if !response.complete || troubled || !response.proposals.is_empty() => {
            Ok(exit::FINDINGS)
        }
        Ok(_) => Ok(exit::OK),
    }
}

fn workspace(args: &Args, given: &ParseArgs) -> Result<Option<Workspace>> {
    let wanted = given.pack.is_some() || given.mode.is_some();
    wanted
        .then(|| project::workspace(args, given.pack.as_deref()))
        .transpose()
}

fn mode(pack: &Pack, given: &ParseArgs) -> Result<Mode> {
    let mode = given.mode.as_deref().map(Mode::new).transpose()?;
    Ok(mode.map_or_else(|| pack.start.clone(), |mode| pack.resolved(&mode)))
}

/// Returns what the reply may hold: what the mode says, or any marker that there is.
fn grammar(place: Option<(&Pack, &Mode)>) -> Result<Grammar> {
    let Some((pack, mode)) = place else {
        terminal::note(
            "without --pack and --mode, actions are not known and no verdict is required",
        );
        return Ok(Grammar {
            verdict_required: false,
            task_status: true,
            ..Grammar::any_review()
        });
    };
    pack.grammar(mode)
}

/// Returns the template that the mode's prompt is made from: its words are ours, as in a turn.
fn template(workspace: &Workspace, mode: &Mode) -> Option<Arc<FoundTemplate>> {
    let agent = workspace
        .settings
        .agents
        .get(mode)
        .cloned()
        .unwrap_or_else(AgentName::base);
    let found = workspace
        .pack
        .has_layer(LayerContent::Template)
        .then(|| workspace.templates.find(&agent, mode));
    found.and_then(Result::ok)
}

fn envelope(response: &Response, verdict: &Result<Option<ReviewResult>>) -> Value {
    let tasks = response.markers.iter().filter_map(|marker| match marker {
        Marker::TaskStatus { id, status } => Some(json!({"id": id, "status": status})),
        _ => None,
    });
    let own = response.markers.iter().filter_map(|marker| match marker {
        Marker::Named { name, value } => Some((name.clone(), Value::from(value.as_str()))),
        _ => None,
    });
    json!({
        "format": 1,
        "message": response.message,
        "stray": response.stray,
        "thoughts": response.thoughts,
        "actions": response.actions,
        "updates": response.updates,
        "verdict": verdict.as_ref().ok().copied().flatten(),
        "task_status": tasks.collect::<Vec<_>>(),
        "markers": own.collect::<serde_json::Map<_, _>>(),
        "proposals": response.proposals,
        "problems": response.problems,
        "complete": response.complete,
        "fault": verdict.as_ref().err().map(fault),
    })
}

fn fault(error: &Error) -> Value {
    json!({"kind": error.kind().name(), "message": error.message(), "hint": error.hint()})
}

/// Returns the response as people read it.
fn shown(response: &Response, verdict: Option<ReviewResult>, has_verdicts: bool) -> String {
    let mut out = String::new();
    let mut row = |heading: &str, words: &str| {
        let _infallible = writeln!(
            out,
            "{heading:<10} {}",
            words.replace('\n', "\n           ")
        );
    };
    response
        .thoughts
        .iter()
        .for_each(|thought| row("thought", thought));
    if !response.message.is_empty() {
        row("message", &response.message);
    }
    if !response.stray.is_empty() {
        row("beside it", &response.stray);
    }
    for action in &response.actions {
        row(
            "action",
            &format!("{} {}", action.name, Value::from(action.values.clone())),
        );
    }
    for update in &response.updates {
        let diff = if update.format == UpdateFormat::Diff {
            " of a diff"
        } else {
            ""
        };
        row(
            "update",
            &format!("{}, {} bytes{diff}", update.target, update.content.len()),
        );
    }
    for marker in &response.markers {
        match marker {
            Marker::TaskStatus { id, status } => row("task", &format!("{id} {}", status.name())),
            Marker::Named { name, value } => row("marker", &format!("{name} {value}")),
            Marker::Review { .. } => {}
        }
    }
    if has_verdicts {
        row("verdict", verdict.map_or("none", ReviewResult::name));
    }
    row("complete", if response.complete { "yes" } else { "no" });
    out
}

/// Tells what was refused and what was tolerated, each with its place in the reply.
fn tell(response: &Response, reply: &[u8], origin: &str) {
    let refused = response.proposals.iter().map(|proposal| {
        (
            &proposal.span,
            Severity::Warning,
            format!("{} does not count: {}", proposal.what, proposal.reason),
        )
    });
    let problems = response.problems.iter().map(|problem| {
        (
            &problem.span,
            problem.severity,
            format!("{} ({})", problem.message, problem.code),
        )
    });
    let mut all: Vec<_> = refused.chain(problems).collect();
    all.sort_by_key(|(span, ..)| span.start);
    for (span, severity, words) in all.iter().take(SHOWN) {
        let (place, width) = place(reply, span.start, span.end, origin);
        let words = format!("{words}{}", place.snippet(width));
        match severity {
            Severity::Note => terminal::note(words),
            Severity::Warning => terminal::warning(words),
        }
    }
    if all.len() > SHOWN {
        terminal::note(format_args!(
            "{} more; --json lists all of them",
            all.len() - SHOWN
        ));
    }
}

/// Returns the place of a span, and how many characters of its first line belong to it.
fn place(reply: &[u8], start: usize, end: usize, origin: &str) -> (Place, usize) {
    let start = start.min(reply.len());
    let line_start = reply[..start]
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |at| at + 1);
    let line_end = reply[start..]
        .iter()
        .position(|&b| b == b'\n')
        .map_or(reply.len(), |at| start + at);
    let count = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count();
    let place = Place {
        origin: if origin == "-" {
            "stdin".to_owned()
        } else {
            origin.to_owned()
        },
        line: reply[..start].iter().filter(|&&b| b == b'\n').count() + 1,
        column: count(&reply[line_start..start]) + 1,
        text: String::from_utf8_lossy(&reply[line_start..line_end]).into_owned(),
    };
    (
        place,
        count(&reply[start..end.clamp(start, line_end)]).max(1),
    )
}
