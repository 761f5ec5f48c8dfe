//! Imports between files: no cycles within a room, and few rooms for each part of the orchestrator.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::support::{files_below, repository};

/// Known groups of files that import each other, each with the reason.
const KNOWN_CYCLES: [(&[&str], &str); 6] = [
    (
        &[
            "agent::command",
            "agent::contain",
            "agent::drivers",
            "agent::guard",
            "agent::http",
            "agent::output",
            "agent::watcher",
        ],
        "the guard of a command is this program, started again in a mode that also sends HTTP requests",
    ),
    (
        &[
            "config::agent_spec",
            "config::agent_switches",
            "config::agents",
            "config::provider",
        ],
        "switches edit the definitions of agents that name them",
    ),
    (
        &["models::prompt", "models::prompt_xml"],
        "a prompt has the methods to_xml and from_xml",
    ),
    (
        &["parse::scan", "parse::scan::calls"],
        "one scanner, whose methods for calls have a file of their own",
    ),
    (
        &["parse::stream", "parse::stream::pending_code"],
        "one reader, whose methods for code have a file of their own",
    ),
    (
        &[
            "store::sqlite",
            "store::sqlite::chain",
            "store::sqlite::open",
            "store::sqlite::schema",
            "store::sqlite::tables",
        ],
        "opening a ledger migrates it, which writes the hashes of its rows anew",
    ),
];

/// Maximum number of other rooms that a part of the orchestrator imports from.
const MAX_ROOMS: usize = 12;

/// A module path and an item, without `crate`.
type ItemPath = Vec<String>;

/// An import of a file.
struct Import {
    path: ItemPath,
    /// Name under which the item is imported.
    name: String,
    is_reexport: bool,
}

/// The modules of the library, with the imports of each.
struct Modules(BTreeMap<ItemPath, Vec<Import>>);

impl Modules {
    fn read() -> Self {
        let src = repository().join("src");
        let mut texts = BTreeMap::new();
        for path in files_below(&src) {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if path.starts_with("bin") || !is_rust || path.to_str() == Some("lib.rs") {
                continue;
            }
            let text = fs::read_to_string(src.join(&path)).unwrap();
            texts.insert(module_of(path.to_str().unwrap()), text);
        }
        Self::parse(&texts)
    }

    fn parse(texts: &BTreeMap<ItemPath, String>) -> Self {
        let resolved_imports = |module: &ItemPath, text: &String| {
            let found = parse_imports(text).into_iter();
            found
                .filter_map(|import| {
                    let path = absolute_path(module, &import.path, texts)?;
                    Some(Import { path, ..import })
                })
                .collect()
        };
        Self(
            texts
                .iter()
                .map(|(module, text)| (module.clone(), resolved_imports(module, text)))
                .collect(),
        )
    }

    /// Returns the module that defines an item, through re-exports.
    fn defining_module(&self, path: &[String]) -> Option<ItemPath> {
        let module = (1..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|module| self.0.contains_key(module))?;
        let Some(item) = path.get(module.len()) else {
            return Some(module);
        };
        let reexport = self.0[&module]
            .iter()
            .find(|import| import.is_reexport && import.name == *item);
        match reexport {
            Some(reexport) => {
                let rest = &path[module.len() + 1..];
                self.defining_module(&[&reexport.path, rest].concat())
            }
            None => Some(module),
        }
    }

    /// Returns the modules of the same room that each module imports from.
    fn edges(&self) -> BTreeMap<ItemPath, BTreeSet<ItemPath>> {
        let mut edges: BTreeMap<ItemPath, BTreeSet<ItemPath>> = BTreeMap::new();
        for (module, imports) in &self.0 {
            let used = imports
                .iter()
                .filter(|import| !import.is_reexport)
                .filter_map(|import| self.defining_module(&import.path))
                .filter(|used| used != module && used[0] == module[0]);
            edges.insert(module.clone(), used.collect());
        }
        edges
    }

    /// Returns the groups of modules that import each other.
    fn cycles(&self) -> BTreeSet<Vec<String>> {
        let edges = self.edges();
        let reachable: BTreeMap<&ItemPath, BTreeSet<&ItemPath>> = edges
            .keys()
            .map(|module| (module, reachable_from(module, &edges)))
            .collect();

        let mut cycles = BTreeSet::new();
        for (module, from_here) in &reachable {
            let cycle: Vec<String> = from_here
                .iter()
                .filter(|other| reachable[**other].contains(module))
                .map(|other| other.join("::"))
                .collect();
            if cycle.len() > 1 {
                cycles.insert(cycle);
            }
        }

        cycles
    }

    /// Returns the other rooms that the modules below a path import from.
    fn rooms_of(&self, part: &str) -> BTreeSet<String> {
        let part: ItemPath = part.split("::").map(str::to_owned).collect();
        let modules = self
            .0
            .iter()
            .filter(|(module, _)| module.starts_with(&part));
        modules
            .flat_map(|(_, imports)| imports)
            .map(|import| import.path[0].clone())
            .filter(|room| *room != part[0])
            .collect()
    }
}

