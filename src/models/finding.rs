//! Findings of reviewers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ActionSpec, Parameter, StepOutcome};
use crate::text::terminal::escape_file_name;

/// A finding of a review. While it is open and not minor, the review cannot pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Id, such as `V1`, unique among the findings of a mode.
    pub id: String,
    #[expect(missing_docs, reason = "the name says it all")]
    pub severity: FindingSeverity,
    /// Severity as written by the reviewer, if it is not a known word; the finding is then major.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity_word: Option<String>,
    /// Path relative to the root of the project or to the folder of the change, or another place in the reviewer's
    /// words.
    pub file: Option<String>,
    /// Line in the file, from 1.
    pub line: Option<u64>,
    /// True if the file and the line exist; `None` if the finding names no file.
    pub place_found: Option<bool>,
    /// Heading of the finding in the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the problem.
    pub problem: String,
    /// Suggested fix.
    pub remedy: Option<String>,
    /// Status after the turn.
    pub status: FindingStatus,
}

/// Severity of a finding. Later variants are more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Does not block the review.
    Minor,
    /// Blocks the review until it is settled.
    Major,
    /// Blocks the review until it is settled.
    Critical,
}

impl FindingSeverity {
    /// Returns the name of the severity in data, such as `major`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Critical => "critical",
        }
    }
}

/// Status that a turn gives a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// Reported for the first time, and open.
    New,
    /// Reported in an earlier round, and still open.
    Open,
    /// Reported in an earlier round and not mentioned in this one; still open.
    Unanswered,
    /// Resolved, according to the reviewer.
    Settled,
}

impl Finding {
    /// Returns true unless the finding is settled.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status != FindingStatus::Settled
    }

    /// Returns true if the finding is open and at least major.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        self.is_open() && self.severity >= FindingSeverity::Major
    }

    /// Returns the place in the format of compilers: `file:line`, or only the file; `None` without a file.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let file = escape_file_name(self.file.as_ref()?);
        Some(
            self.line
                .map_or_else(|| file.to_string(), |line| format!("{file}:{line}")),
        )
    }

    /// Returns the severity, followed by the reviewer's word for it if that is not a known one.
    #[must_use]
    pub fn severity_words(&self) -> String {
        let name = self.severity.name();
        self.severity_word
            .as_ref()
            .map_or_else(|| name.to_owned(), |word| format!("{name} ({word})"))
    }
}

impl fmt::Display for Finding {
    /// Writes one line in the format of compiler messages, such as
    /// `src/login.rs:42: major: an empty password is accepted [V1]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place() {
            write!(f, "{place}: ")?;
        }
        let text = self.title.as_deref().unwrap_or(&self.problem);
        let words: Vec<&str> = text.split_whitespace().collect();
        write!(
            f,
            "{}: {} [{}]",
            self.severity_words(),
            words.join(" "),
            self.id
        )?;
        if self.is_open() && self.place_found == Some(false) {
            f.write_str(" (place not found)")?;
        }
        Ok(())
    }
}

/// Sorts findings: open findings before settled ones, and the most severe first.
pub fn sort_findings(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| (!finding.is_open(), std::cmp::Reverse(finding.severity)));
}

/// Returns the result of `findings.note`: `Blocking` if a critical or major finding is open, `Open` if only minor
/// findings are open, or `None` if no finding is open.
#[must_use]
pub fn findings_result(findings: &[Finding]) -> StepOutcome {
    if findings.iter().any(Finding::is_blocking) {
        StepOutcome::Blocking
    } else if findings.iter().any(Finding::is_open) {
        StepOutcome::Open
    } else {
        StepOutcome::None
    }
}

