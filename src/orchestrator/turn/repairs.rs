//! Asking an agent again for what its reply lacks.

use super::ActiveTurn;
use super::call::Answer;
use super::progress::ProgressEvent;
use super::reply_reader::{MOST_REPAIRS, ReplyReader};
use crate::error::{ErrorKind, Result};
use crate::models::{Response, UsageMetrics};

impl ActiveTurn<'_> {
    /// Asks again for what a response lacks, a few times at most. Returns the response with the answers in their places,
    /// the last answer that is not recorded yet, and what all calls used. A repair call that fails does not take back
    /// what the agent said before.
    pub(crate) fn repaired(
        &mut self,
        reading: &ReplyReader<'_>,
        first: Answer,
    ) -> Result<(Response, Option<Answer>, UsageMetrics)> {
        let mut response = self.checked(reading.read(&first.reply.text, &first.reply.end))?;
        let mut usage = first.reply.usage;
        let mut replies = vec![first.reply.text.clone()];
        let mut pending = Some(first);
        let most = self.prepared.started.repairs.min(MOST_REPAIRS);

        for number in 1..=most {
            let Some(repair) = reading.repair(&response) else {
                break;
            };
            let Some(request) = reading.repair_prompt(&repair, self.prepared, &replies) else {
                break;
            };
            if let Some(answer) = pending.take() {
                self.record(&answer)?;
            }
            self.context.run.tell(ProgressEvent::AskingAgain {
                number,
                of: most,
                complaints: repair.complaints.clone(),
            });
            let answer = match self.repair(&request.to_xml(), repair.kind) {
                Ok(answer) => answer,
                Err(error) if error.kind() == ErrorKind::BudgetExhausted => {
                    log::warn!("cannot ask the agent again: {error}");
                    break;
                }
                Err(error) => return Err(error),
            };

            self.repairs += 1;
            usage = usage.plus(answer.reply.usage);
            if !answer.reply.end.is_ok() {
                let end = answer.reply.end.name();
                log::warn!("the agent was asked again and failed: {end}");
                pending = Some(answer);
                break;
            }
            replies.push(answer.reply.text.clone());
            response = self.checked(reading.merged(response, &answer.reply.text))?;
            pending = Some(answer);
        }
        Ok((response, pending, usage))
    }
}
