//! Access of a stranger's check to the keys of agentd.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

use nix::unistd::{Gid, Uid, chown, geteuid};

use crate::support::change_project::git;
use crate::support::{Run, TestProject, agentd_program, did_not_run};

const KEY: &str = "canary-4711-0815";

/// Unprivileged user id on every system.
const NOBODY: u32 = 65534;

/// A check that reads as much as possible of its ancestors: its guard and agentd.
const SPY: &str = r#"
pid=$$
{
  echo "own environment: $(tr '\0' '\n' </proc/self/environ)"
  while [ "$pid" -gt 1 ]; do
    if [ "$(cat /proc/$pid/comm)" = agentd ]; then
      echo "agentd found"
      cat /proc/$pid/environ && echo "environment read"
      cat /proc/$pid/maps >/dev/null && echo "memory read"
      ls /proc/$pid/fd && echo "files read"
    fi
    pid=$(awk '$1 == "PPid:" {print $2}' /proc/$pid/status)
  done
} >"$HOME/seen" 2>/dev/null
exit 0
"#;

const SCRIPT: &str = "format: 1\nturns:\n- mode: review\n  reply: |\n    Fine.\n\n    <review run=\"{{NONCE}}\">PASS</review>\n";

/// Creates a project whose only check is the spy.
fn project() -> TestProject {
    let project = TestProject::new();
    project.write("spy.sh", SPY).write(
        "agentd/config.toml",
        "format = 1\n[review]\ncommands = [\"sh spy.sh\"]\n",
    );
    git(&project.root(), "add -A");
    git(&project.root(), "commit -q -m first");
    project.write("new.txt", "new\n");
    fs::write(project.home().join("script.yaml"), SCRIPT).unwrap();
    project
}

/// Reviews the project with a key in the environment, and returns the output of the spy.
fn review(project: &TestProject, user: Option<u32>) -> String {
    let script = project.home().join("script.yaml");
    let mut command = project.command(&["review", "--trust", "--agent", "scripted", "--script"]);
    command.arg(script).env("ANTHROPIC_API_KEY", KEY);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }

    let run = Run::from(command.output().unwrap());
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("sh spy.sh: passed"), "{}", run.stderr);

    let seen = fs::read(project.home().join("seen")).unwrap();
    let seen = String::from_utf8_lossy(&seen).replace('\0', "\n");
    assert_eq!(
        seen.matches("agentd found").count(),
        2,
        "the guard and agentd: {seen}"
    );

    seen
}

#[test]
fn check_finds_no_key_in_the_environment_of_agentd() {
    let seen = review(&project(), None);
    if geteuid().is_root() {
        assert_eq!(
            seen.matches("environment read").count(),
            2,
            "root can read both: {seen}"
        );
    }
    assert!(!seen.contains(KEY), "{seen}");
}

#[test]
fn unprivileged_check_cannot_read_agentd_or_its_guard() {
    let test = "unprivileged_check_cannot_read_agentd_or_its_guard";
    let project = project();
    let user = geteuid().is_root().then_some(NOBODY);
    if let Some(user) = user {
        let mut ran = std::process::Command::new(agentd_program());
        if ran.arg("--version").uid(user).gid(user).output().is_err() {
            return did_not_run(
                test,
                "the program is in a folder that other users cannot read",
            );
        }
        change_owner(project.root().parent().unwrap(), user);
    }

    let seen = review(&project, user);
    for words in [KEY, "environment read", "memory read", "files read"] {
        assert!(!seen.contains(words), "{words}: {seen}");
    }
}

/// Changes the owner of a folder and everything in it.
fn change_owner(folder: &Path, user: u32) {
    let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(user)));
    chown(folder, user, group).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            change_owner(&path, NOBODY);
        } else {
            chown(&path, user, group).unwrap();
        }
    }
}
