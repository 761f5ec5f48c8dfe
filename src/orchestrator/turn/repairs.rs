//! Asking an agent again for what its reply lacks.

use super::call::{AgentCalls, EndedCall};
use super::document_checks::check_documents;
use super::progress::ProgressEvent;
use super::reply_reader::{MAX_REPAIRS, ReplyReader};
use crate::error::{ErrorKind, Result};
use crate::models::{Response, UsageMetrics};

/// A reply, read together with the answers to its repairs.
pub(crate) struct RepairedReply {
    pub(crate) response: Response,
    /// The last call, unless it is recorded already.
    pub(crate) unrecorded: Option<EndedCall>,
    /// Usage of all calls.
    pub(crate) usage: UsageMetrics,
}

/// Reads a reply, asks again for what it lacks, a few times at most, and merges the answers into it. A repair call that
/// fails does not take back what the agent said before.
pub(crate) fn read_with_repairs(
    calls: &mut AgentCalls<'_, '_>,
    reader: &ReplyReader<'_>,
    first: EndedCall,
) -> Result<RepairedReply> {
    let run = calls.turn.session.context.run;
    let parsed = reader.read(&first.reply.text, &first.reply.end);
    let mut response = check_documents(calls.turn, parsed)?;
    let mut usage = first.reply.usage;
    let mut replies = vec![first.reply.text.clone()];
    let mut unrecorded = Some(first);
    let most = calls.turn.started().repairs.min(MAX_REPAIRS);

    for number in 1..=most {
        let Some(repair) = reader.find_repair(&response) else {
            break;
        };
        let Some(prompt) = reader.repair_prompt(&repair, calls.turn.prepared, &replies) else {
            break;
        };
        if let Some(answer) = unrecorded.take() {
            calls.record(&answer)?;
        }
        run.report(ProgressEvent::AskingAgain {
            number,
            of: most,
            complaints: repair.complaints.clone(),
        });
        let answer = match calls.repair(&prompt.to_xml(), repair.kind) {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::BudgetExhausted => {
                log::warn!("cannot ask the agent again: {error}");
                break;
            }
            Err(error) => return Err(error),
        };

        calls.turn.repairs += 1;
        usage = usage.plus(answer.reply.usage);
        if !answer.reply.end.is_ok() {
            let end = answer.reply.end.name();
            log::warn!("the agent was asked again and failed: {end}");
            unrecorded = Some(answer);
            break;
        }
        replies.push(answer.reply.text.clone());
        response = check_documents(
            calls.turn,
            reader.merge_answer(response, &answer.reply.text),
        )?;
        unrecorded = Some(answer);
    }

    Ok(RepairedReply {
        response,
        unrecorded,
        usage,
    })
}
