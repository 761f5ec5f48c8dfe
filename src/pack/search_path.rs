//! The one door to prose files: the project's first, then the user's, those in memory, and the compiled-in ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::builtin;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::models::paths;

/// The largest prose file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The most files and folders that are looked through for what a project defines.
const MAX_ENTRIES: usize = 2_000;

/// The folders of a project whose files define something, and files that do so by themselves.
pub const DEFINITIONS: [&str; 5] = [
    "templates/system",
    "agentd/templates",
    paths::PACKS_FOLDER,
    paths::CONFIG_FILE,
    "agentd/agents.yaml",
];

/// Returns true for a file of a project that may define something: by its name, and by the folder that it is in. Paths
/// are compared without regard to case, as some file systems do.
#[must_use]
pub fn is_definition(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    DEFINITIONS.iter().any(|place| {
        path.strip_prefix(place)
            .is_some_and(|below| below.is_empty() || below.starts_with('/'))
    })
}

/// Returns true for a file at one of [`DEFINITIONS`] that is read: hidden files and other kinds are not.
#[must_use]
pub fn is_read_definition(path: &str) -> bool {
    path.split('/').all(is_plain_name)
        && DEFINITION_EXTENSIONS.iter().any(|end| path.ends_with(end))
}

/// Endings of the files that define something.
const DEFINITION_EXTENSIONS: [&str; 3] = [".md", ".yaml", ".toml"];

/// The folders in which prose is looked for before the compiled-in files. Clones share what they have used.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The project's root.
    pub project: Option<PathBuf>,
    /// The user's configuration folder for this program.
    pub user: Option<PathBuf>,
    /// The project's files by path where they are those of a commit; `None` if they are those of the project's folder.
    at_commit: Option<Arc<BTreeMap<String, String>>>,
    /// Files that the calling program brings along, by path.
    memory: Arc<BTreeMap<String, Cow<'static, str>>>,
    used: Arc<Mutex<UsedFiles>>,
}

/// What was used of the project's files: where it is, and its text at that moment.
type UsedFiles = BTreeSet<(String, Arc<str>)>;

/// Who a prose file belongs to.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The project, which is not trusted to run things.
    Project,
    /// The user.
    User,
    /// The program that uses this library.
    Memory,
    /// This library.
    BuiltIn,
}

impl fmt::Display for Owner {
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
    /// Who it belongs to.
    pub owner: Owner,
    /// Where it is, as people read it.
    pub origin: String,
    /// Its text.
    pub text: Cow<'static, str>,
}

/// One place at which a file may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Whose place it is.
    pub owner: Owner,
    /// The place, as people read it.
    pub origin: String,
    path: PathBuf,
}

/// Start of the origin of a file in memory.
const MEMORY_PREFIX: &str = "memory:";

impl Candidate {
    /// Returns the path by which a file in memory is known.
    fn memory_path(&self) -> &str {
        self.origin
            .strip_prefix(MEMORY_PREFIX)
            .unwrap_or(&self.origin)
    }
}

impl Places {
    /// Makes places of a project's root and of the user's folder for this program.
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

    /// Makes places whose project files are those of a commit, given by path: what the project's folder holds now is
    /// not looked at.
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

    /// Returns the files of the project that were used so far, each with every text that it then had.
    #[must_use]
    pub fn used(&self) -> Vec<(String, Arc<str>)> {
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Returns where a file may be, the most important place first.
    #[must_use]
    pub fn candidates(&self, name: &str) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut add = |owner, path: PathBuf, origin: String| {
            found.push(Candidate {
                owner,
                origin,
                path,
            });
        };
        if let Some(root) = &self.project {
            if name.starts_with("templates/") {
                add(Owner::Project, root.join(name), name.to_owned());
            }
            add(
                Owner::Project,
                root.join("agentd").join(name),
                format!("agentd/{name}"),
            );
        }
        if let Some(folder) = &self.user {
            let path = folder.join(name);
            let origin = path.display().to_string();
            add(Owner::User, path, origin);
        }
        if !self.memory.is_empty() {
            add(Owner::Memory, PathBuf::from(name), format!("memory:{name}"));
        }
        add(
            Owner::BuiltIn,
            PathBuf::from(name),
            format!("built-in:{name}"),
        );
        found
    }

    /// Reads what stands at one place in order to use it; `None` if nothing does.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if something is there that cannot be used: it is never passed over in silence.
    pub fn read(&self, candidate: &Candidate) -> Result<Option<Prose>> {
        let found = self.peek(candidate)?;
        if let Some(prose) = found.as_ref().filter(|prose| prose.owner == Owner::Project) {
            let used = (prose.origin.clone(), Arc::from(prose.text.as_ref()));
            self.used
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(used);
        }
        Ok(found)
    }

