//! Prompts from layers, any agent, a verdict you can trust.
//!
//! agentd composes prompts for language-model agents from layers, sends them to any agent, parses the replies tolerantly,
//! and advances a process by rules that are data. The `agentd` command is a thin layer over this library: whatever it does,
//! a few lines of Rust can do.
//!
//! Five types to start with:
//!
//! | type | is |
//! |---|---|
//! | [`Pack`] | a process as data: modes, prompt layers, actions, verdicts, gates |
//! | [`State`](models::State) | current state of a session: mode, document, progress |
//! | [`PromptRequest`](compose::PromptRequest) | input of one prompt: the user's text, files, a model |
//! | [`Response`](models::Response) | a parsed reply: message, actions, updates, verdict |
//! | [`TurnContext`](orchestrator::TurnContext) | shared dependencies of turns: project, ledger, agents, operations (feature `run`) |
//!
//! # Compose a prompt
//!
//! [`compose()`] fits the layers of a pack to the context window of a model, and reports the size of each layer.
//!
//! ```
//! use agentd::compose::PromptRequest;
//! use agentd::models::{Catalogue, State};
//! use agentd::{Pack, SearchPath, compose};
//!
//! let pack = Pack::load("foreman", &SearchPath::default())?;
//! let state = State::in_mode(pack.start.clone());
//! let request = PromptRequest::new("A thief learns to trust.").with_model(Catalogue::built_in()?, "llama3.2:3b");
//!
//! let draft = compose(&pack, &state, &request)?;
//! assert!(draft.text().ends_with("A thief learns to trust."));
//! assert_eq!(draft.fit_report.window, Some(8_192));
//! # Ok::<(), agentd::Error>(())
//! ```
//!
//! # Parse a reply
//!
//! [`parse::parse`] never fails. It recovers text from any input, but accepts an action or a verdict only if it is
//! unambiguous.
//!
//! ```
//! use agentd::models::Mode;
//! use agentd::parse::{ReplyContext, parse, verdict};
//! use agentd::{Pack, SearchPath, ReviewResult};
//!
//! let pack = Pack::load("light", &SearchPath::default())?;
//! let grammar = pack.grammar(&Mode::new("review")?)?;
//! let reply = "<message>Looks good.</message>\n<review>PASS</review>";
//!
//! let response = parse(reply, &grammar, &ReplyContext::default());
//! assert_eq!(response.message, "Looks good.");
//! assert_eq!(verdict(&response, &grammar)?, Some(ReviewResult::Pass));
//! # Ok::<(), agentd::Error>(())
//! ```
//!
//! # Drive an agent
//!
//! [`take_turn`](orchestrator::take_turn) composes a prompt, calls the agent, parses the reply, applies the effects that the
//! mode allows, and records every step in the ledger. An agent is a command, a model served over HTTP, or a function:
//!
//! ```
//! # #[cfg(feature = "run")] {
//! use agentd::agent::{Drivers, FnDriver};
//! use agentd::models::{Mode, Reply};
//! use agentd::ops::Operations;
//! use agentd::orchestrator::{Run, TurnContext, TurnRequest, Workspace, WorkspaceOptions, take_turn};
//! use agentd::store::MemoryStore;
//!
//! # let project = tempfile::tempdir().unwrap();
//! # let project = project.path().to_path_buf();
//! let workspace = Workspace::open(project, WorkspaceOptions::default().with_pack("foreman"))?;
//! let context = TurnContext {
//!     workspace: &workspace,
//!     store: &MemoryStore::default(),
//!     drivers: &Drivers::default(),
//!     operations: &Operations::shipped(),
//!     run: &Run::new("my program")?,
//! };
//! let agent = FnDriver::new(|_call| Ok(Reply::from_text("<message>Who is she?</message>")));
//! let request = TurnRequest::new(Mode::new("architect")?, "A thief learns to trust.");
//! let report = take_turn(&context, &agent, &request)?;
//! assert_eq!(report.response.message, "Who is she?");
//! # }
//! # Ok::<(), agentd::Error>(())
//! ```
//!
//! # Run a change
//!
//! [`run_change`](orchestrator::run_change) takes turn after turn on a separate branch until the change is merged or
//! needs the user. [`review_tree`](orchestrator::review_tree) reviews a working tree. Both take the same context;
//! `examples/run_change.rs` and `examples/review.rs` are complete programs.
//!
//! ```no_run
//! # #[cfg(feature = "run")]
//! # fn run(context: &agentd::orchestrator::TurnContext<'_>) -> agentd::Result<()> {
//! use agentd::models::SessionId;
//! use agentd::orchestrator::{ChangeEvent, ChangeRequest, LeaveWaiting, run_change};
//!
//! let change = SessionId::new("add-login")?;
//! let request = ChangeRequest::new(change).with_request("Add login");
//! // `LeaveWaiting` approves nothing. Call again with the same request to continue.
//! let outcome = run_change(context, &request, &mut LeaveWaiting, &mut |event| {
//!     if let ChangeEvent::TurnTaken(report) = event {
//!         println!("{} by {}: {:?}", report.mode, report.agent, report.verdict);
//!     }
//!     Ok(())
//! })?;
//! println!("{:?}", outcome.status.next);
//! # Ok(())
//! # }
//! ```
//!
//! More programs are in `examples/`: `parse_reply`, `small_window`, `chat_http`, `custom_agent`, `custom_operation`.
//!
//! # Modules in the order of a turn
//!
//! ```text
//!  before ─► layers ─► fit ─► render ─► agent ─► parse ─► apply ─► commit ─► after ─► settle ─► advance
//!   ops     └─────── compose ────────┘  agent    parse    apply    store     ops     store      apply
//! ```
//!
//! # Features
//!
//! | features | adds |
//! |---|---|
//! | none | the pure modules: [`text`], [`models`], [`config`], [`pack`], [`mod@compose`], [`parse`], [`apply`], [`spec`] |
//! | `run` | [`agent`], [`ops`], [`store`], [`orchestrator`], [`secret`]: processes, files, git, SQLite, HTTP |
//! | `tokenizer` (default) | exact token counts; without it, counts are estimates and a program is about 30 MB smaller |
//! | `cli` (default) | the `agentd` binary; includes `run` and `tokenizer` |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "run")]
#[cfg_attr(docsrs, doc(cfg(feature = "run")))]
pub mod agent;
pub mod apply;
pub mod compose;
pub mod config;
pub mod error;
#[cfg(feature = "run")]
#[doc(hidden)]
pub mod fail;
pub mod file;
pub mod models;
#[cfg(feature = "run")]
#[cfg_attr(docsrs, doc(cfg(feature = "run")))]
pub mod ops;
#[cfg(feature = "run")]
#[cfg_attr(docsrs, doc(cfg(feature = "run")))]
pub mod orchestrator;
pub mod pack;
pub mod parse;
#[cfg(feature = "run")]
#[cfg_attr(docsrs, doc(cfg(feature = "run")))]
pub mod secret;
pub mod spec;
#[cfg(feature = "run")]
#[cfg_attr(docsrs, doc(cfg(feature = "run")))]
pub mod store;
pub mod text;

// Crates whose types are part of this library's signatures.
pub use {indexmap, schemars, serde_json};

pub use compose::{Draft, compose, inject_variables};
pub use error::{Error, ErrorKind, Place, Result};
pub use models::{ContextItem, ContextKind, ReviewResult, UnifiedPrompt};
pub use pack::{Pack, SearchPath, Templates};

/// Compiles and runs the Rust examples of the documentation.
#[cfg(all(doctest, feature = "run"))]
mod pages {
    #[doc = include_str!("../docs/internals/fit.md")]
    struct Fit;

    #[doc = include_str!("../docs/reference/replies.md")]
    struct Replies;
}
