//! Turns a reviewer's findings into the findings of a turn: merged by id, numbered, and compared with the earlier round.

use indexmap::IndexMap;
use serde_json::Value;

use crate::models::{
    Action, Finding, FindingSeverity, FindingStatus, FindingWords, WrittenFinding,
    read_line_number, read_place, sort_findings,
};

/// Returns the finding that an action reports, with its values unchanged.
#[must_use]
pub fn finding_of_action(action: &Action) -> WrittenFinding {
    let text = |name: &str| {
        let value = action.values.get(name).map(|value| match value {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        });
        value.filter(|text| !text.is_empty())
    };

    WrittenFinding {
        id: text("id"),
        severity: text("severity"),
        file: text("file"),
        line: text("line"),
        title: None,
        problem: text("problem"),
        remedy: text("remedy"),
        status: text("status"),
    }
}

/// Returns the findings of a turn, most severe first: the findings that the reply reports in actions or in a report, and
/// the findings of the earlier round that are still open.
///
/// Statements with the same id are merged into one finding with the highest severity. An earlier finding is settled only
/// if the reply says so; one that the reply does not mention stays open. A finding without an id gets the first free id
/// of `F1`, `F2` and so on.
#[must_use]
pub fn collect_findings(
    words: &FindingWords,
    written: Vec<WrittenFinding>,
    earlier: &[Finding],
) -> Vec<Finding> {
    let mut by_id: IndexMap<String, Statements<'_>> = earlier
        .iter()
        .filter(|finding| finding.is_open())
        .map(|finding| {
            (
                id_key(&finding.id),
                Statements {
                    earlier: Some(finding),
                    ..Statements::default()
                },
            )
        })
        .collect();

    let used_ids: Vec<String> = written
        .iter()
        .filter_map(|finding| finding.id.as_deref().map(id_key))
        .collect();
    for finding in written {
        let written_id = finding.id.clone().filter(|id| !id_key(id).is_empty());
        let id = written_id.unwrap_or_else(|| {
            let is_free = |id: &String| !by_id.contains_key(id) && !used_ids.contains(id);
            (1_u64..)
                .map(|number| format!("F{number}"))
                .find(is_free)
                .unwrap_or_default()
        });

        let statements = by_id.entry(id_key(&id)).or_default();
        statements.written.push(WrittenFinding {
            id: Some(id),
            ..finding
        });
    }

    let mut findings: Vec<Finding> = by_id
        .into_values()
        .filter_map(|statements| statements.into_finding(words))
        .collect();
    sort_findings(&mut findings);

    findings
}

/// Findings of several reviewers in one list, and the ids that were changed to make them unique.
#[derive(Debug)]
pub struct JoinedFindings {
    /// All findings, most severe first.
    pub findings: Vec<Finding>,
    /// For each reviewer, the old and the new id of each finding whose id an earlier reviewer had used for a different
    /// finding.
    pub renamed: Vec<Vec<(String, String)>>,
}

