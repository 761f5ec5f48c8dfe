//! House rules: imports between rooms, file length, and the places where prose is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use agentd::{Pack, SearchPath, pack};

use crate::support::{files_below, repository};

/// Maximum number of lines of a source file.
const LONGEST_FILE: usize = 800;

/// Maximum number of words of a string in a room that builds prompts. A longer string is prose.
const MOST_WORDS: usize = 16;

/// Returns the sources of the library, by their room.
fn library_sources() -> Vec<(String, PathBuf, String)> {
    let src = repository().join("src");
    let mut found = Vec::new();
    for path in files_below(&src) {
        if path.starts_with("bin") || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let room = path
            .iter()
            .next()
            .unwrap()
            .to_str()
            .unwrap()
            .trim_end_matches(".rs")
            .to_owned();
        let text = fs::read_to_string(src.join(&path)).unwrap();
        found.push((room, path, text));
    }

    assert!(found.len() > 20);

    found
}

/// Parses the table of ARCHITECTURE.md: each room and the rooms it may use.
fn allowed_imports() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let table = text
        .split("## Dependencies between rooms")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = |cell: &str| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        (names(cells[1]).pop_first().unwrap(), names(cells[3]))
    })
    .collect()
}

/// Returns the rooms that a source names as `crate::room`.
fn used_rooms(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| {
        rest.chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_')
            .collect::<String>()
    };

    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(
        !code.contains("crate::{") && !code.contains("super::super"),
        "rooms are imported one by one, by name"
    );

    code.split("crate::")
        .skip(1)
        .map(name)
        .filter(|room| !room.is_empty())
        .collect()
}

#[test]
fn rooms_import_only_allowed_rooms() {
    let allowed = allowed_imports();
    let rooms: BTreeSet<_> = library_sources()
        .into_iter()
        .map(|(room, ..)| room)
        .filter(|room| room != "lib")
        .collect();
    assert_eq!(
        allowed.keys().cloned().collect::<BTreeSet<_>>(),
        rooms,
        "ARCHITECTURE.md names exactly the rooms"
    );

    for (room, path, text) in library_sources() {
        if room == "lib" {
            continue;
        }
        for used in used_rooms(&text) {
            assert!(
                used == room || allowed[&room].contains(&used),
                "{} uses the room {used}",
                path.display()
            );
        }
    }
}

/// Returns the files that a table of ARCHITECTURE.md lists, relative to `src`.
fn walked_files(heading: &str) -> Vec<String> {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let section = text.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn architecture_walk_names_20_files_of_a_turn_and_10_of_a_change() {
    let turn = walked_files("One turn");
    let change = walked_files("One change");
    assert!((10..=20).contains(&turn.len()), "{}", turn.len());
    assert!((5..=10).contains(&change.len()), "{}", change.len());

    let files: BTreeSet<&String> = turn.iter().chain(&change).collect();
    assert_eq!(
        files.len(),
        turn.len() + change.len(),
        "a file is named twice"
    );
    for file in files {
        let path = repository().join("src").join(file);
        assert!(path.is_file(), "there is no src/{file}");
    }
}

#[test]
fn code_map_names_files_that_exist() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let named = text.split('`').skip(1).step_by(2);
    let paths = named.filter(|name| name.starts_with("src/") && !name.contains('*'));
    let mut count = 0;
    for path in paths {
        assert!(repository().join(path).exists(), "there is no {path}");
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn room_table_is_acyclic() {
    let mut left = allowed_imports();
    while !left.is_empty() {
        let free = left
            .iter()
            .find(|(_, uses)| uses.iter().all(|used| !left.contains_key(used)));
        let free = free
            .map(|(room, _)| room.clone())
            .expect("rooms import each other in a cycle");
        left.remove(&free);
    }
}

#[test]
fn import_check_finds_an_import() {
    let found = used_rooms(
        "use crate::store::Store;\n// crate::agent\nlet x = crate::pack::tokens(\"\");\n",
    );
    assert_eq!(
        found,
        BTreeSet::from(["pack".to_owned(), "store".to_owned()])
    );
}

#[test]
fn files_are_short_and_start_with_a_doc_comment() {
    for folder in ["src", "tests", "benches", "examples"] {
        for path in files_below(&repository().join(folder)) {
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(repository().join(folder).join(&path)).unwrap();
            assert!(
                text.lines().count() <= LONGEST_FILE,
                "{folder}/{} is too long",
                path.display()
            );
            assert!(
                text.starts_with("//! "),
                "{folder}/{} has no doc comment",
                path.display()
            );
        }
    }
}

/// Pure rooms take no path, handle or clock as an argument.
#[test]
fn pure_rooms_use_no_path_handle_or_clock() {
    for (room, path, text) in library_sources() {
        if !["text", "compose", "parse", "apply", "spec"].contains(&room.as_str()) {
            continue;
        }

        for word in [
            "Path",
            "PathBuf",
            "fs",
            "File",
            "io",
            "SystemTime",
            "Instant",
            "Command",
            "env",
        ] {
            assert!(
                !identifiers(&text).contains(&word),
                "{} uses {word}",
                path.display()
            );
        }
    }
}

fn identifiers(text: &str) -> BTreeSet<&str> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect()
}

/// Every call to an agent is complete: no session of an agent is resumed or stored.
#[test]
fn no_type_stores_an_agents_session() {
    for (room, path, text) in library_sources() {
        let lower = text.to_lowercase();
        for word in ["resume", "session_id", "conversation_id", "thread_id"] {
            assert!(
                room != "agent" || !lower.contains(word),
                "{} uses {word}",
                path.display()
            );
        }
    }
}

#[test]
fn no_prompt_prose_in_rust_sources() {
    for (_, path, text) in library_sources() {
        let code = text.split("#[cfg(test)]").next().unwrap();
        for string in string_literals(code) {
            let is_prose = string.split_whitespace().count() > MOST_WORDS
                || ["You are ", "You must ", "You MUST ", "Your task"]
                    .iter()
                    .any(|start| string.contains(start));
            assert!(
                !is_prose,
                "{}: {string:?} belongs in templates/ or packs/",
                path.display()
            );
        }
    }
}

/// Returns the string literals of a source, without comments and with lines joined.
fn string_literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let after = &rest[at + 1..];
        match &rest[at..=at] {
            "/" if after.starts_with('/') => {
                rest = after.split_once('\n').map_or("", |(_, rest)| rest)
            }
            "'" if after.starts_with("\"'") || after.starts_with("\\\"'") => rest = &after[2..],
            "\"" => {
                let raw = rest[..at].trim_end_matches('#').ends_with('r');
                let end = after
                    .match_indices('"')
                    .map(|(end, _)| end)
                    .find(|&end| raw || escapes_before(after, end).is_multiple_of(2));
                let end = end.unwrap_or(after.len() - 1);
                found.push(after[..end].to_owned());
                rest = &after[end + 1..];
            }
            _ => rest = after,
        }
    }
    found
}

