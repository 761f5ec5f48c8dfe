//! Files edited by replies: each case is a project, a reply and the files it must lead to.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use agentd::Result;
use agentd::agent::{AgentCall, Driver, RecoveredCall, Replay, RunningCall};
use agentd::models::{Mode, Reply};
use agentd::secret::Secrets;
use agentd::store::MemoryStore;
use libtest_mimic::Trial;

use crate::support::edit_project::{ask, project, step_results, tree, workspace};
use crate::support::{files_below, take};
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("edit", check)
}

/// Files before and after a turn, the reply, and the expected results.
///
/// A case file has lines of `key: value`, then the sections `===== before PATH`, `===== after PATH`, `===== gone PATH`
/// and `===== reply`. A file without `after` must stay unchanged. With `escapes`, `\r` is a carriage return, `\\` a
/// backslash, and `\e` removes the end of its line.
#[derive(Default)]
struct EditCase {
    shown: Vec<String>,
    meanwhile: Vec<String>,
    links: Vec<(String, String)>,
    secret: Option<String>,
    settled: Vec<String>,
    refused: Vec<String>,
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
    reply: String,
}

impl EditCase {
    fn read(text: &str) -> Self {
        let (head, sections) = text.split_once("\n===== ").unwrap();
        let mut case = Self::default();
        let mut escapes = false;
        for line in head.lines().filter(|line| !line.starts_with('#')) {
            let (key, value) = line.split_once(": ").unwrap();
            let list = || value.split(", ").map(str::to_owned);
            match key {
                "escapes" => escapes = value == "yes",
                "shown" => case.shown.extend(list()),
                "meanwhile" => case.meanwhile.extend(list()),
                "secret" => case.secret = Some(value.to_owned()),
                "settled" => case.settled.push(value.to_owned()),
                "refused" => case.refused.push(value.to_owned()),
                "link" => {
                    let (name, target) = value.split_once(" -> ").unwrap();
                    case.links.push((name.to_owned(), target.to_owned()));
                }
                other => panic!("unknown key {other}"),
            }
        }

        let sections: Vec<(&str, String)> = sections
            .split("\n===== ")
            .map(|section| section.split_once('\n').unwrap_or((section, "")))
            .map(|(name, text)| {
                (
                    name,
                    if escapes {
                        unescaped(text)
                    } else {
                        text.to_owned()
                    },
                )
            })
            .collect();
        for (name, text) in &sections {
            // The newline before the next section belongs to the text.
            let whole = || strip_end_escape(&format!("{text}\n"));
            match name.split_once(' ') {
                Some(("before", path)) => {
                    case.before.insert(path.to_owned(), whole());
                    case.after.entry(path.to_owned()).or_insert_with(whole);
                }
                Some(("after", path)) => drop(case.after.insert(path.to_owned(), whole())),
                Some(("gone", path)) => drop(case.after.remove(path)),
                _ => case.reply.clone_from(text),
            }
        }

        case
    }
}

fn unescaped(text: &str) -> String {
    text.replace("\\\\", "\0")
        .replace("\\r", "\r")
        .replace('\0', "\\")
}

fn strip_end_escape(text: &str) -> String {
    text.strip_suffix("\\e\n").unwrap_or(text).to_owned()
}

/// An agent during whose call another process appends a line to files.
struct DisturbedAgent {
    reply: Replay,
    files: Vec<PathBuf>,
}

impl Driver for DisturbedAgent {
    fn spends(&self) -> bool {
        false
    }

    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        for path in &self.files {
            let file = fs::OpenOptions::new().append(true).create(true).open(path);
            file.unwrap().write_all(b"someone was here\n").unwrap();
        }
        self.reply.start(call)
    }

    fn salvage(&self, _: &Path, _: &str) -> Result<Option<RecoveredCall>> {
        Ok(None)
    }
}

fn check(text: &str) {
    let case = EditCase::read(text);
    let project = project();
    for (path, content) in &case.before {
        project.write(path, content);
    }
    for (link, target) in &case.links {
        std::os::unix::fs::symlink(target, project.root().join(link)).unwrap();
    }

    let mut workspace = workspace(&project);
    let secret = case
        .secret
        .iter()
        .map(|value| ("KEY".to_owned(), value.clone().into_bytes()));
    workspace.secrets = Secrets::new(secret);
    let path = |name: &String| project.root().join(name);
    let files = case.meanwhile.iter().map(path).collect();
    let driver = DisturbedAgent {
        reply: Replay::new(Reply::from_text(case.reply.as_str())),
        files,
    };
    let ask = ask("pipe", case.shown.iter().map(path));
    let report = take(&workspace, &MemoryStore::default(), &driver, &ask).unwrap();

    let root = project.root().display().to_string();
    let expected: Vec<String> = case
        .settled
        .iter()
        .map(|line| line.replace("{root}", &root))
        .collect();
    let refused: Vec<String> = report
        .proposals
        .iter()
        .map(|p| format!("{} ({})", p.what, p.reason))
        .collect();
    assert_eq!(step_results(&report), expected);
    assert_eq!(refused, case.refused);
    assert_eq!(tree(&project), case.after);

    // A step that failed or an effect that was refused keeps the session in its mode.
    let stays = report.settlements.iter().any(|s| !s.done) || !report.response.proposals.is_empty();
    let mode = report.state.mode.as_ref().map(Mode::as_str);
    assert_eq!(mode, Some(if stays { "implement" } else { "review" }));

    let left = files_below(&project.root())
        .into_iter()
        .chain(files_below(&project.home()));
    let unfinished: Vec<PathBuf> = left
        .filter(|path| path.display().to_string().contains("unfinished"))
        .collect();
    assert_eq!(unfinished, Vec::<PathBuf>::new(), "temporary files remain");
}
