//! Findings in a report (`REVIEW.md`, `CHALLENGE.md`): read leniently, written in the form of the skeletons.
//!
//! A finding is a heading with a list of items:
//!
//! ```markdown
//! ### V1 - An empty password is accepted
//! - **Severity**: major
//! - **Where**: src/login.rs:42
//! - **Problem**: `verify` returns true for a user without a hash.
//! - **Way out**: Refuse such a user before the comparison.
//! - **Status**: open
//! ```
//!
//! A heading is a finding if it starts with an id, such as `V1` (a letter other than `R`, and a number), or if its section
//! has a severity. A list item or a table row is a finding if it starts with an id and contains a severity.

use crate::models::{Finding, FindingWords, WrittenFinding};
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// Maximum length of an id.
const MAX_ID_BYTES: usize = 24;

/// Maximum length of a title made from a problem.
const MAX_TITLE_CHARS: usize = 72;

/// Reads the findings of a report. `earlier` are the ids of findings of earlier rounds. A line such
/// as `- V1: settled` answers one of these.
#[must_use]
pub fn read_findings(text: &str, words: &FindingWords, earlier: &[&str]) -> Vec<WrittenFinding> {
    let reader = FindingReader { words, earlier };
    let mut findings = Vec::new();
    let mut current: Option<FindingSection> = None;

    for line in markdown_lines(text, 1) {
        if line.is_code() {
            continue;
        }

        let is_heading = matches!(line.kind, LineKind::Heading(..));
        if let Some(row) = reader.read_row(line.text) {
            findings.push(row);
        } else if let Some(section) = reader.read_section(&line) {
            findings.extend(
                current
                    .replace(section)
                    .and_then(|section| section.finish(words)),
            );
        } else if is_heading {
            findings.extend(current.take().and_then(|section| section.finish(words)));
        } else if let Some(section) = &mut current {
            section.add_line(line.text);
        }
    }

    findings.extend(current.and_then(|section| section.finish(words)));
    findings
}

/// Replaces the id `from` with `to` on every line that starts a finding with this id, ignoring case. All other bytes stay
/// the same.
#[must_use]
pub fn rename_finding(text: &str, words: &FindingWords, from: &str, to: &str) -> String {
    let reader = FindingReader {
        words,
        earlier: &[from],
    };

    let mut renamed = String::with_capacity(text.len());
    let mut copied = 0;

    for line in markdown_lines(text, 1)
        .iter()
        .filter(|line| !line.is_code())
    {
        let section_id = reader
            .read_section(line)
            .and_then(|section| section.finding.id);
        let id = section_id.or_else(|| reader.read_row(line.text).and_then(|row| row.id));
        if let Some(id) = id.filter(|id| id.eq_ignore_ascii_case(from)) {
            let end = line.start + line.text.len();
            renamed.push_str(&text[copied..line.start]);
            // The line may write the id with other letter case than `from`.
            renamed.push_str(&line.text.replacen(&id, to, 1));
            copied = end;
        }
    }

    renamed.push_str(&text[copied..]);
    renamed
}

/// Writes a finding in the form of the skeletons. Each value is joined into one line, so that it
/// cannot start a heading.
#[must_use]
pub fn write_finding(finding: &Finding) -> String {
    let problem = join_lines(&finding.problem);
    let title = finding
        .title
        .as_deref()
        .map_or_else(|| shorten_title(&problem), join_lines);

    let mut text = format!(
        "### {} - {title}\n- **Severity**: {}\n",
        finding.id,
        join_lines(&finding.severity_words())
    );
    let mut add = |label: &str, value: &str| text.push_str(&format!("- **{label}**: {value}\n"));

    if let Some(place) = finding.place() {
        add("Where", &join_lines(&place));
    }
    if !problem.is_empty() {
        add("Problem", &problem);
    }
    if let Some(remedy) = &finding.remedy {
        add("Way out", &join_lines(remedy));
    }

    add("Status", if finding.is_open() { "open" } else { "settled" });
    text
}

fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shorten_title(text: &str) -> String {
    if text.chars().count() <= MAX_TITLE_CHARS {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_TITLE_CHARS).collect();
    let end = start.rfind(' ').unwrap_or(start.len());
    format!("{}…", &start[..end])
}

