//! Plain values. They know no pack, no file, no agent and no database.

mod agent;
mod block;
mod event;
mod marker;
mod mode;
mod model;
mod pattern;
pub mod prompt;
mod response;
mod session;
mod state;
mod usage;
mod xml_read;
mod xml_write;
pub mod yaml;

pub use agent::AgentName;
pub use block::{Block, Class, Part, Segment, Zone};
pub use event::{Effect, Event, Settlement};
pub use marker::{Marker, ReviewResult, TaskStatus};
pub use mode::{Mode, Permission};
pub use model::{CountKind, ModelSpec, Price, Reliability, Tier, TokenizerSpec};
pub use pattern::matches_pattern;
pub use prompt::{ContextItem, ContextKind, Piece, UnifiedPrompt};
pub use response::{Problem, Proposal, Reply, Response, Update};
pub use session::SessionId;
pub use state::{Progress, State};
pub use usage::UsageMetrics;
