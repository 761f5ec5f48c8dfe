//! Packs and templates.

mod broken;
mod memory;
mod packs;
mod state_files;
mod template_lint;
mod whole_runs;
