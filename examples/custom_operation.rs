//! Lets agents act through an operation of this program, which a pack names: `custom_operation PROJECT`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has the terminal and its arguments to itself"
)]

use std::env;
use std::path::PathBuf;

use agentd::agent::{Drivers, FnDriver};
use agentd::models::{Mode, OperationId, Reply, StepResult};
use agentd::ops::{Act, Operation, Operations, Site, Step};
use agentd::orchestrator::{Run, TurnContext, TurnRequest, Workspace, WorkspaceOptions, take_turn};
use agentd::store::MemoryStore;
use agentd::{Result, SearchPath};

/// The files of a pack can be compiled in. Its action `create_ticket` names the operation `tracker.create`.
const PACK: [(&str, &str); 3] = [
    (
        "packs/support/pack.yaml",
        include_str!("support_pack/pack.yaml"),
    ),
    (
        "packs/support/actions.yaml",
        include_str!("support_pack/actions.yaml"),
    ),
    (
        "packs/support/identity.md",
        include_str!("support_pack/identity.md"),
    ),
];

/// A possible reply of a model.
const REPLY: &str = r#"<message>I have told the team.</message>
<action type="create_ticket"><content>Checkout shows an empty page</content></action>"#;

/// Creates a ticket in a tracker. This one only prints it.
struct CreateTicket(OperationId);

impl Operation for CreateTicket {
    fn id(&self) -> OperationId {
        self.0.clone()
    }
}

impl Act for CreateTicket {
    fn run(&self, _site: &Site<'_>, step: &Step) -> Result<StepResult> {
        println!(
            "new ticket: {}",
            step.content.as_deref().unwrap_or_default()
        );
        Ok(step.settled(true, "created ticket 17".to_owned()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = env::args_os()
        .nth(1)
        .ok_or("usage: custom_operation PROJECT")?;
    let project = PathBuf::from(project);
    let places = SearchPath::new(Some(project.clone()), None).with_files(PACK);
    let workspace = Workspace::open_at(
        project,
        places,
        WorkspaceOptions::default().with_pack("support"),
    )?;

    let mut operations = Operations::shipped();
    operations.register_act(CreateTicket(OperationId::new("tracker.create")?))?;

    let context = TurnContext {
        workspace: &workspace,
        store: &MemoryStore::default(),
        drivers: &Drivers::default(),
        operations: &operations,
        run: &Run::new("custom_operation")?,
    };
    let agent = FnDriver::new(|_call| Ok(Reply::from_text(REPLY)));
    let request = TurnRequest::new(Mode::new("answer")?, "I cannot pay!");
    let report = take_turn(&context, &agent, &request)?;
    println!("{}", report.response.message);
    for step in &report.settlements {
        println!("{}: {}", step.operation, step.detail);
    }
    Ok(())
}
