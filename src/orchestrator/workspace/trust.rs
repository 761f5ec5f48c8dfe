//! What of a project the user has accepted: by content, kept with the user and not in the project.

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
use crate::pack::{Places, Prose};
use crate::store::{self, SqliteStore};

/// The largest file that an agent may obey.
const LARGEST_OBEYED: u64 = 16 * 1024 * 1024;

/// Maximum number of files and folders below a folder that an agent obeys, and how deep they may be.
const MAX_OBEYED_FILES: usize = 1_000;
const MAX_OBEYED_DEPTH: usize = 8;

/// The ledger of a project, which its repository may have brought along.
const LEDGER: &str = paths::LEDGER_FILE;

/// Name under which the commands of all checks are accepted.
pub(super) const CHECKS: &str = "checks";

/// End of the name of a record that takes an acceptance back.
const DOUBT: &str = ".changed";

/// Maximum size of the reason in such a record.
const MAX_REASON_BYTES: u64 = 64 * 1024;

/// What the user has accepted, as it stood when it was opened.
#[derive(Debug)]
pub struct Trust {
    folder: Option<PathBuf>,
    records: BTreeSet<String>,
}

/// How a file of a project stands with the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStatus {
    /// It was accepted as it is.
    Accepted,
    /// It was never accepted.
    New,
    /// It was accepted with another content.
    Changed,
}

/// A file of a project that says what is sent or run, or the commands of all its checks.
#[derive(Debug)]
pub struct Definition {
    /// Where it is in the project, or `checks`.
    pub file: String,
    /// The commands of the checks; none for a file.
    pub commands: Vec<String>,
    /// Its content and how it stands with the user, or why it cannot be read.
    pub found: Result<(BlobId, TrustStatus)>,
}

impl Trust {
    /// Reads what the user has accepted. Without a folder of the user's that is nothing.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if others could have written there.
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

    /// Returns how a file of a project stands with the user.
    #[must_use]
    pub fn standing(&self, root: &Path, file: &str, content: &BlobId) -> TrustStatus {
        let start = format!("{}-", subject(root, file));
        let known = self
            .records
            .range(start.clone()..)
            .next()
            .is_some_and(|name| name.starts_with(&start));
        // What `agentd init` writes holds comments alone, and the checks that were found, which are accepted apart.
        let is_draft = file == paths::CONFIG_FILE
            && init::config_drafts(root)
                .iter()
                .any(|draft| *content == store::blob_id(draft.as_bytes()));
        let is_accepted = self.records.contains(&format!("{start}{content}"))
            && !self.records.contains(&format!("{start}{content}{DOUBT}"));
        if is_draft || is_accepted {
            TrustStatus::Accepted
        } else if known {
            TrustStatus::Changed
        } else {
            TrustStatus::New
        }
    }

    /// Returns those of some files of a project that are not accepted as they are, each once.
    #[must_use]
    pub fn untrusted(&self, root: &Path, used: &[(String, BlobId)]) -> Vec<String> {
        let open = |(file, content): &&(String, BlobId)| {
            self.standing(root, file, content) != TrustStatus::Accepted
        };
        let files: BTreeSet<&String> = used.iter().filter(open).map(|(file, _)| file).collect();
        files.into_iter().cloned().collect()
    }

    /// Accepts files of a project with the content they have.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the user has no folder to keep it in, or if it cannot be written.
    pub fn accept(&self, root: &Path, files: &[(String, BlobId)]) -> Result<()> {
        let folder = self.folder.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::FileUnusable,
                "there is no home folder to keep what is accepted",
            )
            .with_hint("set HOME, or accept for one run with --trust")
        })?;
        let date = clock::utc(clock::now());
        for (file, content) in files {
            let shown = root.display().to_string();
            // The name alone decides; the words are for people who look.
            let words = format!(
                "project   {}\nfile      {}\nblake3    {content}\naccepted  {date}\n",
                shown.escape_debug(),
                file.escape_debug()
            );
            let name = format!("{}-{content}", subject(root, file));
            ops::write_private(folder, &name, &words)?;
            ops::remove_private(folder, &format!("{name}{DOUBT}"))?;
        }
        Ok(())
    }

    /// Takes back that a file is accepted with this content, until it is accepted again. The reason is kept.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if it cannot be written.
    fn doubt(&self, root: &Path, file: &str, content: &BlobId, reason: &str) -> Result<()> {
        let Some(folder) = self.folder.as_deref() else {
            // Without a folder of the user's own nothing is accepted for later runs.
            return Ok(());
        };
        let name = format!("{}-{content}{DOUBT}", subject(root, file));
        ops::write_private(folder, &name, reason)
    }

    /// Returns why a file that was accepted with this content is no longer; `None` if nothing was taken back.
    fn doubt_about(&self, root: &Path, file: &str, content: &BlobId) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let name = format!("{}-{content}{DOUBT}", subject(root, file));
        if !self.records.contains(&name) {
            return None;
        }
        let reason = file::read_text(&folder.join(name), MAX_REASON_BYTES);
        Some(reason.ok().flatten().unwrap_or_default())
    }
}