    /// Reads what stands at one place only to see whether something does.
    pub(super) fn peek(&self, candidate: &Candidate) -> Result<Option<Prose>> {
        let text = match (candidate.owner, &self.at_commit, &self.project) {
            (Owner::BuiltIn, ..) => builtin::find(&candidate.path).map(Cow::Borrowed),
            (Owner::Memory, ..) => self.memory.get(candidate.memory_path()).cloned(),
            (Owner::Project, Some(files), _) => {
                files.get(&candidate.origin).cloned().map(Cow::Owned)
            }
            (Owner::Project, None, Some(root)) => {
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

    /// Returns the first file with a name; `None` if it is nowhere.
    ///
    /// # Errors
    ///
    /// Those of [`Places::read`].
    pub fn find(&self, name: &str) -> Result<Option<Prose>> {
        for candidate in self.candidates(name) {
            if let Some(prose) = self.read(&candidate)? {
                return Ok(Some(prose));
            }
        }
        Ok(None)
    }

    /// Returns all files with a name, the least important first, for what overlays instead of replacing.
    ///
    /// # Errors
    ///
    /// Those of [`Places::read`].
    pub fn layers(&self, name: &str) -> Result<Vec<Prose>> {
        let candidates = self.candidates(name);
        candidates
            .iter()
            .rev()
            .filter_map(|candidate| self.read(candidate).transpose())
            .collect()
    }

    /// Tells whether a file is at any place, readable or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.candidates(name)
            .iter()
            .any(|candidate| !matches!(self.peek(candidate), Ok(None)))
    }

    /// Returns all files of the project that would define something if they were used, sorted, or why one cannot be.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if there are too many to look at.
    pub fn definitions(&self) -> Result<Vec<(String, Result<Prose>)>> {
        let Some(root) = &self.project else {
            return Ok(Vec::new());
        };
        if let Some(files) = &self.at_commit {
            let prose = |(path, text): (&String, &String)| {
                let (owner, origin) = (Owner::Project, path.clone());
                (
                    path.clone(),
                    Ok(Prose {
                        owner,
                        origin,
                        text: Cow::Owned(text.clone()),
                    }),
                )
            };
            return Ok(files.iter().map(prose).collect());
        }
        let mut waiting: Vec<String> = DEFINITIONS.map(str::to_owned).into();
        let mut found = Vec::new();
        let mut entries = 0;
        while let Some(origin) = waiting.pop() {
            let path = root.join(&origin);
            if path.is_dir() {
                let names = if is_outside(root, &path) {
                    Vec::new()
                } else {
                    file::names_in(&path)?
                };
                let names = names.into_iter().filter_map(|name| name.into_string().ok());
                waiting.extend(
                    names
                        .filter(|name| is_plain_name(name))
                        .map(|name| format!("{origin}/{name}")),
                );
            } else if DEFINITION_EXTENSIONS
                .iter()
                .any(|end| origin.ends_with(end))
            {
                let candidate = Candidate {
                    owner: Owner::Project,
                    origin: origin.clone(),
                    path,
                };
                found.extend(
                    self.peek(&candidate)
                        .transpose()
                        .map(|prose| (origin, prose)),
                );
            }
            entries += 1;
            if entries + waiting.len() > MAX_ENTRIES {
                let message =
                    format!("the project's definitions are over {MAX_ENTRIES} files and folders");
                return Err(Error::new(ErrorKind::FileUnusable, message).with_hint(
                    "look into templates/system and agentd/ for links that lead in a circle",
                ));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }

    /// Returns the names of the folders below a folder that hold a certain file, at every place, sorted.
    #[must_use]
    pub fn folders_with(&self, folder: &str, file: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for candidate in self.candidates(folder) {
            match candidate.owner {
                Owner::BuiltIn => {
                    names.extend(builtin::folders_with(folder, file).map(str::to_owned))
                }
                Owner::Project | Owner::User | Owner::Memory => {
                    let holds = |name: &String| {
                        let place = Candidate {
                            path: candidate.path.join(name).join(file),
                            origin: format!("{}/{name}/{file}", candidate.origin),
                            ..candidate.clone()
                        };
                        // What is there and cannot be read is listed, and says why when it is used.
                        !matches!(self.peek(&place), Ok(None))
                    };
                    names.extend(self.names_at(&candidate).into_iter().filter(holds));
                }
            }
        }
        names
    }

    /// Returns the names of the Markdown files of a folder at every place, without their folder, sorted.
    #[must_use]
    pub fn names_in(&self, folder: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for candidate in self.candidates(folder) {
            match candidate.owner {
                Owner::BuiltIn => names.extend(builtin::names_in(folder).map(str::to_owned)),
                Owner::Project | Owner::User | Owner::Memory => {
                    names.extend(self.names_at(&candidate));
                }
            }
        }
        names.retain(|name| name.ends_with(".md"));
        names
    }

    /// Returns the names in a folder at one place. A folder that cannot be listed has nothing to offer; a file in it
    /// that is asked for says why.
    fn names_at(&self, folder: &Candidate) -> BTreeSet<String> {
        if let (Owner::Project, Some(files)) = (folder.owner, &self.at_commit) {
            return names_below(files.keys(), &folder.origin);
        }
        if folder.owner == Owner::Memory {
            return names_below(self.memory.keys(), folder.memory_path());
        }

        let names = file::names_in(&folder.path).unwrap_or_default();
        names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()
    }
}

/// Reads the Markdown files directly in a folder, each with its name; hidden files are left out.
///
/// # Errors
///
/// `FileUnusable` if the folder or a file cannot be read, or if there are too many.
pub(super) fn markdown_files(folder: &Path) -> Result<Vec<(String, Prose)>> {
    let names = file::names_in(folder)?;
    let names: Vec<String> = names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| is_plain_name(name) && name.ends_with(".md"))
        .collect();
    if names.len() > MAX_ENTRIES {
        let message = format!("{} has over {MAX_ENTRIES} files", folder.display());
        return Err(Error::new(ErrorKind::FileUnusable, message));
    }

    let mut found = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let Some(text) = file::read_text(&path, MAX_FILE_BYTES)? else {
            continue;
        };
        let prose = Prose {
            owner: Owner::User,
            origin: path.display().to_string(),
            text: Cow::Owned(text),
        };
        found.push((name, prose));
    }
    Ok(found)
}

/// Returns the first part, below a folder, of every path in it.
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

/// Tells names that a file or folder of a pack or a template can have.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Tells whether a folder of the project is a link that leads out of it: nothing in there is ever read.
fn is_outside(root: &Path, folder: &Path) -> bool {
    match (root.canonicalize(), folder.canonicalize()) {
        (Ok(root), Ok(folder)) => !folder.starts_with(root),
        _ => true,
    }
}
