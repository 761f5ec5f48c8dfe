//! The user's trust in files of a project.
//!
//! A project can bring files that decide what is sent to agents and what is run: settings, agents, packs, checks, a
//! ledger. None is used before the user has trusted it. Trust is bound to the content, so an edited file has to be trusted
//! again. The records are kept in the user's folder, to which a repository cannot add files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Workspace;
use super::init;
use crate::config::CheckCommand;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::{BlobId, paths};
use crate::ops;
use crate::orchestrator::clock;
use crate::orchestrator::random;
use crate::orchestrator::turn::AcceptNow;
use crate::pack::SearchPath;
use crate::store::{self, SqliteStore};

/// Maximum size in bytes of a file that an agent reads as its configuration (`obeys` in agents.yaml).
const MAX_OBEYED_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum number of files and folders in a folder that an agent reads as its configuration.
const MAX_OBEYED_FILES: usize = 1_000;

/// Maximum depth of folders in a folder that an agent reads as its configuration.
const MAX_OBEYED_DEPTH: usize = 8;

/// Path of a project's ledger. A repository may contain a ledger that was created elsewhere.
const LEDGER: &str = paths::LEDGER_FILE;

/// Name of the trust record for the commands of all checks.
pub(super) const CHECKS: &str = "checks";

/// Suffix of a record that revokes trust.
const REVOKED_SUFFIX: &str = ".changed";

/// Maximum size in bytes of the reason in a record that revokes trust.
const MAX_REASON_BYTES: u64 = 64 * 1024;

/// The user's trust records, as they were when opened.
#[derive(Debug)]
pub struct Trust {
    /// Folder of the records; `None` if the user has no folder.
    folder: Option<PathBuf>,
    /// Names of the records: `SUBJECT-CONTENT`, see [`subject_id`].
    records: BTreeSet<String>,
}

/// The user's trust in a file of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStatus {
    /// Trusted with its current content.
    Accepted,
    /// Never trusted.
    New,
    /// Trusted, but with different content.
    Changed,
}

/// A file of a project that decides what is sent to agents or what is run. The commands of all checks of the project
/// are one definition with the name `checks`.
#[derive(Debug)]
pub struct Definition {
    /// Path in the project, or `checks`.
    pub file: String,
    /// Commands of the checks; empty for a file.
    pub commands: Vec<String>,
    /// Hash of the content and the user's trust in it, or the error of reading it.
    pub found: Result<(BlobId, TrustStatus)>,
}

impl Trust {
    /// Reads the trust records in the user's folder. Without a folder there are none.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if others can write to the records.
    pub fn open(user: Option<&Path>) -> Result<Self> {
        let folder = user.map(|folder| folder.join("trust"));
        let records = folder
            .as_deref()
            .map(ops::private_names)
            .transpose()?
            .unwrap_or_default();
        Ok(Self {
            folder,
            records: records.into_iter().collect(),
        })
    }

    /// Returns the user's trust in a file of a project.
    #[must_use]
    pub fn status(&self, root: &Path, file: &str, content: &BlobId) -> TrustStatus {
        let trusted = record_name(root, file, content);
        let revoked = format!("{trusted}{REVOKED_SUFFIX}");
        let is_trusted = self.records.contains(&trusted) && !self.records.contains(&revoked);
        if is_trusted || is_config_draft(root, file, content) {
            return TrustStatus::Accepted;
        }

        // Records of one subject sort next to each other.
        let prefix = format!("{}-", subject_id(root, file));
        let mut from_prefix = self.records.range(prefix.clone()..);
        let has_other_content = from_prefix
            .next()
            .is_some_and(|name| name.starts_with(&prefix));
        if has_other_content {
            TrustStatus::Changed
        } else {
            TrustStatus::New
        }
    }