/// Returns a summary such as `1 critical and 2 major findings are open; not answered: V1`.
#[must_use]
pub fn findings_summary(findings: &[Finding]) -> String {
    let open = || findings.iter().filter(|finding| finding.is_open());
    let counts = [
        FindingSeverity::Critical,
        FindingSeverity::Major,
        FindingSeverity::Minor,
    ]
    .map(|severity| {
        let count = open()
            .filter(|finding| finding.severity == severity)
            .count();
        (count > 0).then(|| format!("{count} {}", severity.name()))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let mut summary = match (counts.as_slice(), open().count()) {
        ([], _) => "no finding is open".to_owned(),
        ([one], 1) => format!("{one} finding is open"),
        ([rest @ .., last], _) if !rest.is_empty() => {
            format!("{} and {last} findings are open", rest.join(", "))
        }
        (all, _) => format!("{} findings are open", all.join(", ")),
    };

    let unanswered: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.status == FindingStatus::Unanswered)
        .map(|finding| finding.id.as_str())
        .collect();
    if !unanswered.is_empty() {
        summary.push_str(&format!("; not answered: {}", unanswered.join(", ")));
    }
    summary
}

/// Returns a summary of the changes since the previous round, such as `1 settled, 2 new, 0 still open`; `None` if the
/// previous round had no findings.
#[must_use]
pub fn findings_progress(findings: &[Finding]) -> Option<String> {
    let count = |statuses: &[FindingStatus]| {
        findings
            .iter()
            .filter(|finding| statuses.contains(&finding.status))
            .count()
    };
    let settled = count(&[FindingStatus::Settled]);
    let still_open = count(&[FindingStatus::Open, FindingStatus::Unanswered]);
    let new = count(&[FindingStatus::New]);
    (settled + still_open > 0)
        .then(|| format!("{settled} settled, {new} new, {still_open} still open"))
}

/// A finding as written by a reviewer in an action or in a report, with uninterpreted values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the names are those of the action's parameters and of the report's list items"
)]
pub struct WrittenFinding {
    pub id: Option<String>,
    pub severity: Option<String>,
    pub file: Option<String>,
    pub line: Option<String>,
    pub title: Option<String>,
    pub problem: Option<String>,
    pub remedy: Option<String>,
    pub status: Option<String>,
}

/// The pack's words for severities and statuses of findings.
#[derive(Clone, Debug, Default)]
pub struct FindingWords {
    severity: Option<Parameter>,
    status: Option<Parameter>,
}

impl FindingWords {
    /// Reads the words from the parameters `severity` and `status` of an action.
    #[must_use]
    pub fn new(action: &ActionSpec) -> Self {
        let parameter = |name: &str| action.parameters.get(name).cloned();
        Self {
            severity: parameter("severity"),
            status: parameter("status"),
        }
    }

    /// Returns the highest severity that a string mentions; `None` if it mentions none.
    #[must_use]
    pub fn known_severity(&self, text: &str) -> Option<FindingSeverity> {
        let all = [
            FindingSeverity::Minor,
            FindingSeverity::Major,
            FindingSeverity::Critical,
        ];
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '-');
        let severities = words.filter_map(|word| {
            let word = self
                .severity
                .as_ref()
                .and_then(|parameter| parameter.known_value(word))
                .unwrap_or(word);
            all.into_iter()
                .find(|severity| severity.name().eq_ignore_ascii_case(word))
        });
        severities.max()
    }

    /// Parses a status: `Some(true)` if the finding is settled, `Some(false)` if it is open, `None` if that is unclear.
    ///
    /// The text must start with a known word. An explanation may follow after a period, a colon, a semicolon, a dash or
    /// a parenthesis. After a comma or only a space, it might restrict the status, as in `fixed in part`, so the status
    /// is unclear.
    #[must_use]
    pub fn known_status(&self, text: &str) -> Option<bool> {
        let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
        let (word, rest) = text.split_at(
            text.find(|c: char| !c.is_alphanumeric())
                .unwrap_or(text.len()),
        );
        let explanation =
            rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '_'));
        let is_alone = !explanation.contains(|c: char| c.is_alphanumeric() || c == '?');
        if !is_alone && !explanation.starts_with(['.', ':', ';', '(', '–', '—', '-']) {
            return None;
        }

        let word = self
            .status
            .as_ref()
            .and_then(|parameter| parameter.known_value(word))
            .unwrap_or(word);
        if word.eq_ignore_ascii_case("settled") {
            Some(true)
        } else {
            word.eq_ignore_ascii_case("open").then_some(false)
        }
    }
}

/// Returns the line number in a string: its first number, as in `236`, `L236`, `236-237`, `236:5` and `lines 12-14`.
#[must_use]
pub fn read_line_number(text: &str) -> Option<u64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let digits = text[start..].split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|line| *line > 0)
}

