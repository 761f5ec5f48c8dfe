//! `agentd prompt`: the exact prompt, before a token is spent.

use agentd::Result;
use agentd::models::{Nonce, OperationId, State};
use agentd::ops::Operations;
use agentd::orchestrator::{
    Assembly, Run, TurnContext, TurnRequest, Workspace, assemble, measured, next_state, preview,
    with_request,
};
use agentd::store::{MemoryStore, Store};
use serde_json::{Value, json};

use super::explain::explain;
use super::input::{ask, is_known};
use super::session::look;
use crate::args::{Args, PromptArgs};
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, given: &PromptArgs) -> Outcome {
    let (workspace, ask) = ask(args, &given.ask)?;
    let ask = TurnRequest {
        count: given.explain,
        nonce: Some(Nonce::preview()),
        ..ask
    };
    // A command that only looks makes no ledger, and needs none for a prompt that belongs to no session and is fitted
    // to no window.
    let store = match (&ask.session, workspace.model(&ask)?) {
        (None, None) => None,
        _ => look(&workspace.root, workspace.places.user.as_deref())?,
    };
    let measured = store
        .as_ref()
        .map(|store| measured(&workspace, store, &ask))
        .transpose()?;
    let ask = TurnRequest {
        measured: measured.unwrap_or_default(),
        ..ask
    };
    let state = next_state(
        &workspace,
        store.as_ref().map(|store| store as &dyn Store),
        &ask,
    )?;
    let empty = MemoryStore::default();
    let store: &dyn Store = store.as_ref().map_or(&empty, |store| store);
    // A change that is over has no worktree, and gets none by being looked at.
    let found = if is_over(store, &ask)? {
        Vec::new()
    } else {
        let (drivers, run) = (
            project::drivers(&workspace)?,
            Run {
                git: project::git(),
                ..Run::new("agentd prompt")?
            },
        );
        preview(
            &TurnContext {
                workspace: &workspace,
                store,
                drivers: &drivers,
                operations: &Operations::shipped(),
                run: &run,
            },
            &state,
            &ask,
        )?
    };
    let ask = with_request(store, TurnRequest { found, ..ask })?;
    let assembly = assemble(&workspace, &state, &ask)?;
    for origin in &assembly.overrides {
        terminal::note(format_args!("this project's own {origin} is used"));
    }
    if let Some(found) = &assembly.template
        && let Some(shadowed) = &found.shadowed
    {
        let text = &found.template.text;
        terminal::warning(format_args!(
            "this project's {shadowed} is not used: {} is more specific; name yours {}.md to replace it",
            text.origin, text.name
        ));
    }
    if given.explain {
        terminal::row("project", workspace.root.display());
        explain(&assembly);
    }
    if let Some(agent) = &ask.agent
        && !is_known(workspace.agents()?, agent.as_str())
    {
        terminal::warning(format_args!(
            "there is no agent `{agent}`; this is what one of that name would get"
        ));
    }
    if state.change.is_none() {
        hint_at_refused(&workspace, &ask)?;
    }
    hint_at_missing(&assembly, &ask);
    if given.json {
        terminal::json(&envelope(&workspace, &assembly, &ask))?;
    } else {
        terminal::text(&assembly.draft.rendered())?;
    }
    Ok(exit::OK)
}

/// Returns whether a prompt is for a change that is over.
fn is_over(store: &dyn Store, ask: &TurnRequest) -> Result<bool> {
    let Some(session) = &ask.session else {
        return Ok(false);
    };
    let state = State::fold(store.events(session)?.iter().map(|(_, event)| event));
    Ok(state.change.is_some() && state.ended.is_some())
}

/// Says that a turn with this prompt is refused, where its mode looks at the branch of a change and there is none.
fn hint_at_refused(workspace: &Workspace, ask: &TurnRequest) -> Result<()> {
    let before = workspace
        .pack
        .mode(&ask.mode)?
        .before
        .iter()
        .map(OperationId::as_str);
    let needing = Operations::shipped().needing_change(before)?;
    if !needing.is_empty() {
        let needing = needing.join(", ");
        terminal::note(format_args!(
            "a turn in {} needs an opened change ({needing}); `agentd review` judges your working tree",
            ask.mode
        ));
    }
    Ok(())
}

/// Says where values of missing variables would come from.
fn hint_at_missing(assembly: &Assembly, ask: &TurnRequest) {
    let lacks = |name: &str| {
        assembly
            .draft
            .variables
            .iter()
            .any(|used| used.name == name && used.required && used.bytes.is_none())
    };
    if lacks("PROJECT_CONTEXT") {
        terminal::note(
            "`agentd init` drafts agentd/project.md, from which PROJECT_CONTEXT is taken",
        );
    }
    if ask.session.is_none() && (lacks("ARTIFACTS") || lacks("TASKS")) {
        terminal::note("--change ID names the change from which ARTIFACTS and TASKS are taken");
    }
}

fn envelope(workspace: &Workspace, assembly: &Assembly, ask: &TurnRequest) -> Value {
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
    // What an agent would expand is written otherwise when it is sent.
    let sent =
        Some(draft.rendered()).filter(|sent| !draft.expands.is_empty() && *sent != draft.text());
    json!({
        "format": 1,
        "pack": workspace.pack.name,
        "mode": ask.mode,
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
            "source": source(assembly, &used.name),
        })
    })
    .collect()
}

pub(super) fn source<'a>(assembly: &'a Assembly, name: &str) -> Option<&'a str> {
    assembly
        .sources
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, source)| source.as_str())
}
