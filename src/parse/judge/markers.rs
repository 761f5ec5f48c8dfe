//! Which markers count: those that are clear, that no prompt and no other turn has written, and the worst of them.

use std::ops::Range;

use super::Judge;
use crate::models::{Code, Marker, NoncePolicy, ReviewResult, TaskStatus};
use crate::parse::echo::Echo;
use crate::parse::scan::{FoundMarker, MarkerValue, Place};

/// A verdict that may count.
struct Candidate {
    verdict: ReviewResult,
    /// Whether it names this turn.
    named: bool,
    /// Whether it names another one.
    foreign: bool,
    span: Range<usize>,
}

impl Judge<'_> {
    pub(super) fn markers(
        &mut self,
        markers: &[FoundMarker],
        echoes: &[Option<Echo>],
        mut own_doubts: Vec<Option<usize>>,
    ) {
        own_doubts.resize(self.grammar.markers.len(), None);
        let mut own: Vec<Option<usize>> = vec![None; self.grammar.markers.len()];
        let mut candidates = Vec::new();
        for (found, echo) in markers.iter().zip(echoes) {
            match &found.value {
                MarkerValue::Review { verdict, run } => {
                    let named = run.is_some() && run.as_deref() == self.context.nonce;
                    let foreign = run.is_some() && self.context.nonce.is_some() && !named;
                    // Of a PASS it is told where it is refused.
                    if foreign && (*verdict != ReviewResult::Pass || self.context.policy == NoncePolicy::Off)
                    {
                        self.problems.push((Code::WrongRun, found.span.clone()));
                    }
                    let candidate = Candidate { verdict: *verdict, named, foreign, span: found.span.clone() };
                    candidates.extend(self.review(candidate, *echo));
                }
                MarkerValue::Task { id, status } => self.task(id, *status, found, *echo),
                MarkerValue::Own { marker, rank } => {
                    let clear = echo.is_none()
                        && !self.context.is_cut()
                        && !self.form.partly_converted
                        && self.readings.doubt(&found.span).is_none();
                    let known = if clear { &mut own[*marker] } else { &mut own_doubts[*marker] };
                    *known = (*known).max(Some(*rank));
                }
            }
        }
        self.verdicts(candidates);
        self.own_markers(&own, &own_doubts);
    }

    /// Returns a verdict if nothing speaks against it.
    fn review(&mut self, candidate: Candidate, echo: Option<Echo>) -> Option<Candidate> {
        let pass = candidate.verdict == ReviewResult::Pass;
        let shaky = self.is_shaky(candidate.span.start);
        let (code, reason) = match echo {
            Some(Echo::Ours) => {
                self.problems.push((Code::Echo, candidate.span.clone()));
                self.refuse(place("review", candidate.span), "it repeats the prompt", false);
                return None;
            }
            Some(Echo::Theirs) => (Code::Echo, "it repeats the prompt"),
            None if self.form.partly_converted => {
                (Code::DoubtfulMarker, "its tags are written in another form")
            }
            None if pass && self.context.is_cut() => (Code::CutOff, "the reply was cut off"),
            None if pass && self.open => (Code::UncertainPass, "the reply ends in the middle of something"),
            None if pass && shaky => (Code::UncertainPass, "a thought before it is not closed"),
            None if self.context.policy == NoncePolicy::Require && !candidate.named => {
                (Code::WrongRun, "it does not name this turn")
            }
            None if pass && self.context.pass_named && !candidate.named => {
                (Code::WrongRun, "it does not name this turn")
            }
            None if pass && candidate.foreign && self.context.policy != NoncePolicy::Off => {
                (Code::WrongRun, "it names another turn")
            }
            None => return Some(candidate),
        };
        self.doubt_verdict(candidate, code, reason);
        None
    }

    /// Keeps a verdict that does not count in mind: beside it, PASS does not count either if it is worse.
    fn doubt_verdict(&mut self, candidate: Candidate, code: Code, reason: &str) {
        self.response.quoted_verdict = self.response.quoted_verdict.max(Some(candidate.verdict));
        self.problems.push((code, candidate.span.clone()));
        self.refuse(place("review", candidate.span), reason, false);
    }

    fn verdicts(&mut self, mut candidates: Vec<Candidate>) {
        let policy = self.context.policy;
        if policy != NoncePolicy::Off && candidates.iter().any(|candidate| candidate.named) {
            let (named, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|c| c.named);
            candidates = named;
            for other in others {
                self.doubt_verdict(other, Code::WrongRun, "it does not name this turn");
            }
        }
        let passes = candidates.iter().filter(|candidate| candidate.verdict == ReviewResult::Pass);
        let passes: Vec<Range<usize>> = passes.map(|candidate| candidate.span.clone()).collect();
        if let (Some(reason), Some(first)) = (self.readings.doubts_pass(&passes), passes.first()) {
            candidates.retain(|candidate| candidate.verdict != ReviewResult::Pass);
            self.problems.push((Code::UncertainPass, first.clone()));
            self.refuse(place("review", first.clone()), reason, false);
        }
        if let Some(other) = candidates.iter().find(|candidate| candidate.verdict != candidates[0].verdict) {
            self.problems.push((Code::SeveralVerdicts, other.span.clone()));
        }
        let reviews = candidates.into_iter().map(|candidate| Marker::Review { verdict: candidate.verdict });
        self.response.markers.splice(0..0, reviews);
    }

    fn task(&mut self, id: &str, status: TaskStatus, found: &FoundMarker, echo: Option<Echo>) {
        let known = self.context.tasks.as_ref().is_none_or(|tasks| tasks.iter().any(|task| task == id));
        let refused = match echo {
            _ if !self.grammar.task_status => Some((Code::DoubtfulMarker, "this mode reports on no tasks")),
            _ if self.context.is_cut() => Some((Code::CutOff, "the reply was cut off")),
            Some(_) => Some((Code::Echo, "it repeats the prompt")),
            None if self.form.partly_converted => {
                Some((Code::DoubtfulMarker, "its tags are written in another form"))
            }
            None if self.is_shaky(found.span.start) => {
                Some((Code::DoubtfulMarker, "a thought before it is not closed"))
            }
            None if !known => Some((Code::UnknownTask, "there is no such task")),
            None => self.readings.doubt(&found.span).map(|reason| (Code::DoubtfulMarker, reason)),
        };
        if let Some((code, reason)) = refused {
            self.problems.push((code, found.span.clone()));
            let again = self.grammar.task_status && !matches!(code, Code::Echo | Code::UnknownTask);
            return self.refuse(place(&format!("task_status {id}"), found.span.clone()), reason, again);
        }
        let next = self.response.markers.len();
        let index = *self.tasks.entry(id.to_owned()).or_insert(next);
        match self.response.markers.get_mut(index) {
            Some(Marker::TaskStatus { status: known, .. }) if *known != status => {
                *known = TaskStatus::Failed;
                self.problems.push((Code::ContradictingTasks, found.span.clone()));
            }
            Some(_) => {}
            None => self.response.markers.push(Marker::TaskStatus { id: id.to_owned(), status }),
        }
    }

    /// Keeps of each marker of the pack's own the most severe value. One that is severer in a quote, or that cannot be
    /// read, leaves it open what is meant.
    fn own_markers(&mut self, own: &[Option<usize>], doubts: &[Option<usize>]) {
        for ((spec, worst), doubt) in self.grammar.markers.iter().zip(own).zip(doubts) {
            if doubt > worst {
                self.problems.push((Code::DoubtfulMarker, 0..self.text.len()));
            } else {
                self.response.markers.extend(worst.and_then(|rank| spec.marker(rank)));
            }
        }
    }
}

fn place(what: &str, span: Range<usize>) -> Place {
    Place { what: what.to_owned(), span }
}
