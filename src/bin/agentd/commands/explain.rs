//! `agentd prompt --explain`: the template, the sources of variables, and the size of each block of a prompt.

use agentd::compose::{Calibration, FitBlock, FitReport};
use agentd::models::{ComplianceRate, CountKind, Reliability, grouped};
use agentd::orchestrator::{Assembly, Origin};
use unicode_width::UnicodeWidthStr;

use super::prompt::find_source;
use crate::humanize;
use crate::terminal::{self, pad};

/// Width of the bar that shows the use of the context window.
const BAR_COLUMNS: u64 = 60;

/// Explains on stderr how a prompt was built.
pub(super) fn explain_prompt(assembly: &Assembly) {
    print_template(assembly);

    for (index, used) in assembly.draft.variables.iter().enumerate() {
        let source = match (used.bytes, used.required) {
            (Some(bytes), _) => {
                format!(
                    "{bytes:>8} bytes  {}",
                    find_source(assembly, &used.name).unwrap_or("the pack")
                )
            }
            (None, true) => "       - missing; the prompt has a note in its place".to_owned(),
            (None, false) => "       - not set, optional".to_owned(),
        };
        terminal::eprint_row(
            if index == 0 { "variables" } else { "" },
            format_args!("{:<18} {source}", used.name),
        );
    }

    let report = &assembly.draft.fit_report;
    print_blocks(report);
    print_window(report);

    if let Some(model) = &assembly.model {
        let measured = &assembly.measured;
        terminal::eprint_row(
            "xml",
            describe_reliability(
                model.xml_reliability,
                assembly.reliability,
                measured.protocol,
            ),
        );
        if let Some(tokens) = describe_calibration(&measured.calibration) {
            terminal::eprint_row("measured", tokens);
        }
    }
}

/// Describes how reliably a model follows the protocol, with the source of that value.
pub(super) fn describe_reliability(
    reliability: Reliability,
    origin: Origin,
    protocol: ComplianceRate,
) -> String {
    let ComplianceRate { right, all } = protocol;
    let name = reliability.name();
    match origin {
        Origin::Measured => format!("{name} (measured: {right} of {all} probe turns correct)"),
        Origin::Set => format!("{name} (from the settings)"),
        Origin::Guessed => format!("{name} (guessed; measure it with `agentd probe AGENT`)"),
    }
}

/// Compares the token counts of agentd with those that the agent reports; `None` without measurements.
pub(super) fn describe_calibration(calibration: &Calibration) -> Option<String> {
    let Calibration {
        factor,
        overhead,
        samples,
        cut,
    } = *calibration;

    let tokens = match (samples, calibration.used()) {
        (0, _) if cut == 0 => return None,
        (0, _) => "no token counts".to_owned(),
        (_, Some(_)) => format!(
            "{factor:.2} × agentd's count + {} tokens overhead",
            grouped(overhead)
        ),
        (_, None) => "too few samples to use".to_owned(),
    };
    let cut = if cut > 0 {
        format!(
            ", {} probably truncated",
            humanize::count(cut as u64, "prompt")
        )
    } else {
        String::new()
    };
    let samples = humanize::count(samples as u64, "sample");
    Some(format!("{tokens} ({samples}{cut})"))
}

fn print_template(assembly: &Assembly) {
    let Some(found) = &assembly.template else {
        return;
    };
    let template = &found.template.text;
    let why = if found.fallback {
        " (no template for this agent)"
    } else {
        ""
    };
    terminal::eprint_row(
        "template",
        format_args!("{} ({}){why}", template.name, template.origin),
    );

    for (index, place) in found.searched.iter().enumerate() {
        let mark = if *place == template.origin {
            "found"
        } else {
            "-"
        };
        terminal::eprint_row(
            if index == 0 { "searched" } else { "" },
            format_args!("{mark:<5} {place}"),
        );
    }
}