/// A section of a report that may be a finding, depending on its id and items.
struct FindingSection {
    finding: WrittenFinding,
    /// True if the section is a finding even without a severity item.
    is_certain: bool,
    /// Item that the next line may continue.
    open: Option<FindingItem>,
    /// Text outside items, used if the finding has no problem item.
    prose: Option<String>,
}

/// Meaning of a labelled list item of a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FindingItem {
    Severity,
    Place,
    Line,
    Problem,
    Remedy,
    Status,
    Other,
}

impl FindingSection {
    fn add_line(&mut self, line: &str) {
        let text = line.trim();
        if text.is_empty() {
            self.open = None;
            return;
        }

        if let Some((item, value)) = read_item(text) {
            self.open = Some(item);
            if let Some(field) = self.field(item) {
                append(field, value);
            }
            return;
        }

        let is_list_item = list_item_text(text).is_some();
        match self.open.filter(|_| !is_list_item) {
            Some(item) => {
                if let Some(field) = self.field(item) {
                    append(field, text);
                }
            }
            None if self.finding.problem.is_none() => append(&mut self.prose, text),
            None => {}
        }
    }

    fn field(&mut self, item: FindingItem) -> Option<&mut Option<String>> {
        let finding = &mut self.finding;
        match item {
            FindingItem::Severity => Some(&mut finding.severity),
            FindingItem::Place => Some(&mut finding.file),
            FindingItem::Line => Some(&mut finding.line),
            FindingItem::Problem => Some(&mut finding.problem),
            FindingItem::Remedy => Some(&mut finding.remedy),
            FindingItem::Status => Some(&mut finding.status),
            FindingItem::Other => None,
        }
    }

    /// Returns the finding; `None` if the section is not a finding.
    fn finish(mut self, words: &FindingWords) -> Option<WrittenFinding> {
        let finding = &mut self.finding;
        let is_finding = self.is_certain
            || finding
                .severity
                .as_deref()
                .is_some_and(|severity| !says_none(severity));

        let says_nothing = finding.title.as_deref().is_none_or(says_none)
            && finding
                .problem
                .as_deref()
                .or(self.prose.as_deref())
                .is_none_or(says_none)
            && finding.status.is_none();
        if !is_finding || says_nothing {
            return None;
        }

        if finding.problem.is_none() {
            finding.problem = self.prose;
        }
        // With a severity, an id of any form is allowed before the title: `SEC-1: …`.
        if finding.id.is_none()
            && let Some((id, title)) = finding
                .title
                .as_deref()
                .and_then(|title| split_leading_id(title, is_id))
        {
            finding.id = Some(id.to_owned());
            finding.title = Some(title.to_owned()).filter(|title| !title.is_empty());
        }

        if let Some(title) = finding.title.take() {
            let (title, remark) = split_remark(&title);
            let is_severity = |remark: &&str| words.known_severity(remark).is_some();
            let is_status = |remark: &&str| words.known_status(remark).is_some();
            if finding.severity.is_none() {
                finding.severity = remark.filter(is_severity).map(str::to_owned);
            }
            if finding.status.is_none() {
                finding.status = remark.filter(is_status).map(str::to_owned);
            }
            finding.title = Some(title.to_owned()).filter(|title| !title.is_empty());
        }

        Some(self.finding)
    }
}

fn append(field: &mut Option<String>, text: &str) {
    match field {
        Some(value) => {
            value.push('\n');
            value.push_str(text);
        }
        None => *field = Some(text.to_owned()),
    }
}

/// Returns true for a string that reports nothing: `None.`, `No findings`, `-`.
fn says_none(text: &str) -> bool {
    let word = text
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_ascii_lowercase();
    matches!(
        word.as_str(),
        "" | "none" | "no finding" | "no findings" | "n/a" | "nothing"
    )
}

/// Reader for the lines that start a finding.
struct FindingReader<'a> {
    words: &'a FindingWords,
    earlier: &'a [&'a str],
}

