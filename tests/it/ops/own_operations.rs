//! Operations registered by a program: named by a pack, run by a turn, and finished by a later
//! turn.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agentd::agent::{Drivers, Scripted};
use agentd::models::{Event, Mode, OperationId, SessionId, StepResult, StepTrigger};
use agentd::ops::{Act, Inspect, Inspection, Operation, Operations, Site, Step, TurnEnd};
use agentd::orchestrator::{
    self, TurnContext, TurnReport, TurnRequest, Workspace, WorkspaceOptions, ledger_text,
};
use agentd::store::MemoryStore;
use agentd::{Error, ErrorKind, Result};

use crate::support::{TestProject, events, files_below, repository, write};

/// Targets of the steps that ran, in order.
type Log = Arc<Mutex<Vec<String>>>;

/// `bell.ring`: run when a reply asks for it. The target `broken` fails.
struct RingBell(Log);

impl Operation for RingBell {
    fn id(&self) -> OperationId {
        OperationId::new("bell.ring").unwrap()
    }
}

impl Act for RingBell {
    fn run(&self, _site: &Site<'_>, step: &Step) -> Result<StepResult> {
        self.0.lock().unwrap().push(step.target.clone());
        Ok(match step.target.as_str() {
            "broken" => step.not_done("the bell is broken"),
            _ => step.done("rang"),
        })
    }
}

/// `till.close`: run after every turn. It stops the turn while `is_stuck` is set.
struct CloseTill {
    log: Log,
    is_stuck: Arc<AtomicBool>,
}

impl Operation for CloseTill {
    fn id(&self) -> OperationId {
        OperationId::new("till.close").unwrap()
    }
}

impl Act for CloseTill {
    fn plan_always(&self, _site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        Some(Step::always(self.id(), "till", ""))
    }

    fn run(&self, _site: &Site<'_>, step: &Step) -> Result<StepResult> {
        if self.is_stuck.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::AgentStopped, "the till is stuck"));
        }
        self.log.lock().unwrap().push(step.target.clone());
        Ok(step.done("closed"))
    }
}

/// `oven.check`: refuses a turn once the till was closed twice.
struct CheckOven(Log);

impl Operation for CheckOven {
    fn id(&self) -> OperationId {
        OperationId::new("oven.check").unwrap()
    }
}

impl Inspect for CheckOven {
    fn inspect(&self, _site: &Site<'_>) -> Result<Inspection> {
        let log = self.0.lock().unwrap();
        if log.iter().filter(|target| *target == "till").count() > 1 {
            return Err(Error::new(ErrorKind::NothingToReview, "the oven is cold"));
        }
        Ok(Inspection::default())
    }
}

/// A project whose pack names the operations above.
struct Bakery {
    project: TestProject,
    store: MemoryStore,
    operations: Operations,
    log: Log,
    is_stuck: Arc<AtomicBool>,
}

impl Bakery {
    /// Creates a bakery. `sell` is the mode `sell` of its pack.
    fn new(sell: &str) -> Self {
        let project = TestProject::new();
        let folder = repository().join("tests/data/packs/bakery");
        for file in files_below(&folder) {
            let text = fs::read_to_string(folder.join(&file)).unwrap();
            let text = text
                .replace(
                    "jot: {modes: [mix], operation: files.write}",
                    "jot: {modes: [sell], operation: bell.ring}",
                )
                .replace(
                    "  sell:\n    permission: read-only\n    next: {otherwise: done}",
                    sell,
                );
            let own = project.user_folder().join("packs/bakery").join(&file);
            write(&own, text);
        }

        let log = Log::default();
        let is_stuck = Arc::new(AtomicBool::new(false));

        let mut operations = Operations::shipped();
        operations.register_act(RingBell(log.clone())).unwrap();
        operations
            .register_act(CloseTill {
                log: log.clone(),
                is_stuck: is_stuck.clone(),
            })
            .unwrap();
        operations.register_inspect(CheckOven(log.clone())).unwrap();

        Self {
            project,
            store: MemoryStore::default(),
            operations,
            log,
            is_stuck,
        }
    }

    fn sell(&self, reply: &str) -> Result<TurnReport> {
        let workspace = Workspace::open(
            self.project.root(),
            WorkspaceOptions::default()
                .with_user(self.project.user_folder())
                .with_pack("bakery"),
        )?;
        let script = serde_json::json!({"format": 1, "turns": [{"mode": "sell", "reply": reply}]})
            .to_string();
        let driver = Scripted::read(&script, "script.yaml")?;
        let run = orchestrator::Run::new("test").unwrap();
        orchestrator::take_turn(
            &TurnContext {
                workspace: &workspace,
                store: &self.store,
                drivers: &Drivers::default(),
                operations: &self.operations,
                run: &run,
            },
            &driver,
            &TurnRequest {
                session: Some(SessionId::new("monday").unwrap()),
                ..TurnRequest::new(Mode::new("sell").unwrap(), "Two loaves")
            },
        )
    }

    /// Returns the operation, target and trigger of each step in the ledger.
    fn intents(&self) -> Vec<(String, String, StepTrigger)> {
        let intent = |event: Event| match event {
            Event::Intended { intent, .. } => {
                let trigger = intent.trigger();
                Some((intent.operation.to_string(), intent.target, trigger))
            }
            _ => None,
        };
        events(&self.store, "monday")
            .into_iter()
            .filter_map(intent)
            .collect()
    }