fn escapes_before(text: &str, end: usize) -> usize {
    text[..end]
        .bytes()
        .rev()
        .take_while(|&b| b == b'\\')
        .count()
}

#[test]
fn prose_check_finds_prose() {
    let code = "let a = \"You are a \\\"planner\\\".\"; // \"no\"\n/// \"no\"\nlet b = \"x\\\n You are two\"; let c = '\"'; r\"You\"";
    assert_eq!(
        string_literals(code),
        ["You are a \\\"planner\\\".", "x\\\n You are two", "You"]
    );
}

#[test]
fn pure_room_check_finds_a_path() {
    assert!(
        identifiers("fn impure(_: &std::path::Path, _: std::fs::File) {}")
            .is_superset(&BTreeSet::from(["Path", "fs", "File"]))
    );
}

#[test]
fn shipped_files_are_compiled_in_and_templates_used_by_a_pack() {
    let mut shipped = BTreeSet::new();
    for folder in ["templates", "packs", "data"] {
        let files = files_below(&repository().join(folder)).into_iter();
        shipped.extend(files.map(|path| format!("{folder}/{}", path.display())));
    }

    let compiled: BTreeSet<String> = pack::builtin_names().map(str::to_owned).collect();
    assert_eq!(compiled, shipped);

    let packs = compiled
        .iter()
        .filter_map(|name| name.strip_prefix("packs/")?.strip_suffix("/pack.yaml"));
    let mut named = BTreeSet::new();
    for name in packs {
        let pack = Pack::load(name, &SearchPath::default()).unwrap();
        for mode in pack.modes.values() {
            named.extend(
                mode.templates
                    .iter()
                    .map(|template| format!("templates/system/{template}.md")),
            );
            named.extend(
                mode.skeletons
                    .iter()
                    .map(|skeleton| format!("packs/{name}/skeletons/{skeleton}.md")),
            );
        }
    }

    let prose =
        |name: &&String| name.starts_with("templates/system/") || name.contains("/skeletons/");
    let prose: BTreeSet<String> = compiled.iter().filter(prose).cloned().collect();
    assert_eq!(named, prose);
}

/// Returns the names of the shipped packs.
fn shipped_packs() -> Vec<&'static str> {
    let names = pack::builtin_names();
    names
        .filter_map(|name| name.strip_prefix("packs/")?.strip_suffix("/pack.yaml"))
        .collect()
}

/// Every prose file of a shipped pack is used by one of its layers, at the tier in its file name.
#[test]
fn every_shipped_text_is_used_by_a_layer() {
    let packs = shipped_packs();
    assert_eq!(packs.len(), 5, "{packs:?}");

    for name in packs {
        let pack = Pack::load(name, &SearchPath::default()).unwrap();
        let mut named = BTreeSet::new();
        for layer in &pack.layers {
            for file in layer.files() {
                let modes = pack
                    .modes
                    .keys()
                    .map(|mode| file.replace("{mode}", mode.as_str()));
                for file in modes.map(|file| file.trim_end_matches(".md").to_owned()) {
                    named.extend(
                        ["", ".medium", ".minimal"]
                            .map(|tier| format!("packs/{name}/{file}{tier}.md")),
                    );
                }
            }
        }

        named.extend(
            pack.repair
                .iter()
                .map(|text| format!("packs/{name}/{}", text.name)),
        );
        let folder = format!("packs/{name}/");
        let shipped =
            pack::builtin_names().filter(|file| file.starts_with(&folder) && file.ends_with(".md"));
        for file in shipped.filter(|file| !file.contains("/skeletons/")) {
            assert!(named.contains(file), "no layer uses {file}");
        }
    }
}

/// A file that no module declares is not compiled, and its tests never run.
#[test]
fn every_test_file_is_compiled() {
    for root in ["tests/it", "tests/runner", "tests/support"] {
        for path in files_below(&repository().join(root)) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            if ["main", "mod"].contains(&name) || path.starts_with("programs") {
                continue;
            }
            let folder = path.parent().unwrap();
            let owners = match folder.to_str().unwrap() {
                "" => vec!["main.rs".into(), "mod.rs".into()],
                _ => vec![folder.join("mod.rs"), folder.with_extension("rs")],
            };
            let owner = owners
                .iter()
                .find_map(|owner| fs::read_to_string(repository().join(root).join(owner)).ok());
            assert!(
                owner.unwrap().contains(&format!("mod {name};")),
                "{root}: {} is not declared",
                path.display()
            );
        }
    }
}
