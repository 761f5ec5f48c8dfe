//! Context of a prompt: variables and context items from the project, a change's artifacts and the caller.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::ProjectFiles;
use super::Workspace;
use super::secret_files::refuse_secret_file;
use crate::compose::{SourcedItem, Variables, trim_block};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{ContextItem, ContextKind, OperationId, SessionId, paths};
use crate::ops;
use crate::orchestrator::turn::request::{BlockContent, NamedBlock, TurnRequest};
use crate::pack::{LayerContent, ModeSpec, Pack, Prose, ProseOwner, Template};
use crate::secret::Secrets;
use crate::text::glob::matches_path;

/// File in which the project describes itself.
pub(crate) const PROJECT_FILE: &str = paths::PROJECT_FILE;

/// Variable with the skeletons of the files that a mode writes.
const SKELETON: &str = "SKELETON";

/// Placeholder in skeletons for the id of the change.
const CHANGE_ID: &str = "<change-id>";

/// Source of a context item that the caller requested.
const GIVEN: &str = "given by the caller";

/// Variables and context items of a prompt, with the source of each. Secrets are redacted.
#[derive(Debug, Default)]
pub struct PromptContext {
    /// Values of variables.
    pub variables: Variables,
    /// Texts of the pack by variable, such as skeletons, which are inserted verbatim.
    pub pack_texts: Variables,
    /// Name and source of each variable that has a value.
    pub sources: Vec<(String, String)>,
    /// Numbers of the change's tasks; `None` without a task list.
    pub tasks: Option<Vec<String>>,
    /// Context items, in the order of the prompt.
    pub items: Vec<SourcedItem>,
    /// The project's description of itself, and the names of the files that contain it.
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

    /// Adds an item that the caller requested.
    fn add_named(&mut self, item: ContextItem, source: impl Into<String>) {
        self.items.push(SourcedItem {
            item,
            source: source.into(),
            own: false,
            named: true,
        });
    }

    /// Sets a variable.
    fn set(&mut self, name: &str, value: String, source: impl Into<String>) {
        self.variables.insert(name.to_owned(), value);
        self.sources.push((name.to_owned(), source.into()));
    }

    /// Redacts secrets in all values, texts and items.
    fn redact(&mut self, secrets: &Secrets) {
        let redact = |text: &mut String| {
            if let Cow::Owned(redacted) = secrets.redact(text) {
                *text = redacted;
            }
        };
        self.variables.values_mut().for_each(redact);
        self.pack_texts.values_mut().for_each(redact);
        if let Some((text, _)) = &mut self.project {
            redact(text);
        }

        for sourced in &mut self.items {
            let name = secrets.redact(sourced.item.name());
            let content = secrets.redact(sourced.item.content());
            let has_changed = matches!(name, Cow::Owned(_)) || matches!(content, Cow::Owned(_));
            if has_changed {
                sourced.item = ContextItem::new(sourced.item.kind(), name, content);
            }
        }
    }
}

/// Gathers the context of a request. Variables that the template does not use are not computed.
pub(crate) fn gather(
    workspace: &Workspace,
    request: &TurnRequest,
    spec: &ModeSpec,
    template: Option<&Template>,
) -> Result<PromptContext> {
    let tree = workspace.tree(request.works_on());
    let root = tree.as_path();
    let mut context = PromptContext::default();

    gather_project(workspace, root, template, &mut context)?;
    if uses_variable(workspace, template, SKELETON) {
        gather_skeletons(workspace, request, spec, &mut context);
    }

    let needs_folder = spec.before.contains(&OperationId::ChangeRequire);
    match request.works_on() {
        Some(session) if needs_folder || ops::has_change(root, session) => {
            gather_change(root, session, spec, &mut context)?;
        }
        // A session whose turns wrote no files has no folder and no artifacts.
        session => check_required(session, spec, &[])?,
    }

    for (item, source) in &request.found {
        context.add(item.clone(), source);
    }
    gather_blocks(root, &workspace.pack, request, &mut context)?;
    gather_caller_items(root, request, &mut context)?;

    if let Some(index) = artifact_index(&context.items) {
        context.set("ARTIFACTS", index, "the artifacts in the context");
    }
    for (name, value) in &request.variables {
        context.sources.retain(|(variable, _)| variable != name);
        context.set(name, value.clone(), "the caller");
    }

    context.redact(&workspace.secrets);
    Ok(context)
}

