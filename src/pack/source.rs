//! The one door to prose files: the project's first, then the user's, then the compiled-in ones.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use super::builtin;
use crate::error::Result;
use crate::file;

/// The largest prose file.
const LARGEST: u64 = 1024 * 1024;

/// The folders in which prose is looked for before the compiled-in files.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The project's root.
    pub project: Option<PathBuf>,
    /// The user's configuration folder for this program.
    pub user: Option<PathBuf>,
}

/// Who a prose file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The project, which is not trusted to run things.
    Project,
    /// The user.
    User,
    /// The program.
    BuiltIn,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
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

impl Places {
    /// Returns where a file may be, the most important place first.
    #[must_use]
    pub fn candidates(&self, name: &str) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut add = |owner, path: PathBuf, origin: String| {
            found.push(Candidate { owner, origin, path });
        };
        if let Some(root) = &self.project {
            if name.starts_with("templates/") {
                add(Owner::Project, root.join(name), name.to_owned());
            }
            add(Owner::Project, root.join("agentd").join(name), format!("agentd/{name}"));
        }
        if let Some(folder) = &self.user {
            let path = folder.join(name);
            let origin = path.display().to_string();
            add(Owner::User, path, origin);
        }
        add(Owner::BuiltIn, PathBuf::from(name), format!("built-in:{name}"));
        found
    }

    /// Reads what stands at one place; `None` if nothing does.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if something is there that cannot be used: it is never passed over in silence.
    pub fn read(&self, candidate: &Candidate) -> Result<Option<Prose>> {
        let text = match (candidate.owner, &self.project) {
            (Owner::BuiltIn, _) => builtin::find(&candidate.path).map(Cow::Borrowed),
            (Owner::Project, Some(root)) => {
                file::read_text_inside(root, &candidate.path, LARGEST)?.map(Cow::Owned)
            }
            _ => file::read_text(&candidate.path, LARGEST)?.map(Cow::Owned),
        };
        let origin = candidate.origin.clone();
        Ok(text.map(|text| Prose { owner: candidate.owner, origin, text }))
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

    /// Returns the names of the folders below a folder that hold a certain file, at every place, sorted.
    #[must_use]
    pub fn folders_with(&self, folder: &str, file: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for candidate in self.candidates(folder) {
            match candidate.owner {
                Owner::BuiltIn => names.extend(builtin::folders_with(folder, file).map(str::to_owned)),
                Owner::Project | Owner::User => {
                    let found = file::names_in(&candidate.path).unwrap_or_default();
                    let holds = |name: &String| {
                        let path =
                            Candidate { path: candidate.path.join(name).join(file), ..candidate.clone() };
                        // What is there and cannot be read is listed, and says why when it is used.
                        !matches!(self.read(&path), Ok(None))
                    };
                    names.extend(found.into_iter().filter_map(|name| name.into_string().ok()).filter(holds));
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
                Owner::Project | Owner::User => {
                    // A folder that cannot be listed has nothing to offer; a file in it that is asked for says why.
                    let found = file::names_in(&candidate.path).unwrap_or_default();
                    names.extend(found.into_iter().filter_map(|name| name.into_string().ok()));
                }
            }
        }
        names.retain(|name| name.ends_with(".md"));
        names
    }
}
