//! A project whose files are edited by the replies of agents without tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentd::models::{AgentName, Mode, SessionId};
use agentd::orchestrator::{TurnReport, TurnRequest, Workspace, WorkspaceOptions};

use super::{TestProject, files_below, write};

/// An agent that is a plain pipe, and a model server.
const AGENTS: &str = "format: 1\nproviders:\n  far: {dialect: openai, base_url: \"https://far.example/v1\"}\n\
                      agents:\n  pipe: {argv: [pipe], tools: false}\n  able: {argv: [able]}\n";

/// Returns a project with a planned change and agents without tools.
pub(crate) fn project() -> TestProject {
    let project = TestProject::new();
    write(&project.user_folder().join("agents.yaml"), AGENTS);
    project.write("agentd/changes/x/proposal.md", "# X\n");
    project
}

pub(crate) fn workspace(project: &TestProject) -> Workspace {
    Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )
    .unwrap()
}

pub(crate) fn ask(agent: &str, files: impl IntoIterator<Item = PathBuf>) -> TurnRequest {
    TurnRequest {
        agent: Some(AgentName::new(agent).unwrap()),
        session: Some(SessionId::new("x").unwrap()),
        files: files.into_iter().collect(),
        ..TurnRequest::new(Mode::new("implement").unwrap(), "Do it")
    }
}

/// Returns the text of every file of the working tree that is not a symbolic link, by path.
pub(crate) fn tree(project: &TestProject) -> BTreeMap<String, String> {
    let own = |path: &PathBuf| {
        ![".git", ".agentd", "agentd"]
            .iter()
            .any(|folder| path.starts_with(folder))
            && !path
                .ancestors()
                .any(|path| project.root().join(path).is_symlink() && path != Path::new(""))
    };

    let files = files_below(&project.root()).into_iter().filter(own);
    files
        .map(|path| {
            (
                path.display().to_string(),
                project.read(path.to_str().unwrap()),
            )
        })
        .collect()
}

/// Returns the result of each step as a case file writes it: `yes` or `no`, and the detail.
pub(crate) fn step_results(report: &TurnReport) -> Vec<String> {
    let word = |done: bool| if done { "yes" } else { "no" };
    report
        .settlements
        .iter()
        .map(|s| format!("{} {}", word(s.done), s.detail))
        .collect()
}