/// Returns true if the template uses a variable; without a template, if the pack declares it.
fn uses_variable(workspace: &Workspace, template: Option<&Template>, name: &str) -> bool {
    match template {
        Some(template) => {
            let mut variables = template.text.variables.iter();
            variables.any(|variable| variable.name == name)
        }
        None => {
            let mut variables = workspace.pack.variables.iter();
            variables.any(|variable| variable == name)
        }
    }
}

/// Adds the project's description of itself, and the list of its files.
fn gather_project(
    workspace: &Workspace,
    root: &Path,
    template: Option<&Template>,
    context: &mut PromptContext,
) -> Result<()> {
    if workspace.pack.has_layer(LayerContent::Project) {
        let files = ProjectFiles {
            root: workspace.root.clone(),
        };
        context.project = files.read();
    }

    if uses_variable(workspace, template, "PROJECT_CONTEXT")
        && let Some(text) = project_text(workspace)?
        && !text.trim().is_empty()
    {
        context.set("PROJECT_CONTEXT", text.trim().to_owned(), PROJECT_FILE);
    }

    if uses_variable(workspace, template, "PROJECT_STRUCTURE") {
        let structure = ops::structure(root, workspace.settings.structure)?;
        context.set("PROJECT_STRUCTURE", structure, "the project's tree");
    }
    Ok(())
}

/// Returns the text of `agentd/project.md`. It is read from the project's root, never from a worktree, which agents can
/// edit. In a review it is read from the base commit, never from the branch under review.
fn project_text(workspace: &Workspace) -> Result<Option<String>> {
    match &workspace.base {
        Some(base) => Ok(base.project_text.clone()),
        None => ops::read_project_text(&workspace.root, PROJECT_FILE),
    }
}

/// Adds the mode's skeletons as one variable, with the id of the change filled in.
fn gather_skeletons(
    workspace: &Workspace,
    request: &TurnRequest,
    spec: &ModeSpec,
    context: &mut PromptContext,
) {
    let skeletons: Vec<&Prose> = workspace.pack.skeletons_of(spec).collect();
    if skeletons.is_empty() {
        return;
    }

    let names: Vec<&str> = spec
        .skeletons
        .iter()
        .zip(&skeletons)
        .map(|(name, skeleton)| match skeleton.owner {
            ProseOwner::BuiltIn => name.as_str(),
            ProseOwner::Project | ProseOwner::User | ProseOwner::Memory => skeleton.origin.as_str(),
        })
        .collect();
    let source = format!(
        "skeletons of the pack {}: {}",
        workspace.pack.name,
        names.join(", ")
    );

    let texts: Vec<&str> = skeletons
        .iter()
        .map(|skeleton| skeleton.text.trim_end())
        .collect();
    let mut text = texts.join("\n\n");
    if let Some(id) = request.works_on() {
        text = text.replace(CHANGE_ID, id.as_str());
    }

    context.pack_texts.insert(SKELETON.to_owned(), text);
    context.sources.push((SKELETON.to_owned(), source));
}

/// Adds the artifacts of a change and its open tasks.
fn gather_change(
    root: &Path,
    session: &SessionId,
    spec: &ModeSpec,
    context: &mut PromptContext,
) -> Result<()> {
    let artifacts = ops::artifacts(root, session, &spec.artifacts)?;
    check_required(Some(session), spec, &artifacts)?;
    for (name, text) in artifacts {
        let source = format!("the change {session}");
        context.add(ContextItem::new(ContextKind::Artifact, name, text), source);
    }

    let task_files = ops::artifacts(root, session, &[paths::TASKS_FILE.to_owned()])?;
    let Some((_, text)) = task_files.first() else {
        return Ok(());
    };
    context.tasks = Some(ops::task_ids(text));
    let open = ops::open_tasks(text);
    if open.skipped > 0 {
        let noun = if open.skipped == 1 { "task" } else { "tasks" };
        log::warn!(
            "skipping {} open {noun} of `{session}`: expected the form `- [ ] 1.1 text`",
            open.skipped
        );
    }

    let source = format!("tasks.md of the change {session}, open: {}", open.count);
    // Without open tasks, for example after a review, the agent sees all tasks.
    let tasks = if open.count > 0 {
        open.text
    } else {
        text.trim().to_owned()
    };
    context.set("TASKS", tasks, source);
    Ok(())
}

