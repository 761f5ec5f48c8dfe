//! `agentd chat`: a conversation, line by line.

mod input;
mod print;
mod slash;

use agentd::agent::REPLAY_PREFIX;
use agentd::models::{AgentName, Mode, SessionId};
use agentd::orchestrator::{
    ChatOptions, TurnContext, TurnRequest, Workspace, chat_turn, check_chat_pack, no_agent,
};
use agentd::store::{SqliteStore, Store};
use agentd::{Error, Result};

use self::input::{ChatInput, InputReader};
use super::session::{CliSession, Watcher};
use crate::args::{Args, ChatArgs};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, project};

/// Pack of a new session in a project without a chat pack in its settings.
const DEFAULT_CHAT_PACK: &str = "foreman";

pub(super) fn run(args: &Args, given: &ChatArgs) -> CommandResult {
    let session = SessionId::new(given.session.as_str())?;
    let workspace = open_workspace(args, given, &session)?;
    check_chat_pack(&workspace.pack)?;
    let mut cli = CliSession::open(args, "agentd chat", workspace, &given.send, given.json)?;
    let options = ChatOptions {
        agent: given.agent.as_deref().map(AgentName::new).transpose()?,
        model: given.model.clone(),
        ..ChatOptions::default()
    };
    let mut dialogue = Dialogue {
        session,
        options,
        json: given.json,
        is_interactive: terminal::can_ask(),
        messages: 0,
        is_all_refused: false,
    };
    dialogue.announce(&cli)?;

    let (result, shown) = cli.with_context(false, |context, watcher| {
        Ok(dialogue.run(args, context, watcher))
    })?;
    let code = result??;
    shown.map_err(Failure::Output)?;
    Ok(code)
}

/// Opens the project with the pack of the command line, of the session, or of the settings if that is a chat pack.
fn open_workspace(args: &Args, given: &ChatArgs, session: &SessionId) -> Result<Workspace> {
    if let Some(pack) = &given.pack {
        return project::workspace(args, Some(pack));
    }
    if let Some(pack) = project::find_pack(args, session)? {
        return project::workspace(args, Some(&pack));
    }
    let workspace = project::workspace(args, None)?;
    if workspace.pack.is_chat() {
        return Ok(workspace);
    }
    project::workspace(args, Some(DEFAULT_CHAT_PACK))
}

/// A conversation on stdin and stdout.
struct Dialogue {
    session: SessionId,
    options: ChatOptions,
    json: bool,
    /// True on a terminal, where an error does not end the conversation.
    is_interactive: bool,
    /// Number of messages that were sent.
    messages: u64,
    /// True if the last reply asked for something and nothing of it was carried out.
    is_all_refused: bool,
}

impl Dialogue {
    /// Prints who answers, on stderr. Fails before a ledger is created if there is no agent.
    fn announce(&self, cli: &CliSession) -> Result<()> {
        let workspace = &cli.workspace;
        let pack = &workspace.pack;
        let store = SqliteStore::open_existing(&workspace.root)?;
        let state = store.map(|store| store.state(&self.session)).transpose()?;
        let state = state.unwrap_or_default();
        let mode = state.mode.unwrap_or_else(|| pack.start.clone());

        let agent = find_agent(workspace, &self.options, &mode)?;
        if !agent.as_str().starts_with(REPLAY_PREFIX) {
            cli.drivers.find(agent.as_str())?;
        }
        terminal::eprint_row(
            "chat",
            format_args!(
                "session {}, pack {}, mode {mode}, agent {agent}",
                self.session, pack.name
            ),
        );
        if self.is_interactive {
            terminal::note("type a message, /help for the commands, /quit to end");
        }
        Ok(())
    }

    /// Reads messages and commands until the end of the input. Returns the exit code.
    fn run(&mut self, args: &Args, context: &TurnContext<'_>, watcher: &Watcher) -> CommandResult {
        let mut reader = InputReader::new(self.is_interactive);
        loop {
            watcher.flush();
            let done = match reader.next_input() {
                Ok(ChatInput::End) => break,
                Ok(ChatInput::Message(text)) => self.send(context, watcher, &text),
                Ok(ChatInput::Command(line)) => {
                    match slash::SlashCommand::parse(&line, &context.workspace.pack) {
                        Ok(slash::SlashCommand::Quit) => break,
                        Ok(command) => self.run_command(args, context, &command),
                        Err(error) => Err(error.into()),
                    }
                }
                // Reading again would fail again.
                Err(error) if std::error::Error::source(&error).is_some() => {
                    return Err(error.into());
                }
                Err(error) => Err(error.into()),
            };

            match done {
                Err(Failure::Error(error)) if self.is_interactive => {
                    watcher.flush();
                    terminal::print_failure(&Failure::Error(error), self.json);
                    context.run.stop.clear();
                }
                done => done?,
            }
        }

        let is_single = !self.is_interactive && self.messages == 1;
        if is_single && self.is_all_refused {
            return Ok(exit::FINDINGS);
        }
        Ok(exit::OK)
    }

    /// Sends a message and prints the reply.
    fn send(
        &mut self,
        context: &TurnContext<'_>,
        watcher: &Watcher,
        message: &str,
    ) -> Result<(), Failure> {
        self.messages += 1;
        let reply = chat_turn(context, &self.session, message, &self.options)?;
        self.is_all_refused = reply.is_all_refused();
        watcher.flush();
        print::print_reply(&reply, self.json)?;
        Ok(())
    }
}

/// Returns the agent that answers in a mode.
fn find_agent(
    workspace: &Workspace,
    options: &ChatOptions,
    mode: &Mode,
) -> Result<AgentName, Error> {
    let request = TurnRequest {
        agent: options.agent.clone(),
        ..TurnRequest::new(mode.clone(), "")
    };
    workspace.agent(&request)?.ok_or_else(|| no_agent(mode))
}