impl FindingReader<'_> {
    /// Returns the section that a line starts: a heading, a bold line with an id, or a list item
    /// with an id and a severity.
    fn read_section(&self, line: &MarkdownLine<'_>) -> Option<FindingSection> {
        let title = match line.kind {
            LineKind::Heading(_, title) => title,
            LineKind::Text => {
                let text = line.text.trim();
                let (id, rest) = self.split_short_id(list_item_text(text).unwrap_or(text))?;
                let is_bold = text.starts_with("**") && text.ends_with("**");
                let has_severity = split_remark(rest)
                    .1
                    .is_some_and(|remark| self.words.known_severity(remark).is_some());
                if !is_bold && !has_severity {
                    return None;
                }
                return Some(FindingSection::new(Some(id), rest, true));
            }
            _ => return None,
        };

        let title = title.trim_matches(['*', '~', ' ']);
        match self.split_short_id(title) {
            Some((id, rest)) => Some(FindingSection::new(Some(id), rest, true)),
            // The title of the report is not a finding.
            None if matches!(line.kind, LineKind::Heading(1, _)) => None,
            None => {
                // `Findings (2 minor)` is a count, not a finding.
                let remark = split_remark(title)
                    .1
                    .filter(|remark| !remark.contains(char::is_whitespace));
                let has_severity =
                    remark.is_some_and(|remark| self.words.known_severity(remark).is_some());
                Some(FindingSection::new(None, title, has_severity))
            }
        }
    }

    /// Reads a one-line finding or answer: `| V1 | major | src/x.rs:3 | … |`, `- V1: settled`.
    fn read_row(&self, line: &str) -> Option<WrittenFinding> {
        let text = line.trim();
        if let Some(rest) = text.strip_prefix('|') {
            return self.read_table_row(rest);
        }

        let (id, rest) = self.split_short_id(list_item_text(text)?)?;
        let is_earlier = self
            .earlier
            .iter()
            .any(|earlier| earlier.eq_ignore_ascii_case(id));
        let status = self.find_inline_status(rest).filter(|_| is_earlier)?;
        Some(WrittenFinding {
            id: Some(id.to_owned()),
            status: Some(status.to_owned()),
            ..WrittenFinding::default()
        })
    }

    /// Returns the status in a line about an earlier finding: `settled`, `(settled) …`, `An empty
    /// name - **Status**: settled (tested)`.
    fn find_inline_status<'t>(&self, text: &'t str) -> Option<&'t str> {
        let is_known = |status: &&str| self.words.known_status(status).is_some();
        let labelled = text.rmatch_indices(':').find_map(|(colon, _)| {
            let label = text[..colon].trim_end_matches(['*', '_', ' ']);
            let start = label.len().checked_sub("status".len())?;
            let is_status = label
                .get(start..)
                .is_some_and(|word| word.eq_ignore_ascii_case("status"));
            is_status.then(|| text[colon + 1..].trim())
        });

        let remark = split_remark(text).1;
        [labelled, Some(text), remark]
            .into_iter()
            .flatten()
            .find(is_known)
    }

    fn read_table_row(&self, rest: &str) -> Option<WrittenFinding> {
        let mut cells = rest.trim_end_matches('|').split('|').map(str::trim);
        let (id, remark) = self.split_short_id(cells.next()?)?;
        let mut row = WrittenFinding {
            id: Some(id.to_owned()),
            ..WrittenFinding::default()
        };
        if !remark.is_empty() {
            row.title = Some(remark.to_owned());
        }

        for cell in cells.filter(|cell| !says_none(cell)) {
            let is_word = cell.split_whitespace().count() == 1;
            if row.severity.is_none() && is_word && self.words.known_severity(cell).is_some() {
                row.severity = Some(cell.to_owned());
            } else if row.status.is_none() && self.words.known_status(cell).is_some() {
                row.status = Some(cell.to_owned());
            } else if row.file.is_none() && is_word && cell.contains(['/', '.', ':']) {
                row.file = Some(cell.to_owned());
            } else {
                append(&mut row.problem, cell);
            }
        }

        let is_earlier = self
            .earlier
            .iter()
            .any(|earlier| earlier.eq_ignore_ascii_case(id));
        (row.severity.is_some() || (is_earlier && row.status.is_some())).then_some(row)
    }

    /// Splits off an id that needs no severity: an id of an earlier round, or a letter other than `R`
    /// with a number of up to three digits.
    fn split_short_id<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        split_leading_id(text, |word| {
            let digits =
                word.strip_prefix(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'R' | 'r'));
            let is_short = digits.is_some_and(|digits| {
                (1..=3).contains(&digits.len())
                    && !digits.starts_with('0')
                    && digits.bytes().all(|b| b.is_ascii_digit())
            });
            is_short
                || self
                    .earlier
                    .iter()
                    .any(|earlier| earlier.eq_ignore_ascii_case(word))
        })
    }
}

