//! Compiled-in files. A test compares the list with the folders.

use std::path::Path;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "data/agents.yaml",
    "data/default_agents.txt",
    "data/demo/CHANGELOG.md",
    "data/demo/README.md",
    "data/demo/config.toml",
    "data/demo/greet.sh",
    "data/demo/project.md",
    "data/demo/script.yaml",
    "data/demo/test.sh",
    "data/init/config.toml",
    "data/init/project.md",
    "data/models.yaml",
    "data/pack/check.md",
    "data/pack/draft.md",
    "data/pack/identity.md",
    "data/pack/pack.yaml",
    "data/pack/repair.md",
    "data/pack/verdict.md",
    "data/secret_files.txt",
    "data/secret_names.txt",
    "packs/foreman/actions.yaml",
    "packs/foreman/artifacts.yaml",
    "packs/foreman/examples/architect.assistant.md",
    "packs/foreman/examples/architect.user.md",
    "packs/foreman/examples/director.assistant.md",
    "packs/foreman/examples/director.user.md",
    "packs/foreman/examples/editor.assistant.md",
    "packs/foreman/examples/editor.user.md",
    "packs/foreman/examples/voice_calibration.assistant.md",
    "packs/foreman/examples/voice_calibration.user.md",
    "packs/foreman/gemini_note.md",
    "packs/foreman/guardrails/continuity_rules.md",
    "packs/foreman/guardrails/continuity_rules.medium.md",
    "packs/foreman/guardrails/continuity_rules.minimal.md",
    "packs/foreman/guardrails/voice_antipatterns.md",
    "packs/foreman/guardrails/voice_antipatterns.medium.md",
    "packs/foreman/guardrails/voice_antipatterns.minimal.md",
    "packs/foreman/identity.md",
    "packs/foreman/identity.minimal.md",
    "packs/foreman/modes/architect.md",
    "packs/foreman/modes/architect.minimal.md",
    "packs/foreman/modes/director.md",
    "packs/foreman/modes/director.minimal.md",
    "packs/foreman/modes/editor.md",
    "packs/foreman/modes/editor.minimal.md",
    "packs/foreman/modes/voice_calibration.md",
    "packs/foreman/modes/voice_calibration.minimal.md",
    "packs/foreman/pack.yaml",
    "packs/foreman/process_map.md",
    "packs/foreman/process_map.medium.md",
    "packs/foreman/protocols.md",
    "packs/foreman/protocols.medium.md",
    "packs/foreman/protocols.minimal.md",
    "packs/foreman/reminder.md",
    "packs/foreman/reminder_thinking.md",
    "packs/foreman/repair.md",
    "packs/foreman/state.yaml",
    "packs/light/actions.yaml",
    "packs/light/modes/fix.md",
    "packs/light/modes/review.md",
    "packs/light/no_tools.md",
    "packs/light/no_tools_edits.md",
    "packs/light/pack.yaml",
    "packs/light/repair.md",
    "packs/light/verdict.md",
    "packs/probe/actions.yaml",
    "packs/probe/cases.yaml",
    "packs/probe/examples/action.assistant.md",
    "packs/probe/examples/action.user.md",
    "packs/probe/examples/message.assistant.md",
    "packs/probe/examples/message.user.md",
    "packs/probe/examples/verdict.assistant.md",
    "packs/probe/examples/verdict.user.md",
    "packs/probe/modes/action.md",
    "packs/probe/modes/message.md",
    "packs/probe/modes/verdict.md",
    "packs/probe/pack.yaml",
    "packs/probe/protocol.md",
    "packs/probe/reminder.md",
    "packs/sdd/actions.yaml",
    "packs/sdd/no_tools.md",
    "packs/sdd/no_tools_edits.md",
    "packs/sdd/pack.yaml",
    "packs/sdd/repair.md",
    "packs/sdd/skeletons/challenge.md",
    "packs/sdd/skeletons/proposal.md",
    "packs/sdd/skeletons/review.md",
    "packs/sdd/skeletons/spec.md",
    "packs/sdd/skeletons/tasks.md",
    "packs/sdd/verdict.md",
    "packs/taskqueue/controlled-splitting.md",
    "packs/taskqueue/execution-focus.md",
    "packs/taskqueue/hook-executor.md",
    "packs/taskqueue/pack.yaml",
    "packs/taskqueue/plan-structure-guide.md",
    "packs/taskqueue/supervisor.md",
    "packs/taskqueue/task-agent.md",
    "templates/notices/missing-variable.md",
    "templates/notices/notes.md",
    "templates/notices/request.md",
    "templates/notices/unanswered.md",
    "templates/system/BASE-archive.md",
    "templates/system/BASE-challenge.md",
    "templates/system/BASE-implement.md",
    "templates/system/BASE-plan.md",
    "templates/system/BASE-review.md",
    "templates/system/CLAUDE-implement.md",
    "templates/system/CODEX-challenge.md",
    "templates/system/CODEX-review.md",
    "templates/system/GEMINI-plan.md",
];

