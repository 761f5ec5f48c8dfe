//! The opened project: its settings, pack, templates and agents, the context of its prompts, and the user's trust in it.

mod agents;
mod checks;
mod context;
mod init;
mod layers;
mod open;
mod project_memory;
mod secret_files;
mod session_documents;
mod trust;

pub use checks::{accept_checks, check_checks};
pub use context::PromptContext;
pub(crate) use context::{PROJECT_FILE, gather};
pub use init::{CreatedFile, init_project};
pub use layers::{load_catalogue, load_settings, secret_variable_names};
pub(crate) use open::BaseDefinitions;
pub use open::{Workspace, WorkspaceOptions};
pub use project_memory::ProjectFiles;
pub(crate) use secret_files::is_secret_file;
pub(crate) use session_documents::gather_session_documents;
pub(crate) use trust::distrust_ledger;
pub use trust::{
    Definition, Trust, TrustStatus, check_trust, is_ledger_trusted, list_definitions, open_ledger,
};
