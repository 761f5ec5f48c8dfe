//! Conversations: through the library, and with `agentd chat`.

mod any_pack;
mod commands;
mod crash;
mod dialogue;
mod follow_ups;
mod gates;
mod library;
mod undo;

use std::sync::{Arc, Mutex};

use agentd::agent::{Drivers, FnDriver};
use agentd::models::{AgentName, Reply, SessionId};
use agentd::ops::Operations;
use agentd::orchestrator::{
    ChatOptions, ChatReply, Run, TurnContext, Workspace, WorkspaceOptions, chat_turn,
};
use agentd::store::MemoryStore;

use crate::support::TestProject;

/// A project with agents that give fixed replies and record their prompts.
struct Conversation {
    project: TestProject,
    workspace: Workspace,
    store: MemoryStore,
    drivers: Drivers,
    operations: Operations,
    run: Run,
    /// Name of the agent and prompt of each call.
    calls: Arc<Mutex<Vec<(String, String)>>>,
}

impl Conversation {
    /// Returns a conversation with agents that always give the same reply.
    fn new(pack: &str, agents: &[(&'static str, &'static str)]) -> Self {
        let agents: Vec<_> = agents
            .iter()
            .map(|(name, reply)| (*name, vec![*reply]))
            .collect();
        Self::with_replies(TestProject::new(), pack, agents)
    }

    /// Returns a conversation with agents that give one reply after the other, and repeat the last one.
    fn with_replies(
        project: TestProject,
        pack: &str,
        agents: Vec<(&'static str, Vec<&'static str>)>,
    ) -> Self {
        let options = WorkspaceOptions::default().with_pack(pack);
        let workspace = Workspace::open(project.root(), options).unwrap();
        let calls: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let mut drivers = Drivers::default();
        for (name, replies) in agents {
            let calls = Arc::clone(&calls);
            let driver = FnDriver::new(move |call| {
                let mut calls = calls.lock().unwrap();
                let earlier = calls.iter().filter(|(agent, _)| agent == name).count();
                calls.push((name.to_owned(), call.prompt.to_owned()));
                let reply = replies.get(earlier).or(replies.last()).unwrap();
                Ok(Reply::from_text(*reply))
            });
            drivers.registered.register(name, driver);
        }
        Self {
            project,
            workspace,
            store: MemoryStore::default(),
            drivers,
            operations: Operations::shipped(),
            run: Run::new("test").unwrap(),
            calls,
        }
    }

    fn context(&self) -> TurnContext<'_> {
        TurnContext {
            workspace: &self.workspace,
            store: &self.store,
            drivers: &self.drivers,
            operations: &self.operations,
            run: &self.run,
        }
    }

    fn say(&self, agent: &str, message: &str) -> agentd::Result<ChatReply> {
        chat_turn(&self.context(), &session(), message, &options(agent))
    }

    /// Returns the prompt of the last call.
    fn last_prompt(&self) -> String {
        self.calls.lock().unwrap().last().unwrap().1.clone()
    }
}

fn session() -> SessionId {
    SessionId::new("novel").unwrap()
}

fn options(agent: &str) -> ChatOptions {
    ChatOptions {
        agent: Some(AgentName::new(agent).unwrap()),
        ..ChatOptions::default()
    }
}