    /// Returns the files in `used` that are not trusted with their content, each once.
    #[must_use]
    pub fn untrusted(&self, root: &Path, used: &[(String, BlobId)]) -> Vec<String> {
        let files: BTreeSet<&String> = used
            .iter()
            .filter(|(file, content)| self.status(root, file, content) != TrustStatus::Accepted)
            .map(|(file, _)| file)
            .collect();
        files.into_iter().cloned().collect()
    }

    /// Records that the user trusts files of a project, each with its content hash.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the user has no folder, or if a record cannot be written.
    pub fn accept(&self, root: &Path, files: &[(String, BlobId)]) -> Result<()> {
        let folder = self.folder.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::FileUnusable,
                "cannot record trust: there is no home folder",
            )
            .with_hint("set HOME, or trust the project for one run with --trust")
        })?;

        let date = clock::format_utc(clock::now());
        let project = root.display().to_string();
        for (file, content) in files {
            // Only the name of a record is read; the text is for users who look into the folder.
            let text = format!(
                "project   {}\nfile      {}\nblake3    {content}\ntrusted   {date}\n",
                project.escape_debug(),
                file.escape_debug()
            );
            let name = record_name(root, file, content);
            ops::write_private(folder, &name, &text)?;
            ops::remove_private(folder, &format!("{name}{REVOKED_SUFFIX}"))?;
        }
        Ok(())
    }

    /// Revokes the trust in a file with this content, until it is trusted again. The record contains the reason.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the record cannot be written.
    fn revoke(&self, root: &Path, file: &str, content: &BlobId, reason: &str) -> Result<()> {
        let Some(folder) = self.folder.as_deref() else {
            // Without a folder for records, trust can be neither recorded nor revoked.
            return Ok(());
        };
        let name = record_name(root, file, content);
        ops::write_private(folder, &format!("{name}{REVOKED_SUFFIX}"), reason)
    }

    /// Returns the reason why the trust in a file with this content was revoked; `None` if it was not.
    fn revocation_reason(&self, root: &Path, file: &str, content: &BlobId) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let trusted = record_name(root, file, content);
        let revoked = format!("{trusted}{REVOKED_SUFFIX}");
        if !self.records.contains(&revoked) {
            return None;
        }
        let reason = file::read_text(&folder.join(revoked), MAX_REASON_BYTES);
        Some(reason.ok().flatten().unwrap_or_default())
    }
}

/// Returns true for the settings as `agentd init` writes them: comments, and the detected checks, which are trusted
/// separately.
fn is_config_draft(root: &Path, file: &str, content: &BlobId) -> bool {
    if file != paths::CONFIG_FILE {
        return false;
    }
    let drafts = init::config_drafts(root);
    drafts
        .iter()
        .any(|draft| *content == store::blob_id(draft.as_bytes()))
}

/// Returns the name of the record of trust in a file with a content.
fn record_name(root: &Path, file: &str, content: &BlobId) -> String {
    format!("{}-{content}", subject_id(root, file))
}

/// Returns the id of a file of a project: the hash of the project's canonical path and the file's name.
fn subject_id(root: &Path, file: &str) -> BlobId {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut bytes = root.as_os_str().as_encoded_bytes().to_vec();
    // A path cannot contain a NUL byte, so different pairs of root and file give different bytes.
    bytes.push(0);
    bytes.extend_from_slice(file.as_bytes());
    store::blob_id(&bytes)
}

