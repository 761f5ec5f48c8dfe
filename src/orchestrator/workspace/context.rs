//! What a prompt is made from: the project's own words, its tree, a change's artifacts, and what the caller gives.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::ProjectFiles;
use super::Workspace;
use super::secret_files;
use crate::compose::{SourcedItem, Variables, trim_block};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{ContextItem, ContextKind, OperationId, SessionId, paths};
use crate::ops;
use crate::orchestrator::turn::request::{BlockContent, NamedBlock, TurnRequest};
use crate::pack::{LayerContent, ModeSpec, Owner, Pack, Prose, Template};
use crate::secret::Secrets;
use crate::text::glob::matches_path;

/// Where the project describes itself.
pub(crate) const PROJECT_FILE: &str = paths::PROJECT_FILE;

/// Variable with the forms of the files that a mode writes.
const SKELETON: &str = "SKELETON";

/// Placeholder in skeletons for the id of the change.
const CHANGE_ID: &str = "<change-id>";

/// Source of a context item that the caller named.
const GIVEN: &str = "given by the caller";

/// What a prompt is made from: values, items and where each came from, without anything that no prompt may hold.
#[derive(Debug, Default)]
pub struct PromptContext {
    /// The values of variables.
    pub variables: Variables,
    /// Texts of the pack by variable, such as skeletons, which are inserted verbatim.
    pub pack_texts: Variables,
    /// For each variable with a value, where it came from.
    pub sources: Vec<(String, String)>,
    /// The numbers of the change's tasks, if it has a list of them.
    pub tasks: Option<Vec<String>>,
    /// Context items.
    pub items: Vec<SourcedItem>,
    /// What the project says of itself, and where.
    pub project: Option<(String, String)>,
}

impl PromptContext {
    /// Adds an item that the program chose.
    fn add(&mut self, item: ContextItem, source: impl Into<String>) {
        self.items.push(SourcedItem {
            item,
            source: source.into(),
            own: false,
            named: false,
        });
    }

    /// Adds an item that the caller named.
    fn add_named(&mut self, item: ContextItem, source: impl Into<String>) {
        self.items.push(SourcedItem {
            item,
            source: source.into(),
            own: false,
            named: true,
        });
    }

    /// Takes out what no prompt may hold.
    fn without(mut self, secrets: &Secrets) -> Self {
        let clean = |text: &mut String| {
            if let Cow::Owned(clean) = secrets.redact(text) {
                *text = clean;
            }
        };
        self.variables
            .values_mut()
            .chain(self.pack_texts.values_mut())
            .for_each(clean);
        self.project.iter_mut().for_each(|(text, _)| clean(text));
        for given in &mut self.items {
            let (name, content) = (
                secrets.redact(given.item.name()),
                secrets.redact(given.item.content()),
            );
            if let (Cow::Owned(_), _) | (_, Cow::Owned(_)) = (&name, &content) {
                given.item = ContextItem::new(given.item.kind(), name, content);
            }
        }
        self
    }

    fn set(&mut self, name: &str, value: String, source: impl Into<String>) {
        self.variables.insert(name.to_owned(), value);
        self.sources.push((name.to_owned(), source.into()));
    }
}

