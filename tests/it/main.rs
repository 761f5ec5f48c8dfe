//! The only integration-test binary: a list of modules.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and sets up the world it needs"
)]

mod support;

mod agent_output;
mod agents;
mod bad_input;
mod bad_replies;
mod change_cases;
mod change_crash;
mod change_parallel;
mod change_stage;
mod change_terminal;
mod change_trees;
mod checks;
mod cli;
mod command_agent;
mod containment;
mod crash;
mod demo;
mod dependencies;
mod doctor;
mod edits;
mod expands;
mod fit;
mod foreign_ledger;
mod foreman;
mod found_agents;
mod found_checks;
mod front_matter;
mod fuzz_replies;
mod git_door;
mod history;
mod hostile_repository;
mod http_agent;
mod http_turns;
mod ledger;
mod line;
mod measured;
mod mode_settings;
mod modelserver;
mod modelserver_dialects;
mod next_prompt;
mod nonce;
mod pack_runs;
mod packs;
mod parse_command;
mod probe;
mod read_only;
mod readme;
mod real_agents;
mod recording;
mod repair;
mod replies;
mod replies_properties;
mod resumed;
mod screen;
mod secret_files;
mod secret_turns;
mod secrets;
mod seed_000_prompt;
mod seed_001_templates;
mod seed_002_orchestrators;
mod seed_002_replies;
mod seed_002_turns;
mod seed_003_builder;
mod seed_003_templates;
mod seed_003_tools;
mod seed_004_assembler;
mod seed_004_replies;
mod seed_004_sandwich;
mod seed_004_state;
mod seed_flows;
mod settings;
mod specs;
mod stream;
mod structure;
mod template_lint;
mod tidy;
mod tokens;
mod trust;
mod xml;
