//! The project tree: its entries, their order, and the note about omitted ones.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use agentd::config::StructureLimits;
use agentd::ops::structure;

use crate::support::{TestProject, write};

const WIDE: StructureLimits = StructureLimits {
    per_folder: 60,
    total: 400,
};

fn tree(project: &TestProject, limits: StructureLimits) -> String {
    structure(&project.root(), limits).unwrap()
}

#[test]
fn tree_is_sorted_by_bytes() {
    let project = TestProject::new();
    for path in ["b.rs", "B.rs", "a/z", "a.rs", "é", "_x", "a/b/c"] {
        project.write(path, "");
    }
    assert_eq!(
        tree(&project, WIDE),
        "B.rs\n_x\na/\n  b/\n    c\n  z\na.rs\nb.rs\né"
    );
}

#[test]
fn only_ignore_rules_of_the_repository_apply() {
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

    let expected =
        ".github/\n  ci.yml\n.gitignore\n.ignore\ndocs/\nkeep.log\nsrc/\n  .gitignore\n  keep.rs";
    assert_eq!(tree(&project, WIDE), expected);
}

/// Returns the files in a tree, and those that git would list.
fn shown_and_git(project: &TestProject) -> (Vec<String>, Vec<String>) {
    let mut folders: Vec<String> = Vec::new();
    let mut shown = Vec::new();
    for line in tree(
        project,
        StructureLimits {
            per_folder: 999,
            total: 9_999,
        },
    )
    .lines()
    {
        let depth = (line.len() - line.trim_start().len()) / 2;
        folders.truncate(depth);
        match line.trim_start().strip_suffix('/') {
            Some(folder) => folders.push(folder.to_owned()),
            None => shown.push(
                [&folders[..], &[line.trim_start().to_owned()]]
                    .concat()
                    .join("/"),
            ),
        }
    }

    let listed = std::process::Command::new("git")
        .args([
            "-c",
            "core.excludesFile=/dev/null",
            "ls-files",
            "--others",
            "--exclude-per-directory=.gitignore",
        ])
        .current_dir(project.root())
        .output()
        .unwrap();
    let mut git: Vec<String> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    git.sort();
    shown.sort();
    (shown, git)
}

/// Git is the oracle for its ignore rules.
#[test]
fn tree_omits_files_that_git_ignores() {
    let rules: [(&str, &[u8]); 9] = [
        (
            ".gitignore",
            b"\xEF\xBB\xBF*.log\n# caf\xe9\nnode_modules/\r\n",
        ),
        ("a/.gitignore", b"!keep.log\n!\n*.key\n"),
        ("a/b/.gitignore", b"!*.key\n/only.txt\n"),
        ("c/.gitignore", b"*\n!.gitignore\n!d/\n!d/**\n"),
        ("e/.gitignore", b"{x,y}.txt\nz[0-9].txt\n**/deep\nfoo/bar\n"),
        ("f/.gitignore", b"\\#hash\nspace\\ \nplain \n"),
        ("g/.gitignore", b"h/*\n!h/keep/\n"),
        ("i/.gitignore", b"/j\nk/\n"),
        ("n/.gitignore", b"Icon\r\r\n[[:digit:]]a\n[{-}]b\n"),
    ];
    let project = TestProject::new();
    for (path, text) in rules {
        project.write(path, text);
    }
    for path in [
        "x.log",
        "a/x.log",
        "a/keep.log",
        "a/b/keep.log",
        "a/s.key",
        "a/b/s.key",
        "a/b/only.txt",
        "a/b/c/only.txt",
        "s.key",
        "node_modules/m/i.js",
        "a/node_modules/i.js",
        "c/x",
        "c/d/x",
        "c/d/e/x",
        "e/x.txt",
        "e/{x,y}.txt",
        "e/z1.txt",
        "e/za.txt",
        "e/q/deep/x",
        "e/foo/bar",
        "e/q/foo/bar",
        "f/#hash",
        "f/space ",
        "f/plain",
        "g/h/x",
        "g/h/keep/x",
        "i/j",
        "i/l/j",
        "i/k/x",
        "i/l/k/x",
        "i/l/m/k",
        "n/Icon",
        "n/1a",
        "n/xa",
        "n/{b",
    ] {
        project.write(path, "");
    }

    let (shown, git) = shown_and_git(&project);
    assert_eq!(shown, git);
    assert!(git.len() > 15 && git.len() < 40, "{git:?}");
}

#[test]
fn ignore_rules_above_the_project_apply() {
    let project = TestProject::new();
    project
        .write(".gitignore", "*.log\n")
        .write("part/a.log", "")
        .write("part/a.rs", "");
    assert_eq!(
        structure(&project.root().join("part"), WIDE).unwrap(),
        "a.rs"
    );
}

#[test]
fn omitted_entries_are_counted() {
    let project = TestProject::new();
    for number in 0..10 {
        project
            .write(&format!("many/f{number}"), "")
            .write(&format!("z/deep{number}/x"), "");
    }
    let limits = StructureLimits {
        per_folder: 4,
        total: 12,
    };
    let expected = "many/\n  f0\n  f1\n  f2\n  f3\n  (6 more entries)\nz/\n  deep0/\n    x\n  deep1/\n    x\n  deep2/ (not opened)\n  \
                    deep3/ (not opened)\n  (6 more entries)\n[not listed: 12 entries in 2 folders; not opened: 2 folders; limits: 4 entries per folder, 12 in total]";
    assert_eq!(tree(&project, limits), expected);
}

#[test]
fn links_are_shown_but_not_followed() {
    let project = TestProject::new();
    project.write("a/b", "");
    symlink("..", project.root().join("a/loop")).unwrap();
    symlink("/etc", project.root().join("out")).unwrap();
    symlink("me", project.root().join("me")).unwrap();
    assert_eq!(
        tree(&project, WIDE),
        "a/\n  b\n  loop -> ..\nme -> me\nout -> /etc"
    );
}

#[test]
fn odd_names_are_shown_escaped() {
    let project = TestProject::new();
    let names: [&[u8]; 5] = [
        b"new\nline",
        b"quo\"te'",
        b"bad\xff",
        b"back\\slash",
        "rtl\u{202e}txt".as_bytes(),
    ];
    for name in names {
        fs::write(project.root().join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    assert_eq!(
        tree(&project, WIDE),
        "back\\\\slash\nbad\\xff\nnew\\nline\nquo\"te'\nrtl\\u{202e}txt"
    );
}

#[test]
fn tree_does_not_depend_on_the_current_folder() {
    let project = TestProject::new();
    project.write("src/main.rs", "").write("docs/a.md", "");
    project.write("templates/system/BASE-plan.md", "{{PROJECT_STRUCTURE}}");
    let here = project.run(&["prompt", "plan", "x"]).ok();
    let below = project.run(&["-C", "src", "prompt", "plan", "x"]).ok();
    let linked = project.home().join("link");
    symlink(project.root(), &linked).unwrap();
    let through_link = project
        .run(&["-C", linked.to_str().unwrap(), "prompt", "plan", "x"])
        .ok();
    assert_eq!(here, below);
    assert_eq!(here, through_link);
    assert!(here.contains("docs/\n  a.md\nsrc/\n  main.rs\n"));
}
