//! A rule in a manifest: its text, its location, and the parsed rule.

use std::fmt;

use serde::{Deserialize, Deserializer};

use super::rule::{Rule, RuleFault};
use super::rule_facts::RuleFacts;
use crate::text::yaml::WithPlace;

/// A rule and its location in the manifest. A rule that cannot be parsed never holds, and its pack does not load.
#[derive(Clone)]
pub struct ManifestRule {
    written: WithPlace<String>,
    rule: Result<Rule, RuleFault>,
}

impl ManifestRule {
    /// Returns true if the condition holds.
    #[must_use]
    pub fn holds(&self, facts: &RuleFacts) -> bool {
        self.rule.as_ref().is_ok_and(|rule| rule.holds(facts))
    }

    /// Returns the text of the condition.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.written.value
    }

    /// Returns the names of the facts in the condition; `None` if it cannot be parsed.
    #[must_use]
    pub fn names(&self) -> Option<Vec<&str>> {
        let rule = self.rule.as_ref().ok()?;
        Some(rule.names().into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the arguments with which the condition uses a fact.
    pub fn arguments<'a>(&'a self, fact: &'a str) -> impl Iterator<Item = &'a str> {
        self.rule
            .iter()
            .flat_map(Rule::names)
            .filter(move |(name, _)| *name == fact)
            .filter_map(|(_, argument)| argument)
    }

    /// Splits the condition at its top-level `and`; empty if it cannot be parsed.
    #[must_use]
    pub fn conjuncts(&self) -> Vec<Rule> {
        self.rule.as_ref().map(Rule::conjuncts).unwrap_or_default()
    }

    pub(super) fn rule(&self) -> Result<&Rule, &RuleFault> {
        self.rule.as_ref()
    }

    pub(super) fn location(&self) -> serde_saphyr::Location {
        self.written.referenced
    }
}

impl fmt::Display for ManifestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for ManifestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.text()).finish()
    }
}

impl<'de> Deserialize<'de> for ManifestRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WithPlace::<String>::deserialize(deserializer)?;
        let rule = Rule::parse(&written.value);
        Ok(Self { written, rule })
    }
}
