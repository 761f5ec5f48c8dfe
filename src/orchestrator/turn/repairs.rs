//! Repair calls: requests for parts that are missing in a reply.

use super::call::{AgentCalls, EndedCall};
use super::document_checks::check_documents;
use super::progress::ProgressEvent;
use super::reply_reader::{MAX_REPAIRS, ReplyReader};
use crate::error::{ErrorKind, Result};
use crate::models::{Response, UsageMetrics};

/// A parsed reply, merged with the answers of its repair calls.
pub(crate) struct RepairedReply {
    pub(crate) response: Response,
    /// Last call, if it is not recorded yet.
    pub(crate) unrecorded: Option<EndedCall>,
    /// Usage of all calls.
    pub(crate) usage: UsageMetrics,
}

/// Parses a reply, makes repair calls for its missing parts, and merges the answers into the response.
///
/// If a repair call fails, the response so far is kept.
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
    let max_repairs = calls.turn.started().repairs.min(MAX_REPAIRS);

    for number in 1..=max_repairs {
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
            of: max_repairs,
            complaints: repair.complaints.clone(),
        });
        let answer = match calls.repair(&prompt.to_xml(), repair.kind) {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::BudgetExhausted => {
                log::warn!("skipping the repair call: {error}");
                break;
            }
            Err(error) => return Err(error),
        };

        calls.turn.repairs += 1;
        usage = usage.plus(answer.reply.usage);
        if !answer.reply.end.is_ok() {
            let end = answer.reply.end.name();
            log::warn!("the repair call failed: {end}");
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
