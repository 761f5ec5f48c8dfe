//! How a prompt came to be: which template won, where values came from, what each block takes of the window and why.

use agentd::compose::{Calibration, FitBlock, FitReport};
use agentd::models::{CountKind, Reliability, Share, grouped};
use agentd::orchestrator::{Assembly, Origin};

use super::prompt::source;
use crate::terminal;

/// The width of the bar that stands for the window.
const BAR: u64 = 60;

/// Tells on stderr how a prompt came to be.
pub(super) fn explain(assembly: &Assembly) {
    template(assembly);
    for (index, used) in assembly.draft.variables.iter().enumerate() {
        let fate = match (used.bytes, used.required) {
            (Some(bytes), _) => {
                format!(
                    "{bytes:>8} bytes  {}",
                    source(assembly, &used.name).unwrap_or("the pack")
                )
            }
            (None, true) => "       - missing; the prompt says so in its place".to_owned(),
            (None, false) => "       - not given, and not required".to_owned(),
        };
        terminal::row(
            if index == 0 { "variables" } else { "" },
            format_args!("{:<18} {fate}", used.name),
        );
    }
    let report = &assembly.draft.fit_report;
    blocks(report);
    window(report);
    if let Some(model) = &assembly.model {
        let measured = &assembly.measured;
        terminal::row(
            "xml",
            reliability(
                model.xml_reliability,
                assembly.reliability,
                measured.protocol,
            ),
        );
        if let Some(tokens) = calibration(&measured.calibration) {
            terminal::row("measured", tokens);
        }
    }
}

/// Says how well a model keeps to the protocol, and where that is known from.
pub(super) fn reliability(reliability: Reliability, origin: Origin, protocol: Share) -> String {
    let Share { right, all } = protocol;
    let name = reliability.name();
    match origin {
        Origin::Measured => format!("{name}, measured: {right} of {all} probe turns were right"),
        Origin::Set => format!("{name}, as the settings say"),
        Origin::Guessed => format!("{name}, guessed; `agentd probe AGENT` measures it"),
    }
}

/// Says how our counts compare with those that an agent reports; `None` if nothing was measured.
pub(super) fn calibration(found: &Calibration) -> Option<String> {
    let Calibration {
        factor,
        overhead,
        samples,
        cut,
    } = *found;
    let told = match (samples, found.used()) {
        (0, _) if cut == 0 => return None,
        (0, _) => "nothing of tokens".to_owned(),
        (_, Some(_)) => format!(
            "{factor:.2} × our count + {} tokens beside it",
            grouped(overhead)
        ),
        (_, None) => "too little of tokens to be used".to_owned(),
    };
    let cut = if cut > 0 {
        format!(", and {cut} that seem cut")
    } else {
        String::new()
    };
    Some(format!("{told} ({samples} samples{cut})"))
}

fn template(assembly: &Assembly) {
    let Some(found) = &assembly.template else {
        return;
    };
    let template = &found.template.text;
    let why = if found.fallback {
        ", for want of one for this agent"
    } else {
        ""
    };
    terminal::row(
        "template",
        format_args!("{} ({}){why}", template.name, template.origin),
    );
    for (index, place) in found.searched.iter().enumerate() {
        let mark = if *place == template.origin {
            "found"
        } else {
            "-"
        };
        terminal::row(
            if index == 0 { "searched" } else { "" },
            format_args!("{mark:<5} {place}"),
        );
    }
}

fn blocks(report: &FitReport) {
    let kept_width = report
        .blocks
        .iter()
        .map(|row| kept(row).len())
        .max()
        .unwrap_or(0)
        .max(4);
    let names = report
        .blocks
        .iter()
        .map(|row| &row.block)
        .chain(report.absent.iter().map(|absent| &absent.layer));
    let width = names
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(5, 40);
    let head = format!(
        "{:<width$} {:>8} {:>8} {:<8} {:<kept_width$} SOURCE",
        "BLOCK", "TOKENS", "BYTES", "LENGTH", "KEPT"
    );
    terminal::row("blocks", head);
    for row in &report.blocks {
        let tokens = row.tokens.map_or_else(|| "-".to_owned(), grouped);
        let kept = kept(row);
        let bytes = grouped(row.bytes as u64);
        let (block, rung, source) = (&row.block, row.rung, &row.source);
        terminal::row(
            "",
            format_args!(
                "{block:<width$} {tokens:>8} {bytes:>8} {rung:<8} {kept:<kept_width$} {source}"
            ),
        );
        if let Some(note) = note(row, report) {
            terminal::row("", format_args!("{:<width$} └ {note}", ""));
        }
    }
    for absent in &report.absent {
        let (layer, why) = (&absent.layer, &absent.why);
        terminal::row(
            "",
            format_args!(
                "{layer:<width$} {:>8} {:>8} {:<8} {:<kept_width$} {why}",
                "-", "-", "none", ""
            ),
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
fn note(row: &FitBlock, report: &FitReport) -> Option<String> {
    // The pack's figures are o200k counts, as are those of a report without a model.
    let comparable = report.model.is_none() || report.count == CountKind::Exact;
    let meant = row
        .tokens
        .zip(row.target)
        .filter(|(tokens, target)| tokens > target && comparable);
    row.why.clone().or_else(|| {
        meant.map(|(_, target)| format!("the pack means it to take {}", grouped(target)))
    })
}

fn window(report: &FitReport) {
    terminal::row(
        "bytes",
        format_args!(
            "{} of at most {}",
            grouped(report.bytes as u64),
            grouped(report.max_bytes as u64)
        ),
    );
    let tokens = report.tokens.unwrap_or_default();
    let (Some(window), Some(budget)) = (report.window, report.budget) else {
        terminal::row(
            "tokens",
            format_args!(
                "{} counted by o200k; --model ID counts for a model and fits its window",
                grouped(tokens)
            ),
        );
        return;
    };
    let kind = match report.count {
        CountKind::Exact => "exact",
        CountKind::Calibrated => "calibrated, upper bound",
        CountKind::Guess => "a guess, upper bound",
    };
    let model = report.model.as_deref().unwrap_or_default();
    terminal::row(
        "model",
        format_args!("{model}: {} tier, counts {kind}", report.tier.name()),
    );
    let share = |part: u64| usize::try_from((part * BAR).div_ceil(window.max(1))).unwrap_or(0);
    let (used, reply) = (share(tokens), share(report.reserve));
    let free = usize::try_from(BAR)
        .unwrap_or(0)
        .saturating_sub(used + reply);
    terminal::row(
        "window",
        format_args!(
            "{}{}{}",
            "█".repeat(used),
            "░".repeat(free),
            "▒".repeat(reply)
        ),
    );
    terminal::row(
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
