//! Whole changes, from request to archive.

mod crash;
mod demo;
mod parallel;
mod repositories;
mod terminal;
