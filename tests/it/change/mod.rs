//! Whole changes, from request to archive.

mod crash;
mod demo;
mod git_process_budget;
mod library;
mod own_work;
mod parallel;
mod repositories;
mod stranger;
mod terminal;
