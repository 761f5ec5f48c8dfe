//! Agents that record their arguments, environment and input.

use std::fs;
use std::path::PathBuf;

use crate::support::{TestProject, program, write};

/// A recorded call of an agent.
#[derive(Debug)]
pub(crate) struct RecordedCall {
    pub(crate) argv: Vec<String>,
    /// Its variables, as `NAME=VALUE`.
    pub(crate) environment: Vec<String>,
    pub(crate) stdin: String,
}

impl RecordedCall {
    /// Returns the names of its variables, sorted.
    pub(crate) fn variables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .environment
            .iter()
            .map(|line| line.split_once('=').unwrap().0)
            .collect();
        names.sort_unstable();
        names
    }
}

/// Defines agents of the user, each by its name, the steps it takes once it has recorded its call,
/// and further lines of its definition.
pub(crate) fn define_agents(project: &TestProject, agents: &[(&str, &[&str], &str)]) {
    let mut text = "format: 1\nagents:\n".to_owned();
    for (name, steps, more) in agents {
        let record = format!("record {}", folder(project, name).display());
        let program = program("fake_agent").display().to_string();
        let argv: Vec<&str> = [program.as_str(), &record]
            .into_iter()
            .chain(steps.iter().copied())
            .collect();
        text += &format!(
            "  {name}:\n    argv: {}\n{more}",
            serde_json::to_string(&argv).unwrap()
        );
    }
    // In the user's folder, where it needs no trust.
    write(&project.user_folder().join("agents.yaml"), text);
}

fn folder(project: &TestProject, agent: &str) -> PathBuf {
    project.home().join("calls").join(agent)
}

/// Returns the number of calls of an agent.
pub(crate) fn calls(project: &TestProject, agent: &str) -> usize {
    fs::read_dir(folder(project, agent)).map_or(0, Iterator::count)
}

/// Returns a call of an agent. The first call has number 1.
pub(crate) fn call(project: &TestProject, agent: &str, number: usize) -> RecordedCall {
    let read = |name: &str| {
        fs::read_to_string(folder(project, agent).join(number.to_string()).join(name)).unwrap()
    };
    let lines = |name: &str| read(name).lines().map(str::to_owned).collect();
    RecordedCall {
        argv: lines("argv"),
        environment: lines("env"),
        stdin: read("stdin"),
    }
}

/// Stores the answer of an agent in a file, and returns the step that prints it.
pub(crate) fn answer(project: &TestProject, name: &str, text: &str) -> String {
    let path = project.home().join("answers").join(name);
    write(&path, text);
    format!("cat {}", path.display())
}

/// Returns a prompt with its nonce replaced, to compare it with the output of `agentd prompt`.
pub(crate) fn with_preview_nonce(prompt: &str) -> String {
    // In JSON the quotes are escaped.
    let Some(value) = prompt
        .split("<review run=")
        .nth(1)
        .map(|rest| rest.trim_start_matches(['\\', '"']))
    else {
        return prompt.to_owned();
    };
    let nonce = &value[..value.find(['"', '\\']).unwrap()];
    assert!(nonce.len() == 8, "{nonce:?} is not a nonce");
    prompt.replace(nonce, "preview")
}
