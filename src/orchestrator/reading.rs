//! Reading a turn's reply with all that is known of it, and asking again for what it lacks.

use super::prompts::{Assembly, Workspace};
use crate::agent::{Call, Driver};
use crate::error::Result;
use crate::models::{Mode, NoncePolicy, Reply, Response};
use crate::parse::{self, Context, Grammar};

/// How often an agent is asked again at most.
pub const MOST_REPAIRS: u8 = 2;

/// What a turn's replies are read with.
pub(super) struct Reading<'a> {
    workspace: &'a Workspace,
    assembly: &'a Assembly,
    pub(super) grammar: Grammar,
}

impl<'a> Reading<'a> {
    pub(super) fn of(workspace: &'a Workspace, assembly: &'a Assembly, mode: &Mode) -> Result<Self> {
        Ok(Self { workspace, assembly, grammar: workspace.pack.grammar(mode)? })
    }

    /// Reads a reply to the turn's prompt.
    pub(super) fn read(&self, reply: &Reply) -> Response {
        let template = self.assembly.template.as_ref().map(|found| found.template.text.body());
        let told = self.assembly.draft.nonce.is_some();
        let context = Context {
            ours: self.workspace.pack.texts.values().map(|text| text.body()).chain(template).collect(),
            sent: self.assembly.draft.segments.iter().map(|segment| segment.text.as_str()).collect(),
            nonce: self.assembly.draft.nonce.as_ref().map(|nonce| nonce.as_str()),
            // A pack that tells no nonce cannot require one.
            policy: if told { self.workspace.settings.verdict_nonce } else { NoncePolicy::Off },
            tasks: self.assembly.tasks.clone(),
            ..Context::default()
        };
        parse::parse(&reply.text, &self.grammar, &context)
    }

    /// Asks again for what a response lacks, a few times at most; returns the response with the answers in their
    /// places, and the answers. An agent that fails now does not take back what it has said before.
    pub(super) fn repaired(
        &self,
        mut response: Response,
        driver: &dyn Driver,
        call: &Call<'_>,
        times: u8,
    ) -> (Response, Vec<Reply>) {
        let mut answers = Vec::new();
        let Some(words) = self.workspace.pack.repair.as_ref() else {
            if times > 0 && parse::repair_request(&response, &self.grammar, "").is_some() {
                log::warn!(
                    "the pack `{}` has no `repair` words, so nothing is asked for again",
                    self.workspace.pack.name
                );
            }
            return (response, answers);
        };
        for _ in 0..times.min(MOST_REPAIRS) {
            let Some(request) = parse::repair_request(&response, &self.grammar, words.body()) else { break };
            let prompt = request.to_xml();
            let answer = match driver.send(&Call { prompt: &prompt, ..*call }) {
                Ok(answer) => answer,
                Err(error) => {
                    log::warn!("the agent was asked again for what its reply lacks, and failed: {error}");
                    break;
                }
            };
            // What the answer repeats of the prompt of the turn is an echo; what it repeats of this one was asked for.
            response = parse::merge(response, self.read(&answer), &self.grammar);
            answers.push(answer);
        }
        (response, answers)
    }
}
