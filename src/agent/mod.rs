//! Agents: whatever receives a prompt and answers.
//!
//! A [`Driver`] sends prompts to one agent: [`CommandAgent`] starts a command under a guard process, [`Drivers::find`]
//! also knows models of HTTP servers, [`FnDriver`] calls a function, [`Scripted`] plays a script, [`Echo`] returns the
//! prompt. [`Drivers`] finds the driver of an agent by its name. A program that starts commands calls [`guard_main`] first
//! in its `main`.
//!
//! ```
//! use agentd::agent::{Drivers, FnDriver};
//! use agentd::models::Reply;
//!
//! let mut drivers = Drivers::default();
//! let greeter = FnDriver::new(|call| Ok(Reply::of(format!("You are in {}.", call.mode))));
//! drivers.registered.register("greeter", greeter);
//! assert!(drivers.find("greeter").is_ok());
//! assert!(drivers.find("nobody").is_err());
//! ```

mod command;
mod contain;
mod drivers;
mod facts;
mod failure;
mod fn_driver;
mod guard;
mod http;
mod listen;
mod output;
mod overflow;
mod presence;
mod process;
mod ready;
mod script_turn;
mod scripted;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod system;
mod tail;
mod text;
mod watcher;

use std::path::Path;
use std::time::Duration;

pub use command::CommandAgent;
pub use contain::{
    Contained, Containment, Exit, ExitCause, Job, discard, ended_at, exit_record, launch, prepare,
};
pub use drivers::{Drivers, ECHO, REPLAY_PREFIX, RegisteredDrivers, SCRIPTED, is_builtin};
pub use facts::{ContainmentFacts, network_filesystem};
pub use fn_driver::FnDriver;
pub use guard::guard_main;
pub use output::OutputReader;
pub use presence::{find_command, is_program, path_of};
pub use process::{forbid_inspection, is_alive, marked_calls, reap, this_process};
pub use ready::{Echo, Replay};
pub use scripted::Scripted;
pub use tail::stdout_end;
pub use watcher::{ChildWatcher, WatchedChild};

pub use crate::config::CallLimits as Limits;
use crate::error::Result;
use crate::models::{Format, Mode, Permission, Process, Reply};

/// Tools that an agent may use in a call.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tools {
    /// Those that its permission allows.
    #[default]
    Own,
    /// None, as far as its definition has arguments for that; otherwise those for reading.
    None,
}

/// One call to an agent: complete in itself, with nothing remembered from an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The whole prompt, as it is sent.
    pub prompt: &'a str,
    /// How it is rendered.
    pub format: Format,
    /// The mode it belongs to.
    pub mode: &'a Mode,
    /// What the agent may do to the work tree.
    pub permission: Permission,
    /// Tools that it may use.
    pub tools: Tools,
    /// Commands that it may run as well, if it may edit.
    pub commands: &'a [String],
    /// The model, if one was named.
    pub model: Option<&'a str>,
    /// The most tokens that the reply may have, if that is known.
    pub max_output: Option<u64>,
    /// The folder that the agent works in.
    pub root: &'a Path,
    /// An empty or missing folder of the call's own, for what goes in and out of the agent.
    pub folder: &'a Path,
    /// What the call's processes are marked with, so that they can be found again.
    pub marker: &'a str,
    /// How long it may take, and how much it may write.
    pub limits: Limits,
}

/// Our code that speaks to a kind of agent.
///
/// Implementers send the prompt unchanged and keep nothing between calls that would change an answer.
pub trait Driver: Send + Sync {
    /// Tells whether a call runs a command or costs something. What does must be trusted, and counts.
    fn spends(&self) -> bool;

    /// Tells whether a call could change files of the project: what the agent may only read is then compared.
    fn works_in_tree(&self) -> bool {
        self.spends()
    }

    /// Sends a prompt.
    ///
    /// # Errors
    ///
    /// Whatever keeps the agent from being started. How a started one ends is told by its reply.
    fn start(&self, call: &Call<'_>) -> Result<Box<dyn Running + '_>>;

    /// Returns what came of a call that nobody waits for any more: its reply if it came to its own end, or else what it
    /// had said by then, with the end `Lost`; `None` if nothing of it is there.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if what it left cannot be read.
    fn salvage(&self, folder: &Path, marker: &str) -> Result<Option<Salvaged>>;
}

/// What came of a call that nobody waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The reply; `Lost` if it is not known to be whole.
    pub reply: Reply,
    /// How long the call took, as far as that is known.
    pub milliseconds: u64,
}

/// An agent at work.
pub trait Running {
    /// Returns the process to look for should the program end before the agent does.
    fn process(&self) -> Option<&Process>;

    /// Waits for the end, for so long at most; `None` if it has not come. After a reply nothing of the agent is alive.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if what the agent wrote cannot be read.
    fn wait(&mut self, patience: Duration) -> Result<Option<Reply>>;

    /// Returns what the agent has said since this was last asked, as far as it can be told before the end.
    fn said(&mut self) -> String;

    /// Asks the agent to end, or ends it at once; `wait` then tells of it.
    fn stop(&mut self, at_once: bool);
}