/// Names a file of a project, wherever the user comes from.
fn subject(root: &Path, file: &str) -> BlobId {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let mut bytes = root.as_os_str().as_encoded_bytes().to_vec();
    // No path holds a zero byte, so no other root and file are written alike.
    bytes.push(0);
    bytes.extend_from_slice(file.as_bytes());
    store::blob_id(&bytes)
}

/// Returns every file of the project that says what is sent or run, its ledger and what agents obey among them, and the
/// commands of its checks, with how each stands with the user.
///
/// # Errors
///
/// Those of [`Places::definitions`].
pub fn definitions(
    places: &Places,
    trust: &Trust,
    obeyed: &[String],
    commands: &[CheckCommand],
) -> Result<Vec<Definition>> {
    let Some(root) = &places.project else {
        return Ok(Vec::new());
    };
    let described = |(file, prose): (String, Result<Prose>)| {
        let found = prose.map(|prose| {
            let content = store::blob_id(prose.text.as_bytes());
            let standing = trust.standing(root, &file, &content);
            (content, standing)
        });
        Definition {
            file,
            commands: Vec::new(),
            found,
        }
    };
    let mut all: Vec<Definition> = places.definitions()?.into_iter().map(described).collect();
    if let Some(store) = SqliteStore::open_existing(root).transpose() {
        let found = store.and_then(|store| store.id()).map(|id| {
            let content = ledger_content(&id);
            let standing = trust.standing(root, LEDGER, &content);
            (content, standing)
        });
        all.insert(
            0,
            Definition {
                file: LEDGER.to_owned(),
                commands: Vec::new(),
                found,
            },
        );
    }
    for entry in obeyed {
        let files = match obeyed_files(root, entry) {
            Ok(files) => files,
            Err(error) => {
                all.push(Definition {
                    file: entry.clone(),
                    commands: Vec::new(),
                    found: Err(error),
                });
                continue;
            }
        };
        for file in files {
            let found = match content_of(root, &file) {
                Ok(None) => continue,
                Ok(Some(content)) => Ok((content.clone(), trust.standing(root, &file, &content))),
                Err(error) => Err(error),
            };
            all.push(Definition {
                file,
                commands: Vec::new(),
                found,
            });
        }
    }
    if !commands.is_empty() {
        let content = checks_content(commands);
        let standing = trust.standing(root, CHECKS, &content);
        let commands = commands.iter().map(|command| command.run.clone()).collect();
        all.push(Definition {
            file: CHECKS.to_owned(),
            commands,
            found: Ok((content, standing)),
        });
    }
    Ok(all)
}

