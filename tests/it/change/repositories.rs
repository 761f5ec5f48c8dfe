//! Changes in repositories of every kind: the user's files are untouched, and unsupported setups
//! are reported.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::change_project::{Stage, git, git_words};
use crate::support::{Run, TestProject, write};

/// The commands that need a repository with commits.
const COMMANDS: [&[&str]; 3] = [&["run", "say", "Say it"], &["review"], &["fix", "a typo"]];

/// Checks that each of them is refused with a message before an agent is called.
fn check_refused(stage: &Stage, words: &[&str]) {
    for args in COMMANDS {
        stage
            .project
            .run(&[args, &["--agent", "fake", "--trust"]].concat())
            .fails(3, words);
    }
    assert_eq!(stage.calls(), Vec::<String>::new());
}

#[test]
fn folder_without_repository_or_commits_is_refused() {
    let stage = Stage::without_commit();
    check_refused(
        &stage,
        &["NoCommits", "the repository has no commits", "git commit"],
    );

    fs::remove_dir_all(stage.project.root().join(".git")).unwrap();
    check_refused(
        &stage,
        &["NotARepository", "is not in a git repository", "git init"],
    );

    let bare = Stage::new();
    let git_dir = bare.project.root().join(".git");

    git(&git_dir, "config core.bare true");
    check_refused(&bare, &["NotARepository", "bare repository"]);
}

#[test]
fn change_from_a_detached_head_leaves_its_branch() {
    let stage = Stage::new();
    stage.git("checkout -q --detach");
    let before = stage.git("rev-parse HEAD main");
    let run = stage.run_change("say", "Say it");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr
            .contains("branch agentd/say is ready for you to merge"),
        "{}",
        run.stderr
    );
    assert_eq!(stage.git("rev-parse HEAD main"), before);
    assert_eq!(stage.git("show agentd/say:say.txt"), "say\n");
    assert!(!stage.project.root().join("say.txt").exists());
}

/// Uncommitted, staged and untracked work is byte for byte the same after a whole change.
#[test]
fn uncommitted_work_is_untouched_and_not_in_the_change() {
    let stage = Stage::new();
    stage
        .project
        .write("kept.txt", "old\n")
        .write("staged.txt", "old\n")
        .write("gone.txt", "old\n");
    stage.commit("files");
    stage
        .project
        .write("kept.txt", "edited\r\n\0bytes")
        .write("staged.txt", "staged\n");
    stage.git("add staged.txt");
    stage
        .project
        .write("staged.txt", "staged, then edited\n")
        .write("new file", "untracked\n");
    fs::remove_file(stage.project.root().join("gone.txt")).unwrap();
    let before = (
        stage.files(),
        stage.git("diff --cached"),
        stage.git("status --porcelain"),
    );

    let run = stage.run_change("say", "Say it");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr
            .contains("4 uncommitted files are not part of the change: "),
        "{}",
        run.stderr
    );

    let after = stage.files();
    for (path, bytes) in &before.0 {
        if !path.ends_with("CHANGELOG.md") {
            assert_eq!(after.get(path), Some(bytes), "{}", path.display());
        }
    }

    assert!(!stage.project.root().join("gone.txt").exists());
    assert_eq!(
        (stage.git("diff --cached"), stage.git("status --porcelain")),
        (before.1, before.2)
    );
    assert_eq!(stage.project.read("say.txt"), "say\n");
    assert!(!stage.committed_files().contains_key("new file"));
}

/// Submodules, renames, binaries and links of a repository are unchanged by a change.
#[test]
fn submodules_renames_binaries_links_and_odd_names_survive() {
    let stage = Stage::new();
    let other = TestProject::new();
    other.write("inner.txt", "inner\n");
    git(&other.root(), "add -A");
    git(&other.root(), "commit -q -m inner");
    let root = stage.project.root();
    let url = other.root().display().to_string();
    git_words(
        &root,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            &url,
            "sub",
        ],
    );
    stage
        .project
        .write("old name.txt", "moved\n".repeat(20))
        .write("bin", [0, 255, 10, 13, 0]);
    stage
        .project
        .write("with\nnewline", "odd\n")
        .write("räksmörgås", "name\n");
    symlink("bin", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    stage.commit("all");
    let pinned = stage.git("rev-parse main:sub");
    stage.set_script(
        "implement",
        "git mv 'old name.txt' 'new name.txt'; printf '\\001\\000\\002' > bin\n",
    );

    // Reviewers are not shown binary files, so a person has to approve them.
    let run = stage.run_change("say", "Say it");
    assert_eq!(run.code, 8, "{}", run.stderr);

    stage
        .project
        .run(&["approve", "say", "--auto", "--trust"])
        .ok();
    assert_eq!(stage.git("rev-parse main:sub"), pinned);
    assert_eq!(fs::read(root.join("sub/inner.txt")).unwrap(), b"inner\n");
    assert_eq!(fs::read(root.join("bin")).unwrap(), [1, 0, 2]);
    assert_eq!(stage.project.read("new name.txt"), "moved\n".repeat(20));
    assert!(!root.join("old name.txt").exists());
    assert_eq!(stage.project.read("with\nnewline"), "odd\n");
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("bin"));
    assert_eq!(
        fs::read_link(root.join("dangling")).unwrap(),
        Path::new("/nowhere/at/all")
    );
    assert_eq!(stage.git("status --porcelain"), "");
}

