//! Asks the agent again for missing parts of a reply, and merges the answer.
//!
//! The agent keeps no memory between calls, so a repair prompt includes the whole reply, and the original prompt as well
//! unless only the verdict is missing. No answer makes a verdict milder than the reply already was.

use std::fmt::Write as _;

use super::verdict::{required_markers, verdict};
use crate::models::{
    ActionSpec, Consequence, ContextItem, ContextKind, EffectKind, Grammar, Marker, RejectedEffect,
    Response, ReviewResult, UnifiedPrompt, VerdictDoubt,
};

/// Maximum number of parts that one repair asks for.
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
    /// The whole reply: it contains no marker, document or action.
    Whole,
}

/// Parts that a reply lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Extent of the repair.
    pub kind: RepairKind,
    /// Violated rules, one per entry, with the line if it is known.
    pub complaints: Vec<String>,
    /// Expected form of each missing part.
    pub forms: Vec<String>,
}

impl Repair {
    /// Returns the repair prompt. `words` is the pack's text for repairs, `original` is the prompt of the turn,
    /// and `replies` are the agent's reply and its answers to earlier repairs.
    ///
    /// `None` if the request is empty, which cannot happen for a repair from [`find_repair`].
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

/// Returns the missing parts of a response: broken parts that may be meant, the verdict, and
/// required markers. `None` if nothing is missing.
#[must_use]
pub fn find_repair(response: &Response, grammar: &Grammar) -> Option<Repair> {
    // The user answers open questions first.
    if !response.questions.is_empty() {
        return None;
    }

    let broken: Vec<&RejectedEffect> = response
        .proposals
        .iter()
        .filter(|proposal| proposal.again)
        .take(MAX_PARTS)
        .collect();
    let mut complaints: Vec<String> = broken
        .iter()
        .map(|proposal| describe_rejection(proposal))
        .collect();
    let mut forms: Vec<String> = broken
        .iter()
        .map(|proposal| part_form(proposal, grammar))
        .collect();

    if let Err(error) = verdict(response, grammar) {
        let doubts: Vec<String> = response
            .verdict_doubts
            .iter()
            .map(|doubt| format!("line {}: {}", doubt.line, doubt.reason))
            .collect();
        if doubts.is_empty() {
            complaints.push(error.message().to_owned())
        } else {
            complaints.extend(doubts)
        }

        forms.push(review_form(response, grammar));
        // An unreadable action may have been meant as one of these.
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
            "the reply contains neither a verdict nor a document; answer the whole prompt again"
                .to_owned(),
        );
    }
    Some(Repair {
        kind,
        complaints,
        forms,
    })
}

/// Returns true if a response has a judgement or a document, even a doubtful or broken one.
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

fn describe_rejection(proposal: &RejectedEffect) -> String {
    let RejectedEffect {
        what, reason, line, ..
    } = proposal;
    match (what, line) {
        (EffectKind::Update(Some(target)), _) => format!("{target}: {reason}"),
        (_, Some(line)) => format!("line {line}: {what}: {reason}"),
        (_, None) => format!("{what}: {reason}"),
    }
}

/// Returns the expected form of a part, with its allowed values.
fn part_form(proposal: &RejectedEffect, grammar: &Grammar) -> String {
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

/// Merges the answer to a repair into the first reply: its parts replace those that the repair asked
/// for. Other parts are dropped, except findings and more severe verdicts, which never make a result
/// milder.
#[must_use]
pub fn merge_answer(first: Response, answer: Response, grammar: &Grammar) -> Response {
    let kind = find_repair(&first, grammar).map(|repair| repair.kind);
    if kind == Some(RepairKind::Whole) {
        // An answer with only the missing part keeps the message of the first reply.
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
        let is_duplicate = merged
            .actions
            .iter()
            .any(|earlier| earlier.is_same_request(&action));
        if is_duplicate {
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
                let is_same = |earlier: &Marker| matches!(earlier, Marker::Named { name: earlier, .. } if earlier == name);
                !merged.markers.iter().any(is_same)
            }
        };
        if is_wanted {
            merged.markers.push(marker);
        }
    }

    // An unreadable finding in the answer keeps a PASS unclear, as in a first reply.
    let is_action = |proposal: &RejectedEffect| proposal.what.is_action();
    merged
        .proposals
        .retain(|proposal| proposal.what != EffectKind::Review);
    if kind == Some(RepairKind::Verdict) && !markers.is_empty() {
        // The repair also showed the forms of these actions, and the agent only confirmed its verdict.
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

/// Returns the merged verdict, and the reasons if it is unclear.
///
/// A valid verdict stays or becomes more severe. A missing verdict is taken from the answer,
/// unless the first reply stated a more severe one in a tag without this turn's `run`, or with a
/// value that the mode does not define.
fn merged_verdict(
    first: &Response,
    answer: &Response,
    grammar: &Grammar,
) -> (Vec<Marker>, Vec<VerdictDoubt>) {
    let worst_verdict = |response: &Response| response.markers.iter().filter_map(verdict_of).max();
    let marker = |verdict: ReviewResult| vec![Marker::Review { verdict }];
    let before = worst_verdict(first);
    let after = worst_verdict(answer);
    let stated_after = answer
        .verdict_doubts
        .iter()
        .filter(|doubt| doubt.stated.is_some());

    if let Ok(Some(verdict)) = verdict(first, grammar) {
        let verdict = after.map_or(verdict, |after| after.max(verdict));
        // A more severe verdict that the answer states without its `run` withdraws a PASS.
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

    // The mode may not define a verdict that is as severe.
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

    // Still unclear. The stated verdict is kept, so that later answers are also compared with it.
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
    // A verdict outside the mode is kept, and so is a PASS next to an unreadable action.
    let kept = severe_before.or(before.filter(|_| doubts.is_empty()));
    (kept.map(marker).unwrap_or_default(), doubts)
}

fn verdict_of(marker: &Marker) -> Option<ReviewResult> {
    match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } | Marker::Named { .. } => None,
    }
}

/// Removes the first rejected effect of this kind that a repair asked for; returns false if there is
/// none.
fn take_proposal(proposals: &mut Vec<RejectedEffect>, what: &EffectKind) -> bool {
    let index = proposals
        .iter()
        .position(|proposal| proposal.again && proposal.what == *what);
    index.map(|index| proposals.remove(index)).is_some()
}