/// Merges the findings of several reviewers of the same round.
///
/// An earlier finding is settled only if all reviewers say so. New findings with the same id are different findings, because
/// reviewers number independently; the later one gets a new id.
#[must_use]
pub fn join_findings(reviewers: &[&[Finding]], earlier: &[Finding]) -> JoinedFindings {
    let is_earlier = |id: &str| {
        earlier
            .iter()
            .any(|finding| id_key(&finding.id) == id_key(id))
    };

    let mut joined: IndexMap<String, Finding> = IndexMap::new();
    let mut renamed = Vec::new();
    for findings in reviewers {
        let reviewer_ids: Vec<String> =
            findings.iter().map(|finding| id_key(&finding.id)).collect();

        let mut new_ids = Vec::new();
        for finding in *findings {
            let id = id_key(&finding.id);
            match joined.get_mut(&id) {
                Some(joined_finding) if is_earlier(&id) => {
                    joined_finding.severity = joined_finding.severity.max(finding.severity);
                    joined_finding.status = less_settled(joined_finding.status, finding.status);
                }
                Some(_) => {
                    let is_free = |id: &String| {
                        !joined.contains_key(&id_key(id)) && !reviewer_ids.contains(&id_key(id))
                    };
                    let prefix = finding.id.trim_end_matches(|c: char| c.is_ascii_digit());
                    let free_id = (1_u64..)
                        .map(|number| format!("{prefix}{number}"))
                        .find(is_free)
                        .unwrap_or_default();
                    new_ids.push((finding.id.clone(), free_id.clone()));
                    joined.insert(
                        id_key(&free_id),
                        Finding {
                            id: free_id,
                            ..finding.clone()
                        },
                    );
                }
                None => {
                    joined.insert(id, finding.clone());
                }
            }
        }

        renamed.push(new_ids);
    }

    let mut findings: Vec<Finding> = joined.into_values().collect();
    sort_findings(&mut findings);

    JoinedFindings { findings, renamed }
}

/// Returns the less settled of two reviewers' statuses of an earlier finding.
fn less_settled(one: FindingStatus, other: FindingStatus) -> FindingStatus {
    let order = [
        FindingStatus::Open,
        FindingStatus::New,
        FindingStatus::Unanswered,
    ];
    order
        .into_iter()
        .find(|status| [one, other].contains(status))
        .unwrap_or(FindingStatus::Settled)
}

/// Returns the form of an id for comparison: without surrounding punctuation, in upper case.
fn id_key(id: &str) -> String {
    id.trim_matches(|c: char| !c.is_alphanumeric())
        .to_ascii_uppercase()
}

/// All statements about one finding.
#[derive(Default)]
struct Statements<'a> {
    earlier: Option<&'a Finding>,
    written: Vec<WrittenFinding>,
}

impl Statements<'_> {
    /// Merges the statements into a finding; `None` if they only settle a finding that is not known.
    fn into_finding(self, words: &FindingWords) -> Option<Finding> {
        let Self { earlier, written } = self;
        let first = |field: fn(&WrittenFinding) -> &Option<String>| {
            written.iter().find_map(|finding| field(finding).clone())
        };
        let has_statement = |settled: bool| {
            let statuses = written
                .iter()
                .filter_map(|finding| finding.status.as_deref());
            statuses
                .map(|status| words.known_status(status) == Some(true))
                .any(|is_settled| is_settled == settled)
        };

        // An unknown status word means not settled, so it contradicts a statement that settles the finding.
        let is_settled = has_statement(true) && !has_statement(false);
        let is_described = written
            .iter()
            .any(|finding| finding.problem.is_some() || finding.title.is_some());
        if earlier.is_none() && is_settled && !is_described {
            return None;
        }

        let status = match (earlier, written.is_empty()) {
            _ if is_settled => FindingStatus::Settled,
            (None, _) => FindingStatus::New,
            (Some(_), false) => FindingStatus::Open,
            (Some(_), true) => FindingStatus::Unanswered,
        };

        let (severity, severity_word) = worst_severity(words, &written, earlier);
        let place = first(|finding| &finding.file).map(|file| read_place(&file));
        let written_line = first(|finding| &finding.line).and_then(|line| read_line_number(&line));
        let (file, line) = match place {
            Some((file, line)) => (file, written_line.or(line)),
            None => (
                earlier.and_then(|finding| finding.file.clone()),
                written_line.or(earlier.and_then(|finding| finding.line)),
            ),
        };

        let id = first(|finding| &finding.id)
            .map(|id| id.trim_matches(|c: char| !c.is_alphanumeric()).to_owned());
        Some(Finding {
            id: earlier
                .map(|finding| finding.id.clone())
                .or(id)
                .unwrap_or_default(),
            severity,
            severity_word,
            file,
            line,
            place_found: None,
            title: first(|finding| &finding.title)
                .or_else(|| earlier.and_then(|finding| finding.title.clone())),
            problem: first(|finding| &finding.problem)
                .or_else(|| earlier.map(|finding| finding.problem.clone()))
                .unwrap_or_default(),
            remedy: first(|finding| &finding.remedy)
                .or_else(|| earlier.and_then(|finding| finding.remedy.clone())),
            status,
        })
    }
}

