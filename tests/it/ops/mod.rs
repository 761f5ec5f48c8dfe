//! Project files, git and check commands.

mod canary;
mod check_discovery;
mod checks;
mod git_door;
mod git_snapshots;
mod hidden_keys;
mod hostile_repository;
mod killed_git;
mod large_files;
mod own_operations;
mod pipes;
mod project_tree;
mod secret_files;
