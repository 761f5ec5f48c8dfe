//! Packs and templates.

mod broken;
mod commands;
mod memory;
mod packs;
mod postmortem;
mod state_files;
mod template_lint;
mod whole_runs;
