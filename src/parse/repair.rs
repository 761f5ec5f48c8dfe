//! Asking again for what a reply lacks, and putting the answer into its place.

use std::fmt::Write as _;

use super::verdict::{required_markers, verdict};
use crate::models::{ActionSpec, Grammar, Marker, Proposal, Response, ReviewResult, UnifiedPrompt};

/// How much of a broken part is quoted at its start and at its end.
const QUOTED: (usize, usize) = (3000, 1000);

/// The most parts that are asked for again.
const MOST_PARTS: usize = 16;

/// Returns a prompt that asks for what a response lacks, and for nothing else: broken effects that may be meant, the
/// verdict and the markers that the grammar requires. `None` if nothing is lacking.
///
/// The template says what this is about; the context quotes each broken part under the rule that it breaks; the
/// instructions are the forms to fill.
#[must_use]
pub fn repair_request(response: &Response, grammar: &Grammar, template: &str) -> Option<UnifiedPrompt> {
    let broken: Vec<&Proposal> =
        response.proposals.iter().filter(|proposal| proposal.again).take(MOST_PARTS).collect();
    let mut forms: Vec<String> = broken.iter().map(|proposal| form(proposal, grammar)).collect();
    if verdict(response, grammar).is_err() {
        forms.push(review_form(response, grammar));
    }
    for spec in grammar.markers.iter().filter(|spec| spec.required) {
        let lacking = Grammar { markers: vec![spec.clone()], ..Grammar::default() };
        if required_markers(response, &lacking).is_err() {
            forms.push(format!("<{0}>{1}</{0}>", spec.name, spec.values.join("|")));
        }
    }
    if forms.is_empty() {
        return None;
    }
    let prompt = UnifiedPrompt::new(forms.join("\n")).ok()?.with_system(template.trim());
    let faults = broken.iter().map(|proposal| (&proposal.reason, material(proposal)));
    let verdicts = response.proposals.iter().filter(|proposal| proposal.what == "review" && !proposal.again);
    let faults =
        faults.chain(verdicts.take(MOST_PARTS).map(|proposal| (&proposal.reason, quote(&proposal.text))));
    Some(faults.fold(prompt, |prompt, (rule, text)| prompt.with_artifact(rule.as_str(), text)))
}

/// The longest document that is quoted whole.
const DOCUMENT: usize = 64 * 1024;

/// Returns what of a broken part is quoted: a document whole, as it has to be sent again whole.
fn material(proposal: &Proposal) -> String {
    let is_document = proposal.what.starts_with("content_update ") && proposal.text.len() <= DOCUMENT;
    if is_document { proposal.text.clone() } else { quote(&proposal.text) }
}

/// Returns the start and the end of a text, as far as it is long.
fn quote(text: &str) -> String {
    let (head, tail) = QUOTED;
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(head), text.ceil_char_boundary(text.len() - tail));
    format!("{}\n[…]\n{}", &text[..head], &text[tail..])
}

/// Returns the form of an effect, with the values it may have.
fn form(proposal: &Proposal, grammar: &Grammar) -> String {
    match proposal.what.split_once(' ') {
        Some(("action", name)) => match grammar.actions.get(name) {
            Some(spec) => action_form(name, spec),
            None => format!("<action type=\"{name}\">…</action>"),
        },
        Some((tag @ "content_update", target)) => format!("<{tag} target=\"{target}\">…</{tag}>"),
        Some((tag @ "task_status", id)) => format!("<{tag} id=\"{id}\">COMPLETED|FAILED</{tag}>"),
        _ => format!("<{0}>…</{0}>", proposal.what),
    }
}

fn action_form(name: &str, spec: &ActionSpec) -> String {
    let mut out = format!("<action type=\"{name}\">");
    for (parameter, value) in &spec.parameters {
        let values =
            if value.one_of.is_empty() { value.kind.name().to_owned() } else { value.one_of.join("|") };
        let optional = if value.required { "" } else { "?" };
        let _infallible = write!(out, "<{parameter}>{values}{optional}</{parameter}>");
    }
    out + "</action>"
}

fn review_form(response: &Response, grammar: &Grammar) -> String {
    let values: Vec<&str> = grammar.verdicts.iter().map(|verdict| verdict.name()).collect();
    let run = response.nonce.as_ref().map(|nonce| format!(" run=\"{nonce}\"")).unwrap_or_default();
    format!("<review{run}>{}</review>", values.join("|"))
}

/// Puts the parts of an answer into the places of those that were asked for again. What was not asked for stays out.
#[must_use]
pub fn merge(first: Response, answer: Response, grammar: &Grammar) -> Response {
    let lacked_verdict = verdict(&first, grammar).is_err();
    let mut merged = first;
    let Response { actions, updates, markers, quoted_verdict, doubtful_verdict, complete, proposals, .. } =
        answer;
    let asked = |merged: &mut Response, what: String| take_proposal(&mut merged.proposals, &what);
    for action in actions {
        if asked(&mut merged, format!("action {}", action.name)) {
            merged.actions.push(action);
        }
    }
    for update in updates {
        if asked(&mut merged, format!("content_update {}", update.target)) {
            merged.updates.push(update);
        }
    }
    if lacked_verdict {
        (merged.quoted_verdict, merged.doubtful_verdict) = (quoted_verdict, doubtful_verdict);
        // A verdict that the mode does not know is not dropped in favour of a milder one.
        let milder = |verdict| verdict == ReviewResult::Pass || grammar.verdicts.contains(&verdict);
        merged.markers.retain(|marker| !matches!(marker, Marker::Review { verdict } if milder(*verdict)));
        let answered = markers.iter().filter_map(review).max();
        if answered.is_some_and(|answered| answered > ReviewResult::Pass) {
            merged.markers.retain(|marker| review(marker).is_none());
        }
        // Why the answer does not count is what there is to know now.
        merged.proposals.retain(|proposal| proposal.what != "review");
        merged.proposals.extend(proposals.into_iter().filter(|proposal| proposal.what == "review"));
    }
    for marker in markers {
        let wanted = match &marker {
            Marker::Review { verdict } => lacked_verdict || *verdict > ReviewResult::Pass,
            Marker::TaskStatus { id, .. } => asked(&mut merged, format!("task_status {id}")),
            Marker::Named { name, .. } => {
                let same =
                    |known: &Marker| matches!(known, Marker::Named { name: known, .. } if known == name);
                !merged.markers.iter().any(same)
            }
        };
        if wanted {
            merged.markers.push(marker);
        }
    }
    let open = merged.proposals.iter().any(|proposal| proposal.again);
    merged.complete = (merged.complete || complete) && !open;
    merged
}

fn review(marker: &Marker) -> Option<ReviewResult> {
    match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } | Marker::Named { .. } => None,
    }
}

/// Takes the first proposal that was asked for again under a name; tells whether there was one.
fn take_proposal(proposals: &mut Vec<Proposal>, what: &str) -> bool {
    let index = proposals.iter().position(|proposal| proposal.again && proposal.what == what);
    index.map(|index| proposals.remove(index)).is_some()
}