/// Returns the files that an entry of `obeys` means: the file itself, or with a `/` at its end all files below a folder.
///
/// A folder that is linked counts as what it links to, as agents follow links. What cannot be listed, or leads out of the
/// project, is an error: nobody could say what was accepted.
fn obeyed_files(root: &Path, entry: &str) -> Result<Vec<String>> {
    let Some(folder) = entry.strip_suffix('/') else {
        return Ok(vec![entry.to_owned()]);
    };
    let mut files = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let refused = |what: &str| {
            let message = format!("`{}`, which an agent obeys, {what}", folder.escape_debug());
            Error::new(ErrorKind::FileUnusable, message)
                .with_hint("remove it, or take another agent")
        };
        let path = root.join(&folder);
        if !path.is_dir() {
            // A link that leads nowhere is found when it is read; a file in the place of the folder is no folder.
            continue;
        }
        let is_inside = root
            .canonicalize()
            .is_ok_and(|root| path.canonicalize().is_ok_and(|path| path.starts_with(root)));
        if !is_inside {
            return Err(refused("leads out of the project"));
        }
        for name in file::names_in(&path)? {
            let name = name
                .into_string()
                .map_err(|_| refused("holds a name that is not UTF-8"))?;
            let inner = format!("{folder}/{name}");
            if root.join(&inner).is_dir() {
                folders.push((inner, depth + 1));
            } else {
                files.push(inner);
            }
        }
        if depth > MAX_OBEYED_DEPTH || files.len() + folders.len() > MAX_OBEYED_FILES {
            return Err(refused("holds too many files to be accepted"));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns what a file of the project that an agent obeys holds; `None` if there is none.
fn content_of(root: &Path, file: &str) -> Result<Option<BlobId>> {
    let bytes = file::read_bytes_inside(root, &root.join(file), LARGEST_OBEYED)?;
    Ok(bytes.map(|bytes| store::blob_id(&bytes)))
}

/// Returns the content by which checks are accepted: their commands, one in each line.
pub(super) fn checks_content(commands: &[CheckCommand]) -> BlobId {
    let lines: String = commands
        .iter()
        .map(|command| format!("{}\n", command.run))
        .collect();
    store::blob_id(lines.as_bytes())
}

/// Returns the content by which a ledger is accepted: its id, because the rest changes with every turn.
fn ledger_content(id: &str) -> BlobId {
    store::blob_id(id.as_bytes())
}

/// Tells whether a ledger was made here by this user, or accepted.
///
/// # Errors
///
/// Those of the database; `FileUnusable` if others could have written what the user has accepted.
pub fn knows_ledger(root: &Path, user: Option<&Path>, store: &SqliteStore) -> Result<bool> {
    let content = ledger_content(&store.id()?);
    Ok(Trust::open(user)?.standing(root, LEDGER, &content) == TrustStatus::Accepted)
}

/// Opens the ledger of a project to work with it, and makes one if there is none.
///
/// One that a repository brings along would have its prompts sent and its effects carried out, so it must have been
/// made here or accepted, unless it is accepted for this run.
///
/// # Errors
///
/// `NotTrusted` if it is neither; those of [`SqliteStore::open`]; `FileUnusable` if it cannot be kept that it was made.
pub fn open_ledger(workspace: &Workspace, accept_now: AcceptNow) -> Result<SqliteStore> {
    let (root, user) = (workspace.root.as_path(), workspace.places.user.as_deref());
    let mut is_known = accept_now.covers_definitions();
    let store = match SqliteStore::open_existing(root)? {
        Some(store) => {
            refuse_doubted(root, user, &store)?;
            store
        }
        None => {
            let id = random::random_name()?;
            // Before it is there, or another process could find one that nobody knows.
            let known = Trust::open(user)
                .and_then(|trust| trust.accept(root, &[(LEDGER.to_owned(), ledger_content(&id))]));
            match known {
                Err(error) if accept_now != AcceptNow::Nothing => {
                    log::warn!("a later run will not know this ledger: {error}");
                    is_known = true;
                }
                known => known?,
            }
            SqliteStore::open_as(root, &id)?
        }
    };
    if is_known || knows_ledger(root, user, &store)? {
        return Ok(store);
    }
    let why = "it came with the project, or the project was moved or copied";
    let message = format!("this ledger was not made here: {LEDGER}; {why}");
    let hint = match workspace.base {
        Some(_) => "accept it with `agentd trust`, or remove .agentd",
        None => "accept it with `agentd trust`, or for this run with --trust, or remove .agentd",
    };
    Err(Error::new(ErrorKind::NotTrusted, message).with_hint(hint))
}

/// Refuses a ledger that was edited during a call of an earlier run. `--trust` does not help: it is about what a project
/// brings along, and this was done to the user's own ledger.
fn refuse_doubted(root: &Path, user: Option<&Path>, store: &SqliteStore) -> Result<()> {
    let content = ledger_content(&store.id()?);
    match Trust::open(user)?.doubt_about(root, LEDGER, &content) {
        None => Ok(()),
        Some(reason) => Err(Error::new(ErrorKind::LedgerChanged, reason.trim()).with_hint(
            "look at it with `agentd log`; then accept it with `agentd trust`, or remove .agentd",
        )),
    }
}

/// Makes later runs refuse the ledger until the user has accepted it: something edited it during a call, as `changed`
/// says. The edited ledger may pass every check by itself.
pub(crate) fn doubt_ledger(workspace: &Workspace, changed: &Error) {
    let doubt = || {
        let Some(store) = SqliteStore::open_existing(&workspace.root)? else {
            return Ok(());
        };
        let content = ledger_content(&store.id()?);
        let date = clock::utc(clock::now());
        let reason = format!("{} ({date})", changed.message());
        Trust::open(workspace.places.user.as_deref())?.doubt(
            &workspace.root,
            LEDGER,
            &content,
            &reason,
        )
    };
    // One that cannot be opened is refused by the next run in any case.
    if let Err(error) = doubt() {
        log::warn!("a later run may use the changed ledger: {error}");
    }
}

impl Workspace {
    /// Returns the project's own files that were used so far, each with the content that was used.
    #[must_use]
    pub fn used_project_files(&self) -> Vec<(String, BlobId)> {
        let used = self.places.used().into_iter();
        used.map(|(file, text)| (file, store::blob_id(text.as_bytes())))
            .collect()
    }
}

/// Refuses to go on with files of the project that the user has not accepted, unless they are accepted for this run.
/// What an agent obeys is looked for in the tree that it works in, which agents may have edited before.
///
/// To be called when the prompt is assembled and the agent is known, and before anything is spent or run: what is
/// checked is the very text that is in use.
///
/// # Errors
///
/// `NotTrusted` naming the files; `FileUnusable` if others could have written what the user has accepted.
pub fn check_trust(
    workspace: &Workspace,
    tree: &Path,
    agent: &str,
    accept_now: bool,
) -> Result<()> {
    if accept_now {
        return Ok(());
    }
    let root = workspace.root.as_path();
    let used = workspace.used_project_files();
    let mut obeyed = Vec::new();
    for entry in workspace.agents()?.obeys(agent) {
        for file in obeyed_files(tree, entry)? {
            obeyed.extend(content_of(tree, &file)?.map(|content| (file, content)));
        }
    }
    if used.is_empty() && obeyed.is_empty() {
        return Ok(());
    }
    let trust = Trust::open(workspace.places.user.as_deref())?;
    let why = format!(" ({agent} obeys it: it can change what is run, and where a key goes)");
    let mut files: String = trust
        .untrusted(root, &used)
        .iter()
        .map(|file| format!("\n  {file}"))
        .collect();
    // In the tree of a change counts what was accepted in the user's own, and what was accepted there.
    let new = trust.untrusted(root, &obeyed).into_iter().filter(|file| {
        let found: Vec<_> = obeyed
            .iter()
            .filter(|(obeyed, _)| obeyed == file)
            .cloned()
            .collect();
        !trust.untrusted(tree, &found).is_empty()
    });
    let new: Vec<String> = new.collect();
    files.extend(new.iter().map(|file| format!("\n  {file}{why}")));
    if files.is_empty() {
        return Ok(());
    }
    let place = if tree == root || new.is_empty() {
        String::new()
    } else {
        in_tree(tree)
    };
    let message =
        format!("files of this project would be used, and you have not accepted them:{files}");
    if let Some(base) = &workspace.base {
        let commit = ops::short_commit(&base.commit);
        return Err(Error::new(ErrorKind::NotTrusted, message).with_hint(format!(
            "check out {commit} (the base) and run `agentd trust`; --trust covers the checks alone"
        )));
    }
    Err(Error::new(ErrorKind::NotTrusted, message).with_hint(format!(
        "`agentd trust --show{place}` lists them; accept them with `agentd trust{place}`, or for this run with --trust"
    )))
}

/// Returns what names a change's own tree to a command.
fn in_tree(tree: &Path) -> String {
    format!(" -C {}", tree.display().to_string().escape_debug())
}
