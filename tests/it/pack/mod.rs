//! Packs and templates.

mod broken;
mod memory;
mod packs;
mod template_lint;
mod whole_runs;
