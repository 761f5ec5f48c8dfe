//! `tasks.md`: parsing, the order of tasks, and ticking checkboxes in place.

use agentd::spec::{Tasks, tick};
use proptest::prelude::*;

const TASKS: &str = "# Tasks\n\n## 1. Store\n- [x] 1.1 Keep names\n  - file: src/store.rs, `src/names.rs`\n  - spec: login#R1\n\
    - [ ] 1.2 Keep passwords\n  - **File**: src/store.rs\n  - **Spec:** login#R1, login#R2\n  - depends: 1.1, 2.1\n\n  Hashed, never plain:\n\n  \
    ```\n- [ ] 9.9 no task\n  ```\n\n## 2. Ask\n\n* [X] 2.1 Ask for it\n  - depends on: none\n  - files:\n    - a *.rs\n    - b.rs\n  - note: \
    nothing\n  - [ ] 2.1.1 Twice\n- [ ] loose\n";

#[test]
fn tasks_are_parsed_with_their_references() {
    let read = Tasks::read(TASKS);
    let printed: Vec<_> = read
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), task.text.as_str(), task.done, task.line))
        .collect();
    let expected = [
        ("1.1", "Keep names", true, 4),
        ("1.2", "Keep passwords", false, 7),
        ("2.1", "Ask for it", true, 20),
        ("2.1.1", "Twice", false, 26),
    ];
    assert_eq!(printed, expected);

    let [keep, passwords, ask, twice] = read.tasks.as_slice() else {
        panic!()
    };
    assert_eq!(keep.files, ["src/store.rs", "src/names.rs"]);
    assert_eq!(keep.specs, ["login#R1"]);
    assert_eq!(passwords.files, ["src/store.rs"]);
    assert_eq!(passwords.specs, ["login#R1", "login#R2"]);
    assert_eq!(passwords.depends, ["1.1", "2.1"]);
    assert_eq!(ask.files, ["a *.rs", "b.rs"]);
    assert!(ask.depends.is_empty());
    assert_eq!(
        keep.block,
        "- [x] 1.1 Keep names\n  - file: src/store.rs, `src/names.rs`\n  - spec: login#R1"
    );
    assert!(
        passwords
            .block
            .ends_with("plain:\n\n  ```\n- [ ] 9.9 no task\n  ```"),
        "{}",
        passwords.block
    );
    assert_eq!(twice.block, "  - [ ] 2.1.1 Twice");
    assert_eq!(read.unnumbered, [27]);

    let open: Vec<&str> = read
        .open()
        .into_iter()
        .map(|task| task.id.as_str())
        .collect();
    assert_eq!(open, ["1.2", "2.1.1"]);
}

fn order(tasks: &str) -> Result<Vec<String>, String> {
    let read = Tasks::read(tasks);
    let order = read
        .order()
        .map_err(|fault| format!("{}: {}", fault.line, fault.message))?;
    Ok(order.into_iter().map(|task| task.id.clone()).collect())
}

#[test]
fn dependencies_come_first_otherwise_file_order() {
    assert_eq!(order(TASKS).unwrap(), ["1.1", "2.1", "1.2", "2.1.1"]);
    assert_eq!(
        order("- [ ] 2.1 a\n- [ ] 1.1 b\n  - depends: 9.9\n").unwrap(),
        ["2.1", "1.1"]
    );
    let circle = "- [ ] 1.1 a\n  - depends: 1.2\n- [ ] 1.2 b\n  - depends: 1.1\n";
    assert_eq!(
        order(circle).unwrap_err(),
        "1: circular dependency of tasks: 1.1 -> 1.2 -> 1.1"
    );
}

/// A chain long enough to overflow the stack of a recursive walk.
#[test]
fn long_dependency_chain_is_ordered() {
    let tasks: String = (0..50_000)
        .map(|n| format!("- [ ] 1.{n} x\n  - depends: 1.{}\n", n + 1))
        .collect();
    let order = order(&tasks).unwrap();
    assert_eq!((order.len(), order[0].as_str()), (50_000, "1.49999"));
}

#[test]
fn only_the_named_tasks_are_ticked() {
    let crlf = TASKS.replace('\n', "\r\n");
    let expected = crlf
        .replace("- [ ] 1.2 Keep", "- [x] 1.2 Keep")
        .replace("- [ ] 2.1.1", "- [x] 2.1.1");
    assert_eq!(
        tick(&crlf, &["1.2", "2.1.1", "9.9", "1.1", "7.7"]),
        expected
    );
    assert_eq!(tick(TASKS, &[]), TASKS);
    assert_eq!(tick("- [ ] 1.1 a", &["1.1"]), "- [x] 1.1 a");
}

proptest! {
    #[test]
    fn ticking_changes_only_checkboxes(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "- [ ] 1.1 a", "* [ ] 1.2 é", "  - [ ] 1.3", "- [x] 1.1", "\t+ [ ] 1.2", "```", "text", "\r\n", "\n", "\n\n", " ",
    ]), 0..30)) {
        let text = pieces.concat();
        let ticked = tick(&text, &["1.1", "1.3"]);
        prop_assert_eq!(ticked.len(), text.len());
        for (old, new) in text.bytes().zip(ticked.bytes()) {
            prop_assert!(old == new || (old == b' ' && new == b'x'));
        }
        let open = Tasks::read(&ticked).tasks.into_iter().filter(|task| !task.done).map(|task| task.id);
        prop_assert!(open.into_iter().all(|id| id == "1.2"));
        prop_assert_eq!(Tasks::read(&ticked).tasks.len(), Tasks::read(&text).tasks.len());
        prop_assert_eq!(tick(&ticked, &["1.1", "1.3"]), ticked);
    }
}
