//! Asking again for what a reply lacks, and putting the answer in its place.
//!
//! The agent remembers nothing, so a repair shows it what it is about: always its whole reply, and the prompt as well
//! unless only the verdict is missing. No answer makes a verdict milder than the reply already was.

use std::fmt::Write as _;

use super::verdict::{required_markers, verdict};
use crate::models::{
    ActionSpec, Consequence, ContextItem, ContextKind, EffectKind, Grammar, Marker, RejectedEffect,
    Response, ReviewResult, UnifiedPrompt, VerdictDoubt,
};

/// Most parts that are asked for again at once.
const MAX_PARTS: usize = 16;

/// Name of the context item that holds the reply.
const REPLY_NAME: &str = "your reply";

/// Extent of a repair.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairKind {
    /// Only the verdict, or another required marker.
    Verdict,
    /// Documents, actions or reports that are missing or malformed.
    Parts,
    /// Everything: the reply holds neither a judgement nor a document.
    Whole,
}

/// Parts that a reply lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Extent of the repair.
    pub kind: RepairKind,
    /// Rules that the reply missed, one each, with the line where it is known.
    pub complaints: Vec<String>,
    /// The form of each part that is missing.
    pub forms: Vec<String>,
}

impl Repair {
    /// Returns the prompt that asks again. `words` are the pack's own text, `original` is the turn's prompt, and `replies`
    /// are the agent's reply and its answers to earlier repairs.
    ///
    /// `None` if there is nothing to write, which cannot happen for a repair that was found by [`find_repair`].
    #[must_use]
    pub fn prompt(
        &self,
        words: &str,
        original: &UnifiedPrompt,
        replies: &[String],
    ) -> Option<UnifiedPrompt> {
        let request = format!(
            "{}\n\n{}",
            self.complaints.join("\n"),
            self.forms.join("\n")
        );
        let names = std::iter::once(REPLY_NAME.to_owned())
            .chain((2..).map(|number| format!("{REPLY_NAME} {number}")));
        let replies = names
            .zip(replies)
            .map(|(name, text)| ContextItem::new(ContextKind::Artifact, name, text));
        if self.kind == RepairKind::Verdict {
            let prompt = UnifiedPrompt::new(request).ok()?.with_system(words.trim());
            return Some(replies.fold(prompt, UnifiedPrompt::with_item));
        }

        let instructions = format!("{}\n\n{request}", original.instructions());
        let system = format!("{}\n\n---\n\n{}", original.system_prompt(), words.trim());
        let prompt = UnifiedPrompt::new(instructions)
            .ok()?
            .with_system(system.trim_start_matches(['\n', '-']));
        Some(
            original
                .context()
                .iter()
                .cloned()
                .chain(replies)
                .fold(prompt, UnifiedPrompt::with_item),
        )
    }
}

/// Returns what a response lacks: broken parts that may be meant, the verdict, and the markers that the grammar
/// requires. `None` if nothing is lacking.
#[must_use]
pub fn find_repair(response: &Response, grammar: &Grammar) -> Option<Repair> {
    // A person answers first.
    if !response.questions.is_empty() {
        return None;
    }
    let broken: Vec<&RejectedEffect> = response
        .proposals
        .iter()
        .filter(|proposal| proposal.again)
        .take(MAX_PARTS)
        .collect();
    let mut complaints: Vec<String> = broken.iter().map(|proposal| complaint(proposal)).collect();
    let mut forms: Vec<String> = broken
        .iter()
        .map(|proposal| form(proposal, grammar))
        .collect();

    if let Err(error) = verdict(response, grammar) {
        let doubts = response
            .verdict_doubts
            .iter()
            .map(|doubt| format!("line {}: {}", doubt.line, doubt.reason));
        let doubts: Vec<String> = doubts.collect();
        if doubts.is_empty() {
            complaints.push(error.message().to_owned())
        } else {
            complaints.extend(doubts)
        }
        forms.push(review_form(response, grammar));
        // An action that could not be read may have been meant as one of these.
        let is_unread = |proposal: &RejectedEffect| proposal.what.is_action() && !proposal.again;
        if response.proposals.iter().any(is_unread) {
            forms.extend(
                grammar
                    .actions
                    .iter()
                    .map(|(name, spec)| action_form(name, spec)),
            );
        }
    }
    for spec in grammar.markers.iter().filter(|spec| spec.required) {
        let alone = Grammar {
            markers: vec![spec.clone()],
            ..Grammar::default()
        };
        if let Err(error) = required_markers(response, &alone) {
            complaints.push(error.message().to_owned());
            forms.push(format!("<{0}>{1}</{0}>", spec.name, spec.values.join("|")));
        }
    }

    let kind = match () {
        () if forms.is_empty() => return None,
        () if !holds_something(response) => RepairKind::Whole,
        () if broken.is_empty() => RepairKind::Verdict,
        () => RepairKind::Parts,
    };
    if kind == RepairKind::Whole {
        complaints.push(
            "the reply holds neither a judgement nor a document; answer the prompt again"
                .to_owned(),
        );
    }
    Some(Repair {
        kind,
        complaints,
        forms,
    })
}

