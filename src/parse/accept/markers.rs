//! Decides which task and pack markers are valid. A marker must be unambiguous and must not repeat the
//! prompt.

use super::ResponseBuilder;
use crate::models::{EffectKind, Marker, ProblemCode, TaskStatus};
use crate::parse::echo::EchoSource;
use crate::parse::scan::{EffectPlace, FoundMarker, MarkerValue};

impl ResponseBuilder<'_> {
    pub(super) fn add_markers(
        &mut self,
        markers: &[FoundMarker],
        echoes: &[Option<EchoSource>],
        mut pack_marker_doubts: Vec<Option<usize>>,
    ) {
        pack_marker_doubts.resize(self.grammar.markers.len(), None);
        let mut valid_ranks: Vec<Option<usize>> = vec![None; self.grammar.markers.len()];

        for (found, echo) in markers.iter().zip(echoes) {
            match &found.value {
                MarkerValue::Review => {}
                MarkerValue::Task { id, status } => self.add_task(id, *status, found, *echo),
                MarkerValue::Pack { marker, rank } => {
                    let is_clear = echo.is_none()
                        && !self.context.is_cut()
                        && !self.form.partly_converted
                        && self.readings.find_doubt(&found.span).is_none();
                    let worst_rank = if is_clear {
                        &mut valid_ranks[*marker]
                    } else {
                        &mut pack_marker_doubts[*marker]
                    };
                    *worst_rank = (*worst_rank).max(Some(*rank));
                }
            }
        }

        self.add_pack_markers(&valid_ranks, &pack_marker_doubts);
    }

    fn add_task(
        &mut self,
        id: &str,
        status: TaskStatus,
        found: &FoundMarker,
        echo: Option<EchoSource>,
    ) {
        let is_known = self
            .context
            .tasks
            .as_ref()
            .is_none_or(|tasks| tasks.iter().any(|task| task == id));

        let refused = match echo {
            _ if !self.grammar.task_status => {
                Some((ProblemCode::DoubtfulMarker, "this mode has no task reports"))
            }
            _ if self.context.is_cut() => Some((ProblemCode::CutOff, "the reply was cut off")),
            Some(_) => Some((ProblemCode::Echo, "the text repeats the prompt")),
            None if self.form.partly_converted => Some((
                ProblemCode::DoubtfulMarker,
                "the tags are not written with `<` and `>`",
            )),
            None if self.may_be_in_thought(found.span.start) => Some((
                ProblemCode::DoubtfulMarker,
                "there is an unclosed thought before it",
            )),
            None if !is_known => Some((ProblemCode::UnknownTask, "unknown task")),
            None => self
                .readings
                .find_doubt(&found.span)
                .map(|reason| (ProblemCode::DoubtfulMarker, reason)),
        };

        if let Some((code, reason)) = refused {
            self.problems.push((code, found.span.clone()));
            let again = self.grammar.task_status
                && !matches!(code, ProblemCode::Echo | ProblemCode::UnknownTask);
            return self.reject(
                EffectPlace {
                    what: EffectKind::task_status(id),
                    span: found.span.clone(),
                },
                reason,
                again,
            );
        }

        let next = self.response.markers.len();
        let index = *self.tasks.entry(id.to_owned()).or_insert(next);
        match self.response.markers.get_mut(index) {
            Some(Marker::TaskStatus {
                status: earlier, ..
            }) if *earlier != status => {
                *earlier = TaskStatus::Failed;
                self.problems
                    .push((ProblemCode::ContradictingTasks, found.span.clone()));
            }
            Some(_) => {}
            None => self.response.markers.push(Marker::TaskStatus {
                id: id.to_owned(),
                status,
            }),
        }
    }

    /// Adds the most severe value of each pack marker. If a more severe value is quoted or
    /// unreadable, the marker is unclear and is not added.
    fn add_pack_markers(&mut self, valid_ranks: &[Option<usize>], doubts: &[Option<usize>]) {
        for ((spec, worst), doubt) in self.grammar.markers.iter().zip(valid_ranks).zip(doubts) {
            if doubt > worst {
                self.problems
                    .push((ProblemCode::DoubtfulMarker, 0..self.text.len()));
            } else {
                self.response
                    .markers
                    .extend(worst.and_then(|rank| spec.marker(rank)));
            }
        }
    }
}