/// Lists everything in a project that needs the user's trust: its ledger, the files that decide what is sent or run,
/// the files that agents read as their configuration, and the commands of its checks.
///
/// # Errors
///
/// Those of [`SearchPath::definitions`].
pub fn list_definitions(
    places: &SearchPath,
    trust: &Trust,
    obeyed: &[String],
    commands: &[CheckCommand],
) -> Result<Vec<Definition>> {
    let Some(root) = &places.project else {
        return Ok(Vec::new());
    };
    let describe = |file: String, content: Result<BlobId>| Definition {
        found: content.map(|content| {
            let status = trust.status(root, &file, &content);
            (content, status)
        }),
        file,
        commands: Vec::new(),
    };
    let mut definitions = Vec::new();

    if let Some(store) = SqliteStore::open_existing(root).transpose() {
        let content = store.and_then(|store| intact_ledger_content(&store));
        definitions.push(describe(LEDGER.to_owned(), content));
    }

    for (file, prose) in places.definitions()? {
        let content = prose.map(|prose| store::blob_id(prose.text.as_bytes()));
        definitions.push(describe(file, content));
    }

    for entry in obeyed {
        match list_obeyed_files(root, entry) {
            Ok(files) => {
                for file in files {
                    let content = obeyed_content(root, &file).transpose();
                    definitions.extend(content.map(|content| describe(file, content)));
                }
            }
            Err(error) => definitions.push(describe(entry.clone(), Err(error))),
        }
    }

    if !commands.is_empty() {
        let content = checks_content(commands);
        definitions.push(Definition {
            commands: commands.iter().map(|command| command.run.clone()).collect(),
            ..describe(CHECKS.to_owned(), Ok(content))
        });
    }
    Ok(definitions)
}

