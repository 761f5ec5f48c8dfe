//! Reading a turn's replies with all that is known of it, and asking again for what they lack.

use super::prompts::Workspace;
use crate::error::Result;
use crate::models::{AgentName, End, NoncePolicy, Response, Started, UnifiedPrompt};
use crate::parse::{self, Context, Finish, Grammar};

/// How often an agent is asked again at most.
pub const MOST_REPAIRS: u8 = 2;

/// What a turn's replies are read with: the turn as the ledger keeps it, and the pack.
pub(super) struct Reading<'a> {
    workspace: &'a Workspace,
    started: &'a Started,
    sent: &'a [String],
    template: Option<String>,
    pub(super) grammar: Grammar,
}

impl<'a> Reading<'a> {
    /// Prepares to read; `sent` are the texts of the prompt's segments.
    pub(super) fn of(workspace: &'a Workspace, started: &'a Started, sent: &'a [String]) -> Result<Self> {
        let template = workspace.template(&AgentName::new(started.agent.as_str())?, &started.mode)?;
        let template = template.map(|found| found.template.text.body().to_owned());
        let grammar = workspace.pack.grammar(&started.mode)?;
        Ok(Self { workspace, started, sent, template, grammar })
    }

    /// Reads a reply to the turn's prompt.
    pub(super) fn read(&self, text: &str, end: &End) -> Response {
        let nonce = self.started.nonce.as_ref();
        let context = Context {
            ours: self
                .workspace
                .pack
                .texts
                .values()
                .map(|text| text.body())
                .chain(self.template.as_deref())
                .collect(),
            sent: self.sent.iter().map(String::as_str).collect(),
            finish: finish(end),
            nonce: nonce.map(|nonce| nonce.as_str()),
            // A pack that tells no nonce cannot require one.
            policy: nonce.map_or(NoncePolicy::Off, |_| self.workspace.settings.verdict_nonce),
            // Where the agent is asked again anyway, nothing that it has only read can pass for its verdict.
            pass_named: nonce.is_some()
                && self.grammar.verdict_required
                && self.started.repairs > 0
                && self.workspace.settings.verdict_nonce != NoncePolicy::Off,
            tasks: self.started.tasks.clone(),
            ..Context::default()
        };
        parse::parse(text, &self.grammar, &context)
    }

    /// Reads a reply that came to its end, and puts the answers that belong to it into their places.
    pub(super) fn read_all(&self, replies: &[String]) -> Response {
        let first = replies.first().map_or("", String::as_str);
        let answers = replies.iter().skip(1);
        answers.fold(self.read(first, &End::Ok), |response, answer| self.merged(response, answer))
    }

    /// Returns the prompt that asks again for what a response lacks, if it lacks something and the pack has the words.
    pub(super) fn request(&self, response: &Response) -> Option<UnifiedPrompt> {
        match &self.workspace.pack.repair {
            Some(words) => parse::repair_request(response, &self.grammar, words.body()),
            None => {
                if parse::repair_request(response, &self.grammar, "").is_some() {
                    let pack = &self.workspace.pack.name;
                    log::warn!("the pack `{pack}` has no `repair` words, so nothing is asked for again");
                }
                None
            }
        }
    }

    /// Puts the answer to a request into its place. What it repeats of the turn's prompt is an echo; what it repeats of
    /// the request was asked for.
    pub(super) fn merged(&self, response: Response, answer: &str) -> Response {
        parse::merge(response, self.read(answer, &End::Ok), &self.grammar)
    }
}

fn finish(end: &End) -> Finish {
    match end {
        End::Ok => Finish::Stop,
        End::Cut => Finish::Length,
        End::TimedOut { .. } | End::Stopped | End::Lost | End::OutputTooLarge { .. } => Finish::Killed,
        _ => Finish::Failed,
    }
}
