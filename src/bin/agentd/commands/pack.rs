//! `agentd pack`: lists, shows, checks and creates packs.

use std::io::{self, Write};

use agentd::compose::{BudgetRow, Counter, Variables, budgets, inject_variables};
use agentd::models::{Mode, Tier, TokenizerSpec, grouped, paths};
use agentd::ops::{self, Operations};
use agentd::pack::{
    Layer, LintFinding, ModeSpec, NextTarget, OperationRole, PACK_DRAFT, Pack, PackProblem,
    PackReport, ProblemSeverity, ProseOwner, lint,
};
use agentd::{Error, ErrorKind, SearchPath, Templates};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{Args, PackCommand};
use crate::terminal::{self, CommandResult};
use crate::{exit, humanize, project};

pub(super) fn run(args: &Args, command: &PackCommand) -> CommandResult {
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
        } => show_pack(args, name, *json),
        PackCommand::Check {
            names,
            deny_warnings,
            json,
        } => check(args, names, *deny_warnings, *json),
        PackCommand::New { name, json } => create_pack(args, name, *json),
    }
}

fn list(args: &Args, as_json: bool) -> CommandResult {
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
        terminal::print_json(&rows.collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }

    let rows = packs.iter().map(|(name, pack)| match pack {
        Ok(pack) => [
            name.clone(),
            pack.owner.to_string(),
            pack.description.clone(),
        ],
        Err(_) => [
            name.clone(),
            "-".to_owned(),
            format!("(invalid: see `agentd pack check {name}`)"),
        ],
    });
    terminal::print_table(&["PACK", "OWNER", "DESCRIPTION"], rows)?;
    Ok(exit::OK)
}

fn show_pack(args: &Args, name: &str, as_json: bool) -> CommandResult {
    let pack = Pack::load(name, &project::places(args)?)?;
    if as_json {
        terminal::print_json(&pack_json(&pack))?;
        return Ok(exit::OK);
    }
    terminal::write_data(|out| print_pack(&pack, out))?;
    terminal::note(format_args!("{} from {}", pack.name, pack.origin));
    Ok(exit::OK)
}

fn show_file(args: &Args, name: &str, file: &str, as_json: bool) -> CommandResult {
    let places = project::places(args)?;
    let pack = Pack::load(name, &places)?;
    let is_listed = pack.texts.contains_key(file)
        || ["pack.yaml", "actions.yaml", "cases.yaml"].contains(&file);

    let found = if is_listed {
        places.find(&format!("packs/{name}/{file}"))?
    } else {
        None
    };
    let Some(prose) = found else {
        let files: Vec<&str> = pack.texts.keys().map(String::as_str).collect();
        return Err(Error::new(
            ErrorKind::FileUnusable,
            format!("pack `{name}` has no file `{file}`"),
        )
        .with_hint(format!(
            "files of the pack: pack.yaml, {}",
            files.join(", ")
        ))
        .into());
    };

    if as_json {
        terminal::print_json(
            &json!({"origin": prose.origin, "owner": prose.owner.to_string(), "text": prose.text}),
        )?;
    } else {
        terminal::print_text(&prose.text)?;
        terminal::note(format_args!("from {}", prose.origin));
    }
    Ok(exit::OK)
}

