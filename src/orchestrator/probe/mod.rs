//! A probe measures how reliably an agent follows the protocol: small requests with known answers, each a normal turn.

mod cases;
mod probe_agent;
mod report;

pub use probe_agent::{Probe, probe_agent};
pub use report::{ConditionEffect, ProbeReport, ProbeTurn};