impl FindingSection {
    fn new(id: Option<&str>, title: &str, is_certain: bool) -> Self {
        let title = Some(title.trim().to_owned()).filter(|title| !title.is_empty());
        let finding = WrittenFinding {
            id: id.map(str::to_owned),
            title,
            ..WrittenFinding::default()
        };
        Self {
            finding,
            is_certain,
            open: None,
            prose: None,
        }
    }
}

/// Returns true if a word is an id such as `V1`, `SEC-1` or `F_12`.
fn is_id(word: &str) -> bool {
    word.len() <= MAX_ID_BYTES
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.ends_with(|c: char| c.is_ascii_digit())
}

/// Splits a line that starts with an id into the id and the text after the separator.
fn split_leading_id(text: &str, is_id: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let text =
        text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '[' | '~'));
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
        .unwrap_or(text.len());
    let id = text[..end].trim_end_matches(['-', '_']);
    let rest = &text[id.len()..];
    let is_separated = rest.is_empty() || rest.starts_with(|c: char| !c.is_alphanumeric());
    if !is_separated || id.len() > MAX_ID_BYTES || !is_id(id) {
        return None;
    }

    // Skip the end of bold text or code around the id, then the separator.
    let rest = rest.trim_start_matches([']', '*', '`', '~']);
    let is_separator =
        |c: char| c.is_whitespace() || matches!(c, '-' | '–' | '—' | ':' | '.' | ')' | '*');
    Some((
        id,
        rest.trim_start_matches(is_separator)
            .trim_end_matches(['*', '~', ' ']),
    ))
}

/// Splits off a remark in brackets at the start or the end of a title: `An empty name (major)`,
/// `[major] An empty name`.
fn split_remark(title: &str) -> (&str, Option<&str>) {
    for (open, close) in [('(', ')'), ('[', ']')] {
        if let Some((remark, rest)) = title
            .strip_prefix(open)
            .and_then(|rest| rest.split_once(close))
        {
            let is_separator =
                |c: char| c.is_whitespace() || matches!(c, '-' | '–' | '—' | ':' | '*');
            return (rest.trim_start_matches(is_separator), Some(remark));
        }
        if let Some((start, remark)) = title
            .strip_suffix(close)
            .and_then(|title| title.rsplit_once(open))
        {
            return (start.trim_end(), Some(remark));
        }
    }
    (title, None)
}