/// Checks that each artifact pattern of a mode matches an artifact, if the mode requires its artifacts.
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
            format!("session `{session}` lacks {missing}, which this mode requires"),
            "first run the mode that writes the missing artifacts",
        ),
        None => (
            format!("this mode requires {missing} of a session, but no session is set"),
            "pass the session with --session ID",
        ),
    };
    Err(Error::new(ErrorKind::FileUnusable, message).with_hint(hint))
}

/// Adds the named blocks, in the order of the request.
fn gather_blocks(
    root: &Path,
    pack: &Pack,
    request: &TurnRequest,
    context: &mut PromptContext,
) -> Result<()> {
    for block in &request.blocks {
        check_block_name(pack, &block.name)?;
    }

    for NamedBlock { name, content } in &request.blocks {
        let (text, source) = match content {
            BlockContent::Text(text) => (text.clone(), GIVEN.to_owned()),
            BlockContent::File(path) => {
                let source = format!("{}, {GIVEN}", shown_path(root, path));
                (read_named_file(root, path, request.secret_files)?, source)
            }
        };
        let text = trim_block(&text);
        if !text.is_empty() {
            let item = ContextItem::new(ContextKind::Artifact, name.as_str(), text);
            context.add_named(item, source);
        }
    }
    Ok(())
}

/// Checks that a layer of the pack has a block with this name.
fn check_block_name(pack: &Pack, name: &str) -> Result<()> {
    if pack.block_names().any(|block_name| block_name == name) {
        return Ok(());
    }

    let known: Vec<&str> = pack.block_names().collect();
    let hint = if known.is_empty() {
        "the pack has no named blocks; pass a file with --artifact PATH or --file PATH".to_owned()
    } else {
        format!("known blocks: {}", known.join(", "))
    };
    let message = format!("pack `{}` has no block `{name}`", pack.name);
    Err(Error::new(ErrorKind::NameInvalid, message).with_hint(hint))
}

/// Adds the files, artifacts and thoughts that the caller requested.
fn gather_caller_items(
    root: &Path,
    request: &TurnRequest,
    context: &mut PromptContext,
) -> Result<()> {
    let caller_files = [
        (ContextKind::Artifact, &request.artifacts),
        (ContextKind::File, &request.files),
    ];
    for (kind, paths) in caller_files {
        for path in paths {
            let text = read_named_file(root, path, request.secret_files)?;
            let item = ContextItem::new(kind, shown_path(root, path), text);
            context.add_named(item, GIVEN);
        }
    }

    for (index, thought) in request.thoughts.iter().enumerate() {
        let item = ContextItem::new(
            ContextKind::Thought,
            format!("thought {}", index + 1),
            thought.as_str(),
        );
        context.add_named(item, GIVEN);
    }
    Ok(())
}

/// Reads a file that the caller requested. Symlinks are resolved once, before the check, so that a symlink that changes
/// meanwhile does not lead to an unchecked file.
fn read_named_file(root: &Path, path: &Path, allow_secrets: bool) -> Result<String> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if !allow_secrets {
        refuse_secret_file(path, &target)?;
    }
    ops::read_resolved_text(root, path, &target)
}

/// Returns a path as the prompt shows it: relative to the project for a file inside it.
fn shown_path(root: &Path, path: &Path) -> String {
    match relative_path(root, path) {
        Some(relative) => ops::visible_path(&relative),
        None => ops::visible_path(path),
    }
}

/// Returns a path relative to a root; `None` if the path is outside of the root or does not exist.
fn relative_path(root: &Path, path: &Path) -> Option<PathBuf> {
    let root = root.canonicalize().ok()?;
    let path = path.canonicalize().ok()?;
    path.strip_prefix(root).map(PathBuf::from).ok()
}

/// Returns a list of the artifacts in the context, one per line, without their texts; `None` if there are none.
fn artifact_index(items: &[SourcedItem]) -> Option<String> {
    let mut index = String::new();
    for item in items
        .iter()
        .map(|sourced| &sourced.item)
        .filter(|item| item.kind() == ContextKind::Artifact)
    {
        let lines = item.content().lines().count();
        let noun = if lines == 1 { "line" } else { "lines" };
        let _infallible = writeln!(index, "- `{}` ({lines} {noun})", item.name());
    }
    (!index.is_empty()).then(|| index.trim_end().to_owned())
}