    /// Returns the contents of the steps of `bell.ring`, from the ledger.
    fn contents(&self) -> Vec<String> {
        let events = events(&self.store, "monday").into_iter();
        let contents = events.filter_map(|event| match event {
            Event::Intended { intent, .. } if intent.operation.as_str() == "bell.ring" => {
                intent.content
            }
            _ => None,
        });
        contents
            .map(|id| ledger_text(&self.store, &id).unwrap())
            .collect()
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

const SELL: &str = "  sell:\n    permission: read-only\n    before: [oven.check]\n    after: [bell.ring, till.close]\n    next: {otherwise: done}";

fn ring(target: &str) -> String {
    format!("<action type=\"jot\"><target>{target}</target><content>Twice</content></action>\n")
}

#[test]
fn turn_runs_registered_operations() {
    let bakery = Bakery::new(SELL);
    let report = bakery.sell(&format!("{}Sold.\n", ring("door"))).unwrap();

    assert_eq!(bakery.log(), ["door", "till"]);
    let details: Vec<_> = report
        .settlements
        .iter()
        .map(|result| (result.operation.as_str(), result.detail.as_str()))
        .collect();
    assert_eq!(details, [("bell.ring", "rang"), ("till.close", "closed")]);
}

/// Each action is a separate request, not a new value of an earlier one; an identical request counts once.
#[test]
fn actions_with_different_values_are_all_run() {
    let jot = |content: &str| {
        format!("<action type=\"jot\"><target>door</target><content>{content}</content></action>\n")
    };
    let reply = [jot("Once"), jot("Twice"), jot("Once"), "Sold.\n".to_owned()].concat();
    let bakery = Bakery::new(SELL);
    bakery.sell(&reply).unwrap();

    assert_eq!(bakery.log(), ["door", "door", "till"]);
    assert_eq!(bakery.contents(), ["Once", "Twice"]);
}

/// A failed step on request stops the steps that always run, but no other request of the reply.
#[test]
fn failed_request_stops_the_unconditional_steps() {
    let bakery = Bakery::new(SELL);
    let reply = format!("{}{}Sold.\n", ring("broken"), ring("door"));
    let report = bakery.sell(&reply).unwrap();

    assert_eq!(bakery.log(), ["broken", "door"]);

    let details: Vec<_> = report
        .settlements
        .iter()
        .map(|result| (result.done, result.detail.as_str()))
        .collect();
    assert_eq!(
        details,
        [
            (false, "the bell is broken"),
            (true, "rang"),
            (false, "skipped: bell.ring failed"),
        ]
    );
}

/// The ledger records which steps the reply asked for, so recovery treats them like the interrupted
/// turn.
#[test]
fn later_turn_finishes_pending_steps() {
    let bakery = Bakery::new(SELL);
    bakery.is_stuck.store(true, Ordering::SeqCst);
    let reply = format!("{}{}Sold.\n", ring("broken"), ring("door"));

    let stopped = bakery
        .sell(&format!("{}Sold.\n", ring("door")))
        .unwrap_err();
    assert_eq!(stopped.message(), "the till is stuck");

    let planned = [
        ("bell.ring", "door", StepTrigger::Reply),
        ("till.close", "till", StepTrigger::Always),
    ];
    let planned = planned
        .map(|(operation, target, trigger)| (operation.to_owned(), target.to_owned(), trigger));
    assert_eq!(bakery.intents(), planned);
    assert_eq!(bakery.log(), ["door"]);

    bakery.is_stuck.store(false, Ordering::SeqCst);
    bakery.sell(&reply).unwrap();
    assert_eq!(
        bakery.log(),
        ["door", "till", "broken", "door"],
        "the till of the first turn, then the second turn"
    );
}

#[test]
fn inspection_can_refuse_the_turn() {
    let bakery = Bakery::new(SELL);
    bakery.sell("Sold.\n").unwrap();
    bakery.sell("Sold.\n").unwrap();
    let refused = bakery.sell("Sold.\n").unwrap_err();
    assert_eq!(refused.message(), "the oven is cold");
    assert_eq!(bakery.log(), ["till", "till"]);
}

#[test]
fn operation_of_the_wrong_kind_is_refused_before_any_call() {
    let cases = [
        (
            SELL.replace("oven.check", "till.close"),
            "operation `till.close` cannot run before a turn",
            "`before` allows change.require, checks.run, checks.show, findings.show, git.diff, oven.check, \
             review.require, specs.merge, specs.show",
        ),
        (
            SELL.replace("till.close", "oven.check"),
            "operation `oven.check` can only run before a turn",
            "`after` and `finish` allow artifact.status, artifact.write, bell.ring, change.archive, checks.again, checks.run, files.edit, \
             files.write, findings.note, git.commit, git.merge, git.squash, knowledge.save, specs.merge, state.add, state.remove, state.set, tasks.tick, till.close",
        ),
    ];

    for (sell, message, hint) in cases {
        let bakery = Bakery::new(&sell);
        let refused = bakery.sell("Sold.\n").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnknownOperation);
        assert_eq!(refused.message(), message);
        assert_eq!(refused.hint(), Some(hint));
        assert!(events(&bakery.store, "monday").is_empty());
    }
}

#[test]
fn operation_name_is_unique_per_kind() {
    let log = Log::default();
    let mut operations = Operations::shipped();
    operations.register_act(RingBell(log.clone())).unwrap();
    let error = operations.register_act(RingBell(log)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameInvalid);
    assert_eq!(
        error.message(),
        "operation `bell.ring` is already registered"
    );
    assert!(operations.find_act("bell.ring").is_ok());
    assert!(operations.find_inspect("bell.ring").is_err());
}
