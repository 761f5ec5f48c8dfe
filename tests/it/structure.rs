//! The project's tree: what is shown, in which order, and what is said of the rest.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use agentd::config::StructureLimits;
use agentd::ops::structure;

use crate::support::{TestProject, write};

const WIDE: StructureLimits = StructureLimits { per_folder: 60, total: 400 };

fn tree(project: &TestProject, limits: StructureLimits) -> String {
    structure(&project.root(), limits).unwrap()
}

#[test]
fn the_tree_is_sorted_by_bytes() {
    let project = TestProject::new();
    for path in ["b.rs", "B.rs", "a/z", "a.rs", "é", "_x", "a/b/c"] {
        project.write(path, "");
    }
    assert_eq!(tree(&project, WIDE), "B.rs\n_x\na/\n  b/\n    c\n  z\na.rs\nb.rs\né");
}

#[test]
fn the_repositorys_ignore_rules_count_and_no_others() {
    let project = TestProject::new();
    for path in [
        "keep.log",
        "x.log",
        "target/a",
        "src/gen/a",
        "src/keep.rs",
        "src/x.tmp",
        "docs/build/a",
        ".github/ci.yml",
    ] {
        project.write(path, "");
    }
    project
        .write(".gitignore", "*.log\n!keep.log\n/target\nbuild/\n")
        .write("src/.gitignore", "gen/\n*.tmp\n");
    project
        .write(".ignore", "keep.log\n")
        .write(".git/info/exclude", "docs\n")
        .write(".agentd/ledger.db", "");
    write(&project.home().join(".config/git/ignore"), "src\n");
    let expected = ".github/\n  ci.yml\n.gitignore\n.ignore\ndocs/\nkeep.log\nsrc/\n  .gitignore\n  keep.rs";
    assert_eq!(tree(&project, WIDE), expected);
}

#[test]
fn rules_above_a_project_inside_a_repository_count() {
    let project = TestProject::new();
    project.write(".gitignore", "*.log\n").write("part/a.log", "").write("part/a.rs", "");
    assert_eq!(structure(&project.root().join("part"), WIDE).unwrap(), "a.rs");
}

#[test]
fn what_is_left_out_is_said() {
    let project = TestProject::new();
    for number in 0..10 {
        project.write(&format!("many/f{number}"), "").write(&format!("z/deep{number}/x"), "");
    }
    let limits = StructureLimits { per_folder: 4, total: 12 };
    let expected = "many/\n  f0\n  f1\n  f2\n  f3\n  (6 more)\nz/\n  deep0/\n    x\n  deep1/\n    x\n  deep2/ (not opened)\n  \
                    deep3/ (not opened)\n  (6 more)\n[left out: entries 12, of folders 2; folders not opened 2; shown are at most 4 \
                    entries a folder and 12 in all]";
    assert_eq!(tree(&project, limits), expected);
}

#[test]
fn links_are_shown_and_never_followed() {
    let project = TestProject::new();
    project.write("a/b", "");
    symlink("..", project.root().join("a/loop")).unwrap();
    symlink("/etc", project.root().join("out")).unwrap();
    symlink("me", project.root().join("me")).unwrap();
    assert_eq!(tree(&project, WIDE), "a/\n  b\n  loop -> ..\nme -> me\nout -> /etc");
}

#[test]
fn odd_names_are_shown_with_every_byte() {
    let project = TestProject::new();
    let names: [&[u8]; 5] =
        [b"new\nline", b"quo\"te'", b"bad\xff", b"back\\slash", "rtl\u{202e}txt".as_bytes()];
    for name in names {
        fs::write(project.root().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    assert_eq!(tree(&project, WIDE), "back\\\\slash\nbad\\xff\nnew\\nline\nquo\"te'\nrtl\\u{202e}txt");
}

#[test]
fn the_same_tree_gives_the_same_text_from_everywhere() {
    let project = TestProject::new();
    project.write("src/main.rs", "").write("docs/a.md", "");
    project.write("templates/system/BASE-plan.md", "{{PROJECT_STRUCTURE}}");
    let here = project.run(&["prompt", "plan", "x"]).ok();
    let below = project.run(&["-C", "src", "prompt", "plan", "x"]).ok();
    let linked = project.home().join("link");
    symlink(project.root(), &linked).unwrap();
    let through_link = project.run(&["-C", linked.to_str().unwrap(), "prompt", "plan", "x"]).ok();
    assert_eq!(here, below);
    assert_eq!(here, through_link);
    assert!(here.contains("docs/\n  a.md\nsrc/\n  main.rs\n"));
}
