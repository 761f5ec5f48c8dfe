//! Search path of prose files: the project, the user's configuration folder, files that a program supplies in memory, and
//! the built-in files, in this order. All prose is read through this module.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::builtin;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::paths;

/// Maximum size of a prose file in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum number of files and folders that are visited in a search.
const MAX_ENTRIES: usize = 2_000;

/// Folders and files of a project that define prompts and permissions of agents.
pub const DEFINITIONS: [&str; 5] = [
    "templates/system",
    "agentd/templates",
    paths::PACKS_FOLDER,
    paths::CONFIG_FILE,
    "agentd/agents.yaml",
];

/// Returns true for a path at or below one of [`DEFINITIONS`]. Case is ignored, as some file systems do.
#[must_use]
pub fn is_definition(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    DEFINITIONS.iter().any(|place| {
        path.strip_prefix(place)
            .is_some_and(|below| below.is_empty() || below.starts_with('/'))
    })
}

/// Returns true if a file below [`DEFINITIONS`] is read. Hidden files and files with other extensions are ignored.
#[must_use]
pub fn is_read_definition(path: &str) -> bool {
    path.split('/').all(is_plain_name)
        && DEFINITION_EXTENSIONS.iter().any(|end| path.ends_with(end))
}

/// Extensions of the files that are read below [`DEFINITIONS`].
const DEFINITION_EXTENSIONS: [&str; 3] = [".md", ".yaml", ".toml"];

/// Search path of prose files. Clones share the record of used files.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    /// Root of the project.
    pub project: Option<PathBuf>,
    /// The user's configuration folder of this program.
    pub user: Option<PathBuf>,
    /// Files of the project at a commit, by path; `None` to read the project's folder.
    at_commit: Option<Arc<BTreeMap<String, String>>>,
    /// Files that the calling program supplies, by path.
    memory: Arc<BTreeMap<String, Cow<'static, str>>>,
    used: Arc<Mutex<UsedFiles>>,
}

/// Used files of the project: origin, and text at the time of use. Trust is checked against them.
type UsedFiles = BTreeSet<(String, Arc<str>)>;

/// Owner of a prose file.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProseOwner {
    /// The project, which is not trusted to run commands.
    Project,
    /// The user.
    User,
    /// The program that uses this library.
    Memory,
    /// This library.
    BuiltIn,
}

impl fmt::Display for ProseOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Memory => "memory",
            Self::BuiltIn => "built-in",
        })
    }
}

/// A prose file that was found.
#[derive(Clone, Debug)]
pub struct Prose {
    /// Owner of the file.
    pub owner: ProseOwner,
    /// Location, for display.
    pub origin: String,
    /// Content of the file.
    pub text: Cow<'static, str>,
}

/// A path at which a file is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Owner of the path.
    pub owner: ProseOwner,
    /// Location, for display.
    pub origin: String,
    path: PathBuf,
}

/// Prefix of the origin of a file in memory.
const MEMORY_PREFIX: &str = "memory:";

impl Candidate {
    /// Returns the path of a file in memory.
    fn memory_path(&self) -> &str {
        self.origin
            .strip_prefix(MEMORY_PREFIX)
            .unwrap_or(&self.origin)
    }
}

impl SearchPath {
    /// Returns the search path for a project's root and the user's configuration folder of this program.
    #[must_use]
    pub fn new(project: Option<PathBuf>, user: Option<PathBuf>) -> Self {
        Self {
            project,
            user,
            at_commit: None,
            memory: Arc::default(),
            used: Arc::default(),
        }
    }

    /// Returns a search path that uses `files`, the project's files at a commit by path, instead of the project's folder.
    #[must_use]
    pub fn at_commit(
        project: PathBuf,
        user: Option<PathBuf>,
        files: BTreeMap<String, String>,
    ) -> Self {
        Self {
            at_commit: Some(Arc::new(files)),
            ..Self::new(Some(project), user)
        }
    }

    /// Adds files from memory, such as those of `include_str!`, each with its path: `packs/NAME/pack.yaml`,
    /// `templates/system/BASE-plan.md`. A file of the project or the user takes precedence over them, and they take
    /// precedence over the compiled-in ones.
    #[must_use]
    pub fn with_files<P, T>(mut self, files: impl IntoIterator<Item = (P, T)>) -> Self
    where
        P: Into<String>,
        T: Into<Cow<'static, str>>,
    {
        let added = files
            .into_iter()
            .map(|(path, text)| (path.into(), text.into()));
        let mut memory = Arc::unwrap_or_clone(self.memory);
        memory.extend(added);
        self.memory = Arc::new(memory);
        self
    }

