//! `agentd models` and `agentd tokens`: the catalogue of models, and token counts.

use std::collections::BTreeMap;
use std::path::Path;

use agentd::compose::{Counter, ModelMeasurements};
use agentd::config::Settings;
use agentd::models::{ComplianceRate, CountKind, ModelSpec};
use agentd::orchestrator::{self, Origin, measured_agents};
use agentd::{Error, ErrorKind, ops};
use serde_json::{Value, json};

use super::explain::{describe_calibration, describe_reliability};
use super::input::{read_text_from_stdin, resolve_path};
use super::session::open_existing_ledger;
use crate::args::{Args, ModelsCommand};
use crate::terminal::{self, CommandResult};
use crate::{exit, project};

pub(super) fn run(args: &Args, command: &ModelsCommand) -> CommandResult {
    let settings = orchestrator::load_settings(&project::places(args)?)?;
    let catalogue = orchestrator::load_catalogue(&settings)?;

    match command {
        ModelsCommand::List { json: true } => terminal::print_json(&catalogue.models())?,
        ModelsCommand::List { json: false } => {
            let rows = catalogue.models().iter().map(table_cells);
            terminal::print_table(&COLUMNS, rows)?;
        }
        ModelsCommand::Show { id, json } => {
            let Some(model) = catalogue.find(id) else {
                return Err(Error::new(
                    ErrorKind::UnknownModel,
                    format!("unknown model `{id}`"),
                )
                .with_hint("list models with `agentd models list`; add your own under [[models]] in the settings")
                .into());
            };

            let places = project::places(args)?;
            let store = open_existing_ledger(&project::root(args)?, places.user.as_deref())?;
            let agents = store
                .map(|store| measured_agents(&store, &model.id))
                .transpose()?;
            let agents = agents.unwrap_or_default();

            if *json {
                terminal::print_json(&model_json(model, &agents))?;
            } else {
                print_model(model, &settings, &agents)?;
            }
        }
    }
    Ok(exit::OK)
}

/// Columns of `agentd models list`.
const COLUMNS: [&str; 7] = [
    "MODEL",
    "PROVIDER",
    "WINDOW",
    "TIER",
    "XML",
    "TOKENIZER",
    "PRICE",
];

fn table_cells(model: &ModelSpec) -> [String; 7] {
    let retired = match &model.retired {
        Some(day) => format!("  (until {day})"),
        None => String::new(),
    };
    [
        model.id.clone(),
        model.provider.clone(),
        model.window.to_string(),
        model.tier.name().to_owned(),
        data_name(&model.xml_reliability),
        model.tokenizer.clone(),
        format!("{}{retired}", price(model)),
    ]
}

/// Returns the name that a value has in data files and JSON.
fn data_name(value: &impl serde::Serialize) -> String {
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

/// Returns a model as JSON, with the measurements of its agents.
fn model_json(model: &ModelSpec, agents: &BTreeMap<String, ModelMeasurements>) -> Value {
    let mut value = json!(model);
    value["measured"] = json!(agents);
    value
}

fn print_model(
    model: &ModelSpec,
    settings: &Settings,
    agents: &BTreeMap<String, ModelMeasurements>,
) -> std::io::Result<()> {
    // Add up the probes of all agents with this model.
    let protocol = agents
        .values()
        .fold(ComplianceRate::default(), |sum, measured| ComplianceRate {
            right: sum.right + measured.protocol.right,
            all: sum.all + measured.protocol.all,
        });
    let all = ModelMeasurements {
        protocol,
        ..ModelMeasurements::default()
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
        ("xml", describe_reliability(xml, origin, protocol)),
        ("follows", data_name(&model.instruction_following)),
        (
            "retired",
            model.retired.clone().unwrap_or_else(|| "-".to_owned()),
        ),
        ("source", model.source.clone()),
    ];
    for (agent, measured) in agents {
        let tokens = describe_calibration(&measured.calibration);
        let ComplianceRate { right, all } = measured.protocol;
        let protocol = (all > 0).then(|| format!("{right} of {all} probe turns correct"));
        let measured: Vec<String> = tokens.into_iter().chain(protocol).collect();
        rows.push(("measured", format!("{agent}: {}", measured.join("; "))));
    }
    terminal::print_rows(&rows)
}

/// Counts the tokens of a file or of stdin.
pub(super) fn tokens(args: &Args, file: &Path, id: &str, as_json: bool) -> CommandResult {
    let catalogue = project::catalogue(args)?;
    let model = catalogue.find_or_assume(id);
    let text = if file == Path::new("-") {
        read_text_from_stdin()?
    } else {
        ops::read_text(&resolve_path(args, file)?)?
    };

    let count = Counter::new(catalogue.tokenizer(&model)).count(&text);
    if as_json {
        terminal::print_json(&json!({"model": model.id, "bytes": text.len(), "count": count}))?;
        return Ok(exit::OK);
    }

    terminal::write_data(|out| writeln!(out, "{}", count.tokens))?;
    terminal::eprint_row("model", &model.id);
    match count.kind {
        CountKind::Exact => terminal::eprint_row("count", "exact"),
        kind => terminal::eprint_row(
            "count",
            format_args!(
                "{}; upper bound {} tokens (exceeded by about 1 % of texts)",
                data_name(&kind),
                count.upper_bound
            ),
        ),
    }
    let share = 100.0 * count.upper_bound as f64 / model.window as f64;
    terminal::eprint_row(
        "window",
        format_args!("at most {share:.1} % of {} tokens", model.window),
    );
    Ok(exit::OK)
}
