//! `agentd doctor`: what this machine gives to agents.

use agentd::Result;
use agentd::agent::{ContainmentFacts, network_filesystem};
use serde_json::{Value, json};

use crate::args::Args;
use crate::out::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, as_json: bool) -> Outcome {
    let root = project::root(args)?;
    let facts = ContainmentFacts::find(&project::own_file()?);
    let network = network_filesystem(&root);
    if as_json {
        out::json(&json!({
            "guard": state(&facts.guard),
            "namespace": state(&facts.namespace),
            "when_agentd_is_killed": facts.when_killed(),
            "when_the_guard_is_killed_too": facts.when_guard_killed(),
            "network_file_system": network,
        }))?;
    } else {
        let words = |found: &Result<()>, good: &str| match found {
            Ok(()) => good.to_owned(),
            Err(error) => format!("no: {error:#}"),
        };
        out::rows(&[
            ("guard", words(&facts.guard, "yes: all that an agent starts ends with its call")),
            ("namespace", words(&facts.namespace, "yes: containment = \"namespace\" may be set")),
            ("killed", format!("agentd: {}", facts.when_killed())),
            ("", format!("and its guard: {}", facts.when_guard_killed())),
            (
                "ledger",
                match &network {
                    None => "on a local file system".to_owned(),
                    Some(name) => format!("on {name}, a network file system, which may lose it"),
                },
            ),
        ])?;
    }
    Ok(if facts.guard.is_ok() && network.is_none() { exit::OK } else { exit::FINDINGS })
}

fn state(found: &Result<()>) -> Value {
    json!({"works": found.is_ok(), "why_not": found.as_ref().err().map(|error| format!("{error:#}"))})
}
