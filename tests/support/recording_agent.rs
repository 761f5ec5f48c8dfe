//! Agents that record how they were called: their arguments, their environment, and all they were sent.

use std::fs;
use std::path::PathBuf;

use crate::support::{TestProject, program, write};

/// How an agent was called.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) argv: Vec<String>,
    /// Its variables, as `NAME=VALUE`.
    pub(crate) environment: Vec<String>,
    pub(crate) stdin: String,
}

impl Called {
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

/// Describes agents for the user, each by its name, the steps it takes once it has recorded its call, and further
/// lines of its definition.
pub(crate) fn describe(project: &TestProject, agents: &[(&str, &[&str], &str)]) {
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
    // With the user, where nobody has to accept it.
    write(&project.user_folder().join("agents.yaml"), text);
}

fn folder(project: &TestProject, agent: &str) -> PathBuf {
    project.home().join("calls").join(agent)
}

/// Returns how often an agent was called.
pub(crate) fn calls(project: &TestProject, agent: &str) -> usize {
    fs::read_dir(folder(project, agent)).map_or(0, Iterator::count)
}

/// Returns a call of an agent, the first by number 1.
pub(crate) fn call(project: &TestProject, agent: &str, number: usize) -> Called {
    let read = |name: &str| {
        fs::read_to_string(folder(project, agent).join(number.to_string()).join(name)).unwrap()
    };
    let lines = |name: &str| read(name).lines().map(str::to_owned).collect();
    Called {
        argv: lines("argv"),
        environment: lines("env"),
        stdin: read("stdin"),
    }
}

/// Puts what an agent shall answer where it can be read with the step that is returned.
pub(crate) fn answer(project: &TestProject, name: &str, text: &str) -> String {
    let path = project.home().join("answers").join(name);
    write(&path, text);
    format!("cat {}", path.display())
}

/// Returns a prompt with its nonce replaced, so that it can be compared with one that `agentd prompt` shows.
pub(crate) fn previewed(prompt: &str) -> String {
    // In JSON the quotes are escaped.
    let Some(value) = prompt
        .split("<review run=")
        .nth(1)
        .map(|rest| rest.trim_start_matches(['\\', '"']))
    else {
        return prompt.to_owned();
    };
    let nonce = &value[..value.find(['"', '\\']).unwrap()];
    assert!(nonce.len() == 8, "{nonce:?} is no nonce");
    prompt.replace(nonce, "preview")
}
