//! `agentd pack`: processes as data, seen, checked and started.

use std::collections::BTreeSet;
use std::io::{self, Write};

use agentd::compose::{BudgetRow, Counter, Variables, budgets, inject_variables};
use agentd::models::{Mode, OperationId, Tier, TokenizerSpec, grouped, paths};
use agentd::ops::{self, Operations};
use agentd::pack::{Finding, Layer, ModeSpec, Owner, PACK_DRAFT, Pack, Target, lint};
use agentd::{Error, ErrorKind, Templates};
use serde_json::{Value, json};

use crate::args::{Args, PackCommand};
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, command: &PackCommand) -> Outcome {
    match command {
        PackCommand::List { json } => list(args, *json),
        PackCommand::Show {
            name,
            file: Some(file),
            json,
        } => show_file(args, name, file, *json),
        PackCommand::Show {
            name,
            file: None,
            json,
        } => show(args, name, *json),
        PackCommand::Check { names, json } => check(args, names, *json),
        PackCommand::New { name, json } => new(args, name, *json),
    }
}

fn list(args: &Args, as_json: bool) -> Outcome {
    let places = project::places(args)?;
    let packs: Vec<(String, Result<Pack, Error>)> = Pack::names(&places)
        .into_iter()
        .map(|name| (name.clone(), Pack::load(&name, &places)))
        .collect();
    if as_json {
        let rows = packs.iter().map(|(name, pack)| match pack {
            Ok(pack) => json!({
                "name": name,
                "owner": pack.owner.to_string(),
                "origin": pack.origin,
                "description": pack.description,
                "modes": pack.modes.keys().collect::<Vec<_>>(),
            }),
            Err(error) => json!({"name": name, "error": format!("{error:#}")}),
        });
        terminal::json(&rows.collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }
    let width = packs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    terminal::data(|out| {
        for (name, pack) in &packs {
            match pack {
                Ok(pack) => {
                    writeln!(
                        out,
                        "{name:<width$}  {:<8}  {}",
                        pack.owner.to_string(),
                        pack.description
                    )?;
                }
                Err(_) => writeln!(
                    out,
                    "{name:<width$}  broken    see `agentd pack check {name}`"
                )?,
            }
        }
        Ok(())
    })?;
    Ok(exit::OK)
}

fn show(args: &Args, name: &str, as_json: bool) -> Outcome {
    let pack = Pack::load(name, &project::places(args)?)?;
    if as_json {
        terminal::json(&described(&pack))?;
        return Ok(exit::OK);
    }
    terminal::data(|out| print(&pack, out))?;
    terminal::note(format_args!("{} from {}", pack.name, pack.origin));
    Ok(exit::OK)
}

fn show_file(args: &Args, name: &str, file: &str, as_json: bool) -> Outcome {
    let places = project::places(args)?;
    let pack = Pack::load(name, &places)?;
    let named = pack.texts.contains_key(file)
        || ["pack.yaml", "actions.yaml", "cases.yaml"].contains(&file);
    let found = if named {
        places.find(&format!("packs/{name}/{file}"))?
    } else {
        None
    };
    let Some(prose) = found else {
        let files: Vec<&str> = pack.texts.keys().map(String::as_str).collect();
        return Err(Error::new(
            ErrorKind::FileUnusable,
            format!("the pack `{name}` has no file {file}"),
        )
        .with_hint(format!("it has pack.yaml, {}", files.join(", ")))
        .into());
    };
    if as_json {
        terminal::json(
            &json!({"origin": prose.origin, "owner": prose.owner.to_string(), "text": prose.text}),
        )?;
    } else {
        terminal::text(&prose.text)?;
        terminal::note(format_args!("from {}", prose.origin));
    }
    Ok(exit::OK)
}

fn described(pack: &Pack) -> Value {
    let mode = |(mode, spec): (&Mode, &ModeSpec)| {
        let value = json!({
            "permission": spec.permission,
            "verdicts": spec.verdicts,
            "verdict_required": spec.verdict_required,
            "markers": spec.markers,
            "updates": spec.updates,
            "edits": spec.edits,
            "gate": spec.gate.as_ref().map(|gate| gate.text()),
            "next": spec.next.iter().map(|(result, target)| (result.to_string(), json!(target_name(target)))).collect::<serde_json::Map<_, _>>(),
            "actions": pack.actions_of(mode).map(|(name, _)| name).collect::<Vec<_>>(),
        });
        (mode.to_string(), value)
    };
    let layer = |layer: &Layer| {
        json!({
            "id": layer.id,
            "holds": format!("{:?}", layer.holds).to_lowercase(),
            "class": layer.class,
            "zone": layer.zone,
            "when": layer.when.as_ref().map(|when| when.text()),
        })
    };
    json!({
        "name": pack.name,
        "owner": pack.owner.to_string(),
        "origin": pack.origin,
        "description": pack.description,
        "start": pack.start,
        "rendering": pack.rendering.name(),
        "aliases": pack.aliases,
        "variables": pack.variables,
        "markers": pack.markers,
        "modes": pack.modes.iter().map(mode).collect::<serde_json::Map<_, _>>(),
        "layers": pack.layers.iter().map(layer).collect::<Vec<_>>(),
        "actions": pack.actions,
        "files": pack.texts.values().map(|text| json!({"name": text.name, "origin": text.origin})).collect::<Vec<_>>(),
    })
}

fn target_name(target: &Target) -> &str {
    match target {
        Target::Mode(mode) => mode.as_str(),
        Target::Done => "done",
        Target::Stop => "stop",
    }
}

fn print(pack: &Pack, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}\n", pack.name, pack.description)?;
    writeln!(out, "Modes (starts in {})", pack.start)?;
    let width = pack
        .modes
        .keys()
        .map(|mode| mode.as_str().len())
        .max()
        .unwrap_or(0);
    for (mode, spec) in &pack.modes {
        let next: Vec<String> = spec
            .next
            .iter()
            .map(|(result, target)| format!("{result} → {}", target_name(target)))
            .collect();
        writeln!(out, "  {:<width$}  {}", mode.as_str(), next.join(", "))?;
        if let Some(gate) = &spec.gate {
            writeln!(out, "  {:<width$}  gate: {}", "", gate.text())?;
        }
        let actions: Vec<&str> = pack
            .actions_of(mode)
            .map(|(name, _)| name.as_str())
            .collect();
        if !actions.is_empty() {
            writeln!(out, "  {:<width$}  actions: {}", "", actions.join(", "))?;
        }
    }
    writeln!(out, "\nLayers (written as {})", pack.rendering.name())?;
    let width = pack
        .layers
        .iter()
        .map(|layer| layer.id.len())
        .max()
        .unwrap_or(0);
    for layer in &pack.layers {
        let (class, zone) = (
            format!("{:?}", layer.class).to_lowercase(),
            format!("{:?}", layer.zone).to_lowercase(),
        );
        let holds = format!("{:?}", layer.holds).to_lowercase();
        let when = layer
            .when
            .as_ref()
            .map(|when| format!("  when {}", when.text()))
            .unwrap_or_default();
        let row = format!(
            "  {:<width$}  {holds:<12} {class:<8} {zone:<7}{when}",
            layer.id
        );
        writeln!(out, "{}", row.trim_end())?;
    }
    let markers = pack
        .markers
        .iter()
        .map(|(name, values)| format!("<{name}> {}", values.join(" | ")));
    let aliases = pack
        .aliases
        .iter()
        .map(|(alias, mode)| format!("{alias} = {mode}"));
    let rows = [
        ("Markers", markers.collect::<Vec<_>>()),
        ("Aliases", aliases.collect()),
        ("Variables", pack.variables.clone()),
        (
            "Files",
            pack.texts.values().map(|text| text.name.clone()).collect(),
        ),
    ];
    for (title, items) in rows.into_iter().filter(|(_, items)| !items.is_empty()) {
        writeln!(out, "\n{title}\n  {}", items.join(", "))?;
    }
    Ok(())
}