/// Returns the highest severity of all statements, and the reviewer's word for it if that word is unknown. A finding
/// without a known severity is major.
fn worst_severity(
    words: &FindingWords,
    written: &[WrittenFinding],
    earlier: Option<&Finding>,
) -> (FindingSeverity, Option<String>) {
    let stated = written
        .iter()
        .filter_map(|finding| finding.severity.as_deref())
        .map(|text| {
            words.known_severity(text).map_or(
                (FindingSeverity::Major, Some(text.to_owned())),
                |severity| (severity, None),
            )
        });

    let before = earlier.map(|finding| (finding.severity, finding.severity_word.clone()));
    stated
        .chain(before)
        .max_by_key(|(severity, _)| *severity)
        .unwrap_or((FindingSeverity::Major, None))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::models::{StepOutcome, findings_result};

    fn written(id: &str, severity: &str) -> WrittenFinding {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        WrittenFinding {
            id: some(id),
            severity: some(severity),
            file: some("src/x.rs"),
            problem: some("It fails."),
            ..WrittenFinding::default()
        }
    }

    fn says(id: &str, status: &str) -> WrittenFinding {
        let (id, status) = (Some(id.to_owned()), Some(status.to_owned()));
        WrittenFinding {
            id,
            status,
            ..WrittenFinding::default()
        }
    }

    fn collect(written: Vec<WrittenFinding>, earlier: &[Finding]) -> Vec<Finding> {
        collect_findings(&FindingWords::default(), written, earlier)
    }

    fn told(findings: &[Finding]) -> Vec<(&str, FindingSeverity, FindingStatus)> {
        findings
            .iter()
            .map(|finding| (finding.id.as_str(), finding.severity, finding.status))
            .collect()
    }

    #[test]
    fn the_same_id_is_one_finding_and_the_more_severe_counts() {
        let found = collect(
            vec![
                written("V1", "minor"),
                written("`v1`", "critical"),
                written("", "minor"),
            ],
            &[],
        );
        let expected = [
            ("V1", FindingSeverity::Critical, FindingStatus::New),
            ("F1", FindingSeverity::Minor, FindingStatus::New),
        ];
        assert_eq!(told(&found), expected);
    }

    #[test]
    fn a_severity_that_is_unknown_or_missing_counts_as_major_and_keeps_its_word() {
        let found = collect(vec![written("V1", "showstopper"), written("V2", "")], &[]);
        assert_eq!(found[0].severity, FindingSeverity::Major);
        assert_eq!(found[0].severity_word.as_deref(), Some("showstopper"));
        assert_eq!(
            (found[1].severity, &found[1].severity_word),
            (FindingSeverity::Major, &None)
        );
    }

    #[test]
    fn an_earlier_finding_is_settled_by_its_word_alone() {
        let earlier = collect(
            ["V1", "V2", "V3", "V4"]
                .map(|id| written(id, "major"))
                .to_vec(),
            &[],
        );
        let answers = vec![
            says("V1", "settled"),
            says("V2", "fixed in part"),
            says("V3", "open"),
        ];
        let found = collect(answers, &earlier);
        let status = |id: &str| {
            found
                .iter()
                .find(|finding| finding.id == id)
                .unwrap()
                .status
        };
        assert_eq!(status("V1"), FindingStatus::Settled);
        assert_eq!(status("V2"), FindingStatus::Open);
        assert_eq!(status("V3"), FindingStatus::Open);
        assert_eq!(status("V4"), FindingStatus::Unanswered);
        assert_eq!(found[0].problem, "It fails.", "what it is about is kept");
        assert_eq!(
            collect(vec![], &found).len(),
            3,
            "a settled finding is not carried on"
        );
        let both = vec![says("V1", "settled"), says("V1", "open")];
        assert_eq!(
            collect(both, &earlier[..1])[0].status,
            FindingStatus::Open,
            "in doubt it is open"
        );
        assert_eq!(
            collect(vec![says("V9", "settled")], &[]),
            [],
            "there is nothing to settle"
        );
    }

    #[test]
    fn a_finding_of_the_last_round_does_not_get_milder_by_its_id() {
        let earlier = collect(vec![written("V1", "critical")], &[]);
        let found = collect(vec![written("V1", "minor")], &earlier);
        assert_eq!(
            told(&found),
            [("V1", FindingSeverity::Critical, FindingStatus::Open)]
        );
    }

    #[test]
    fn several_reviewers_settle_a_finding_together_and_number_their_own() {
        let earlier = collect(vec![written("C1", "major"), written("C2", "major")], &[]);
        let one = collect(
            vec![
                says("C1", "settled"),
                says("C2", "settled"),
                written("C3", "minor"),
            ],
            &earlier,
        );
        let two = collect(
            vec![
                says("C1", "settled"),
                written("C3", "critical"),
                written("C4", "minor"),
            ],
            &earlier,
        );
        let joined = join_findings(&[&one, &two], &earlier);
        let expected = [
            ("C5", FindingSeverity::Critical, FindingStatus::New),
            ("C2", FindingSeverity::Major, FindingStatus::Unanswered),
            ("C3", FindingSeverity::Minor, FindingStatus::New),
            ("C4", FindingSeverity::Minor, FindingStatus::New),
            ("C1", FindingSeverity::Major, FindingStatus::Settled),
        ];
        assert_eq!(told(&joined.findings), expected);
        assert_eq!(
            joined.renamed,
            [vec![], vec![("C3".to_owned(), "C5".to_owned())]]
        );
    }

    fn any_written() -> impl Strategy<Value = WrittenFinding> {
        let ids = prop::sample::select(vec!["", "V1", "v1", "V2", "F1", "SEC-1"]);
        let severities = prop::sample::select(vec!["", "critical", "Major", "minor", "nit", "odd"]);
        let statuses = prop::sample::select(vec!["", "open", "settled", "fixed in part"]);
        (ids, severities, statuses).prop_map(|(id, severity, status)| WrittenFinding {
            status: Some(status.to_owned()).filter(|status| !status.is_empty()),
            ..written(id, severity)
        })
    }

    proptest! {
        #[test]
        fn adding_an_open_finding_never_makes_a_result_milder(
            // A finding without a severity is major until another statement with the same id has one.
            first in prop::collection::vec(any_written().prop_filter("rated", |f| f.severity.is_some()), 0..5),
            second in prop::collection::vec(any_written().prop_filter("rated", |f| f.severity.is_some()), 0..5),
            mut added in any_written(),
            at in any::<prop::sample::Index>(),
        ) {
            let earlier = collect(first, &[]);
            let before = collect(second.clone(), &earlier);
            added.status = added.status.filter(|status| status != "settled");
            let mut more = second;
            let index = at.index(more.len() + 1);
            more.insert(index, added.clone());
            let after = collect(more, &earlier);

            let badness = |findings: &[Finding]| match findings_result(findings) {
                StepOutcome::None => 0,
                StepOutcome::Open => 1,
                _ => 2,
            };
            prop_assert!(badness(&after) >= badness(&before), "{before:?}\n{after:?}");
            let counts_as_major = matches!(added.severity.as_deref(), Some("critical" | "Major" | "odd"));
            let is_settled = after.iter().any(|finding| !finding.is_open());
            prop_assert!(!counts_as_major || is_settled || findings_result(&after) == StepOutcome::Blocking);
        }
    }
}