/// Notice for a mandatory variable without a value.
pub(crate) const MISSING_VARIABLE: &str =
    include_str!("../../templates/notices/missing-variable.md");

/// Introduction to the request of a change in `<instructions>`; `{{REQUEST}}` is replaced by the request.
pub const REQUEST_NOTICE: &str = include_str!("../../templates/notices/request.md");

/// Introduction to the user's notes on a change; `{{NOTES}}` is replaced by all notes.
pub const NOTES_NOTICE: &str = include_str!("../../templates/notices/notes.md");

/// Notice to an agent whose questions were not answered.
pub const UNANSWERED_NOTICE: &str = include_str!("../../templates/notices/unanswered.md");

/// Initial content of `agentd/project.md`.
pub const PROJECT_DRAFT: &str = include_str!("../../data/init/project.md");

/// Name of the default pack.
pub const DEFAULT_PACK: &str = "sdd";

/// Name of the pack that probes use.
pub const PROBE_PACK: &str = "probe";

/// Name of the pack that `PromptBuilder` uses.
pub(crate) const BUILDER_PACK: &str = "taskqueue";

/// Files of a new pack, by path in its folder; `{{NAME}}` is replaced by the pack's name.
pub const PACK_DRAFT: &[(&str, &str)] = &[
    ("pack.yaml", include_str!("../../data/pack/pack.yaml")),
    ("identity.md", include_str!("../../data/pack/identity.md")),
    ("modes/draft.md", include_str!("../../data/pack/draft.md")),
    ("verdict.md", include_str!("../../data/pack/verdict.md")),
    ("modes/check.md", include_str!("../../data/pack/check.md")),
    ("repair.md", include_str!("../../data/pack/repair.md")),
];

/// Files of the demo project, by path.
pub const DEMO: &[(&str, &str)] = &[
    ("CHANGELOG.md", include_str!("../../data/demo/CHANGELOG.md")),
    ("README.md", include_str!("../../data/demo/README.md")),
    (
        "agentd/config.toml",
        include_str!("../../data/demo/config.toml"),
    ),
    (
        "agentd/project.md",
        include_str!("../../data/demo/project.md"),
    ),
    ("greet.sh", include_str!("../../data/demo/greet.sh")),
    ("test.sh", include_str!("../../data/demo/test.sh")),
];

/// Scripted replies of the demo's agent.
pub const DEMO_SCRIPT: &str = include_str!("../../data/demo/script.yaml");

/// Definitions of agents, and settings common to all of them.
pub const AGENTS: &str = include_str!("../../data/agents.yaml");

/// Names of the default agents.
pub const DEFAULT_AGENTS: &str = include_str!("../../data/default_agents.txt");

/// Name patterns of environment variables with secret values, one per line.
pub const SECRET_NAMES: &str = include_str!("../../data/secret_names.txt");

/// Name patterns of files with secrets, one per line.
pub const SECRET_FILES: &str = include_str!("../../data/secret_files.txt");

/// Initial content of `agentd/config.toml`.
pub const CONFIG_DRAFT: &str = include_str!("../../data/init/config.toml");

/// Returns the content of a compiled-in file.
pub(super) fn find(name: &Path) -> Option<&'static str> {
    FILES
        .iter()
        .find(|(path, _)| Path::new(path) == name)
        .map(|(_, text)| *text)
}

/// Returns the paths of the compiled-in files below a folder, relative to it.
pub(super) fn names_in(folder: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    FILES
        .iter()
        .filter_map(move |(path, _)| path.strip_prefix(folder)?.strip_prefix('/'))
}

/// Returns the names of the direct subfolders of `folder` that contain the compiled-in file `file`.
pub(super) fn folders_with(folder: &str, file: &str) -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(move |(path, _)| {
        let name = path
            .strip_prefix(folder)?
            .strip_prefix('/')?
            .strip_suffix(file)?
            .strip_suffix('/')?;
        (!name.contains('/')).then_some(name)
    })
}

/// Returns the paths of all compiled-in files.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, _)| *path)
}
