//! The compiled-in files. A test keeps the list equal to the folders.

use std::path::Path;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "data/init/config.toml",
    "data/init/project.md",
    "data/models.yaml",
    "packs/sdd/pack.yaml",
    "packs/sdd/skeletons/challenge.md",
    "packs/sdd/skeletons/proposal.md",
    "packs/sdd/skeletons/review.md",
    "packs/sdd/skeletons/spec.md",
    "packs/sdd/skeletons/tasks.md",
    "templates/notices/missing-variable.md",
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

/// What stands in a prompt where a mandatory variable has no value.
pub(crate) const MISSING_VARIABLE: &str = include_str!("../../templates/notices/missing-variable.md");

/// The first draft of `agentd/project.md`.
pub const PROJECT_DRAFT: &str = include_str!("../../data/init/project.md");

/// The catalogue of models.
pub const MODELS: &str = include_str!("../../data/models.yaml");

/// The first `agentd/config.toml`.
pub const CONFIG_DRAFT: &str = include_str!("../../data/init/config.toml");

/// Returns a compiled-in file.
pub(super) fn find(name: &Path) -> Option<&'static str> {
    FILES.iter().find(|(path, _)| Path::new(path) == name).map(|(_, text)| *text)
}

/// Returns the names of the compiled-in files directly in a folder, without the folder.
pub(super) fn names_in(folder: &str) -> impl Iterator<Item = &'static str> + use<'_> {
    FILES.iter().filter_map(move |(path, _)| path.strip_prefix(folder)?.strip_prefix('/'))
}

/// Returns the paths of all compiled-in files.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, _)| *path)
}
