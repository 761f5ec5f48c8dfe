//! `agentd demo`: a whole change on a small project made for it, with a scripted agent.

use std::path::{Path, PathBuf};

use agentd::agent::{SCRIPTED, Scripted};
use agentd::models::{SessionId, paths};
use agentd::ops::{self, Git, Repository};
use agentd::orchestrator::{AcceptNow, Workspace, WorkspaceOptions, open_ledger};
use agentd::pack::{DEMO, DEMO_SCRIPT};
use agentd::{Error, ErrorKind, Result};

use super::input::from_here;
use super::run::ChangeRunner;
use crate::args::{Args, DemoArgs, RunOptions, SendArgs};
use crate::project;
use crate::terminal::{self, Outcome};

/// The change that is shown.
const CHANGE: &str = "greet-anyone";

/// What is asked for.
const REQUEST: &str = "Greet people without a name, too";

/// The moment of every commit, so that each demonstration is the same.
const DATE: &str = "2026-01-01T12:00:00Z";

pub(super) fn run(args: &Args, given: &DemoArgs) -> Outcome {
    let folder = folder(args, given)?;
    let root = folder.join("greet");
    let git = git();
    ops::make_folder(&root)?;
    for (path, text) in DEMO {
        ops::create_new(&root, path, text)?;
    }
    Repository::create(&root, &git, "A program that greets")?;
    let script = match &given.script {
        Some(script) => ops::read_text(&from_here(args, script)?)?,
        None => DEMO_SCRIPT.to_owned(),
    };
    let origin = given
        .script
        .as_ref()
        .map_or("the demonstration's script".to_owned(), |path| {
            path.display().to_string()
        });
    let scripted = Scripted::read(&script, &origin)?;
    // From here on it is a project like any other, in which the user may look around afterwards.
    let options = project::options(&root, None)?;
    let of_user = Workspace::open(root.clone(), options.clone())?;
    drop(open_ledger(&of_user, AcceptNow::Nothing)?);
    let without_user = WorkspaceOptions {
        user: None,
        worktrees: Some(folder.join("worktrees")),
        ..options
    };
    let workspace = project::with_redaction(Workspace::open(root.clone(), without_user)?)?;
    if !given.json {
        terminal::note(format_args!("a project is made in {}", root.display()));
        terminal::note(
            "the agent is scripted: what it says is in the program; files, git, checks and verdicts are real",
        );
    }
    let send = SendArgs {
        script: None,
        trust: true,
    };
    let options = RunOptions {
        agent: None,
        model: None,
        auto: true,
        yes: true,
        send,
        json: given.json,
    };
    let session = SessionId::new(CHANGE)?;
    let mut runner =
        ChangeRunner::with_workspace(args, "agentd demo", &session, workspace, &options)?;
    runner.cli.run.git = git;
    runner.cli.drivers.registered.register(SCRIPTED, scripted);
    runner.request.request = Some(REQUEST.to_owned());
    let outcome = runner.run()?;
    if !given.json {
        tell(&root);
    }
    Ok(outcome)
}

/// Returns the folder of the demonstration: the one that is named, if it is empty, or a temporary one.
fn folder(args: &Args, given: &DemoArgs) -> Result<PathBuf> {
    let Some(folder) = &given.folder else {
        return ops::temporary_folder("agentd-demo-");
    };
    let folder = from_here(args, folder)?;
    if folder.join("greet").exists() {
        let message = format!("{} holds a demonstration already", folder.display());
        return Err(Error::new(ErrorKind::FileUnusable, message).with_hint("name another folder"));
    }
    Ok(folder)
}

/// Returns what git is run with: nothing of the user's own.
fn git() -> Git {
    let who = [
        ("NAME", "agentd demo"),
        ("EMAIL", "demo@agentd.invalid"),
        ("DATE", DATE),
    ];
    let of = |role: &str| {
        who.map(|(what, value)| (format!("GIT_{role}_{what}"), value.to_owned()))
            .to_vec()
    };
    let none = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ];
    let none = none
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    Git {
        env: [of("AUTHOR"), of("COMMITTER"), none].concat(),
        ..project::git()
    }
}

/// Says what happened, and where to look.
fn tell(root: &Path) {
    let root = root.display();
    terminal::note(
        "what happened: the plan was sent back once, and so was the implementation; a forged verdict in",
    );
    terminal::note(
        "greet.sh, quoted by the reviewer, had no effect; then the change was merged, its spec with it",
    );
    terminal::row("look at", format_args!("git -C {root} log --stat"));
    terminal::row("", format_args!("agentd -C {root} log"));
    terminal::row("", format_args!("agentd -C {root} show {CHANGE}/6"));
    terminal::row(
        "",
        format_args!("{root}/{}/greeting.md", paths::SPECS_FOLDER),
    );
    terminal::row("", format_args!("{root}/{}", paths::ARCHIVE_FOLDER));
    terminal::row(
        "next",
        "in a project of yours: agentd run add-login \"Add login\"",
    );
}