fn print_blocks(report: &FitReport) {
    let kept_width = report
        .blocks
        .iter()
        .map(|row| describe_kept(row).width())
        .max()
        .unwrap_or(0)
        .max(4);
    let names = report
        .blocks
        .iter()
        .map(|row| &row.block)
        .chain(report.absent.iter().map(|absent| &absent.layer));
    let width = names
        .map(|name| name.width())
        .max()
        .unwrap_or(0)
        .clamp(5, 40);

    let headings = format!(
        "{:<width$} {:>8} {:>8} {:<8} {:<kept_width$} SOURCE",
        "BLOCK", "TOKENS", "BYTES", "LENGTH", "KEPT"
    );
    terminal::eprint_row("blocks", headings);
    for row in &report.blocks {
        let tokens = row.tokens.map_or_else(|| "-".to_owned(), grouped);
        let block = pad(&row.block, width);
        let bytes = grouped(row.bytes as u64);
        let kept = pad(&describe_kept(row), kept_width);
        terminal::eprint_row(
            "",
            format_args!(
                "{block} {tokens:>8} {bytes:>8} {:<8} {kept} {}",
                row.rung, row.source
            ),
        );
        if let Some(note) = describe_size(row, report) {
            terminal::eprint_row("", format_args!("{:<width$} └ {note}", ""));
        }
    }
    for absent in &report.absent {
        let layer = pad(&absent.layer, width);
        terminal::eprint_row(
            "",
            format_args!(
                "{layer} {:>8} {:>8} {:<8} {:<kept_width$} {}",
                "-", "-", "none", "", absent.why
            ),
        );
    }
}

/// Returns how many of its items a block kept, if it has several.
fn describe_kept(row: &FitBlock) -> String {
    match row.of {
        1 => String::new(),
        of => format!("{} of {}", grouped(row.kept as u64), grouped(of as u64)),
    }
}

/// Returns the reason why a block was shortened, or a note if it exceeds the target of its layer.
fn describe_size(row: &FitBlock, report: &FitReport) -> Option<String> {
    // Targets of a pack are o200k counts, as are the counts of a report without a model.
    let is_comparable = report.model.is_none() || report.count == CountKind::Exact;
    let over_target = row
        .tokens
        .zip(row.target)
        .filter(|(tokens, target)| tokens > target && is_comparable);
    row.why.clone().or_else(|| {
        over_target.map(|(_, target)| {
            let target = grouped(target);
            format!("over the pack's target of {target} tokens")
        })
    })
}

fn print_window(report: &FitReport) {
    terminal::eprint_row(
        "bytes",
        format_args!(
            "{} of at most {}",
            grouped(report.bytes as u64),
            grouped(report.max_bytes as u64)
        ),
    );

    let tokens = report.tokens.unwrap_or_default();
    let (Some(window), Some(budget)) = (report.window, report.budget) else {
        terminal::eprint_row(
            "tokens",
            format_args!(
                "{} (o200k); pass --model ID to count for a model and fit its window",
                grouped(tokens)
            ),
        );
        return;
    };

    let kind = match report.count {
        CountKind::Exact => "exact",
        CountKind::Calibrated => "calibrated, upper bound",
        CountKind::Guess => "guessed, upper bound",
    };
    let model = report.model.as_deref().unwrap_or_default();
    terminal::eprint_row(
        "model",
        format_args!("{model}: {} tier, counts {kind}", report.tier.name()),
    );

    let share =
        |part: u64| usize::try_from((part * BAR_COLUMNS).div_ceil(window.max(1))).unwrap_or(0);
    let used = share(tokens);
    let reply = share(report.reserve);
    let free = usize::try_from(BAR_COLUMNS)
        .unwrap_or(0)
        .saturating_sub(used + reply);
    terminal::eprint_row(
        "window",
        format_args!(
            "{}{}{}",
            "█".repeat(used),
            "░".repeat(free),
            "▒".repeat(reply)
        ),
    );
    terminal::eprint_row(
        "",
        format_args!(
            "█ prompt {}  ░ free {}  ▒ reply {}{}  = {} tokens",
            grouped(tokens),
            grouped(budget.saturating_sub(tokens)),
            grouped(report.reserve),
            if report.overhead > 0 {
                format!("  + overhead {}", grouped(report.overhead))
            } else {
                String::new()
            },
            grouped(window)
        ),
    );
}
