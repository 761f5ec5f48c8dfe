//! Agents: definitions, processes, output, containment.

mod command;
mod containment;
mod definitions;
mod discovery;
mod escaping;
mod http;
mod model_server;
mod output;
mod probe;
mod read_only;