/// Gathers what a template uses; what it does not use is not looked for.
pub(crate) fn gather(
    workspace: &Workspace,
    ask: &TurnRequest,
    spec: &ModeSpec,
    template: Option<&Template>,
) -> Result<PromptContext> {
    let tree = workspace.tree(ask.works_on());
    let root = tree.as_path();
    let uses = |name: &str| match template {
        Some(template) => template
            .text
            .variables
            .iter()
            .any(|variable| variable.name == name),
        None => workspace
            .pack
            .variables
            .iter()
            .any(|variable| variable == name),
    };
    let mut found = PromptContext::default();
    if workspace.pack.has_layer(LayerContent::Project) {
        found.project = ProjectFiles {
            root: workspace.root.clone(),
        }
        .read();
    }
    if uses("PROJECT_CONTEXT")
        && let Some(text) = project_text(workspace)?
        && !text.trim().is_empty()
    {
        found.set("PROJECT_CONTEXT", text.trim().to_owned(), PROJECT_FILE);
    }
    if uses("PROJECT_STRUCTURE") {
        let tree = ops::structure(root, workspace.settings.structure)?;
        found.set("PROJECT_STRUCTURE", tree, "the project's tree");
    }
    let skeletons: Vec<&Prose> = workspace.pack.skeletons_of(spec).collect();
    if uses(SKELETON) && !skeletons.is_empty() {
        let texts: Vec<&str> = skeletons
            .iter()
            .map(|skeleton| skeleton.text.trim_end())
            .collect();
        let named = |(name, skeleton): (&String, &&Prose)| match skeleton.owner {
            Owner::BuiltIn => name.clone(),
            Owner::Project | Owner::User | Owner::Memory => skeleton.origin.clone(),
        };
        let names: Vec<String> = spec.skeletons.iter().zip(&skeletons).map(named).collect();
        let source = format!(
            "skeletons of the pack {}: {}",
            workspace.pack.name,
            names.join(", ")
        );
        let text = texts.join("\n\n");
        let text = ask
            .works_on()
            .map_or_else(|| text.clone(), |id| text.replace(CHANGE_ID, id.as_str()));
        found.pack_texts.insert(SKELETON.to_owned(), text);
        found.sources.push((SKELETON.to_owned(), source));
    }
    let needs_folder = spec.before.contains(&OperationId::ChangeRequire);
    match ask.works_on() {
        Some(session) if needs_folder || ops::has_change(root, session) => {
            gather_change(root, session, spec, &mut found)?;
        }
        // The turns of a session need not write a file, so a session may have no folder and no artifacts.
        session => check_required(session, spec, &[])?,
    }
    ask.found
        .iter()
        .for_each(|(item, source)| found.add(item.clone(), source));
    gather_blocks(root, &workspace.pack, ask, &mut found)?;
    gather_given(root, ask, &mut found)?;
    if let Some(index) = artifact_index(&found.items) {
        found.set("ARTIFACTS", index, "the artifacts in the context");
    }
    for (name, value) in &ask.variables {
        found.sources.retain(|(known, _)| known != name);
        found.set(name, value.clone(), "the caller");
    }
    Ok(found.without(&workspace.secrets))
}

/// Returns what the project says of itself: what the user says, not what an agent may have made of it in a work tree,
/// and in a review not what is reviewed.
fn project_text(workspace: &Workspace) -> Result<Option<String>> {
    match &workspace.base {
        Some(base) => Ok(base.project_text.clone()),
        None => ops::read_project_text(&workspace.root, PROJECT_FILE),
    }
}

fn gather_change(
    root: &Path,
    session: &SessionId,
    spec: &ModeSpec,
    found: &mut PromptContext,
) -> Result<()> {
    let artifacts = ops::artifacts(root, session, &spec.artifacts)?;
    check_required(Some(session), spec, &artifacts)?;
    for (name, text) in artifacts {
        let source = format!("the change {session}");
        found.add(ContextItem::new(ContextKind::Artifact, name, text), source);
    }
    let tasks = ops::artifacts(root, session, &[paths::TASKS_FILE.to_owned()])?;
    if let Some((_, text)) = tasks.first() {
        found.tasks = Some(ops::task_ids(text));
        let open = ops::open_tasks(text);
        if open.skipped > 0 {
            log::warn!(
                "left out of `{session}`: {} open tasks not written as `- [ ] 1.1 text`",
                open.skipped
            );
        }
        let source = format!("tasks.md of the change {session}, open: {}", open.count);
        // Who does them over after a review sees them all.
        let tasks = if open.count > 0 {
            open.text
        } else {
            text.trim().to_owned()
        };
        found.set("TASKS", tasks, source);
    }
    Ok(())
}

