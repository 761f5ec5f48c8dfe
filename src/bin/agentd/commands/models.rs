//! `agentd models` and `agentd tokens`: what is known of models, and how long a text is for them.

use std::collections::BTreeMap;
use std::path::Path;

use agentd::compose::{Counter, Measured};
use agentd::config::Settings;
use agentd::models::{CountKind, ModelSpec, Share};
use agentd::orchestrator::{self, Origin, measured_agents};
use agentd::{Error, ErrorKind, ops};
use serde_json::{Value, json};

use super::explain::{calibration, reliability};
use super::input::{from_here, stdin};
use super::session::look;
use crate::args::{Args, ModelsCommand};
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, command: &ModelsCommand) -> Outcome {
    let settings = orchestrator::load_settings(&project::places(args)?)?;
    let catalogue = orchestrator::load_catalogue(&settings)?;
    match command {
        ModelsCommand::List { json: true } => terminal::json(&catalogue.models())?,
        ModelsCommand::List { json: false } => terminal::data(|out| {
            writeln!(
                out,
                "{:<26} {:<11} {:>9}  {:<8} {:<9} {:<11} PRICE",
                "MODEL", "PROVIDER", "WINDOW", "TIER", "XML", "TOKENIZER"
            )?;
            for model in catalogue.models() {
                let retired = model
                    .retired
                    .as_ref()
                    .map(|day| format!("  (until {day})"))
                    .unwrap_or_default();
                writeln!(
                    out,
                    "{:<26} {:<11} {:>9}  {:<8} {:<9} {:<11} {}{retired}",
                    model.id,
                    model.provider,
                    model.window,
                    model.tier.name(),
                    word(&model.xml_reliability),
                    model.tokenizer,
                    price(model)
                )?;
            }
            Ok(())
        })?,
        ModelsCommand::Show { id, json } => {
            let Some(model) = catalogue.find(id) else {
                return Err(Error::new(
                    ErrorKind::UnknownModel,
                    format!("there is no model `{id}` in the catalogue"),
                )
                .with_hint("`agentd models list` names them; add your own under [[models]] in the settings")
                .into());
            };
            let places = project::places(args)?;
            let store = look(&project::root(args)?, places.user.as_deref())?;
            let agents = store
                .map(|store| measured_agents(&store, &model.id))
                .transpose()?;
            let agents = agents.unwrap_or_default();
            if *json {
                terminal::json(&with_measured(model, &agents))?;
            } else {
                show(model, &settings, &agents)?;
            }
        }
    }
    Ok(exit::OK)
}

/// Returns a value as it is spelt in data files.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn price(model: &ModelSpec) -> String {
    model.price.map_or_else(
        || "-".to_owned(),
        |price| format!("${} / ${}", price.input, price.output),
    )
}

/// Returns a model as JSON, with what was measured of it.
fn with_measured(model: &ModelSpec, agents: &BTreeMap<String, Measured>) -> Value {
    let mut value = json!(model);
    value["measured"] = json!(agents);
    value
}

fn show(
    model: &ModelSpec,
    settings: &Settings,
    agents: &BTreeMap<String, Measured>,
) -> std::io::Result<()> {
    // Where no agent is named, all of them tell.
    let protocol = agents
        .values()
        .fold(Share::default(), |sum, measured| Share {
            right: sum.right + measured.protocol.right,
            all: sum.all + measured.protocol.all,
        });
    let all = Measured {
        protocol,
        ..Measured::default()
    };
    let (xml, origin) = Origin::resolve(settings, model, &all);
    let mut rows = vec![
        ("model", model.id.clone()),
        ("aliases", model.aliases.join(", ")),
        ("provider", model.provider.clone()),
        ("window", format!("{} tokens", model.window)),
        (
            "max output",
            model
                .max_output
                .map_or_else(|| "-".to_owned(), |tokens| format!("{tokens} tokens")),
        ),
        (
            "price",
            format!("{} per million tokens in / out", price(model)),
        ),
        ("tokenizer", model.tokenizer.clone()),
        ("tier", model.tier.name().to_owned()),
        ("xml", reliability(xml, origin, protocol)),
        ("follows", word(&model.instruction_following)),
        (
            "retired",
            model.retired.clone().unwrap_or_else(|| "-".to_owned()),
        ),
        ("source", model.source.clone()),
    ];
    for (agent, measured) in agents {
        let tokens = calibration(&measured.calibration);
        let Share { right, all } = measured.protocol;
        let protocol = (all > 0).then(|| format!("{right} of {all} probe turns right"));
        let told: Vec<String> = tokens.into_iter().chain(protocol).collect();
        rows.push(("measured", format!("{agent}: {}", told.join("; "))));
    }
    terminal::data(|out| {
        rows.iter()
            .try_for_each(|(name, value)| writeln!(out, "{name:<12} {value}"))
    })
}

/// Counts the tokens of a file or of stdin.
pub(super) fn tokens(args: &Args, file: &Path, id: &str, as_json: bool) -> Outcome {
    let catalogue = project::catalogue(args)?;
    let model = catalogue.find_or_assume(id);
    let text = if file == Path::new("-") {
        stdin()?
    } else {
        ops::read_text(&from_here(args, file)?)?
    };
    let count = Counter::new(catalogue.tokenizer(&model)).count(&text);
    if as_json {
        terminal::json(&json!({"model": model.id, "bytes": text.len(), "count": count}))?;
        return Ok(exit::OK);
    }
    terminal::data(|out| writeln!(out, "{}", count.tokens))?;
    terminal::row("model", &model.id);
    match count.kind {
        CountKind::Exact => terminal::row("count", "exact"),
        kind => terminal::row(
            "count",
            format_args!(
                "{}, at most {} in 99 of 100 texts",
                word(&kind),
                count.upper_bound
            ),
        ),
    }
    let share = 100.0 * count.upper_bound as f64 / model.window as f64;
    terminal::row(
        "window",
        format_args!(
            "{} tokens, of which this is {share:.1} % at most",
            model.window
        ),
    );
    Ok(exit::OK)
}
