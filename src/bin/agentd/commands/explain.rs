//! How a prompt came to be: which template won, where values came from, what each block takes of the window and why.

use agentd::compose::{FitBlock, FitReport};
use agentd::models::CountKind;
use agentd::orchestrator::Assembly;

use super::prompt::source;
use crate::out;

/// The width of the bar that stands for the window.
const BAR: u64 = 60;

/// Tells on stderr how a prompt came to be.
pub(super) fn explain(assembly: &Assembly) {
    template(assembly);
    for (index, used) in assembly.draft.variables.iter().enumerate() {
        let fate = match (used.bytes, used.required) {
            (Some(bytes), _) => {
                format!("{bytes:>8} bytes  {}", source(assembly, &used.name).unwrap_or("the pack"))
            }
            (None, true) => "       - missing; the prompt says so in its place".to_owned(),
            (None, false) => "       - not given, and not required".to_owned(),
        };
        out::row(if index == 0 { "variables" } else { "" }, format_args!("{:<18} {fate}", used.name));
    }
    let report = &assembly.draft.fit_report;
    blocks(report);
    window(report);
}

fn template(assembly: &Assembly) {
    let Some(found) = &assembly.template else { return };
    let template = &found.template.text;
    let why = if found.fallback { ", for want of one for this agent" } else { "" };
    out::row("template", format_args!("{} ({}){why}", template.name, template.origin));
    for (index, place) in found.searched.iter().enumerate() {
        let mark = if *place == template.origin { "found" } else { "-" };
        out::row(if index == 0 { "searched" } else { "" }, format_args!("{mark:<5} {place}"));
    }
}

fn blocks(report: &FitReport) {
    let kept_width = report.blocks.iter().map(|row| kept(row).len()).max().unwrap_or(0).max(4);
    let names =
        report.blocks.iter().map(|row| &row.block).chain(report.absent.iter().map(|absent| &absent.layer));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).clamp(5, 40);
    let head = format!(
        "{:<width$} {:>8} {:>8} {:<8} {:<kept_width$} SOURCE",
        "BLOCK", "TOKENS", "BYTES", "LENGTH", "KEPT"
    );
    out::row("blocks", head);
    for row in &report.blocks {
        let tokens = row.tokens.map_or_else(|| "-".to_owned(), grouped);
        let kept = kept(row);
        let bytes = grouped(row.bytes as u64);
        let (block, rung, source) = (&row.block, row.rung, &row.source);
        out::row(
            "",
            format_args!("{block:<width$} {tokens:>8} {bytes:>8} {rung:<8} {kept:<kept_width$} {source}"),
        );
        if let Some(note) = note(row, report.count) {
            out::row("", format_args!("{:<width$} └ {note}", ""));
        }
    }
    for absent in &report.absent {
        let (layer, why) = (&absent.layer, &absent.why);
        out::row(
            "",
            format_args!("{layer:<width$} {:>8} {:>8} {:<8} {:<kept_width$} {why}", "-", "-", "none", ""),
        );
    }
}

/// Says how many of its items a block has kept, if it has several.
fn kept(row: &FitBlock) -> String {
    match row.of {
        1 => String::new(),
        of => format!("{} of {}", grouped(row.kept as u64), grouped(of as u64)),
    }
}

/// Says why a block is shorter than it could be, or that it is longer than its layer is meant to be.
fn note(row: &FitBlock, count: CountKind) -> Option<String> {
    let meant =
        row.tokens.zip(row.target).filter(|(tokens, target)| tokens > target && count == CountKind::Exact);
    row.why
        .clone()
        .or_else(|| meant.map(|(_, target)| format!("the pack means it to take {}", grouped(target))))
}

fn window(report: &FitReport) {
    out::row(
        "bytes",
        format_args!("{} of at most {}", grouped(report.bytes as u64), grouped(report.max_bytes as u64)),
    );
    let tokens = report.tokens.unwrap_or_default();
    let kind = match report.count {
        CountKind::Exact => "exact",
        CountKind::Calibrated => "calibrated, upper bound",
        CountKind::Guess => "a guess, upper bound",
    };
    let (Some(window), Some(budget)) = (report.window, report.budget) else {
        out::row("tokens", format_args!("{} ({kind}); --model ID fits them into a window", grouped(tokens)));
        return;
    };
    let model = report.model.as_deref().unwrap_or_default();
    out::row("model", format_args!("{model}: {} tier, counts {kind}", report.tier.name()));
    let share = |part: u64| usize::try_from((part * BAR).div_ceil(window.max(1))).unwrap_or(0);
    let (used, reply) = (share(tokens), share(report.reserve));
    let free = usize::try_from(BAR).unwrap_or(0).saturating_sub(used + reply);
    out::row("window", format_args!("{}{}{}", "█".repeat(used), "░".repeat(free), "▒".repeat(reply)));
    out::row(
        "",
        format_args!(
            "█ prompt {}  ░ free {}  ▒ reply {}{}  = {}",
            grouped(tokens),
            grouped(budget.saturating_sub(tokens)),
            grouped(report.reserve),
            if report.overhead > 0 {
                format!("  + beside {}", grouped(report.overhead))
            } else {
                String::new()
            },
            grouped(window)
        ),
    );
}

/// Returns a number with its thousands set apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