    /// Returns the files of the project that were used so far, with their text. A file that changed is listed once per text.
    #[must_use]
    pub fn used(&self) -> Vec<(String, Arc<str>)> {
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Returns the paths at which a file is searched, highest precedence first.
    #[must_use]
    pub fn candidates(&self, name: &str) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        let mut add = |owner, path: PathBuf, origin: String| {
            candidates.push(Candidate {
                owner,
                origin,
                path,
            });
        };

        if let Some(root) = &self.project {
            if name.starts_with("templates/") {
                add(ProseOwner::Project, root.join(name), name.to_owned());
            }
            add(
                ProseOwner::Project,
                root.join("agentd").join(name),
                format!("agentd/{name}"),
            );
        }

        if let Some(folder) = &self.user {
            let path = folder.join(name);
            let origin = path.display().to_string();
            add(ProseOwner::User, path, origin);
        }

        if !self.memory.is_empty() {
            add(
                ProseOwner::Memory,
                PathBuf::from(name),
                format!("memory:{name}"),
            );
        }

        add(
            ProseOwner::BuiltIn,
            PathBuf::from(name),
            format!("built-in:{name}"),
        );
        candidates
    }

    /// Reads a file, and records it as used if it belongs to the project; `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// `FileUnusable` for a file that exists and cannot be read. Such a file is never skipped silently.
    pub fn read(&self, candidate: &Candidate) -> Result<Option<Prose>> {
        let prose_file = self.peek(candidate)?;
        if let Some(prose) = prose_file
            .as_ref()
            .filter(|prose| prose.owner == ProseOwner::Project)
        {
            let used = (prose.origin.clone(), Arc::from(prose.text.as_ref()));
            self.used
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(used);
        }
        Ok(prose_file)
    }

    /// Reads a file without recording it as used.
    pub(super) fn peek(&self, candidate: &Candidate) -> Result<Option<Prose>> {
        let text = match (candidate.owner, &self.at_commit, &self.project) {
            (ProseOwner::BuiltIn, ..) => builtin::find(&candidate.path).map(Cow::Borrowed),
            (ProseOwner::Memory, ..) => self.memory.get(candidate.memory_path()).cloned(),
            (ProseOwner::Project, Some(files), _) => {
                files.get(&candidate.origin).cloned().map(Cow::Owned)
            }
            (ProseOwner::Project, None, Some(root)) => {
                file::read_text_inside(root, &candidate.path, MAX_FILE_BYTES)?.map(Cow::Owned)
            }
            _ => file::read_text(&candidate.path, MAX_FILE_BYTES)?.map(Cow::Owned),
        };

        let origin = candidate.origin.clone();
        Ok(text.map(|text| Prose {
            owner: candidate.owner,
            origin,
            text,
        }))
    }

    /// Returns the file from the first candidate path that exists; `None` if none exists.
    ///
    /// # Errors
    ///
    /// Those of [`SearchPath::read`].
    pub fn find(&self, name: &str) -> Result<Option<Prose>> {
        for candidate in self.candidates(name) {
            if let Some(prose) = self.read(&candidate)? {
                return Ok(Some(prose));
            }
        }
        Ok(None)
    }

    /// Returns the file from every candidate path that exists, lowest precedence first, for files that are merged.
    ///
    /// # Errors
    ///
    /// Those of [`SearchPath::read`].
    pub fn layers(&self, name: &str) -> Result<Vec<Prose>> {
        let candidates = self.candidates(name);
        candidates
            .iter()
            .rev()
            .filter_map(|candidate| self.read(candidate).transpose())
            .collect()
    }

    /// Returns true if at least one candidate path of a file exists, even if it cannot be read.
    pub(super) fn has(&self, name: &str) -> bool {
        self.candidates(name)
            .iter()
            .any(|candidate| !matches!(self.peek(candidate), Ok(None)))
    }

    /// Returns all definition files of the project, sorted, each with its content or the error of reading it.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the project has too many definition files and folders.
    pub fn definitions(&self) -> Result<Vec<(String, Result<Prose>)>> {
        let Some(root) = &self.project else {
            return Ok(Vec::new());
        };
        if let Some(files) = &self.at_commit {
            let prose = |(path, text): (&String, &String)| {
                let prose = Prose {
                    owner: ProseOwner::Project,
                    origin: path.clone(),
                    text: Cow::Owned(text.clone()),
                };
                (path.clone(), Ok(prose))
            };
            return Ok(files.iter().map(prose).collect());
        }

        let mut pending: Vec<String> = DEFINITIONS.map(str::to_owned).into();

        let mut definitions = Vec::new();
        let mut entries = 0;
        while let Some(origin) = pending.pop() {
            let path = root.join(&origin);
            if path.is_dir() {
                let names = if is_outside(root, &path) {
                    Vec::new()
                } else {
                    file::names_in(&path)?
                };
                let names = names.into_iter().filter_map(|name| name.into_string().ok());
                pending.extend(
                    names
                        .filter(|name| is_plain_name(name))
                        .map(|name| format!("{origin}/{name}")),
                );
            } else if DEFINITION_EXTENSIONS
                .iter()
                .any(|end| origin.ends_with(end))
            {
                let candidate = Candidate {
                    owner: ProseOwner::Project,
                    origin: origin.clone(),
                    path,
                };
                definitions.extend(
                    self.peek(&candidate)
                        .transpose()
                        .map(|prose| (origin, prose)),
                );
            }

            entries += 1;
            if entries + pending.len() > MAX_ENTRIES {
                let message =
                    format!("the project's definitions exceed {MAX_ENTRIES} files and folders");
                return Err(Error::new(ErrorKind::FileUnusable, message)
                    .with_hint("check templates/system and agentd/ for circular symlinks"));
            }
        }

        definitions.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(definitions)
    }

