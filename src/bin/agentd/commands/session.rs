//! Shared parts of the commands that send prompts: ledger, agents, progress view and signals.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use agentd::agent::{Driver, Drivers, REPLAY_PREFIX, SCRIPTED, Scripted};
use agentd::models::{AgentName, Mode, SessionId};
use agentd::ops::{self, Operations};
use agentd::orchestrator::{
    AcceptNow, ProgressSender, Run, TurnContext, TurnReport, Workspace, find_driver,
    is_ledger_trusted, open_ledger, progress_channel, recover_all,
};
use agentd::parse::Grammar;
use agentd::store::SqliteStore;
use agentd::{Error, ErrorKind, Result};
use serde_json::json;

use super::input::resolve_path;
use super::report;
use crate::args::{Args, SendArgs};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, progress_view, project, signals};

/// An open project with its agents, for a command that sends a prompt.
pub(super) struct CliSession {
    pub(super) workspace: Workspace,
    pub(super) drivers: Drivers,
    operations: Operations,
    pub(super) run: Run,
    json: bool,
}

impl CliSession {
    /// Creates the drivers of the project's agents, and the options of the run.
    pub(super) fn open(
        args: &Args,
        name: &str,
        workspace: Workspace,
        given: &SendArgs,
        json: bool,
    ) -> Result<Self> {
        project::check_ledger_place(&workspace.root)?;
        let mut drivers = project::drivers(&workspace)?;
        if let Some(script) = &given.script {
            let scripted = read_script(args, script)?;
            drivers.registered.register(SCRIPTED, scripted);
        }

        let trust = if given.trust {
            AcceptNow::Everything
        } else {
            AcceptNow::Nothing
        };
        let run = Run {
            budget: workspace.settings.budget,
            limits: workspace.settings.limits,
            trust,
            git: project::git(),
            ..Run::new(name)?
        };
        Ok(Self {
            workspace,
            drivers,
            operations: Operations::shipped(),
            run,
            json,
        })
    }

    /// Returns the driver of an agent.
    pub(super) fn driver(&self, args: &Args, agent: &AgentName) -> Result<Arc<dyn Driver>> {
        if agent.as_str().starts_with(REPLAY_PREFIX) {
            return find_driver(&self.drivers, &open_ledger_of(args)?, agent);
        }
        self.drivers.find(agent.as_str())
    }

    /// Takes a turn with `take_turn`, and prints its report if there is one.
    pub(super) fn run(
        mut self,
        take_turn: impl FnOnce(&TurnContext<'_>) -> Result<Option<TurnReport>>,
    ) -> CommandResult {
        let (result, shown) = self.with_context(self.json, |context, _| take_turn(context))?;
        let outcome = match result? {
            Some(report) => {
                print_report(&report, self.json)?;
                match report.fault {
                    Some(fault) => Err(fault.into()),
                    None => Ok(exit::OK),
                }
            }
            None => Ok(exit::OK),
        };

        // The turn is recorded even if progress could not be written to stdout.
        shown.map_err(Failure::Output).and(outcome)
    }

    /// Recovers interrupted turns of earlier runs, then runs `work` with the open ledger. Meanwhile progress is shown,
    /// and a signal stops the run. Returns the result of `work`, and the result of writing progress to stdout.
    pub(super) fn with_context<T>(
        &mut self,
        json: bool,
        work: impl FnOnce(&TurnContext<'_>, &Watcher) -> Result<T>,
    ) -> Result<(Result<T>, io::Result<()>)> {
        let store = open_ledger(&self.workspace, self.run.trust)?;
        let (sender, receiver) = progress_channel();
        self.run.progress = Some(sender.clone());
        let finished = signals::stop_on_signals(&self.run.stop);
        let view = progress_view::View::new(json, self.grammars());
        let watcher = Watcher {
            sender,
            has_failed: view.failure_flag(),
        };
        let thread = thread::spawn(move || view.show(&receiver));

        let context = TurnContext {
            workspace: &self.workspace,
            store: &store,
            drivers: &self.drivers,
            operations: &self.operations,
            run: &self.run,
        };
        let result = recover_all(&context).and_then(|_| work(&context, &watcher));

        finished.set();
        drop(watcher);
        self.run.progress = None;
        Ok((result, thread.join().unwrap_or(Ok(()))))
    }

    /// Returns the grammar of the replies in each mode.
    fn grammars(&self) -> BTreeMap<Mode, Grammar> {
        let pack = &self.workspace.pack;
        let modes = pack.modes.keys();
        modes
            .filter_map(|mode| Some((mode.clone(), pack.grammar(mode).ok()?)))
            .collect()
    }
}

/// Handle of the thread that shows the progress of a run.
pub(super) struct Watcher {
    sender: ProgressSender,
    has_failed: Arc<AtomicBool>,
}

impl Watcher {
    /// Waits until all progress so far is shown, so that something else can be printed.
    pub(super) fn flush(&self) {
        self.sender.flush();
        terminal::clear_live_lines();
    }

    /// Returns true once writing to stdout has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }
}

/// Prints the report of a turn: its message on stdout, the rest on stderr; or all of it as a line of JSON.
pub(super) fn print_report(report: &TurnReport, json: bool) -> io::Result<()> {
    if json {
        let fault = report.fault.as_ref().map(|fault| {
            json!({"kind": fault.kind().name(), "message": fault.message(), "hint": fault.hint()})
        });
        return terminal::print_json_line(
            &json!({"event": "report", "report": report, "fault": fault}),
        );
    }
    if !report.response.message.is_empty() {
        terminal::write_data(|out| writeln!(out, "{}", report.response.message))?;
    }
    report::print_turn(report);
    Ok(())
}

/// Reads the script of the agent `scripted`.
fn read_script(args: &Args, script: &Path) -> Result<Scripted> {
    let path = resolve_path(args, script)?;
    Scripted::read(&ops::read_text(&path)?, &path.display().to_string())
}

/// Returns the error for a session without turns in the ledger.
pub(super) fn no_turns_error(session: &SessionId) -> Error {
    Error::new(
        ErrorKind::TurnNotFound,
        format!("no turns in session `{session}`"),
    )
    .with_hint("list turns with `agentd log`")
}

/// Opens the ledger of a project for reading, if there is one. Prints a note if it is not trusted.
pub(super) fn open_existing_ledger(
    root: &Path,
    user: Option<&Path>,
) -> Result<Option<SqliteStore>> {
    project::check_ledger_place(root)?;
    let store = SqliteStore::open_existing(root)?;
    if let Some(store) = &store
        && !is_ledger_trusted(root, user, store).unwrap_or(false)
    {
        terminal::note(
            "this ledger was created elsewhere, or the project was moved; to take turns with it, run `agentd trust`",
        );
    }
    Ok(store)
}

/// Opens the ledger of the project for reading.
///
/// # Errors
///
/// `TurnNotFound` if the project has no ledger; a command that only reads does not create one.
pub(super) fn open_ledger_of(args: &Args) -> Result<SqliteStore> {
    let places = project::places(args)?;
    let root = project::root(args)?;
    open_existing_ledger(&root, places.user.as_deref())?.ok_or_else(|| {
        let message = format!(
            "no turns in `{}`",
            root.display().to_string().escape_debug()
        );
        Error::new(ErrorKind::TurnNotFound, message).with_hint("take one with `agentd turn`")
    })
}
