//! `agentd parse`: the parsed reply and its problems.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use agentd::models::{
    AgentName, CallOutcome, Grammar, Marker, Mode, Nonce, Response, ReviewResult, Severity,
    UpdateFormat,
};
use agentd::orchestrator::Workspace;
use agentd::pack::{FoundTemplate, LayerContent};
use agentd::parse::{self, ReplyContext};
use agentd::{Error, Pack, Place, Result, ops};
use serde_json::{Value, json};

use super::input::{read_reply_from_stdin, resolve_path};
use crate::args::{Args, FinishArg, ParseArgs};
use crate::terminal::{self, CommandResult};
use crate::{exit, humanize, project};

/// Maximum number of problems printed on stderr.
const MAX_PROBLEMS: usize = 20;

pub(super) fn run(args: &Args, given: &ParseArgs) -> CommandResult {
    let reply = match &given.file {
        file if file == Path::new("-") => read_reply_from_stdin()?,
        file => ops::read_reply(&resolve_path(args, file)?)?,
    };
    let prompt = given
        .prompt
        .as_ref()
        .map(|path| ops::read_text(&resolve_path(args, path)?))
        .transpose()?;

    let workspace = open_workspace(args, given)?;
    let pack = workspace.as_ref().map(|workspace| &workspace.pack);
    let run = given.run.as_deref().map(Nonce::new).transpose()?;
    let mode = pack.map(|pack| resolve_mode(pack, given)).transpose()?;
    let grammar = find_grammar(pack.zip(mode.as_ref()))?;
    let template = workspace
        .as_ref()
        .zip(mode.as_ref())
        .and_then(|(workspace, mode)| find_template(workspace, mode));
    let texts = pack
        .iter()
        .flat_map(|pack| pack.texts.values())
        .chain(template.as_ref().map(|found| &found.template.text));

    let context = ReplyContext {
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
        ..ReplyContext::default()
    };

    let response = parse::parse(&reply, &grammar, &context);
    let verdict =
        parse::required_markers(&response, &grammar).and(parse::verdict(&response, &grammar));

    if given.json {
        terminal::print_json(&envelope(&response, &verdict))?;
    } else {
        let text = format_response(
            &response,
            verdict.as_ref().ok().copied().flatten(),
            !grammar.verdicts.is_empty(),
        );
        terminal::write_data(|out| out.write_all(text.as_bytes()))?;
        print_problems(&response, &reply, &given.file.display().to_string());
    }

    let has_warnings = response
        .problems
        .iter()
        .any(|problem| problem.severity == Severity::Warning);
    match verdict {
        Err(error) => Err(error.into()),
        Ok(_) if !response.complete || has_warnings || !response.proposals.is_empty() => {
            Ok(exit::FINDINGS)
        }
        Ok(_) => Ok(exit::OK),
    }
}

/// Opens the project if `--pack` or `--mode` is set.
fn open_workspace(args: &Args, given: &ParseArgs) -> Result<Option<Workspace>> {
    let needs_pack = given.pack.is_some() || given.mode.is_some();
    needs_pack
        .then(|| project::workspace(args, given.pack.as_deref()))
        .transpose()
}

fn resolve_mode(pack: &Pack, given: &ParseArgs) -> Result<Mode> {
    let mode = given.mode.as_deref().map(Mode::new).transpose()?;
    Ok(mode.map_or_else(|| pack.start.clone(), |mode| pack.resolved(&mode)))
}

/// Returns the reply grammar of the mode. Without a mode, returns one that accepts any verdict and task status.
fn find_grammar(place: Option<(&Pack, &Mode)>) -> Result<Grammar> {
    let Some((pack, mode)) = place else {
        terminal::note("without --pack and --mode, actions are unknown and no verdict is required");
        return Ok(Grammar {
            verdict_required: false,
            task_status: true,
            ..Grammar::any_review()
        });
    };
    pack.grammar(mode)
}

/// Returns the template of the mode's prompt. Text that the reply quotes from it has no effect, as in a turn.
fn find_template(workspace: &Workspace, mode: &Mode) -> Option<Arc<FoundTemplate>> {
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
    let pack_markers = response.markers.iter().filter_map(|marker| match marker {
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
        "markers": pack_markers.collect::<serde_json::Map<_, _>>(),
        "proposals": response.proposals,
        "problems": response.problems,
        "complete": response.complete,
        "fault": verdict.as_ref().err().map(fault_json),
    })
}

fn fault_json(error: &Error) -> Value {
    json!({"kind": error.kind().name(), "message": error.message(), "hint": error.hint()})
}

/// Returns the parsed reply as labelled rows.
fn format_response(
    response: &Response,
    verdict: Option<ReviewResult>,
    has_verdicts: bool,
) -> String {
    let mut out = String::new();
    let mut row = |label: &str, text: &str| {
        let _infallible = writeln!(out, "{label:<10} {}", text.replace('\n', "\n           "));
    };

    response
        .thoughts
        .iter()
        .for_each(|thought| row("thought", thought));
    if !response.message.is_empty() {
        row("message", &response.message);
    }
    if !response.stray.is_empty() {
        row("other text", &response.stray);
    }
    for action in &response.actions {
        row(
            "action",
            &format!("{} {}", action.name, Value::from(action.values.clone())),
        );
    }
    for update in &response.updates {
        let diff = if update.format == UpdateFormat::Diff {
            " (diff)"
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

/// Prints refused effects and problems, each with its position in the reply.
fn print_problems(response: &Response, reply: &[u8], origin: &str) {
    let refused = response.proposals.iter().map(|proposal| {
        (
            &proposal.span,
            Severity::Warning,
            format!("refused {}: {}", proposal.what, proposal.reason),
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

    for (span, severity, text) in all.iter().take(MAX_PROBLEMS) {
        let (place, width) = locate(reply, span.start, span.end, origin);
        let text = format!("{text}{}", place.snippet(width));
        match severity {
            Severity::Note => terminal::note(text),
            Severity::Warning => terminal::warning(text),
        }
    }
    if all.len() > MAX_PROBLEMS {
        terminal::note(format_args!(
            "{}; list all with --json",
            humanize::count((all.len() - MAX_PROBLEMS) as u64, "more problem")
        ));
    }
}

/// Returns the position of a span, and the number of its characters on its first line.
fn locate(reply: &[u8], start: usize, end: usize, origin: &str) -> (Place, usize) {
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