/// Returns the file and the line in a string such as `src/login.rs`, `` `src/login.rs:42` `` or `src/login.rs, line 42`.
/// A string without a file name, such as `API section`, is returned in place of the file.
#[must_use]
pub fn read_place(text: &str) -> (Option<String>, Option<u64>) {
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '[' | ']');
    let text = text.trim_matches(|c: char| is_mark(c) && c != '_');
    let code = text.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    let (name, rest) = code.unwrap_or_else(|| {
        let end = text
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '('))
            .unwrap_or(text.len());
        text.split_at(end)
    });

    let (path, line) = match line_suffix(name) {
        Some((path, line)) => (path, Some(line)),
        None => (name.trim_end_matches([':', '.']), line_after_word(rest)),
    };
    let is_path =
        path.contains(['/', '.']) || code.is_some() || line.is_some() || rest.trim().is_empty();
    if !is_path {
        return (Some(text.replace('`', "")), None);
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    if path.is_empty() {
        (None, line)
    } else {
        (Some(path.to_owned()), line)
    }
}

/// Splits `src/login.rs:42`, `src/login.rs:L42` and `src/login.rs#L42` into path and line.
fn line_suffix(name: &str) -> Option<(&str, u64)> {
    name.char_indices()
        .filter(|(_, c)| matches!(c, ':' | '#'))
        .find_map(|(at, _)| {
            let rest = name[at + 1..].trim_start_matches(['L', 'l']);
            let line = read_line_number(rest)
                .filter(|_| rest.starts_with(|c: char| c.is_ascii_digit()))?;
            Some((&name[..at], line))
        })
}