/// What checking a pack has shown.
struct Checked {
    name: String,
    rows: Vec<BudgetRow>,
    findings: Vec<String>,
}

fn check(args: &Args, names: &[String], as_json: bool) -> Outcome {
    let places = project::places(args)?;
    let counter = Counter::new(TokenizerSpec::default());
    let names = if names.is_empty() {
        Pack::names(&places)
    } else {
        names.to_vec()
    };
    let templates = Templates::new(places.clone());
    let mut checked = Vec::new();
    for name in names {
        let pack = match Pack::load(&name, &places) {
            Ok(pack) => pack,
            Err(error) if error.kind() == ErrorKind::PackInvalid => {
                let place = error
                    .place()
                    .map(|place| format!("{place}: "))
                    .unwrap_or_default();
                // Every fault after the first stands on a line of its own.
                let message = error.message().replace("; and also:", "");
                let mut faults: Vec<String> =
                    message.lines().map(|line| line.trim().to_owned()).collect();
                faults[0].insert_str(0, &place);
                checked.push(Checked {
                    name,
                    rows: Vec::new(),
                    findings: faults,
                });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let rows = budgets(&pack, &counter)?;
        let mut findings: Vec<String> = rows.iter().filter(|row| row.is_over()).map(over).collect();
        findings.extend(unknown_operations(&pack));
        findings.extend(template_findings(&pack, &templates));
        checked.push(Checked {
            name,
            rows,
            findings,
        });
    }
    let count: usize = checked.iter().map(|pack| pack.findings.len()).sum();
    if as_json {
        let rows = checked
            .iter()
            .map(|pack| json!({"name": pack.name, "layers": pack.rows, "findings": pack.findings}));
        terminal::json(&rows.collect::<Vec<_>>())?;
    } else {
        terminal::data(|out| checked.iter().try_for_each(|pack| print_checked(pack, out)))?;
        terminal::note(format_args!(
            "packs checked: {}, findings: {count}",
            checked.len()
        ));
    }
    Ok(if count == 0 { exit::OK } else { exit::FINDINGS })
}

/// Returns a finding for each operation that a pack names and the program lacks, or has only for another place.
fn unknown_operations(pack: &Pack) -> Vec<String> {
    let operations = Operations::shipped();
    let modes = pack.modes.values();

    let before = modes.clone().flat_map(|spec| &spec.before);
    let after = modes
        .clone()
        .flat_map(|spec| spec.after.iter().chain(&spec.finish));
    let used = pack
        .uses
        .values()
        .filter_map(|used| used.operation.as_ref());
    let counted = modes.flat_map(|spec| spec.gate.iter().flat_map(|gate| gate.arguments("done")));

    let before: BTreeSet<&str> = before.map(OperationId::as_str).collect();
    let after: BTreeSet<&str> = after.chain(used).map(OperationId::as_str).collect();
    // A gate may count what ran before a turn, too.
    let counted: BTreeSet<&str> = counted
        .filter(|name| !operations.is_registered(name))
        .collect();

    let inspecting = before
        .into_iter()
        .filter_map(|name| operations.find_inspect(name).err());
    let acting = after
        .union(&counted)
        .filter_map(|name| operations.find_act(name).err());
    inspecting
        .chain(acting)
        .map(|error| {
            format!(
                "{}: {} ({})",
                pack.origin,
                error.message(),
                error.hint().unwrap_or_default()
            )
        })
        .collect()
}

fn over(row: &BudgetRow) -> String {
    format!(
        "{} at {} tier: {} takes {} tokens of {}",
        row.mode,
        row.tier.name(),
        row.layer,
        row.tokens.unwrap_or_default(),
        row.budget.unwrap_or_default()
    )
}

/// Returns what is wrong with the system templates of a pack's modes.
fn template_findings(pack: &Pack, templates: &Templates) -> Vec<String> {
    let named = |name: &str| {
        pack.modes
            .values()
            .any(|spec| spec.templates.iter().any(|known| known == name))
    };
    let mut found = Vec::new();
    for listed in templates
        .list()
        .iter()
        .filter(|listed| named(&listed.name) && listed.active)
    {
        match &listed.template {
            Ok(template) => {
                found.extend(lint(pack, template).into_iter().map(|finding: Finding| {
                    let line = finding
                        .line
                        .map(|line| format!(":{line}"))
                        .unwrap_or_default();
                    format!(
                        "{}{line}: {} ({})",
                        listed.origin, finding.message, finding.rule
                    )
                }))
            }
            Err(error) => found.push(format!("{}: {}", listed.origin, error.message())),
        }
    }
    found
}

fn print_checked(pack: &Checked, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", pack.name)?;
    let modes: Vec<&Mode> =
        pack.rows
            .iter()
            .map(|row| &row.mode)
            .fold(Vec::new(), |mut modes, mode| {
                if !modes.contains(&mode) {
                    modes.push(mode);
                }
                modes
            });
    for mode in modes {
        let of_mode: Vec<&BudgetRow> = pack.rows.iter().filter(|row| row.mode == *mode).collect();
        writeln!(
            out,
            "  {:<24}{:>14}{:>14}{:>14}",
            mode.as_str(),
            "full",
            "medium",
            "minimal"
        )?;
        for row in of_mode.iter().filter(|row| row.tier == Tier::Full) {
            let cell = |tier: Tier| {
                of_mode
                    .iter()
                    .find(|other| other.tier == tier && other.layer == row.layer)
                    .map_or_else(String::new, |row| {
                        let tokens = row.tokens.map_or_else(|| "-".to_owned(), grouped);
                        let budget = row
                            .budget
                            .map(|budget| format!(" /{:>6}", grouped(budget)))
                            .unwrap_or_default();
                        format!("{tokens}{budget}{}", if row.is_over() { "!" } else { " " })
                    })
            };
            let cells = [cell(Tier::Full), cell(Tier::Medium), cell(Tier::Minimal)];
            let line = format!(
                "    {:<22}{:>14}{:>14}{:>14}",
                row.layer, cells[0], cells[1], cells[2]
            );
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    for finding in &pack.findings {
        writeln!(out, "  {finding}")?;
    }
    if pack.findings.is_empty() {
        writeln!(out, "  holds together")?;
    }
    Ok(())
}

fn new(args: &Args, name: &str, as_json: bool) -> Outcome {
    let name = Mode::new(name)
        .map_err(|_| {
            Error::new(
                ErrorKind::NameInvalid,
                format!("{name:?} is not a pack's name"),
            )
            .with_hint("a pack is named in lower case, like `letters`")
        })?
        .to_string();
    let places = project::places(args)?;
    if let Ok(pack) = Pack::load(&name, &places)
        && pack.owner != Owner::Project
    {
        let message = format!("there is a pack `{name}` already: {}", pack.origin);
        return Err(Error::new(ErrorKind::NameInvalid, message)
            .with_hint(format!(
                "choose another name; to change its texts, see `agentd pack show {name} FILE`"
            ))
            .into());
    }
    let root = project::root(args)?;
    let values = Variables::from([("NAME".to_owned(), name.clone())]);
    let mut files = Vec::new();
    for (file, draft) in PACK_DRAFT {
        let path = format!("{}/{name}/{file}", paths::PACKS_FOLDER);
        let created = ops::create_new(&root, &path, &inject_variables(draft, &values))?;
        files.push(json!({"path": path, "created": created}));
        if !as_json {
            terminal::data(|out| {
                writeln!(
                    out,
                    "{} {path}",
                    if created { "wrote" } else { "left alone" }
                )
            })?;
        }
    }
    if as_json {
        terminal::json(&files)?;
    } else {
        terminal::note(format_args!(
            "see it with `agentd pack show {name}`, and try `agentd prompt draft \"…\" --pack {name}`"
        ));
    }
    Ok(exit::OK)
}
