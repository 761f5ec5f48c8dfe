//! Packs and templates.

mod packs;
mod template_lint;
mod whole_runs;