/// Returns the line number in the text after a file name: `, line 42`, ` (lines 42-44)`, ` L42`, `:42`.
fn line_after_word(rest: &str) -> Option<u64> {
    let words = rest
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut words = words.take(2);
    let first = words.next()?;
    let lower = first.to_ascii_lowercase();
    if matches!(lower.as_str(), "line" | "lines" | "l") {
        return words.next().and_then(read_line_number);
    }
    let digits = lower.strip_prefix('l').unwrap_or(&lower);
    let is_line =
        digits.bytes().all(|b| b.is_ascii_digit()) && (digits != lower || rest.starts_with(':'));
    is_line.then(|| read_line_number(digits)).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words() -> FindingWords {
        let action: ActionSpec = serde_json::from_value(json!({
            "description": "x",
            "parameters": {
                "severity": {
                    "type": "string",
                    "enum": ["critical", "major", "minor"],
                    "aliases": {"critical": ["blocking", "blocker"], "major": ["high"], "minor": ["nit", "non-blocking"]},
                },
                "status": {"type": "string", "enum": ["open", "settled"], "aliases": {"settled": ["fixed"]}},
            },
        }))
        .unwrap();
        FindingWords::new(&action)
    }

    #[test]
    fn a_line_is_the_first_number() {
        let cases = [
            ("236", 236),
            ("L236", 236),
            ("236-237", 236),
            ("236:5", 236),
            ("lines 12-14", 12),
            ("~ 12", 12),
            ("12, 15", 12),
        ];
        for (text, line) in cases {
            assert_eq!(read_line_number(text), Some(line), "{text}");
        }
        for text in ["", "n/a", "0", "whole file", "99999999999999999999999"] {
            assert_eq!(read_line_number(text), None, "{text}");
        }
    }

    #[test]
    fn a_place_is_read_in_the_forms_that_models_write() {
        let cases = [
            ("src/x.rs", "src/x.rs", None),
            ("`src/x.rs`", "src/x.rs", None),
            ("src/x.rs:12", "src/x.rs", Some(12)),
            ("`src/x.rs:12-14`", "src/x.rs", Some(12)),
            ("`src/x.rs`:12", "src/x.rs", Some(12)),
            ("src/x.rs:12:5", "src/x.rs", Some(12)),
            ("src/x.rs:L12", "src/x.rs", Some(12)),
            ("src/x.rs#L12", "src/x.rs", Some(12)),
            ("src/x.rs, line 12", "src/x.rs", Some(12)),
            ("src/x.rs (lines 12-14)", "src/x.rs", Some(12)),
            ("./src/x.rs", "src/x.rs", None),
            ("**src/x.rs:12**", "src/x.rs", Some(12)),
            ("[src/x.rs:12](https://example.org)", "src/x.rs", Some(12)),
            ("src/a.rs:12, src/b.rs:4", "src/a.rs", Some(12)),
            (
                "`specs/timed-signatures.md`, R4",
                "specs/timed-signatures.md",
                None,
            ),
            ("specs/greeting.md, section 2", "specs/greeting.md", None),
            ("Makefile", "Makefile", None),
            ("Makefile:3", "Makefile", Some(3)),
            ("environment", "environment", None),
            ("API section", "API section", None),
            ("__init__.py:7", "__init__.py", Some(7)),
        ];
        for (text, file, line) in cases {
            assert_eq!(read_place(text), (Some(file.to_owned()), line), "{text}");
        }
        assert_eq!(read_place(" "), (None, None));
    }

    #[test]
    fn the_most_severe_known_word_is_the_severity() {
        let cases = [
            ("critical", FindingSeverity::Critical),
            ("**Blocking**", FindingSeverity::Critical),
            ("High (security)", FindingSeverity::Major),
            ("minor to major", FindingSeverity::Major),
            ("Nit", FindingSeverity::Minor),
            ("non-blocking", FindingSeverity::Minor),
            ("🔴 CRITICAL", FindingSeverity::Critical),
        ];
        for (text, severity) in cases {
            assert_eq!(words().known_severity(text), Some(severity), "{text}");
        }
        for text in ["", "showstopper", "majority"] {
            assert_eq!(words().known_severity(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_known_word_without_a_restriction_settles_a_finding() {
        for text in [
            "settled",
            "Settled.",
            "**fixed**",
            "✅ Fixed",
            "settled: it is passed on now",
            "**Settled** — see src/x.rs:3",
            "fixed (src/x.rs:3)",
        ] {
            assert_eq!(words().known_status(text), Some(true), "{text}");
        }
        assert_eq!(words().known_status("Open"), Some(false));
        for text in [
            "",
            "fixed in part",
            "fixed, but not for 0",
            "not fixed",
            "settled?",
            "settled? no",
            "unsettled",
        ] {
            assert_eq!(words().known_status(text), None, "{text}");
        }
    }

    fn finding(id: &str, severity: FindingSeverity, status: FindingStatus) -> Finding {
        Finding {
            id: id.to_owned(),
            severity,
            severity_word: None,
            file: Some("src/x.rs".to_owned()),
            line: Some(3),
            place_found: Some(true),
            title: None,
            problem: "It\n fails.".to_owned(),
            remedy: None,
            status,
        }
    }

    #[test]
    fn findings_are_counted_by_severity_and_status() {
        use FindingSeverity::{Critical, Major, Minor};
        use FindingStatus::{New, Open, Settled, Unanswered};

        assert_eq!(
            (findings_result(&[]), findings_summary(&[])),
            (StepOutcome::None, "no finding is open".to_owned())
        );
        let settled = [finding("V1", Critical, Settled)];
        assert_eq!(
            (findings_result(&settled), findings_progress(&settled)),
            (
                StepOutcome::None,
                Some("1 settled, 0 new, 0 still open".to_owned())
            )
        );
        let minor = [finding("V1", Minor, New)];
        assert_eq!(
            (findings_result(&minor), findings_progress(&minor)),
            (StepOutcome::Open, None)
        );
        assert_eq!(findings_summary(&minor), "1 minor finding is open");
        let several = [
            finding("V1", Critical, New),
            finding("V2", Major, Unanswered),
            finding("V3", Major, Open),
            finding("V4", Minor, New),
        ];
        assert_eq!(findings_result(&several), StepOutcome::Blocking);
        assert_eq!(
            findings_summary(&several),
            "1 critical, 2 major and 1 minor findings are open; not answered: V2"
        );
        assert_eq!(
            findings_progress(&several),
            Some("0 settled, 2 new, 2 still open".to_owned())
        );
    }

    #[test]
    fn a_finding_is_one_line_as_compilers_write_it() {
        let found = finding("V1", FindingSeverity::Major, FindingStatus::New);
        assert_eq!(found.to_string(), "src/x.rs:3: major: It fails. [V1]");
        let odd = Finding {
            line: None,
            place_found: Some(false),
            severity_word: Some("showstopper".to_owned()),
            title: Some("Broken".to_owned()),
            ..found.clone()
        };
        assert_eq!(
            odd.to_string(),
            "src/x.rs: major (showstopper): Broken [V1] (place not found)"
        );
        assert_eq!(
            Finding {
                file: None,
                place_found: None,
                ..found
            }
            .to_string(),
            "major: It fails. [V1]"
        );
    }
}