#[test]
fn repository_commands_are_never_run() {
    let stage = Stage::new();
    let ran = stage.outside("ran");
    let script = format!("#!/bin/sh\necho \"$0\" >> {}\ncat\n", ran.display());
    let root = stage.project.root();
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-commit",
        "post-merge",
        "reference-transaction",
        "pre-merge-commit",
    ] {
        let path = root.join(".git/hooks").join(hook);
        write(&path, &script);
        make_executable(&path);
    }

    let filter = stage.outside("filter.sh");
    write(&filter, &script);
    make_executable(&filter);
    stage
        .project
        .write(".gitattributes", "*.txt filter=evil diff=evil merge=evil\n");
    stage.git("-c core.hooksPath=/dev/null add -A");
    stage.git("-c core.hooksPath=/dev/null commit -q -m attributes");
    let filter = filter.display();
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
    ] {
        git_words(&root, &["config", key, &filter.to_string()]);
    }

    git_words(&root, &["config", "core.fsmonitor", &filter.to_string()]);
    let _none = fs::remove_file(&ran);

    let run = stage.run_change("say", "Say it");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(fs::read_to_string(&ran).unwrap_or_default(), "");
    assert_eq!(stage.project.read("say.txt"), "say\n");
}

fn make_executable(path: &Path) {
    assert!(
        Command::new("chmod")
            .arg("755")
            .arg(path)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn edit_by_a_read_only_agent_is_detected() {
    for mode in ["plan", "challenge", "review"] {
        let stage = Stage::new();
        stage.set_script(mode, "echo sneaked > sneaked.txt\n");
        let run = stage.run_change("say", "Say it");
        assert_eq!(run.code, 5, "{mode}: {}", run.stderr);
        assert!(
            run.stderr.contains("AgentEdited") && run.stderr.contains("sneaked.txt"),
            "{}",
            run.stderr
        );
        assert!(!stage.project.root().join("sneaked.txt").exists());
    }
}

#[test]
fn replaced_git_file_of_the_worktree_is_ignored() {
    let stage = Stage::new();
    let ran = stage.outside("ran");
    let hook = format!(
        "rm -rf .git; git init -q .; printf '#!/bin/sh\\ntouch {}\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\n",
        ran.display()
    );
    stage.set_script("implement", &hook);
    let run = stage.run_change("say", "Say it");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!ran.exists());
    assert_eq!(stage.project.read("say.txt"), "say\n");
    assert_eq!(stage.git("fsck --no-progress --connectivity-only"), "");
}

#[test]
fn deleted_worktree_is_recreated_from_its_branch() {
    let stage = Stage::new();
    stage.project.run(&["run", "say", "Say it", "--trust"]).ok();
    fs::remove_dir_all(stage.tree()).unwrap();
    stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
    assert_eq!(
        (stage.project.read("say.txt").as_str(), stage.calls().len()),
        ("say\n", 5)
    );
}

#[test]
fn existing_branch_is_not_taken_over() {
    let stage = Stage::new();
    stage.git("branch agentd/say");
    let run = stage.run_change("say", "Say it");
    run.fails(
        3,
        &[
            "ChangeExists",
            "branch `agentd/say` already exists",
            "git branch -D agentd/say",
        ],
    );
    assert_eq!((stage.calls(), stage.events("say")), (vec![], vec![]));
}

/// Two projects of the same name and user, with changes of the same name.
#[test]
fn projects_of_the_same_name_have_separate_worktrees() {
    let stage = Stage::new();
    let twin = stage.outside("elsewhere/project");
    let words = [
        "clone",
        "-q",
        &stage.project.root().display().to_string(),
        &twin.display().to_string(),
    ];
    git_words(&stage.project.root(), &words);
    stage.project.run(&["run", "say", "Say it", "--trust"]).ok();
    let twin_folder = twin.display().to_string();

    stage
        .project
        .run(&[
            "-C",
            &twin_folder,
            "run",
            "say",
            "Say it",
            "--auto",
            "--trust",
        ])
        .ok();
    assert_eq!(fs::read_to_string(twin.join("say.txt")).unwrap(), "say\n");
    assert!(
        stage
            .tree()
            .join("agentd/changes/say/proposal.md")
            .is_file()
    );

    stage.project.run(&["run", "say", "--auto", "--trust"]).ok();
    assert_eq!(stage.project.read("say.txt"), "say\n");
}

fn in_folder(stage: &Stage, folder: &Path, args: &[&str]) -> Run {
    Run::from(
        stage
            .project
            .command(args)
            .current_dir(folder)
            .output()
            .unwrap(),
    )
}

/// From a subfolder the project is found. In the worktree of a change, the error names the project
/// folder, and no ledger is created.
#[test]
fn change_runs_from_a_subfolder_but_not_from_its_worktree() {
    let stage = Stage::new();
    let below = stage.project.root().join("some/folder");
    fs::create_dir_all(&below).unwrap();
    in_folder(&stage, &below, &["run", "say", "Say it", "--trust"]).ok();
    let tree = stage.tree();
    let commands: [&[&str]; 7] = [
        &["run", "say"],
        &["run", "other", "x"],
        &["review"],
        &["status"],
        &["log"],
        &["approve", "say"],
        &["resume"],
    ];
    for args in commands {
        for folder in [tree.clone(), tree.join("agentd")] {
            let run = in_folder(&stage, &folder, args);
            run.fails(
                3,
                &[
                    "this folder is the worktree of change `say`",
                    "run the command in the folder of `project`",
                ],
            );
        }
    }

    assert!(!tree.join(".agentd").exists() && !tree.join("agentd/.agentd").exists());

    // Commands that only read files work there.
    in_folder(
        &stage,
        &tree,
        &["spec", "check", "agentd/changes/say/specs/say.md"],
    )
    .ok();
    in_folder(&stage, &below, &["run", "say", "--auto", "--trust"]).ok();
    assert_eq!(stage.project.read("say.txt"), "say\n");
}

#[test]
fn linked_worktree_of_the_user_is_a_project() {
    let stage = Stage::new();
    let linked = stage.outside("linked");
    stage.git(&format!("worktree add -q -b feature {}", linked.display()));

    in_folder(
        &stage,
        &linked,
        &["run", "say", "Say it", "--auto", "--trust"],
    )
    .ok();
    assert_eq!(fs::read_to_string(linked.join("say.txt")).unwrap(), "say\n");
    assert!(git(&linked, "log --format=%s feature").contains("Merge agentd/say: Say it"));
    assert!(
        !stage.project.root().join("say.txt").exists(),
        "another branch is checked out there"
    );
    assert_eq!(git(&linked, "status --porcelain"), "");
}

/// An unusable home folder is reported before anything is recorded or spent.
#[test]
fn change_does_not_start_without_a_folder_for_worktrees() {
    let stage = Stage::new();
    let blocked = stage.outside("blocked");
    write(&blocked, "a file");
    let mut command = stage
        .project
        .command(&["run", "say", "Say it", "--auto", "--trust"]);
    let run = Run::from(command.env("XDG_STATE_HOME", &blocked).output().unwrap());
    run.fails(3, &["FileUnusable", "cannot create the folder"]);
    assert_eq!((stage.calls(), stage.events("say")), (vec![], vec![]));
    assert_eq!(stage.git("branch --list agentd/*"), "");
    stage.run_change("say", "Say it").ok();
}

/// Files that an agent writes in a change cannot steer the next agent there, unless they are
/// trusted.
#[test]
fn instruction_files_written_in_a_worktree_need_trust() {
    let stage = Stage::new();
    stage.define("    obeys: [.mcp.json, .gemini/settings.json]\n");
    stage.project.write(".mcp.json", "{}\n");
    stage.commit("obeys");
    stage.set_script("implement", "mkdir -p .gemini; echo '{\"mcpServers\": {}}' > .gemini/settings.json; echo '{\"a\": 1}' > .mcp.json\n");
    stage.project.run(&["trust"]).ok();

    let run = stage.project.run(&["run", "say", "Say it", "--auto"]);
    assert_eq!(run.code, 4, "{}", run.stderr);

    let tree = stage.tree().display().to_string();
    for words in [
        "NotTrusted",
        ".mcp.json (fake reads this file",
        ".gemini/settings.json (fake reads this file",
        &format!("agentd trust -C {tree}"),
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }

    assert_eq!(
        stage.calls(),
        ["say plan", "say challenge", "say implement"]
    );

    // Trust in the user's tree does not apply to different content.
    stage.project.run(&["trust"]).ok();
    assert_eq!(stage.project.run(&["run", "say", "--auto"]).code, 4);

    stage.project.run(&["-C", &tree, "trust"]).ok();
    stage.project.run(&["run", "say", "--auto"]).ok();
    assert_eq!(
        (
            stage.calls().len(),
            stage.project.read(".mcp.json").as_str()
        ),
        (5, "{\"a\": 1}\n")
    );
}
