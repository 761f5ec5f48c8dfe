//! Packs and templates from memory: no file of the machine is opened for them.

use std::fs;

use agentd::compose::{PromptRequest, compose};
use agentd::models::{AgentName, Mode, State};
use agentd::pack::ProseOwner;
use agentd::{ErrorKind, Pack, SearchPath, Templates};

use crate::support::{files_below, repository};

const MANIFEST: &str = "\
format: 1
name: greeter
description: Greets people.
start: greet
layers:
  - {id: identity, holds: text, text: identity.md, class: pinned, zone: stable}
  - {id: request, holds: instructions, class: pinned, zone: turn}
modes:
  greet: {permission: read-only, next: {otherwise: done}}
";

#[test]
fn pack_in_memory_builds_prompts() {
    let files = [
        ("pack.yaml", MANIFEST),
        ("identity.md", "You greet people."),
        ("farewell.md", "Goodbye."),
    ];
    let pack = Pack::from_files("greeter", files).unwrap();
    assert_eq!(
        (pack.owner, pack.origin.as_str()),
        (ProseOwner::Memory, "memory:packs/greeter/pack.yaml")
    );

    let draft = compose(&pack, &State::default(), &PromptRequest::new("Hello")).unwrap();
    assert!(draft.text().contains("You greet people."));
    assert_eq!(pack.other_texts()["farewell.md"].body(), "Goodbye.");
    assert_eq!(pack.reloaded().unwrap().texts.len(), 1);
}

/// The same files give the same prompt on disk and in memory.
#[test]
fn pack_is_equal_from_folder_and_from_memory() {
    let folder = repository().join("tests/data/packs/bakery");
    let files = files_below(&folder).into_iter().map(|path| {
        let text = fs::read_to_string(folder.join(&path)).unwrap();
        (path.to_str().unwrap().to_owned(), text)
    });
    let in_memory = Pack::from_files("bakery", files).unwrap();
    let user = SearchPath::new(None, Some(repository().join("tests/data")));

    let on_disk = Pack::load("bakery", &user).unwrap();
    assert_eq!(on_disk.owner, ProseOwner::User);

    let prompt = |pack: &Pack, mode: &Mode| {
        let state = State::in_mode(mode.clone());
        compose(pack, &state, &PromptRequest::new("Two loaves"))
            .unwrap()
            .text()
    };

    assert!(in_memory.modes.len() > 1);
    for mode in in_memory.modes.keys() {
        assert_eq!(prompt(&in_memory, mode), prompt(&on_disk, mode), "{mode}");
    }
}

#[test]
fn errors_of_a_pack_in_memory_have_a_location() {
    let error = Pack::from_files("greeter", [("pack.yaml", MANIFEST)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PackInvalid);
    assert_eq!(error.message(), "missing file `identity.md`");
    let place = error.place().unwrap();
    assert_eq!(
        (place.origin.as_str(), place.line),
        ("memory:packs/greeter/pack.yaml", 6)
    );

    let error = Pack::from_files("greeter", [("pack.yml", MANIFEST)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PackNotFound);
    assert!(
        error.message().contains("memory:packs/greeter/pack.yaml"),
        "{error}"
    );

    let error = Pack::from_files("../greeter", [("pack.yaml", MANIFEST)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameInvalid);
}

/// Files of the project override files in memory, which override shipped ones.
#[test]
fn files_in_memory_rank_between_user_and_shipped_files() {
    let shipped = Pack::load("foreman", &SearchPath::default()).unwrap();
    let own = Pack::from_files("foreman", [("identity.md", "You are the cook.")]).unwrap();
    assert_eq!(own.texts["identity.md"].body(), "You are the cook.");
    assert_eq!(own.modes.len(), shipped.modes.len());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packs/foreman");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("identity.md"), "You are the user's.").unwrap();
    let places = SearchPath::new(None, Some(folder.path().to_path_buf()))
        .with_files([("packs/foreman/identity.md", "You are the cook.")]);
    let users = Pack::load("foreman", &places).unwrap();
    assert_eq!(users.texts["identity.md"].body(), "You are the user's.");
}

#[test]
fn places_with_files_list_packs_and_find_templates() {
    let template = "# Identity\n\nYou plan parties.\n";
    let places = SearchPath::default()
        .with_files([
            ("packs/greeter/pack.yaml", MANIFEST),
            ("packs/greeter/identity.md", "You greet people."),
        ])
        .with_files([("templates/system/BASE-party.md", template.to_owned())]);
    let names = Pack::names(&places);
    assert!(names.contains(&"greeter".to_owned()) && names.contains(&"sdd".to_owned()));

    let templates = Templates::new(places);
    let mode = Mode::new("party").unwrap();
    let found = templates
        .load_system_template(&AgentName::new("gemini").unwrap(), &mode)
        .unwrap();
    assert_eq!(found, template);
}
