//! Probes: measure how reliably an agent follows the protocol, with small requests that have a known right reply.

mod cases;
mod probe_agent;
mod report;

pub use probe_agent::{Probe, probe_agent};
pub use report::{ConditionEffect, ProbeReport, ProbeTurn};