fn pack_json(pack: &Pack) -> Value {
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
            "commands": pack.commands_of(mode).map(|(name, _)| name).collect::<Vec<_>>(),
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

fn target_name(target: &NextTarget) -> &str {
    match target {
        NextTarget::Mode(mode) => mode.as_str(),
        NextTarget::Done => "done",
        NextTarget::Stop => "stop",
    }
}

fn print_pack(pack: &Pack, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}\n", pack.name, pack.description)?;
    writeln!(out, "Modes (starts with {})", pack.start)?;
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
        let commands: Vec<String> = pack
            .commands_of(mode)
            .map(|(name, _)| format!("/{name}"))
            .collect();
        if !commands.is_empty() {
            writeln!(out, "  {:<width$}  commands: {}", "", commands.join(", "))?;
        }
    }

    writeln!(out, "\nLayers (format {})", pack.rendering.name())?;
    let width = pack
        .layers
        .iter()
        .map(|layer| layer.id.len())
        .max()
        .unwrap_or(0);
    for layer in &pack.layers {
        let class = format!("{:?}", layer.class).to_lowercase();
        let zone = format!("{:?}", layer.zone).to_lowercase();
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

/// Result of checking one pack.
struct CheckedPack {
    name: String,
    rows: Vec<BudgetRow>,
    findings: Vec<CheckFinding>,
}

/// A finding of `agentd pack check`, as `--json` prints it.
#[derive(Serialize)]
struct CheckFinding {
    severity: ProblemSeverity,
    file: String,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    hint: Option<String>,
}

impl CheckFinding {
    /// Creates an error for a whole file, or for a line of it.
    fn for_file(file: &str, line: Option<usize>, message: String) -> Self {
        Self {
            severity: ProblemSeverity::Error,
            file: file.to_owned(),
            line,
            column: None,
            message,
            hint: None,
        }
    }

    /// Returns `FILE:LINE:COLUMN`, as far as known.
    fn place(&self) -> String {
        let numbers = [self.line, self.column].into_iter().flatten();
        let numbers: String = numbers.map(|number| format!(":{number}")).collect();
        format!("{}{numbers}", self.file)
    }
}

impl From<PackProblem> for CheckFinding {
    fn from(problem: PackProblem) -> Self {
        Self {
            severity: problem.severity,
            file: problem.place.origin,
            line: Some(problem.place.line),
            column: Some(problem.place.column),
            message: problem.message,
            hint: problem.hint,
        }
    }
}

fn check(args: &Args, names: &[String], deny_warnings: bool, as_json: bool) -> CommandResult {
    let places = project::places(args)?;
    let names = if names.is_empty() {
        Pack::names(&places)
    } else {
        names.to_vec()
    };
    let mut checked = Vec::new();
    for name in names {
        checked.push(check_pack(name, &places)?);
    }

    let count = |severity: ProblemSeverity| {
        let findings = checked.iter().flat_map(|pack| &pack.findings);
        findings
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let errors = count(ProblemSeverity::Error);
    let warnings = count(ProblemSeverity::Warning);
    if as_json {
        let rows = checked
            .iter()
            .map(|pack| json!({"name": pack.name, "layers": pack.rows, "findings": pack.findings}));
        terminal::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        terminal::write_data(|out| checked.iter().try_for_each(|pack| print_checked(pack, out)))?;
        terminal::note(format_args!(
            "checked {}: {}, {}",
            humanize::count(checked.len() as u64, "pack"),
            humanize::count(errors as u64, "error"),
            humanize::count(warnings as u64, "warning")
        ));
    }
    let is_clean = errors == 0 && !(deny_warnings && warnings > 0);
    Ok(if is_clean { exit::OK } else { exit::FINDINGS })
}

/// Checks the files of a pack, the operations that it uses, its token budgets and its templates.
fn check_pack(name: String, places: &SearchPath) -> Result<CheckedPack, Error> {
    let report = Pack::check(&name, places)?;
    let unknown = unknown_operations(&report);
    let mut findings: Vec<CheckFinding> = report.problems.into_iter().map(Into::into).collect();
    findings.extend(unknown);

    let mut rows = Vec::new();
    if let Some(pack) = &report.pack {
        rows = budgets(pack, &Counter::new(TokenizerSpec::default()))?;
        findings.extend(over_budget(pack, &rows));
        findings.extend(template_findings(pack, &Templates::new(places.clone())));
    }
    Ok(CheckedPack {
        name,
        rows,
        findings,
    })
}

/// Returns a finding for each operation that agentd does not have, or that the pack uses in a list where it cannot run.
fn unknown_operations(report: &PackReport) -> Vec<CheckFinding> {
    let operations = Operations::shipped();
    let mut findings = Vec::new();
    for used in &report.operations {
        let name = used.operation.as_str();
        let error = match used.role {
            OperationRole::Before => operations.find_inspect(name).err(),
            OperationRole::After => operations.find_act(name).err(),
            OperationRole::Action => operations.find_requested(name).err(),
            // A gate may require the result of an operation of either kind.
            OperationRole::Gate if operations.is_registered(name) => None,
            OperationRole::Gate => operations.find_act(name).err(),
        };

        findings.extend(error.map(|error| {
            CheckFinding::from(PackProblem {
                severity: ProblemSeverity::Error,
                place: used.place.clone(),
                message: error.message().to_owned(),
                hint: error.hint().map(str::to_owned),
            })
        }));
    }
    findings
}

/// Returns one finding for each layer text that is over its budget, even if several modes use the text.
fn over_budget(pack: &Pack, rows: &[BudgetRow]) -> Vec<CheckFinding> {
    let mut groups: Vec<(&BudgetRow, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.is_over()) {
        let key = |row: &BudgetRow| (row.tier, row.layer.clone(), row.tokens, row.budget);
        match groups.iter_mut().find(|(first, _)| key(first) == key(row)) {
            Some((_, modes)) => modes.push(row.mode.as_str()),
            None => groups.push((row, vec![row.mode.as_str()])),
        }
    }

    let finding = |(row, modes): (&BudgetRow, Vec<&str>)| {
        let modes = if modes.len() > 1 && modes.len() == pack.modes.len() {
            "every mode".to_owned()
        } else {
            modes.join(", ")
        };
        let message = format!(
            "layer `{}` has {} tokens, over its budget of {} ({modes} at {} tier)",
            row.layer,
            row.tokens.unwrap_or_default(),
            row.budget.unwrap_or_default(),
            row.tier.name()
        );
        // The text of the full tier is NAME.md itself, so only smaller tiers can get a shorter file.
        let hint = match row.tier {
            Tier::Full => "shorten the text, or raise `budget` of the layer".to_owned(),
            tier => format!(
                "shorten the text, add a shorter one as NAME.{}.md, or raise `budget` of the layer",
                tier.name()
            ),
        };
        CheckFinding {
            hint: Some(hint),
            ..CheckFinding::for_file(&pack.origin, None, message)
        }
    };
    groups.into_iter().map(finding).collect()
}

/// Returns the findings of the system templates of a pack's modes.
fn template_findings(pack: &Pack, templates: &Templates) -> Vec<CheckFinding> {
    let is_pack_template = |name: &str| {
        pack.modes
            .values()
            .any(|spec| spec.templates.iter().any(|template| template == name))
    };

    let mut findings = Vec::new();
    for listed in templates
        .list()
        .iter()
        .filter(|listed| is_pack_template(&listed.name) && listed.active)
    {
        match &listed.template {
            Ok(template) => {
                findings.extend(
                    lint(pack, template)
                        .into_iter()
                        .map(|finding: LintFinding| {
                            let message = format!("{} ({})", finding.message, finding.rule);
                            CheckFinding::for_file(&listed.origin, finding.line, message)
                        }),
                );
            }
            Err(error) => {
                let message = error.message().to_owned();
                findings.push(CheckFinding::for_file(&listed.origin, None, message));
            }
        }
    }
    findings
}

fn print_checked(pack: &CheckedPack, out: &mut dyn Write) -> io::Result<()> {
    let columns = if pack.rows.is_empty() {
        ""
    } else {
        " (tokens / budget)"
    };
    writeln!(out, "{}{columns}", pack.name)?;

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
        let mode_rows: Vec<&BudgetRow> = pack.rows.iter().filter(|row| row.mode == *mode).collect();
        writeln!(
            out,
            "  {:<24}{:>14}{:>14}{:>14}",
            mode.as_str(),
            "FULL",
            "MEDIUM",
            "MINIMAL"
        )?;

        for row in mode_rows.iter().filter(|row| row.tier == Tier::Full) {
            let cell = |tier: Tier| {
                mode_rows
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
        let place = finding.place();
        writeln!(out, "  {}: {place}: {}", finding.severity, finding.message)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "    hint: {hint}")?;
        }
    }
    if pack.findings.is_empty() {
        writeln!(out, "  no problems")?;
    }
    Ok(())
}

fn create_pack(args: &Args, name: &str, as_json: bool) -> CommandResult {
    let name = Mode::new(name)
        .map_err(|_| {
            Error::new(
                ErrorKind::NameInvalid,
                format!("invalid pack name {name:?}"),
            )
            .with_hint("use lower-case letters, digits, `-` and `_`, such as `letters`")
        })?
        .to_string();
    let places = project::places(args)?;
    if let Ok(pack) = Pack::load(&name, &places)
        && pack.owner != ProseOwner::Project
    {
        let message = format!("pack `{name}` already exists: {}", pack.origin);
        return Err(Error::new(ErrorKind::NameInvalid, message)
            .with_hint(format!(
                "choose another name; to customize a file, start from `agentd pack show {name} FILE`"
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
            terminal::write_data(|out| {
                writeln!(out, "{} {path}", if created { "created" } else { "kept" })
            })?;
        }
    }
    if as_json {
        terminal::print_json(&files)?;
    } else {
        terminal::note(format_args!(
            "show it with `agentd pack show {name}`; try it with `agentd prompt draft \"…\" --pack {name}`"
        ));
    }
    Ok(exit::OK)
}