/// Returns the files that an entry of `obeys` covers: the file itself, or all files below a folder if the entry ends
/// with `/`.
///
/// Symlinks to folders are followed, as agents follow them. A folder that cannot be listed, or that is a symlink to a
/// folder outside of the project, is an error, because its content could not be trusted.
fn list_obeyed_files(root: &Path, entry: &str) -> Result<Vec<String>> {
    let Some(folder) = entry.strip_suffix('/') else {
        return Ok(vec![entry.to_owned()]);
    };

    let mut files = Vec::new();
    let mut pending = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        let refuse = |problem: &str| {
            let folder = folder.escape_debug();
            let message =
                format!("`{folder}`, from which an agent reads its configuration, {problem}");
            Error::new(ErrorKind::FileUnusable, message)
                .with_hint("remove it, or choose another agent with --agent")
        };
        let path = root.join(&folder);
        if !path.is_dir() {
            // Missing, a broken symlink, or a file with the name of the folder: there is nothing to list.
            continue;
        }
        if !is_inside(root, &path) {
            return Err(refuse("is a symlink that points outside of the project"));
        }

        for name in file::names_in(&path)? {
            let name = name
                .into_string()
                .map_err(|_| refuse("contains a name that is not UTF-8"))?;
            let inner = format!("{folder}/{name}");
            if root.join(&inner).is_dir() {
                pending.push((inner, depth + 1));
            } else {
                files.push(inner);
            }
        }
        if depth > MAX_OBEYED_DEPTH {
            let problem = format!("contains more than {MAX_OBEYED_DEPTH} levels of folders");
            return Err(refuse(&problem));
        }
        if files.len() + pending.len() > MAX_OBEYED_FILES {
            let problem = format!("contains more than {MAX_OBEYED_FILES} files and folders");
            return Err(refuse(&problem));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns true if a path is inside a root after following all symlinks.
fn is_inside(root: &Path, path: &Path) -> bool {
    let Ok(root) = root.canonicalize() else {
        return false;
    };
    path.canonicalize().is_ok_and(|path| path.starts_with(root))
}

/// Returns the content hash of a file that an agent reads as its configuration; `None` if it does not exist.
fn obeyed_content(root: &Path, file: &str) -> Result<Option<BlobId>> {
    let bytes = file::read_bytes_inside(root, &root.join(file), MAX_OBEYED_BYTES)?;
    Ok(bytes.map(|bytes| store::blob_id(&bytes)))
}

/// Returns the hash of check commands, one per line. Trust in checks is bound to this hash.
pub(super) fn checks_content(commands: &[CheckCommand]) -> BlobId {
    let lines: String = commands
        .iter()
        .map(|command| format!("{}\n", command.run))
        .collect();
    store::blob_id(lines.as_bytes())
}

/// Returns the hash of a ledger's id. Trust in a ledger is bound to this hash, because the rest changes with every turn.
fn ledger_content(id: &str) -> BlobId {
    store::blob_id(id.as_bytes())
}

/// Returns the content hash of a ledger after verifying the hashes in it.
///
/// # Errors
///
/// `LedgerUnusable` if a hash is wrong: a turn with such a ledger would fail after its call, so it cannot be trusted.
fn intact_ledger_content(store: &SqliteStore) -> Result<BlobId> {
    let faults = store.verify()?;
    match faults.first() {
        None => Ok(ledger_content(&store.id()?)),
        Some(fault) => Err(Error::new(ErrorKind::LedgerUnusable, fault.clone())
            .with_hint("restore a copy of the ledger, or move .agentd away")),
    }
}

/// Returns true if this user created the ledger in this project, or trusted it.
///
/// # Errors
///
/// Fails if the id of the ledger cannot be read; `FileUnusable` if others can write to the user's trust records.
pub fn is_ledger_trusted(root: &Path, user: Option<&Path>, store: &SqliteStore) -> Result<bool> {
    let content = ledger_content(&store.id()?);
    let status = Trust::open(user)?.status(root, LEDGER, &content);
    Ok(status == TrustStatus::Accepted)
}

/// Opens the ledger of a project for writing; creates it if there is none.
///
/// Recovery runs the steps of a ledger, and `agentd resume` sends its prompts. So a ledger that came with a repository is
/// refused: it must have been created here or trusted by the user, unless it is trusted for this run.
///
/// # Errors
///
/// `NotTrusted` for a ledger that is not trusted; those of [`SqliteStore::open`]; `FileUnusable` if the trust in a new
/// ledger cannot be recorded.
pub fn open_ledger(workspace: &Workspace, accept_now: AcceptNow) -> Result<SqliteStore> {
    let root = workspace.root.as_path();
    let user = workspace.places.user.as_deref();
    let mut is_trusted = accept_now.covers_definitions();

    let store = match SqliteStore::open_existing(root)? {
        Some(store) => {
            refuse_revoked(root, user, &store)?;
            store
        }
        None => {
            let id = random::random_name()?;
            // The ledger is trusted before it exists: another process must not find one that is not trusted yet.
            let recorded = Trust::open(user)
                .and_then(|trust| trust.accept(root, &[(LEDGER.to_owned(), ledger_content(&id))]));
            match recorded {
                Err(error) if accept_now != AcceptNow::Nothing => {
                    log::warn!("later runs will not trust this ledger: {error}");
                    is_trusted = true;
                }
                recorded => recorded?,
            }
            SqliteStore::open_as(root, &id)?
        }
    };
    if is_trusted || is_ledger_trusted(root, user, &store)? {
        return Ok(store);
    }

    let reason = "it came with the project, or the project was moved or copied";
    let message = format!("untrusted ledger {LEDGER}: {reason}");
    let hint = match workspace.base {
        Some(_) => "trust it with `agentd trust`, or remove .agentd",
        None => "trust it with `agentd trust`, or for this run with --trust, or remove .agentd",
    };
    Err(Error::new(ErrorKind::NotTrusted, message).with_hint(hint))
}

/// Fails if the ledger was edited during a call of an earlier run. `--trust` does not cover it: that option covers the
/// files that a project brings, but here the user's own ledger was edited.
fn refuse_revoked(root: &Path, user: Option<&Path>, store: &SqliteStore) -> Result<()> {
    let content = ledger_content(&store.id()?);
    match Trust::open(user)?.revocation_reason(root, LEDGER, &content) {
        None => Ok(()),
        Some(reason) => Err(
            Error::new(ErrorKind::LedgerChanged, reason.trim()).with_hint(
                "check it with `agentd log`, then trust it with `agentd trust`, or remove .agentd",
            ),
        ),
    }
}

/// Makes later runs refuse the ledger until the user trusts it again, because it was edited during a call. The edited
/// ledger may pass every check of its hashes. `changed` is the error that reports the edit.
pub(crate) fn distrust_ledger(workspace: &Workspace, changed: &Error) {
    // If the ledger cannot be opened now, the next run refuses it in any case.
    if let Err(error) = revoke_ledger(workspace, changed) {
        log::warn!("cannot revoke the trust in the changed ledger; later runs may use it: {error}");
    }
}

fn revoke_ledger(workspace: &Workspace, changed: &Error) -> Result<()> {
    let Some(store) = SqliteStore::open_existing(&workspace.root)? else {
        return Ok(());
    };
    let content = ledger_content(&store.id()?);
    let date = clock::format_utc(clock::now());
    let reason = format!("{} ({date})", changed.message());

    let trust = Trust::open(workspace.places.user.as_deref())?;
    trust.revoke(&workspace.root, LEDGER, &content, &reason)
}

impl Workspace {
    /// Returns the files of the project that were used so far, each with the hash of the content that was used.
    #[must_use]
    pub fn used_project_files(&self) -> Vec<(String, BlobId)> {
        let used = self.places.used().into_iter();
        used.map(|(file, text)| (file, store::blob_id(text.as_bytes())))
            .collect()
    }
}

/// Fails if files of the project are used that the user does not trust. With `accept_now` they are trusted for this run.
///
/// Call it when the prompt is assembled and the agent is known, before the agent is called: it checks exactly the text
/// that was used. Files that the agent reads as its configuration are taken from `tree`, where the agent works and
/// earlier agents may have edited them.
///
/// # Errors
///
/// `NotTrusted`, with the list of files, if some are not trusted; `FileUnusable` if others can write to the user's trust records.
pub fn check_trust(
    workspace: &Workspace,
    tree: &Path,
    agent: &str,
    accept_now: bool,
) -> Result<()> {
    if accept_now {
        return Ok(());
    }
    let used = workspace.used_project_files();
    let obeyed = read_obeyed(workspace, tree, agent)?;
    if used.is_empty() && obeyed.is_empty() {
        return Ok(());
    }

    let root = workspace.root.as_path();
    let trust = Trust::open(workspace.places.user.as_deref())?;
    let untrusted_used = trust.untrusted(root, &used);
    // A file in a worktree is trusted if its content was trusted in the project or in that worktree.
    let not_in_root = trust.untrusted(root, &obeyed);
    let not_in_tree = trust.untrusted(tree, &obeyed);
    let untrusted_obeyed: Vec<&String> = not_in_root
        .iter()
        .filter(|file| not_in_tree.contains(file))
        .collect();
    if untrusted_used.is_empty() && untrusted_obeyed.is_empty() {
        return Ok(());
    }

    let mut lines = String::new();
    for file in &untrusted_used {
        lines.push_str(&format!("\n  {file}"));
    }
    for file in &untrusted_obeyed {
        lines.push_str(&format!(
            "\n  {file} ({agent} reads this file, which can change commands and where keys are sent)"
        ));
    }
    let message = format!("the project uses files that you have not trusted:{lines}");
    let place = if tree == root || untrusted_obeyed.is_empty() {
        String::new()
    } else {
        format!(" -C {}", tree.display().to_string().escape_debug())
    };
    let hint = match &workspace.base {
        Some(base) => format!(
            "check out the base commit {} and run `agentd trust` there; --trust only applies to checks",
            ops::short_commit(&base.commit)
        ),
        None => format!(
            "list them with `agentd trust --show{place}`; trust them with `agentd trust{place}` or, once, with --trust"
        ),
    };
    Err(Error::new(ErrorKind::NotTrusted, message).with_hint(hint))
}

/// Returns the files in a tree that an agent reads as its configuration, each with the hash of its content.
fn read_obeyed(workspace: &Workspace, tree: &Path, agent: &str) -> Result<Vec<(String, BlobId)>> {
    let mut obeyed = Vec::new();
    for entry in workspace.agents()?.obeys(agent) {
        for file in list_obeyed_files(tree, entry)? {
            let content = obeyed_content(tree, &file)?;
            obeyed.extend(content.map(|content| (file, content)));
        }
    }
    Ok(obeyed)
}
