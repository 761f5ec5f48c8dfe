//! Packs and templates.

mod memory;
mod packs;
mod template_lint;
mod whole_runs;