fn reachable_from<'m>(
    start: &'m ItemPath,
    edges: &'m BTreeMap<ItemPath, BTreeSet<ItemPath>>,
) -> BTreeSet<&'m ItemPath> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![start];
    while let Some(module) = pending.pop() {
        for next in &edges[module] {
            if reached.insert(next) {
                pending.push(next);
            }
        }
    }
    reached
}

/// Returns the module of a file: `agent::http` for `agent/http/mod.rs`.
fn module_of(path: &str) -> ItemPath {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// Returns the path of an import without `crate`, `super` and `self`; `None` for another crate.
fn absolute_path(
    module: &[String],
    path: &[String],
    modules: &BTreeMap<ItemPath, String>,
) -> Option<ItemPath> {
    let above = path.iter().take_while(|part| *part == "super").count();
    if above > 0 {
        let base = &module[..module.len().checked_sub(above)?];
        return Some([base, &path[above..]].concat());
    }
    match path[0].as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        child => {
            let child = [module, &[child.to_owned()]].concat();
            let is_child = modules.contains_key(&child);
            is_child.then(|| [module, path].concat())
        }
    }
}

/// Returns the imports of a source without its tests, and the paths it names without importing
/// them.
fn parse_imports(text: &str) -> Vec<Import> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();

    let mut found = Vec::new();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        let line = statement.lines().find(|line| is_use(line));
        let Some(line) = line else {
            rest.push_str(statement);
            continue;
        };
        let start = statement.find(line).unwrap();
        rest.push_str(&statement[..start]);
        let is_reexport = !line.starts_with("use ");
        let tree = statement[start..].split_once("use ").unwrap().1;
        let tree = tree.trim_end_matches(';');
        for (path, name) in expand_use_tree(tree) {
            found.push(Import {
                path,
                name,
                is_reexport,
            });
        }
    }

    found.extend(inline_paths(&rest));
    found
}

fn is_use(line: &str) -> bool {
    line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "))
}

/// Returns the paths of a use tree, each with its local name.
fn expand_use_tree(tree: &str) -> Vec<(ItemPath, String)> {
    let tree = tree.trim();
    if let Some((prefix, rest)) = tree.split_once('{') {
        let inside = rest.rsplit_once('}').unwrap().0;
        let prefix = prefix.trim();
        return split_at_commas(inside)
            .into_iter()
            .flat_map(|part| expand_use_tree(&format!("{prefix}{part}")))
            .collect();
    }

    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut path: ItemPath = path.trim().split("::").map(str::to_owned).collect();
    if path.last().is_some_and(|part| part == "self") {
        path.pop();
    }
    let name = alias.unwrap_or_else(|| path.last().unwrap().clone());
    vec![(path, name)]
}

/// Splits at commas that are not inside braces.
fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }

    let parts = parts.into_iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns the paths that start with `crate::` or `super::` in code.
fn inline_paths(code: &str) -> Vec<Import> {
    let code = code.replace("pub(in crate::", "pub(in ");
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let paths = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    paths
        .map(|path| Import {
            path: path
                .trim_end_matches(':')
                .split("::")
                .map(str::to_owned)
                .collect(),
            name: String::new(),
            is_reexport: false,
        })
        .collect()
}

#[test]
fn import_cycles_within_a_room_are_known() {
    let known: BTreeSet<Vec<String>> = KNOWN_CYCLES
        .iter()
        .map(|(cycle, reason)| {
            assert!(reason.split_whitespace().count() > 4, "{cycle:?}");
            cycle.iter().map(|module| (*module).to_owned()).collect()
        })
        .collect();
    assert_eq!(Modules::read().cycles(), known);
}

#[test]
fn parts_of_the_orchestrator_import_from_few_rooms() {
    let modules = Modules::read();
    for part in [
        "orchestrator::prompts",
        "orchestrator::turn",
        "orchestrator::change",
    ] {
        let rooms = modules.rooms_of(part);
        assert!(!rooms.is_empty(), "{part} imports nothing");
        assert!(rooms.len() <= MAX_ROOMS, "{part} imports from {rooms:?}");
    }
}

#[test]
fn cycle_through_a_reexport_and_an_inline_path_is_found() {
    let texts = [
        (
            "a/mod.rs",
            "mod b;\nmod c;\npub use c::{Deep, Other as Third};\n",
        ),
        ("a/b.rs", "use super::Deep;\n"),
        ("a/c.rs", "fn f() { crate::a::b::g(); }\n"),
        (
            "a/d.rs",
            "// use super::b;\nuse crate::a::{b::{self, X}, Third};\n#[cfg(test)]\nuse super::e;\n",
        ),
        ("a/e.rs", "use super::d::Y;\n"),
    ];
    let texts = texts.map(|(path, text)| (module_of(path), text.to_owned()));
    let modules = Modules::parse(&BTreeMap::from(texts));
    let cycle = vec!["a::b".to_owned(), "a::c".to_owned()];
    assert_eq!(modules.cycles(), BTreeSet::from([cycle]));
}