/// Checks that each pattern of a mode's artifacts matches one, if the mode requires them.
fn check_required(
    session: Option<&SessionId>,
    spec: &ModeSpec,
    artifacts: &[(String, String)],
) -> Result<()> {
    if !spec.artifacts_required {
        return Ok(());
    }
    let missing: Vec<&str> = spec
        .artifacts
        .iter()
        .filter(|pattern| {
            !artifacts
                .iter()
                .any(|(name, _)| matches_path(pattern, name))
        })
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }

    let missing = missing.join(", ");
    let (message, hint) = match session {
        Some(session) => (
            format!("this mode requires {missing}, and session `{session}` has none"),
            "take the turn that writes it first",
        ),
        None => (
            format!("this mode requires {missing}, and no session was named"),
            "name the session with --session ID",
        ),
    };
    Err(Error::new(ErrorKind::FileUnusable, message).with_hint(hint))
}

/// Adds the named blocks, in the order in which they were given.
fn gather_blocks(
    root: &Path,
    pack: &Pack,
    ask: &TurnRequest,
    found: &mut PromptContext,
) -> Result<()> {
    for block in &ask.blocks {
        check_block_name(pack, &block.name)?;
    }

    for NamedBlock { name, content } in &ask.blocks {
        let (text, source) = match content {
            BlockContent::Text(text) => (text.clone(), GIVEN.to_owned()),
            BlockContent::File(path) => {
                let source = format!("{}, {GIVEN}", shown_path(root, path));
                (read_given(root, path, ask.secret_files)?, source)
            }
        };
        let text = trim_block(&text);
        if !text.is_empty() {
            let item = ContextItem::new(ContextKind::Artifact, name.as_str(), text);
            found.add_named(item, source);
        }
    }
    Ok(())
}

/// Checks that a layer of the pack takes blocks of a name.
fn check_block_name(pack: &Pack, name: &str) -> Result<()> {
    if pack.block_names().any(|known| known == name) {
        return Ok(());
    }

    let known: Vec<&str> = pack.block_names().collect();
    let hint = if known.is_empty() {
        "its layers list no `blocks`; show a file with --artifact PATH or --file PATH".to_owned()
    } else {
        format!("its blocks are {}", known.join(", "))
    };
    let message = format!("the pack `{}` has no block `{name}`", pack.name);
    Err(Error::new(ErrorKind::NameInvalid, message).with_hint(hint))
}

fn gather_given(root: &Path, ask: &TurnRequest, found: &mut PromptContext) -> Result<()> {
    let given = [
        (ContextKind::Artifact, &ask.artifacts),
        (ContextKind::File, &ask.files),
    ];
    for (kind, paths) in given {
        for path in paths {
            let text = read_given(root, path, ask.secret_files)?;
            let item = ContextItem::new(kind, shown_path(root, path), text);
            found.add_named(item, GIVEN);
        }
    }
    for (index, thought) in ask.thoughts.iter().enumerate() {
        let item = ContextItem::new(
            ContextKind::Thought,
            format!("thought {}", index + 1),
            thought.as_str(),
        );
        found.add_named(item, GIVEN);
    }
    Ok(())
}

/// Reads a file that the caller named. It is resolved once: the file that is checked is the one that is read, even if a
/// link changes meanwhile.
fn read_given(root: &Path, path: &Path, allow_secrets: bool) -> Result<String> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if !allow_secrets {
        secret_files::refuse(path, &target)?;
    }
    ops::read_resolved_text(root, path, &target)
}

/// Returns a path as the agent shall know it: relative to the project if it lies in it.
fn shown_path(root: &Path, path: &Path) -> String {
    let inside = || {
        let (root, full) = (root.canonicalize().ok()?, path.canonicalize().ok()?);
        full.strip_prefix(root).map(PathBuf::from).ok()
    };
    ops::visible_path(&inside().unwrap_or_else(|| path.to_path_buf()))
}

/// Returns a line for each artifact; its text stands in the context.
fn artifact_index(items: &[SourcedItem]) -> Option<String> {
    let mut index = String::new();
    for item in items
        .iter()
        .map(|given| &given.item)
        .filter(|item| item.kind() == ContextKind::Artifact)
    {
        let lines = item.content().lines().count();
        let noun = if lines == 1 { "line" } else { "lines" };
        let _infallible = writeln!(index, "- `{}` ({lines} {noun})", item.name());
    }
    (!index.is_empty()).then(|| index.trim_end().to_owned())
}
