//! The faults of a pack: all that were found, each with its place.

use serde_saphyr::Location;

use super::condition::Condition;
use super::source::Prose;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::text::yaml;

/// The most faults that are told.
const MOST: usize = 100;

/// The faults found so far.
pub(super) struct Faults<'a> {
    prose: &'a Prose,
    found: Vec<(Place, String)>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(prose: &'a Prose) -> Self {
        Self {
            prose,
            found: Vec::new(),
        }
    }

    /// Adds a fault at a place of the manifest.
    pub(super) fn add(&mut self, location: Location, message: impl Into<String>) {
        if self.found.len() >= MOST {
            return;
        }
        self.add_at(
            yaml::place(&self.prose.text, &self.prose.origin, 1, location),
            message.into(),
        );
    }

    /// Adds a fault at a place of any file.
    pub(super) fn add_at(&mut self, place: Place, message: String) {
        if self.found.len() < MOST
            && !self
                .found
                .iter()
                .any(|known| known.0 == place && known.1 == message)
        {
            self.found.push((place, message));
        }
    }

    /// Adds what went wrong with a file that the manifest names.
    pub(super) fn add_error(&mut self, location: Location, error: &Error) {
        match error.place() {
            Some(place) => self.add_at(place.clone(), error.message().to_owned()),
            None => self.add(location, error.to_string()),
        }
    }

    /// Checks that a condition can be read and asks for nothing but what is known.
    pub(super) fn check_condition(
        &mut self,
        condition: &Condition,
        known: impl Fn(&str, Option<&str>) -> bool,
    ) {
        match condition.rule() {
            Err(fault) => {
                let mut place = yaml::place(
                    &self.prose.text,
                    &self.prose.origin,
                    1,
                    condition.location(),
                );
                let before = place.text.chars().nth(place.column.saturating_sub(1));
                let quote = usize::from(matches!(before, Some('"' | '\'')));
                place.column += quote + condition.text()[..fault.offset].chars().count();
                self.add_at(place, fault.message.clone());
            }
            Ok(rule) => {
                for (name, argument) in rule.names() {
                    if !known(name, argument) {
                        let shown = argument
                            .map_or_else(String::new, |argument| format!("(\"{argument}\")"));
                        self.add(
                            condition.location(),
                            format!("there is no fact `{name}{shown}` here"),
                        );
                    }
                }
            }
        }
    }

    pub(super) fn into_result(self) -> Result<()> {
        let mut faults = self.found.into_iter();
        let Some((place, message)) = faults.next() else {
            return Ok(());
        };
        let more: String = faults
            .map(|(place, message)| format!("\n  {place}: {message}"))
            .collect();
        let message = if more.is_empty() {
            message
        } else {
            format!("{message}; and also:{more}")
        };
        Err(Error::new(ErrorKind::PackInvalid, message).with_place(place))
    }
}
