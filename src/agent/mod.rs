//! Agents: programs, models and functions that receive a prompt and reply.
//!
//! A [`Driver`] sends prompts to one agent: [`CommandAgent`] starts a command under a guard process, [`FnDriver`] calls a
//! function, [`Scripted`] plays a script, [`Echo`] returns the prompt. [`Drivers::find`] returns the driver of an agent by
//! its name, including models served over HTTP. A program that starts commands calls [`guard_main`] first in its `main`.
//!
//! ```
//! use agentd::agent::{Drivers, FnDriver};
//! use agentd::models::Reply;
//!
//! let mut drivers = Drivers::default();
//! let greeter = FnDriver::new(|call| Ok(Reply::from_text(format!("You are in {}.", call.mode))));
//! drivers.registered.register("greeter", greeter);
//! assert!(drivers.find("greeter").is_ok());
//! assert!(drivers.find("nobody").is_err());
//! ```

mod builtin;
mod command;
mod contain;
mod containment_support;
mod discovery;
mod drivers;
mod failure;
mod filesystem;
mod fn_driver;
mod guard;
mod http;
mod output;
mod output_parser;
mod process;
mod script_turn;
mod scripted;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod system;
mod tail;
mod text;
mod token_limit_error;
mod watcher;

use std::path::Path;
use std::time::Duration;

pub use builtin::{Echo, Replay};
pub use command::CommandAgent;
pub use contain::{
    CommandExit, Containment, ExitCause, GuardedCommand, GuardedProcess, discard, ended_at,
    exit_record, launch, prepare,
};
pub use containment_support::ContainmentFacts;
pub use discovery::{find_command, is_program, path_of};
pub use drivers::{Drivers, ECHO, REPLAY_PREFIX, RegisteredDrivers, SCRIPTED, is_builtin};
pub use filesystem::network_filesystem;
pub use fn_driver::FnDriver;
pub use guard::guard_main;
pub use output::OutputReader;
pub use process::{forbid_inspection, is_alive, marked_calls, reap, this_process};
pub use scripted::Scripted;
pub use tail::stdout_end;
pub use watcher::{ChildWatcher, WatchedChild};

pub use crate::config::CallLimits as Limits;
use crate::error::Result;
use crate::models::{Format, Mode, Permission, ProcessIdentity, Reply};

/// Set of tools that an agent may use in a call.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tools {
    /// All tools that the permission of the call allows.
    #[default]
    Own,
    /// No tools. If the agent's definition cannot disable them, tools for reading only.
    None,
}

/// One call to an agent. It is self-contained: agents keep no state between calls.
#[derive(Clone, Copy, Debug)]
pub struct AgentCall<'a> {
    /// Complete prompt, which is sent unchanged.
    pub prompt: &'a str,
    #[expect(missing_docs, reason = "the name says it all")]
    pub format: Format,
    #[expect(missing_docs, reason = "the name says it all")]
    pub mode: &'a Mode,
    /// Permission to read or to edit the working tree.
    pub permission: Permission,
    /// Tools that the agent may use.
    pub tools: Tools,
    /// Commands that the agent may run if it may edit.
    pub commands: &'a [String],
    /// Model; `None` uses the agent's default.
    pub model: Option<&'a str>,
    /// Maximum number of reply tokens; `None` if unknown.
    pub max_output: Option<u64>,
    /// Working directory of the agent.
    pub root: &'a Path,
    /// Folder for the files of this call. It must be empty or missing.
    pub folder: &'a Path,
    /// Unique value in the environment of the call's processes, which identifies them.
    pub marker: &'a str,
    /// Timeouts and output limit.
    pub limits: Limits,
}

/// Sends prompts to one agent.
///
/// Implementers send the prompt unchanged and keep no state between calls that would change a reply.
pub trait Driver: Send + Sync {
    /// Returns true if a call runs a command or costs money. Such calls need trust and count against budgets.
    fn spends(&self) -> bool;

    /// Returns true if a call could change files of the project. The working tree is then compared before and after a
    /// read-only call.
    fn works_in_tree(&self) -> bool {
        self.spends()
    }

    /// Starts a call.
    ///
    /// # Errors
    ///
    /// Fails if the call cannot be started. The failure of a started agent is part of its reply instead.
    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>>;

    /// Recovers a call whose caller was interrupted: its reply if the agent ended by itself, otherwise the text so far
    /// with the outcome `Lost`; `None` if the call left no files.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the files of the call cannot be read.
    fn salvage(&self, folder: &Path, marker: &str) -> Result<Option<RecoveredCall>>;
}

/// Recovered result of an interrupted call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredCall {
    /// The reply; its outcome is `Lost` if it may be incomplete.
    pub reply: Reply,
    /// Duration of the call; 0 if unknown.
    pub milliseconds: u64,
}

/// A call in progress.
pub trait RunningCall {
    /// Returns the process that a later run must look for if this program exits before the agent; `None` if there is none.
    fn process(&self) -> Option<&ProcessIdentity>;

    /// Waits for the reply for at most `patience`; `None` if the agent has not finished. After a reply, no process of the
    /// agent is alive.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the agent's output cannot be read.
    fn wait(&mut self, patience: Duration) -> Result<Option<Reply>>;

    /// Returns the part of the reply that has arrived since the last call of this function.
    fn said(&mut self) -> String;

    /// Asks the agent to exit, or kills it if `at_once`. `wait` then returns the reply.
    fn stop(&mut self, at_once: bool);
}
