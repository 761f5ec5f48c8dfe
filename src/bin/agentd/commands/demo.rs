//! `agentd demo`: a whole change on a small example project, with a scripted agent.

use std::path::{Path, PathBuf};

use agentd::agent::{SCRIPTED, Scripted};
use agentd::models::{SessionId, paths};
use agentd::ops::{self, Git, Repository};
use agentd::orchestrator::{AcceptNow, Workspace, WorkspaceOptions, open_ledger};
use agentd::pack::{DEMO, DEMO_SCRIPT};
use agentd::{Error, ErrorKind, Result};

use super::input::resolve_path;
use super::run::ChangeRunner;
use crate::args::{Args, DemoArgs, RunOptions, SendArgs};
use crate::project;
use crate::terminal::{self, CommandResult};

/// Name of the change that the demo runs.
const CHANGE: &str = "greet-anyone";

const REQUEST: &str = "Greet people without a name, too";

/// Date of every commit, so that each run creates the same commits.
const DATE: &str = "2026-01-01T12:00:00Z";

pub(super) fn run(args: &Args, given: &DemoArgs) -> CommandResult {
    let folder = choose_folder(args, given)?;
    let root = folder.join("greet");
    let git = isolated_git();

    ops::make_folder(&root)?;
    for (path, text) in DEMO {
        ops::create_new(&root, path, text)?;
    }
    Repository::create(&root, &git, "A program that greets")?;

    let script = match &given.script {
        Some(script) => ops::read_text(&resolve_path(args, script)?)?,
        None => DEMO_SCRIPT.to_owned(),
    };
    let origin = given
        .script
        .as_ref()
        .map_or("the demo script".to_owned(), |path| {
            path.display().to_string()
        });
    let scripted = Scripted::read(&script, &origin)?;

    // The ledger is created with the user's configuration folder, which records that the user trusts it: later
    // commands can use it. The demo itself ignores the user's configuration.
    let options = project::options(&root, None)?;
    let user_workspace = Workspace::open(root.clone(), options.clone())?;
    drop(open_ledger(&user_workspace, AcceptNow::Nothing)?);
    let demo_options = WorkspaceOptions {
        user: None,
        worktrees: Some(folder.join("worktrees")),
        ..options
    };
    let workspace = project::with_redaction(Workspace::open(root.clone(), demo_options)?)?;
    if !given.json {
        terminal::note(format_args!("created a project in {}", root.display()));
        terminal::note(
            "the agent's replies are scripted; files, git, checks and verdicts are real",
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
        print_summary(&root);
    }
    Ok(outcome)
}

/// Returns the folder of `--folder`, or a temporary one.
fn choose_folder(args: &Args, given: &DemoArgs) -> Result<PathBuf> {
    let Some(folder) = &given.folder else {
        return ops::temporary_folder("agentd-demo-");
    };
    let folder = resolve_path(args, folder)?;
    if folder.join("greet").exists() {
        let message = format!("`{}/greet` already exists", folder.display());
        return Err(Error::new(ErrorKind::FileUnusable, message)
            .with_hint("choose another folder with --folder"));
    }
    Ok(folder)
}

/// Returns a git runner that ignores the user's configuration.
fn isolated_git() -> Git {
    let identity = [
        ("NAME", "agentd demo"),
        ("EMAIL", "demo@agentd.invalid"),
        ("DATE", DATE),
    ];
    let identity_of = |role: &str| {
        identity
            .map(|(field, value)| (format!("GIT_{role}_{field}"), value.to_owned()))
            .to_vec()
    };
    let no_config = vec![
        ("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned()),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
    ];

    Git {
        env: [identity_of("AUTHOR"), identity_of("COMMITTER"), no_config].concat(),
        ..project::git()
    }
}

/// Prints a summary of the change, and commands to explore its results.
fn print_summary(root: &Path) {
    let root = root.display();
    terminal::note(
        "the plan and the implementation were each sent back once, then the change was merged with its spec",
    );
    terminal::note(
        "greet.sh contained a forged verdict, which the reviewer quoted; it had no effect",
    );
    terminal::eprint_row("explore", format_args!("git -C {root} log --stat"));
    terminal::eprint_row("", format_args!("agentd -C {root} log"));
    terminal::eprint_row("", format_args!("agentd -C {root} show {CHANGE}/6"));
    terminal::eprint_row(
        "",
        format_args!("{root}/{}/greeting.md", paths::SPECS_FOLDER),
    );
    terminal::eprint_row("", format_args!("{root}/{}", paths::ARCHIVE_FOLDER));
    terminal::eprint_row(
        "next",
        "in your own project: agentd run add-login \"Add login\"",
    );
}
