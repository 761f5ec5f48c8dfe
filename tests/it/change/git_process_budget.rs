//! The number of git processes that each phase of a change may start.
//!
//! Every process costs a few milliseconds, and more in a large repository, so users notice a
//! redundant call. A wrapper named `git` comes first on PATH, logs its arguments and runs the real
//! git.

use std::fs;

use crate::support::change_project::Stage;
use crate::support::{Run, path_without_agents, write, write_program};

/// Phases of a change with the maximum number of git processes of each: slightly more than measured
/// when this was written (21, 15, 20, 21 and 43), so that every additional process needs a reason.
/// A commit takes one more process if the user has no git identity.
const BUDGETS: [(&str, usize); 5] = [
    ("plan", 23),
    ("challenge", 17),
    ("implement", 22),
    ("review", 23),
    ("archive", 46),
];

/// A project whose git processes are counted.
struct CountedStage {
    stage: Stage,
}

impl CountedStage {
    fn new() -> Self {
        let stage = Stage::new();
        let wrapper = stage.outside("bin/git");
        let (log, path) = (stage.outside("git.log"), path_without_agents());
        let (log, path) = (log.display(), path.to_str().unwrap().to_owned());
        let script =
            format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{log}'\nPATH='{path}' exec git \"$@\"\n");
        write_program(&wrapper, script);
        Self { stage }
    }

    /// Runs agentd, and returns the arguments of each git process it started.
    fn run(&self, args: &[&str]) -> (Run, Vec<String>) {
        let log = self.stage.outside("git.log");
        write(&log, "");
        let mut path = self.stage.outside("bin").into_os_string();
        path.push(":");
        path.push(path_without_agents());
        let run = Run::from(
            self.stage
                .project
                .command(args)
                .env("PATH", path)
                .output()
                .unwrap(),
        );
        let calls = fs::read_to_string(&log).unwrap();
        (run, calls.lines().map(str::to_owned).collect())
    }
}

/// Returns the git subcommand of a call, such as `write-tree`.
fn command_name(arguments: &str) -> &str {
    let mut words = arguments.split(' ');
    while let Some(word) = words.next() {
        match word {
            "-C" | "-c" => drop(words.next()),
            word if word.starts_with("--git-dir=") || word.starts_with("--work-tree=") => {}
            word => return word,
        }
    }
    ""
}

#[test]
fn each_phase_stays_within_its_budget() {
    let stage = CountedStage::new();
    for (phase, budget) in BUDGETS {
        let mut args = vec![phase, "hello", "--trust"];
        if phase == "plan" {
            args.push("Say hello");
        }
        let (run, calls) = stage.run(&args);
        assert_eq!(run.code, 0, "{phase}: {}\n{}", run.stdout, run.stderr);

        let names: Vec<&str> = calls.iter().map(|call| command_name(call)).collect();
        // If nothing was counted, the wrapper was not used.
        assert!(names.contains(&"write-tree"), "{phase}: {names:?}");
        let count = names.len();
        assert!(
            count <= budget,
            "{phase} started {count} git processes, over {budget}: {names:#?}"
        );
    }
    assert!(
        stage.stage.project.root().join("hello.txt").exists(),
        "the change was not merged"
    );
}