/// Returns whether a response holds a judgement or a document, however doubtful or broken.
fn holds_something(response: &Response) -> bool {
    let has_documents = !response.updates.is_empty() || !response.actions.is_empty();
    let has_judgement = !response.markers.is_empty() || !response.verdict_doubts.is_empty();
    has_documents
        || has_judgement
        || response
            .proposals
            .iter()
            .any(|proposal| !proposal.text.is_empty())
}

fn complaint(proposal: &RejectedEffect) -> String {
    let RejectedEffect {
        what, reason, line, ..
    } = proposal;
    match (what, line) {
        (EffectKind::Update(Some(target)), _) => format!("{target}: {reason}"),
        (_, Some(line)) => format!("line {line}: {what}: {reason}"),
        (_, None) => format!("{what}: {reason}"),
    }
}

/// Returns the form of a part, with the values it may have.
fn form(proposal: &RejectedEffect, grammar: &Grammar) -> String {
    match &proposal.what {
        EffectKind::Action(Some(name)) => match grammar.actions.get(name) {
            Some(spec) => action_form(name, spec),
            None => format!("<action type=\"{name}\">…</action>"),
        },
        EffectKind::Update(Some(target)) => {
            format!("<content_update target=\"{target}\">…</content_update>")
        }
        EffectKind::TaskStatus(Some(id)) => {
            format!("<task_status id=\"{id}\">COMPLETED|FAILED</task_status>")
        }
        nameless => format!("<{nameless}>…</{nameless}>"),
    }
}

fn action_form(name: &str, spec: &ActionSpec) -> String {
    let mut out = format!("<action type=\"{name}\">");
    for (parameter, value) in &spec.parameters {
        let values = if value.one_of.is_empty() {
            value.kind.name().to_owned()
        } else {
            value.one_of.join("|")
        };
        let optional = if value.required { "" } else { "?" };
        let _infallible = write!(out, "<{parameter}>{values}{optional}</{parameter}>");
    }
    out + "</action>"
}

fn review_form(response: &Response, grammar: &Grammar) -> String {
    let values: Vec<&str> = grammar
        .verdicts
        .iter()
        .map(|verdict| verdict.name())
        .collect();
    let run = response
        .nonce
        .as_ref()
        .map(|nonce| format!(" run=\"{nonce}\""))
        .unwrap_or_default();
    format!("<review{run}>{}</review>", values.join("|"))
}

/// Puts the parts of an answer in the places of those that were asked for again. Parts that were not asked for stay
/// out, but for findings and severer verdicts: they never make a result milder.
#[must_use]
pub fn merge_answer(first: Response, answer: Response, grammar: &Grammar) -> Response {
    let kind = find_repair(&first, grammar).map(|repair| repair.kind);
    if kind == Some(RepairKind::Whole) {
        // An answer that holds only what was missing does not take the words of the reply.
        let message = if answer.message.trim().is_empty() {
            first.message
        } else {
            answer.message
        };
        return Response { message, ..answer };
    }

    let (markers, verdict_doubts) = merged_verdict(&first, &answer, grammar);
    let mut merged = first;
    let has_verdicts = !grammar.verdicts.is_empty();

    for action in answer.actions {
        let is_known = merged
            .actions
            .iter()
            .any(|known| known.is_same_request(&action));
        if is_known {
            continue;
        }
        let is_asked = take_proposal(&mut merged.proposals, &EffectKind::action(&action.name));
        if is_asked || has_verdicts {
            merged.actions.push(action);
        }
    }
    for update in answer.updates {
        if take_proposal(&mut merged.proposals, &EffectKind::update(&update.target)) {
            merged.updates.push(update);
        }
    }
    for marker in answer.markers {
        let is_wanted = match &marker {
            Marker::Review { .. } => false,
            Marker::TaskStatus { id, .. } => {
                take_proposal(&mut merged.proposals, &EffectKind::task_status(id))
            }
            Marker::Named { name, .. } => {
                let is_same = |known: &Marker| matches!(known, Marker::Named { name: known, .. } if known == name);
                !merged.markers.iter().any(is_same)
            }
        };
        if is_wanted {
            merged.markers.push(marker);
        }
    }

    // A finding of the answer that cannot be read keeps a PASS unclear, as in a first reply.
    let is_action = |proposal: &RejectedEffect| proposal.what.is_action();
    merged
        .proposals
        .retain(|proposal| proposal.what != EffectKind::Review);
    if kind == Some(RepairKind::Verdict) && !markers.is_empty() {
        // The repair was about these as well, and the agent stays with its verdict.
        merged
            .proposals
            .retain(|proposal| !is_action(proposal) || proposal.again);
    }
    let unread = answer
        .proposals
        .into_iter()
        .filter(|proposal| has_verdicts && is_action(proposal));
    merged.proposals.extend(unread);

    merged.markers.retain(|marker| verdict_of(marker).is_none());
    merged.markers.splice(0..0, markers);
    merged.verdict_doubts = verdict_doubts;
    let is_open = merged.proposals.iter().any(|proposal| proposal.again);
    merged.complete = (merged.complete || answer.complete) && !is_open;
    merged
}

