//! `agentd prompt`: the exact prompt of a turn, without sending it.

use agentd::Result;
use agentd::models::{Nonce, OperationId, State};
use agentd::ops::Operations;
use agentd::orchestrator::{
    Assembly, Run, TurnContext, TurnRequest, Workspace, assemble, measured, next_state, preview,
    with_request,
};
use agentd::store::{MemoryStore, Store};
use serde_json::{Value, json};

use super::explain::explain_prompt;
use super::input::{is_known_agent, read_request};
use super::session::open_existing_ledger;
use crate::args::{Args, PromptArgs};
use crate::terminal::{self, CommandResult};
use crate::{exit, project};

pub(super) fn run(args: &Args, given: &PromptArgs) -> CommandResult {
    let (workspace, mut request) = read_request(args, &given.ask)?;
    request.count = given.explain;
    request.nonce = Some(Nonce::preview());

    // This command creates no ledger, and reads none for a prompt without a session and without a model.
    let store = match (&request.session, workspace.model(&request)?) {
        (None, None) => None,
        _ => open_existing_ledger(&workspace.root, workspace.places.user.as_deref())?,
    };
    if let Some(store) = &store {
        request.measured = measured(&workspace, store, &request)?;
    }

    let state = next_state(
        &workspace,
        store.as_ref().map(|store| store as &dyn Store),
        &request,
    )?;
    let empty = MemoryStore::default();
    let store: &dyn Store = store.as_ref().map_or(&empty, |store| store);

    // A finished change has no worktree, and a preview does not create one.
    request.found = if is_finished_change(store, &request)? {
        Vec::new()
    } else {
        let drivers = project::drivers(&workspace)?;
        let run = Run {
            git: project::git(),
            ..Run::new("agentd prompt")?
        };
        preview(
            &TurnContext {
                workspace: &workspace,
                store,
                drivers: &drivers,
                operations: &Operations::shipped(),
                run: &run,
            },
            &state,
            &request,
        )?
    };
    let request = with_request(store, request)?;
    let assembly = assemble(&workspace, &state, &request)?;

    for origin in &assembly.overrides {
        terminal::note(format_args!("using {origin} of this project"));
    }
    if let Some(found) = &assembly.template
        && let Some(shadowed) = &found.shadowed
    {
        let text = &found.template.text;
        terminal::warning(format_args!(
            "{shadowed} of this project is not used, because {} is more specific; to override that template, name yours {}.md",
            text.origin, text.name
        ));
    }

    if given.explain {
        terminal::eprint_row("project", workspace.root.display());
        explain_prompt(&assembly);
    }
    if let Some(agent) = &request.agent
        && !is_known_agent(workspace.agents()?, agent.as_str())
    {
        terminal::warning(format_args!(
            "unknown agent `{agent}`; this is the prompt that an agent of that name would get"
        ));
    }
    if state.change.is_none() {
        note_required_change(&workspace, &request)?;
    }
    note_missing_variables(&assembly, &request);

    if given.json {
        terminal::print_json(&envelope(&workspace, &assembly, &request))?;
    } else {
        terminal::print_text(&assembly.draft.rendered())?;
    }
    Ok(exit::OK)
}

/// Returns true if the session of a request is a finished change.
fn is_finished_change(store: &dyn Store, request: &TurnRequest) -> Result<bool> {
    let Some(session) = &request.session else {
        return Ok(false);
    };
    let state = State::fold(store.events(session)?.iter().map(|(_, event)| event));
    Ok(state.change.is_some() && state.ended.is_some())
}

/// Prints a note if a turn in this mode needs a change, and there is none.
fn note_required_change(workspace: &Workspace, request: &TurnRequest) -> Result<()> {
    let before = workspace
        .pack
        .mode(&request.mode)?
        .before
        .iter()
        .map(OperationId::as_str);
    let needing = Operations::shipped().needing_change(before)?;
    if !needing.is_empty() {
        let needing = needing.join(", ");
        terminal::note(format_args!(
            "a turn in mode {} needs an open change (for {needing}); to review your working tree, run `agentd review`",
            request.mode
        ));
    }
    Ok(())
}

/// Prints notes on how to provide missing variables.
fn note_missing_variables(assembly: &Assembly, request: &TurnRequest) {
    let is_missing = |name: &str| {
        assembly
            .draft
            .variables
            .iter()
            .any(|used| used.name == name && used.required && used.bytes.is_none())
    };
    if is_missing("PROJECT_CONTEXT") {
        terminal::note(
            "PROJECT_CONTEXT is taken from agentd/project.md; create it with `agentd init`",
        );
    }
    if request.session.is_none() && (is_missing("ARTIFACTS") || is_missing("TASKS")) {
        terminal::note("ARTIFACTS and TASKS are taken from a change; pass it with --change ID");
    }
}

fn envelope(workspace: &Workspace, assembly: &Assembly, request: &TurnRequest) -> Value {
    let draft = &assembly.draft;
    let template = assembly.template.as_ref().map(|found| {
        let template = &found.template;
        json!({
            "name": template.text.name,
            "origin": template.text.origin,
            "owner": template.text.owner.to_string(),
            "searched": found.searched,
            "metadata": template.metadata(),
        })
    });

    // Mentions that the agent would expand are escaped in the prompt that is sent.
    let sent =
        Some(draft.rendered()).filter(|sent| !draft.expands.is_empty() && *sent != draft.text());

    json!({
        "format": 1,
        "pack": workspace.pack.name,
        "mode": request.mode,
        "agent": assembly.agent.as_str(),
        "rendering": draft.format.name(),
        "template": template,
        "variables": variables(assembly),
        "parts": draft.prompt,
        "segments": draft.segments,
        "sent": sent,
        "tools": draft.tools,
        "fit": draft.fit_report,
        "measured": assembly.measured,
        "reliability": assembly.model.as_ref().map(|model| {
            json!({"xml": model.xml_reliability, "origin": assembly.reliability})
        }),
        "bytes": draft.fit_report.bytes,
    })
}

fn variables(assembly: &Assembly) -> Vec<Value> {
    let uses = assembly.draft.variables.iter();
    uses.map(|used| {
        json!({
            "name": used.name,
            "required": used.required,
            "bytes": used.bytes,
            "source": find_source(assembly, &used.name),
        })
    })
    .collect()
}

/// Returns the source of a variable's value; `None` if the variable has none.
pub(super) fn find_source<'a>(assembly: &'a Assembly, name: &str) -> Option<&'a str> {
    assembly
        .sources
        .iter()
        .find(|(variable, _)| variable == name)
        .map(|(_, source)| source.as_str())
}
