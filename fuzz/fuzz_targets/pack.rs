//! Loads arbitrary text as the `pack.yaml` of a project's own version of each shipped pack.
//!
//! Files that the manifest names and the project does not have come from the shipped pack, so that a
//! small edit of a shipped manifest is loaded as a whole.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use agentd::{ErrorKind, Pack, SearchPath};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const PACKS: [&str; 5] = ["foreman", "light", "probe", "sdd", "taskqueue"];

static PROJECT: LazyLock<TempDir> = LazyLock::new(|| {
    let project = tempfile::tempdir().unwrap();
    for pack in PACKS {
        fs::create_dir_all(project.path().join("agentd/packs").join(pack)).unwrap();
    }
    project
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    // A file with a null byte is refused as binary before it is parsed.
    if text.contains('\0') {
        return;
    }

    // A manifest names its own pack; without a name every pack is tried.
    let named = PACKS.iter().filter(|pack| text.contains(&format!("name: {pack}\n")));
    let named: Vec<&str> = named.copied().collect();
    for pack in if named.is_empty() { PACKS.to_vec() } else { named } {
        load(pack, text);
    }
});

/// Checks that a pack either loads, with a usable grammar for each mode, or is refused as invalid with a place.
fn load(name: &str, text: &str) {
    fs::write(PROJECT.path().join(format!("agentd/packs/{name}/pack.yaml")), text).unwrap();
    let places = SearchPath::new(Some(PROJECT.path().to_path_buf()), None);

    match Pack::load(name, &places) {
        Ok(pack) => {
            for mode in pack.modes.keys() {
                assert!(pack.grammar(mode).is_ok(), "no grammar for {mode}");
            }
        }
        Err(error) => {
            let expected = [ErrorKind::PackInvalid, ErrorKind::TemplateInvalid];
            assert!(expected.contains(&error.kind()), "{error:#}");
            assert!(!error.message().trim().is_empty());
        }
    }
}
