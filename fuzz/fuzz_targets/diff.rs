//! Applies unified diffs as a reply's `<content_update format="diff">` does: real ones and arbitrary text.

#![no_main]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use agentd::models::{Effect, OperationId, SessionId, TurnStart, UpdateFormat};
use agentd::ops::{Operations, Site};
use diffy::DiffOptions;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const TARGET: &str = "proposal.md";

/// Lines that files are made of: a few that repeat, and all that mean something in a diff.
const LINES: [&str; 16] = [
    "",
    "a",
    "b",
    "c",
    "a b",
    " a",
    "-a",
    "+a",
    "@@ -1 +1 @@",
    "--- a/x",
    "+++ b/x",
    "\\ No newline",
    "```",
    "é",
    "a\r",
    "\r",
];

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    before: Vec<u8>,
    after: Vec<u8>,
    ends_before: bool,
    ends_after: bool,
    context: u8,
    arbitrary_diff: &'a str,
}

static SESSION: LazyLock<SessionId> = LazyLock::new(|| SessionId::new("fuzz").unwrap());

static OPERATIONS: LazyLock<Operations> = LazyLock::new(Operations::shipped);

static STARTED: LazyLock<TurnStart> = LazyLock::new(|| {
    serde_json::from_value(json!({
        "turn": 1, "mode": "plan", "agent": "fuzz", "pack": "sdd", "pack_hash": "", "permission": "read-only",
        "named": true, "prompt": [], "prompt_bytes": 0, "fit": "", "repairs": 0, "targets": {},
    }))
    .unwrap()
});

fuzz_target!(|input: Input<'_>| {
    let before = file(&input.before, input.ends_before);
    let after = file(&input.after, input.ends_after);

    check_real_diff(&before, &after, usize::from(input.context % 8));
    check_arbitrary_diff(&before, input.arbitrary_diff);
});

fn file(lines: &[u8], ends_with_newline: bool) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| LINES[usize::from(*line) % LINES.len()]).collect();
    let mut text = lines.join("\n");
    if ends_with_newline && !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The diff between two texts, applied to the first, gives the second or is refused.
///
/// A refusal is allowed where a hunk fits in several places. With the whole file as context there is one place only.
fn check_real_diff(before: &str, after: &str, context: usize) {
    // Unless the file itself has lone carriage returns, one before a line end of the diff is part of that line end.
    if before == after || (after.ends_with('\r') && line_ends(before) != LineEnds::Mixed) {
        return;
    }
    let expected = with_line_ends_of(before, after);
    for (context, must_apply) in [(context, false), (usize::MAX / 4, true)] {
        let mut options = DiffOptions::new();
        options.set_context_len(context);
        options.set_original_filename(format!("a/{TARGET}"));
        options.set_modified_filename(format!("b/{TARGET}"));
        let diff = options.create_patch(before, after).to_string();
        match apply(before, &diff) {
            Ok(content) => assert_eq!(content.as_deref(), Some(expected.as_str()), "{diff}"),
            Err(reason) => assert!(!must_apply || before.is_empty(), "{reason}\n{diff}"),
        }
    }
}

/// A diff without a hunk is refused; whatever is applied keeps lines of the file and adds lines of the diff.
fn check_arbitrary_diff(before: &str, diff: &str) {
    let Ok(content) = apply(before, diff) else { return };
    assert!(diff.lines().any(|line| line.starts_with("@@")), "applied without a hunk");

    let mut known: BTreeSet<&str> = before.lines().collect();
    known.extend(diff.lines().filter_map(|line| line.strip_prefix('+')));
    for line in content.unwrap_or_default().lines() {
        assert!(known.contains(line), "{line:?} is neither in the file nor in the diff");
    }
}

/// Plans a file with a content and then the diff, as two updates of the same target.
fn apply(before: &str, diff: &str) -> Result<Option<String>, String> {
    let update = |content: &str, format| Effect {
        operation: OperationId::FilesWrite,
        target: TARGET.to_owned(),
        content: content.to_owned(),
        format,
    };
    let site = Site { root: Path::new("does-not-exist"), session: Some(&SESSION), change: None, review: None };
    let updates = vec![update(before, UpdateFormat::Whole), update(diff, UpdateFormat::Diff)];

    let mut steps = OPERATIONS.plan_effects(&site, updates, &STARTED).unwrap();
    let step = steps.pop().unwrap();
    match step.refused {
        Some(reason) => Err(reason),
        None => Ok(step.content),
    }
}

#[derive(PartialEq)]
enum LineEnds {
    Lf,
    CrLf,
    Mixed,
}

fn line_ends(text: &str) -> LineEnds {
    let pairs = text.matches("\r\n").count();
    match (text.matches('\r').count(), text.matches('\n').count()) {
        (0, _) => LineEnds::Lf,
        (returns, newlines) if returns == pairs && newlines == pairs => LineEnds::CrLf,
        _ => LineEnds::Mixed,
    }
}

/// Returns a text with the line ends of the file it replaces, as applying a diff keeps them.
fn with_line_ends_of(before: &str, text: &str) -> String {
    match line_ends(before) {
        LineEnds::Lf => text.replace("\r\n", "\n"),
        LineEnds::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
        LineEnds::Mixed => text.to_owned(),
    }
}
