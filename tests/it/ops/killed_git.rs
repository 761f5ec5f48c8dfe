//! A running git command when agentd is killed.

use std::fs;
use std::process::Stdio;

use crate::support::waiting::{Holders, until, until_written};
use crate::support::{TestProject, write_program};

/// Returns true if a process waits for a git command. Its watcher then knows about the command.
fn waits_for_git(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name.trim() == "git-exit")
}

#[test]
fn git_command_ends_when_agentd_is_killed() {
    for trap in ["", "trap '' TERM"] {
        let project = TestProject::new();
        let begun = project.home().join("begun");
        let mut holders = Holders::new(project.home().join("fifo"));
        let script = format!(
            "#!/bin/sh\n{trap}\nexec 9>{}\necho begun >{}\nsleep 600\n",
            holders.path().display(),
            begun.display()
        );
        let programs = project.home().join("bin");
        write_program(&programs.join("git"), script);

        let path = format!("{}:/usr/bin:/bin", programs.display());
        let mut command = project.command(&["review", "--agent", "echo"]);
        let mut child = command
            .env("PATH", path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();

        until_written(&begun, "begun");
        until("agentd does not run git", || waits_for_git(child.id()));

        child.kill().unwrap();
        child.wait().unwrap();
        until("git is alive", || holders.are_gone());
    }
}