    /// Returns the names of the direct subfolders of `folder`, in all search locations, that contain `file`; sorted.
    #[must_use]
    pub fn folders_with(&self, folder: &str, file: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for candidate in self.candidates(folder) {
            match candidate.owner {
                ProseOwner::BuiltIn => {
                    names.extend(builtin::folders_with(folder, file).map(str::to_owned))
                }
                ProseOwner::Project | ProseOwner::User | ProseOwner::Memory => {
                    let contains_file = |name: &String| {
                        let place = Candidate {
                            path: candidate.path.join(name).join(file),
                            origin: format!("{}/{name}/{file}", candidate.origin),
                            ..candidate.clone()
                        };
                        // An unreadable file is also listed: the error is reported when the file is used.
                        !matches!(self.peek(&place), Ok(None))
                    };
                    names.extend(self.names_at(&candidate).into_iter().filter(contains_file));
                }
            }
        }

        names
    }

    /// Returns the names of the Markdown files in a folder, in all search locations, relative to the folder; sorted.
    #[must_use]
    pub fn names_in(&self, folder: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for candidate in self.candidates(folder) {
            match candidate.owner {
                ProseOwner::BuiltIn => names.extend(builtin::names_in(folder).map(str::to_owned)),
                ProseOwner::Project | ProseOwner::User | ProseOwner::Memory => {
                    names.extend(self.names_at(&candidate));
                }
            }
        }
        names.retain(|name| name.ends_with(".md"));
        names
    }

    /// Returns the names in a folder of one search location. A folder that cannot be listed counts as empty; reading a file in it
    /// reports the reason.
    fn names_at(&self, folder: &Candidate) -> BTreeSet<String> {
        if let (ProseOwner::Project, Some(files)) = (folder.owner, &self.at_commit) {
            return names_below(files.keys(), &folder.origin);
        }

        if folder.owner == ProseOwner::Memory {
            return names_below(self.memory.keys(), folder.memory_path());
        }

        let names = file::names_in(&folder.path).unwrap_or_default();
        names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()
    }
}

/// Reads the Markdown files directly in a folder, with their names; hidden files are skipped.
///
/// # Errors
///
/// `FileUnusable` if the folder or a file cannot be read, or if there are too many files.
pub(super) fn markdown_files(folder: &Path) -> Result<Vec<(String, Prose)>> {
    let names: Vec<String> = file::names_in(folder)?
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| is_plain_name(name) && name.ends_with(".md"))
        .collect();
    if names.len() > MAX_ENTRIES {
        let message = format!(
            "`{}` has more than {MAX_ENTRIES} Markdown files",
            folder.display()
        );
        return Err(Error::new(ErrorKind::FileUnusable, message));
    }

    let mut files = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let Some(text) = file::read_text(&path, MAX_FILE_BYTES)? else {
            continue;
        };
        let prose = Prose {
            owner: ProseOwner::User,
            origin: path.display().to_string(),
            text: Cow::Owned(text),
        };
        files.push((name, prose));
    }

    Ok(files)
}

/// Returns the first component of every path below a folder, relative to it.
fn names_below<'a>(paths: impl Iterator<Item = &'a String>, folder: &str) -> BTreeSet<String> {
    paths
        .filter_map(|path| {
            path.strip_prefix(folder)?
                .strip_prefix('/')?
                .split('/')
                .next()
        })
        .map(str::to_owned)
        .collect()
}

/// Returns true for a valid name of a file or folder of a pack or a template.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Returns true for a folder that is outside the project once symlinks are resolved, or cannot be resolved. Such a
/// folder is not read.
fn is_outside(root: &Path, folder: &Path) -> bool {
    match (root.canonicalize(), folder.canonicalize()) {
        (Ok(root), Ok(folder)) => !folder.starts_with(root),
        _ => true,
    }
}