/// Returns the text of a list item, after `-`, `*`, `+` or a number.
fn list_item_text(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(['-', '*', '+']).or_else(|| {
        let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
        if digits.len() == text.len() {
            None
        } else {
            digits.strip_prefix(['.', ')'])
        }
    })?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// Reads an item of a finding: `- **Severity**: major`, `**Where:** src/x.rs`, `Status: open`.
fn read_item(text: &str) -> Option<(FindingItem, &str)> {
    let text = list_item_text(text).unwrap_or(text);
    let (label, value) = text.split_once(':')?;
    let is_mark = |c: char| matches!(c, '*' | '_' | '`') || c.is_whitespace();
    let item = match label.trim_matches(is_mark).to_ascii_lowercase().as_str() {
        "severity" => FindingItem::Severity,
        "where" | "location" | "place" | "file" | "files" => FindingItem::Place,
        "line" | "lines" => FindingItem::Line,
        "problem" | "issue" | "description" => FindingItem::Problem,
        "way out" | "remedy" | "fix" | "suggestion" | "suggested fix" | "recommendation" => {
            FindingItem::Remedy
        }
        "status" | "state" => FindingItem::Status,
        "consequence" | "impact" | "evidence" => FindingItem::Other,
        _ => return None,
    };

    // `**Severity:** major` leaves the end of the bold text before the value.
    let is_open =
        |mark: &str| label.trim_start().starts_with(mark) && !label.trim_end().ends_with(mark);
    let mark = ["**", "__", "*", "_"]
        .into_iter()
        .find(|mark| is_open(mark));
    let value = mark
        .and_then(|mark| value.strip_prefix(mark))
        .unwrap_or(value);
    Some((item, value.trim()))
}

#[cfg(test)]
mod tests {
    use crate::models::{FindingSeverity, FindingStatus};

    use super::*;

    fn read(text: &str) -> Vec<WrittenFinding> {
        read_findings(text, &FindingWords::default(), &[])
    }

    /// Returns id, severity, file, problem and status of each finding.
    fn told(text: &str, earlier: &[&str]) -> Vec<[String; 5]> {
        let found = read_findings(text, &FindingWords::default(), earlier);
        let text = |field: Option<String>| field.unwrap_or_default();
        found
            .into_iter()
            .map(|f| [f.id, f.severity, f.file, f.problem.or(f.title), f.status].map(text))
            .collect()
    }

    #[test]
    fn a_finding_is_read_in_the_form_of_the_skeleton() {
        let found = read(
            "# Review: x\n\n## Findings\n\n### V1 - `loads` ignores it\n- **Severity**: major\n- **Where**: src/x.py:274\n\
             - **Problem**: It drops `leeway`.\n  There is no test.\n- **Consequence**: None.\n- **Way out**: Pass it on.\n",
        );
        let expected = WrittenFinding {
            id: Some("V1".to_owned()),
            severity: Some("major".to_owned()),
            file: Some("src/x.py:274".to_owned()),
            title: Some("`loads` ignores it".to_owned()),
            problem: Some("It drops `leeway`.\nThere is no test.".to_owned()),
            remedy: Some("Pass it on.".to_owned()),
            ..WrittenFinding::default()
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn other_forms_that_models_write_are_read_the_same() {
        let forms = [
            "### V1 - It fails\n- **Severity**: major\n- **Where**: x.rs:3\n",
            "### V1: It fails\n\n- **Severity:** major\n- **Where:** x.rs:3\n",
            "### V1 – It fails\n* Severity: major\n* Where: x.rs:3\n",
            "#### V1. It fails\n**Severity**: major\n\n**file**: x.rs:3\n",
            "### **V1 — It fails**\n+ __Severity__: major\n+ __Location__: x.rs:3\n",
            "### [V1] It fails (major)\nWhere: x.rs:3\n",
            "**V1 - It fails**\n- Severity: major\n- Where: x.rs:3\n",
            "- **V1** (major): It fails\n  - Where: x.rs:3\n",
            "| id | severity | where | problem |\n|---|---|---|---|\n| V1 | major | x.rs:3 | It fails |\n",
        ];
        for form in forms {
            let expected = ["V1", "major", "x.rs:3", "It fails", ""].map(str::to_owned);
            assert_eq!(
                told(&format!("# Review\n\n## Findings\n\n{form}"), &[]),
                [expected],
                "{form}"
            );
        }
    }

    #[test]
    fn a_heading_counts_by_its_id_or_by_its_severity() {
        assert_eq!(told("### C1 - What of an empty name?\n", &[])[0][0], "C1");
        assert_eq!(
            told("## SQL injection\n- Severity: critical\n", &[])[0][..2],
            ["", "critical"]
        );
        assert_eq!(
            told("### SEC-1: Injection\n- Severity: critical\n", &[])[0][..2],
            ["SEC-1", "critical"]
        );
        assert_eq!(
            told("### Injection (critical)\nIt is not escaped.\n", &[])[0][1],
            "critical"
        );
        let none = [
            "### R1 - Without a name\nMet.\n",
            "### UTF-8 names\nThey work.\n",
            "# Review: V1\n",
            "## Findings\n\nNone.\n",
            "## Findings (0 critical, 2 minor)\n\nSee above.\n",
            "## Summary\nSeverity: none\n",
            "### V1 - None\n",
            "### E2E tests\nThey pass.\n",
            "```\n### V1 - Quoted\n- Severity: major\n```\n",
            "| R1 | yes | tests/x.rs:3 |\n",
            "- R1: settled\n- T1: open\n",
            "- V1 is what I would call a detail\n",
        ];
        for text in none {
            assert_eq!(read(text), [], "{text}");
        }
    }

    #[test]
    fn an_answer_to_an_earlier_finding_may_be_one_line() {
        let text = "- **V1** - Whole limits — **Status**: settled (`a:b`, tested)\n\
                    - **V2** - NaN: the check — Status: open\n\
                    * V3 (settled) the docstring\n\
                    - V4 - settled in part\n\
                    - V5 - Status of the login: open\n";
        let found = read_findings(
            text,
            &FindingWords::default(),
            &["V1", "V2", "V3", "V4", "V5"],
        );
        let words = FindingWords::default();
        let status =
            |finding: &WrittenFinding| words.known_status(finding.status.as_deref().unwrap());
        let found: Vec<_> = found
            .iter()
            .map(|finding| (finding.id.as_deref().unwrap(), status(finding)))
            .collect();
        assert_eq!(
            found,
            [("V1", Some(true)), ("V2", Some(false)), ("V3", Some(true))]
        );
    }

    #[test]
    fn a_status_is_an_item_a_remark_or_an_answer_to_an_earlier_finding() {
        assert_eq!(
            told("### V1 - x\n- **Status**: settled\n", &[])[0][4],
            "settled"
        );
        assert_eq!(told("### V1 - x (settled)\n", &[])[0][4], "settled");
        let answers = "## Earlier findings\n- V1: settled\n- **V2** - open\n\n| SEC-1 | settled |\n| V7 | settled |\n- V8: settled\n";
        let found = told(answers, &["V1", "V2", "SEC-1"]);
        let statuses: Vec<[&str; 2]> = found
            .iter()
            .map(|f| [f[0].as_str(), f[4].as_str()])
            .collect();
        assert_eq!(
            statuses,
            [["V1", "settled"], ["V2", "open"], ["SEC-1", "settled"]]
        );
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let finding = Finding {
            id: "F1".to_owned(),
            severity: FindingSeverity::Critical,
            severity_word: None,
            file: Some("src/x.rs".to_owned()),
            line: Some(7),
            place_found: None,
            title: None,
            problem: "An empty name\n### V9 - is accepted".to_owned(),
            remedy: Some("Refuse it.".to_owned()),
            status: FindingStatus::New,
        };
        let text = write_finding(&finding);
        let found = told(&text, &[]);
        let expected = [
            "F1",
            "critical",
            "src/x.rs:7",
            "An empty name ### V9 - is accepted",
            "open",
        ];
        assert_eq!(found, [expected.map(str::to_owned)], "{text}");
    }

    #[test]
    fn code_in_a_list_and_the_underline_of_a_compiler_hide_no_finding() {
        let finding = "### V1 - Late\n- Severity: major\n";
        for before in ["- ```sh\n  ls\n  ```\n", "  x = y;\n  ~~~^~~~\n"] {
            assert_eq!(
                told(&format!("{before}{finding}"), &[]).len(),
                1,
                "{before}"
            );
        }
    }

    #[test]
    fn a_finding_is_renamed_where_it_starts_and_nowhere_else() {
        let text = "# Challenge\n\nC1 is bad.\n\n### C1 - x\n- Severity: major, as C1\n```\n### C1\n```\n| C1 | major |\n";
        let renamed = "# Challenge\n\nC1 is bad.\n\n### C3 - x\n- Severity: major, as C1\n```\n### C1\n```\n| C3 | major |\n";
        assert_eq!(
            rename_finding(text, &FindingWords::default(), "C1", "C3"),
            renamed
        );
    }

    #[test]
    fn a_finding_is_renamed_in_whatever_case_the_report_writes_its_id() {
        let text = "### c1 - Like C1\n- Severity: major\n\n| C1 | minor |\n";
        let renamed = "### C3 - Like C1\n- Severity: major\n\n| C3 | minor |\n";
        assert_eq!(
            rename_finding(text, &FindingWords::default(), "C1", "C3"),
            renamed
        );
    }
}
