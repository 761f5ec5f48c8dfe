//! Collects the problems of a pack, each with its location.

use serde_saphyr::Location;

use super::condition::ManifestRule;
use super::problem::{PackProblem, ProblemSeverity};
use super::search_path::Prose;
use crate::error::{Error, Place};
use crate::text::yaml;

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 100;

/// Problems found so far.
pub(super) struct Faults<'a> {
    prose: &'a Prose,
    problems: Vec<PackProblem>,
}

impl<'a> Faults<'a> {
    pub(super) fn new(prose: &'a Prose) -> Self {
        Self {
            prose,
            problems: Vec::new(),
        }
    }

    /// Adds an error at a location in the manifest.
    pub(super) fn add(&mut self, location: Location, message: impl Into<String>) {
        self.add_at(self.place(location), message.into());
    }

    /// Adds an error at a location in any file.
    pub(super) fn add_at(&mut self, place: Place, message: String) {
        self.push(ProblemSeverity::Error, place, message, None);
    }

    /// Adds an error at a location in the manifest, with a hint.
    pub(super) fn error(
        &mut self,
        location: Location,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.error_at(self.place(location), message, hint);
    }

    /// Adds an error at a location in any file, with a hint.
    pub(super) fn error_at(
        &mut self,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(
            ProblemSeverity::Error,
            place,
            message.into(),
            Some(hint.into()),
        );
    }

    /// Adds a warning at a location in the manifest.
    pub(super) fn warn(
        &mut self,
        location: Location,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.warn_at(self.place(location), message, hint);
    }

    /// Adds a warning at a location in any file.
    pub(super) fn warn_at(
        &mut self,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(
            ProblemSeverity::Warning,
            place,
            message.into(),
            Some(hint.into()),
        );
    }

    /// Converts a YAML location in the manifest to a [`Place`] with file, line and column.
    pub(super) fn place(&self, location: Location) -> Place {
        yaml::place(&self.prose.text, &self.prose.origin, 1, location)
    }

    fn push(
        &mut self,
        severity: ProblemSeverity,
        place: Place,
        message: String,
        hint: Option<String>,
    ) {
        let is_duplicate = self
            .problems
            .iter()
            .any(|problem| problem.place == place && problem.message == message);
        // Errors are always kept: they decide whether the pack loads.
        let has_room = severity == ProblemSeverity::Error || self.problems.len() < MAX_PROBLEMS;
        if has_room && !is_duplicate {
            self.problems.push(PackProblem {
                severity,
                place,
                message,
                hint,
            });
        }
    }

    /// Adds an error about a file that the manifest lists: at the location of the error, or else at `location`.
    pub(super) fn add_error(&mut self, location: Location, error: &Error) {
        match error.place() {
            Some(place) => self.add_at(place.clone(), error.message().to_owned()),
            None => self.add(location, error.to_string()),
        }
    }

    /// Checks that a condition can be parsed and only uses known facts.
    pub(super) fn check_condition(
        &mut self,
        condition: &ManifestRule,
        is_known: impl Fn(&str, Option<&str>) -> bool,
    ) {
        match condition.rule() {
            Err(fault) => {
                let mut place = yaml::place(
                    &self.prose.text,
                    &self.prose.origin,
                    1,
                    condition.location(),
                );
                // The location of a quoted scalar is its opening quote.
                let before = place.text.chars().nth(place.column.saturating_sub(1));
                let quote = usize::from(matches!(before, Some('"' | '\'')));
                place.column += quote + condition.text()[..fault.offset].chars().count();
                self.add_at(place, fault.message.clone());
            }
            Ok(rule) => {
                for (name, argument) in rule.names() {
                    if !is_known(name, argument) {
                        let shown = argument
                            .map_or_else(String::new, |argument| format!("(\"{argument}\")"));
                        self.error(
                            condition.location(),
                            format!("unknown fact `{name}{shown}`"),
                            "docs/reference/packs.md lists the facts of layers and of gates",
                        );
                    }
                }
            }
        }
    }

    /// Returns true if one of the problems is an error.
    pub(super) fn has_errors(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.severity == ProblemSeverity::Error)
    }

    /// Returns all problems, in the order in which they were found.
    pub(super) fn into_problems(self) -> Vec<PackProblem> {
        self.problems
    }
}