/// Returns the verdict after an answer, and why it is unclear.
///
/// A verdict that counted stays, or gets more severe. One that was missing is the answer's, unless the reply stated a
/// more severe one: in a tag without this turn's `run`, or with a value that the mode does not know.
fn merged_verdict(
    first: &Response,
    answer: &Response,
    grammar: &Grammar,
) -> (Vec<Marker>, Vec<VerdictDoubt>) {
    let counted = |response: &Response| response.markers.iter().filter_map(verdict_of).max();
    let marker = |verdict: ReviewResult| vec![Marker::Review { verdict }];
    let (before, after) = (counted(first), counted(answer));
    let stated_after = answer
        .verdict_doubts
        .iter()
        .filter(|doubt| doubt.stated.is_some());

    if let Ok(Some(verdict)) = verdict(first, grammar) {
        let verdict = after.map_or(verdict, |after| after.max(verdict));
        // A severer verdict that the answer states without its `run` takes a PASS back.
        let doubts: Vec<VerdictDoubt> = match verdict {
            ReviewResult::Pass => stated_after.cloned().collect(),
            _ => Vec::new(),
        };
        return if doubts.is_empty() {
            (marker(verdict), doubts)
        } else {
            (Vec::new(), doubts)
        };
    }

    let severe_before = before.filter(|verdict| *verdict > ReviewResult::Pass);
    let stated = first
        .verdict_doubts
        .iter()
        .filter_map(|doubt| doubt.stated)
        .chain(severe_before)
        .max();
    // A mode may know no verdict that is as severe.
    let most_severe = grammar
        .verdicts
        .iter()
        .map(|verdict| verdict.consequence())
        .max();
    let floor = stated.map_or(Consequence::GoesOn, ReviewResult::consequence);
    let floor = most_severe.map_or(floor, |most_severe| floor.min(most_severe));
    if let Some(after) = after.filter(|after| after.consequence() >= floor) {
        return (marker(after), Vec::new());
    }

    // Still unclear. What the reply stated stays, so that a later answer is held to it, too.
    let mut doubts = first.verdict_doubts.clone();
    doubts.extend(answer.verdict_doubts.iter().cloned());
    if let (Some(after), Some(stated)) = (after, stated) {
        let reason = format!("the answer says {after}, and the reply before it said {stated}");
        doubts.push(VerdictDoubt {
            reason,
            line: 1,
            stated: Some(stated),
            span: 0..0,
        });
    }
    // A verdict that the mode does not know is kept, and so is a PASS next to an action that could not be read.
    let kept = severe_before.or(before.filter(|_| doubts.is_empty()));
    (kept.map(marker).unwrap_or_default(), doubts)
}

fn verdict_of(marker: &Marker) -> Option<ReviewResult> {
    match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } | Marker::Named { .. } => None,
    }
}

/// Removes the first proposal that was asked for again under a name; returns whether there was one.
fn take_proposal(proposals: &mut Vec<RejectedEffect>, what: &EffectKind) -> bool {
    let index = proposals
        .iter()
        .position(|proposal| proposal.again && proposal.what == *what);
    index.map(|index| proposals.remove(index)).is_some()
}
