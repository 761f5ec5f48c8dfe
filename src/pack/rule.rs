//! Rules for conditions in packs: a small expression language without side effects.
//!
//! `depth == 0`, `status("theme") == "complete"`, `xml_reliability == "low" or model contains "gemini"`. Evaluation
//! never fails: if a fact is unknown, or if a number is compared with a string, only `!=` holds. A fact alone holds if it is
//! known and not `false`.

use std::fmt;

use super::required_value::RequiredValue;
use super::rule_facts::{FactValue, RuleFacts, fact_key};

/// A parsed rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule(RuleNode);

/// A syntax error in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault {
    /// Description of the error.
    pub message: String,
    /// Byte offset in the rule's text.
    pub offset: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum RuleNode {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Compare(RuleOperand, RuleOperator, RuleOperand),
    Known(RuleOperand),
}

#[derive(Clone, Debug, PartialEq)]
enum RuleOperand {
    Literal(FactValue),
    Fact(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Contains,
}

/// Maximum nesting of parentheses and `not`.
const MAX_DEPTH: usize = 32;

impl Rule {
    /// Parses a rule.
    ///
    /// # Errors
    ///
    /// The first syntax error.
    pub fn parse(text: &str) -> Result<Self, RuleFault> {
        let mut parser = RuleParser {
            text,
            at: 0,
            depth: 0,
        };
        let node = parser.parse_any()?;
        match parser.peek() {
            "" => Ok(Self(node)),
            other => Err(parser.fault_here(format!("unexpected `{other}`"))),
        }
    }

    /// Returns true if the rule holds.
    #[must_use]
    pub fn holds(&self, facts: &RuleFacts) -> bool {
        self.0.holds(facts)
    }

    /// Splits the rule at its top-level `and`: it holds if all returned rules hold.
    #[must_use]
    pub fn conjuncts(&self) -> Vec<Self> {
        let mut conjuncts = Vec::new();
        self.0.collect_conjuncts(&mut conjuncts);
        conjuncts
    }

    /// Returns the string that the rule requires of a fact; `None` if the rule is not a single `==` with a string.
    #[must_use]
    pub fn required_value(&self) -> Option<RequiredValue<'_>> {
        let RuleNode::Compare(left, RuleOperator::Equal, right) = &self.0 else {
            return None;
        };
        let ((fact, RuleOperand::Literal(FactValue::Text(value)))
        | (RuleOperand::Literal(FactValue::Text(value)), fact)) = (left, right)
        else {
            return None;
        };
        let (fact, argument) = fact.split()?;
        Some(RequiredValue {
            fact,
            argument,
            value,
        })
    }

    /// Returns the names and arguments of the facts in the rule.
    #[must_use]
    pub fn names(&self) -> Vec<(&str, Option<&str>)> {
        let mut names = Vec::new();
        self.0.collect_names(&mut names);
        names
    }
}

impl RuleNode {
    fn holds(&self, facts: &RuleFacts) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(facts)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(facts)),
            Self::Not(node) => !node.holds(facts),
            Self::Known(operand) => operand
                .value(facts)
                .is_some_and(|value| *value != FactValue::Text("false".to_owned())),
            Self::Compare(left, operator, right) => {
                compare(left.value(facts), *operator, right.value(facts))
            }
        }
    }

    fn collect_conjuncts(&self, conjuncts: &mut Vec<Rule>) {
        match self {
            Self::All(nodes) => nodes
                .iter()
                .for_each(|node| node.collect_conjuncts(conjuncts)),
            node => conjuncts.push(Rule(node.clone())),
        }
    }

    fn collect_names<'a>(&'a self, names: &mut Vec<(&'a str, Option<&'a str>)>) {
        let mut add = |operand: &'a RuleOperand| {
            names.extend(operand.split());
        };
        match self {
            Self::Any(nodes) | Self::All(nodes) => {
                nodes.iter().for_each(|node| node.collect_names(names))
            }
            Self::Not(node) => node.collect_names(names),
            Self::Known(operand) => add(operand),
            Self::Compare(left, _, right) => {
                add(left);
                add(right);
            }
        }
    }
}

impl RuleOperand {
    fn value<'a>(&'a self, facts: &'a RuleFacts) -> Option<&'a FactValue> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Fact(key) => facts.get(key),
        }
    }
}

fn compare(left: Option<&FactValue>, operator: RuleOperator, right: Option<&FactValue>) -> bool {
    let (Some(left), Some(right)) = (left, right) else {
        return operator == RuleOperator::NotEqual;
    };
    let order = match (left, right) {
        (FactValue::Number(left), FactValue::Number(right)) => left.partial_cmp(right),
        (FactValue::Text(left), FactValue::Text(right)) => Some(left.cmp(right)),
        _ => None,
    };
    match operator {
        RuleOperator::Equal => order.is_some_and(|order| order.is_eq()),
        RuleOperator::NotEqual => order.is_none_or(|order| order.is_ne()),
        RuleOperator::Less => order.is_some_and(|order| order.is_lt()),
        RuleOperator::LessOrEqual => order.is_some_and(|order| order.is_le()),
        RuleOperator::More => order.is_some_and(|order| order.is_gt()),
        RuleOperator::MoreOrEqual => order.is_some_and(|order| order.is_ge()),
        RuleOperator::Contains => match (left, right) {
            (FactValue::Text(left), FactValue::Text(right)) => {
                left.to_lowercase().contains(&right.to_lowercase())
            }
            _ => false,
        },
    }
}

/// Possible values of a fact, as far as the pack determines them.
pub(super) enum FactDomain {
    /// No value, so that only `!=` holds.
    Unknown,
    /// Any value.
    Anything,
    /// A value from the caller: a number if it can be parsed as one, or else a string.
    Supplied,
    /// A whole number within bounds.
    Number(f64, f64),
    /// One of several strings.
    OneOf(Vec<String>),
}

impl FactDomain {
    /// Returns a domain of whole numbers within bounds.
    pub(super) fn number(min: f64, max: f64) -> Self {
        Self::Number(min, max)
    }

    /// Returns a domain of strings.
    pub(super) fn one_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::OneOf(texts.into_iter().map(str::to_owned).collect())
    }

    /// Returns true if a comparison of a fact of this domain with a value can hold.
    fn allows(&self, operator: RuleOperator, value: &FactValue) -> bool {
        match (self, value) {
            (Self::Unknown, _) => operator == RuleOperator::NotEqual,
            (Self::Anything, _) | (Self::Supplied, FactValue::Number(_)) => true,
            (Self::Supplied, FactValue::Text(text)) => {
                matches!(operator, RuleOperator::NotEqual | RuleOperator::Contains)
                    || matches!(FactValue::parse(text), FactValue::Text(_))
            }
            (Self::Number(min, max), FactValue::Number(value)) => match operator {
                RuleOperator::Equal => value.fract() == 0.0 && min <= value && value <= max,
                RuleOperator::NotEqual => true,
                RuleOperator::Less => min < value,
                RuleOperator::LessOrEqual => min <= value,
                RuleOperator::More => max > value,
                RuleOperator::MoreOrEqual => max >= value,
                RuleOperator::Contains => false,
            },
            (Self::OneOf(texts), FactValue::Text(_)) => {
                operator == RuleOperator::NotEqual
                    || texts.iter().any(|text| {
                        compare(Some(&FactValue::Text(text.clone())), operator, Some(value))
                    })
            }
            (Self::Number(..), FactValue::Text(_)) | (Self::OneOf(_), FactValue::Number(_)) => {
                operator == RuleOperator::NotEqual
            }
        }
    }

    /// Returns true if a rule that consists of a fact of this domain can hold.
    fn can_be_known(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::OneOf(texts) => texts.iter().any(|text| text != "false"),
            Self::Anything | Self::Supplied | Self::Number(..) => true,
        }
    }
}

/// Satisfiability of a rule. The analysis is approximate: a rule reported as impossible never holds, but a rule
/// reported as possible may also be impossible.
pub(super) struct RuleReach {
    /// False if the rule can never hold.
    pub(super) can_hold: bool,
    /// Comparisons in the rule that never hold.
    pub(super) impossible: Vec<String>,
}

/// Domains of facts by name and argument.
type FactDomains<'a> = dyn Fn(&str, Option<&str>) -> FactDomain + 'a;

impl Rule {
    /// Determines if the rule can hold, and which of its comparisons never do.
    pub(super) fn reach(&self, domains: &FactDomains<'_>) -> RuleReach {
        let mut impossible = Vec::new();
        let can_hold = self.0.can_hold(domains, &mut impossible);
        RuleReach {
            can_hold,
            impossible,
        }
    }
}

impl RuleNode {
    fn can_hold(&self, domains: &FactDomains<'_>, impossible: &mut Vec<String>) -> bool {
        match self {
            // Every part is visited, without short-circuiting, to find all impossible comparisons.
            Self::Any(nodes) => {
                let results: Vec<bool> = nodes
                    .iter()
                    .map(|node| node.can_hold(domains, impossible))
                    .collect();
                results.contains(&true)
            }
            Self::All(nodes) => {
                let results: Vec<bool> = nodes
                    .iter()
                    .map(|node| node.can_hold(domains, impossible))
                    .collect();
                !results.contains(&false)
            }
            Self::Not(node) => node.can_fail(domains, impossible),
            Self::Known(operand) => {
                let holds = match operand.split() {
                    None => true,
                    Some((name, argument)) => domains(name, argument).can_be_known(),
                };
                if !holds {
                    impossible.push(operand.to_string());
                }
                holds
            }
            Self::Compare(left, operator, right) => {
                let holds = match (left, right) {
                    (RuleOperand::Literal(left), RuleOperand::Literal(right)) => {
                        compare(Some(left), *operator, Some(right))
                    }
                    (RuleOperand::Literal(value), fact) | (fact, RuleOperand::Literal(value)) => {
                        let is_flipped = matches!(left, RuleOperand::Literal(_));
                        // `contains` has no flipped form, so assume that it can hold.
                        match (
                            fact.split(),
                            is_flipped && *operator == RuleOperator::Contains,
                        ) {
                            (Some((name, argument)), false) => {
                                let operator = if is_flipped {
                                    operator.flipped()
                                } else {
                                    *operator
                                };
                                domains(name, argument).allows(operator, value)
                            }
                            _ => true,
                        }
                    }
                    (RuleOperand::Fact(_), RuleOperand::Fact(_)) => true,
                };

                if !holds {
                    impossible.push(format!("{left} {} {right}", operator.symbol()));
                }

                holds
            }
        }
    }

    fn can_fail(&self, domains: &FactDomains<'_>, impossible: &mut Vec<String>) -> bool {
        match self {
            Self::Not(node) => node.can_hold(domains, impossible),
            Self::Any(nodes) => nodes.iter().all(|node| node.can_fail(domains, impossible)),
            Self::All(nodes) => nodes.iter().any(|node| node.can_fail(domains, impossible)),
            Self::Known(_) | Self::Compare(..) => true,
        }
    }
}

impl RuleOperand {
    /// Returns the name and the argument of a fact; `None` for a literal.
    fn split(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::Literal(_) => None,
            Self::Fact(key) => Some(match key.split_once('(') {
                Some((name, argument)) => (name, argument.strip_suffix(')')),
                None => (key.as_str(), None),
            }),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RuleNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(nodes) => write_joined(f, nodes, " or "),
            Self::All(nodes) => write_joined(f, nodes, " and "),
            Self::Not(node) => write!(f, "not {}", in_parentheses(node)),
            Self::Compare(left, operator, right) => {
                write!(f, "{left} {} {right}", operator.symbol())
            }
            Self::Known(operand) => operand.fmt(f),
        }
    }
}

fn write_joined(f: &mut fmt::Formatter<'_>, nodes: &[RuleNode], word: &str) -> fmt::Result {
    let parts: Vec<String> = nodes.iter().map(in_parentheses).collect();
    f.write_str(&parts.join(word))
}

/// Returns the text of a part of a rule, in parentheses if the part is itself an `or` or an `and`.
fn in_parentheses(node: &RuleNode) -> String {
    match node {
        RuleNode::Any(_) | RuleNode::All(_) => format!("({node})"),
        RuleNode::Not(_) | RuleNode::Compare(..) | RuleNode::Known(_) => node.to_string(),
    }
}

impl fmt::Display for RuleOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.split()) {
            (Self::Literal(FactValue::Number(number)), _) => write!(f, "{number}"),
            (Self::Literal(FactValue::Text(text)), _) => write!(f, "\"{text}\""),
            (Self::Fact(_), Some((name, Some(argument)))) => write!(f, "{name}(\"{argument}\")"),
            (Self::Fact(key), _) => f.write_str(key),
        }
    }
}

impl RuleOperator {
    fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::More => ">",
            Self::MoreOrEqual => ">=",
            Self::Contains => "contains",
        }
    }

    /// Returns the operator for the comparison with its sides exchanged.
    fn flipped(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::LessOrEqual => Self::MoreOrEqual,
            Self::More => Self::Less,
            Self::MoreOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

struct RuleParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> RuleParser<'a> {
    fn parse_any(&mut self) -> Result<RuleNode, RuleFault> {
        let mut nodes = vec![self.parse_all()?];
        while self.take_token("or") {
            nodes.push(self.parse_all()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            RuleNode::Any(nodes)
        })
    }

    fn parse_all(&mut self) -> Result<RuleNode, RuleFault> {
        let mut nodes = vec![self.parse_one()?];
        while self.take_token("and") {
            nodes.push(self.parse_one()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            RuleNode::All(nodes)
        })
    }

    fn parse_one(&mut self) -> Result<RuleNode, RuleFault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault_here(format!(
                "the condition is nested more than {MAX_DEPTH} levels deep"
            )));
        }

        let node = if self.take_token("not") {
            RuleNode::Not(Box::new(self.parse_one()?))
        } else if self.take_token("(") {
            let node = self.parse_any()?;
            if !self.take_token(")") {
                return Err(self.fault_here("`)` is missing".to_owned()));
            }
            node
        } else {
            self.parse_comparison()?
        };

        self.depth -= 1;
        Ok(node)
    }

    fn parse_comparison(&mut self) -> Result<RuleNode, RuleFault> {
        let left = self.parse_operand()?;
        let operator = match self.peek() {
            "==" => RuleOperator::Equal,
            "!=" => RuleOperator::NotEqual,
            "<" => RuleOperator::Less,
            "<=" => RuleOperator::LessOrEqual,
            ">" => RuleOperator::More,
            ">=" => RuleOperator::MoreOrEqual,
            "contains" => RuleOperator::Contains,
            _ => return Ok(RuleNode::Known(left)),
        };

        self.advance();
        Ok(RuleNode::Compare(left, operator, self.parse_operand()?))
    }

    fn parse_operand(&mut self) -> Result<RuleOperand, RuleFault> {
        let fault = |parser: &Self, token: &str| {
            let shown = if token.is_empty() {
                "the end of the condition".to_owned()
            } else {
                format!("`{token}`")
            };
            parser.fault_here(format!(
                "expected a name, a number or a string, found {shown}"
            ))
        };

        let token = self.peek();
        if let Some(text) = strip_quotes(token) {
            self.advance();
            return Ok(RuleOperand::Literal(FactValue::Text(text.to_owned())));
        }

        if let Ok(number) = token.parse::<f64>() {
            self.advance();
            return Ok(RuleOperand::Literal(FactValue::Number(number)));
        }

        let is_name = token.starts_with(|c: char| c.is_ascii_alphabetic())
            && !matches!(token, "and" | "or" | "not" | "contains");
        if !is_name {
            return Err(fault(self, token));
        }

        self.advance();
        if !self.take_token("(") {
            return Ok(RuleOperand::Fact(fact_key(token, None)));
        }

        let argument = self.peek();
        let Some(text) = strip_quotes(argument) else {
            return Err(fault(self, argument));
        };
        self.advance();
        if !self.take_token(")") {
            return Err(self.fault_here("`)` is missing".to_owned()));
        }

        Ok(RuleOperand::Fact(fact_key(token, Some(text))))
    }

    /// Returns the next token without consuming it; empty at the end.
    fn peek(&self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        let length = match rest.as_bytes() {
            [] => 0,
            [b'"', ..] => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            [b'=' | b'!' | b'<' | b'>', b'=', ..] => 2,
            [first, ..] if first.is_ascii_alphanumeric() => rest
                .bytes()
                .take_while(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'))
                .count(),
            _ => rest.chars().next().map_or(0, char::len_utf8),
        };

        &rest[..length]
    }

    fn advance(&mut self) {
        let token = self.peek();
        let spaces = self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        self.at += spaces + token.len();
    }

    fn take_token(&mut self, token: &str) -> bool {
        let is_next = self.peek() == token;
        if is_next {
            self.advance();
        }
        is_next
    }

    fn fault_here(&self, message: String) -> RuleFault {
        let spaces = self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        RuleFault {
            message,
            offset: self.at + spaces,
        }
    }
}

fn strip_quotes(token: &str) -> Option<&str> {
    token
        .strip_prefix('"')?
        .strip_suffix('"')
        .filter(|_| token.len() >= 2)
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_split_at_its_and() {
        let cases: [(&str, &[&str]); 6] = [
            ("depth == 2", &["depth == 2"]),
            (
                "status(\"theme\") == \"complete\" and locked",
                &["status(\"theme\") == \"complete\"", "locked"],
            ),
            ("a and (b and c > 1) and d", &["a", "b", "c > 1", "d"]),
            ("a or b", &["a or b"]),
            ("(a or b and c) and d", &["a or (b and c)", "d"]),
            ("not (a and b) and not c", &["not (a and b)", "not c"]),
        ];
        for (text, expected) in cases {
            let parts = Rule::parse(text).unwrap().conjuncts();
            let shown: Vec<String> = parts.iter().map(Rule::to_string).collect();
            assert_eq!(shown, expected, "{text}");
            // The text of a part is the part.
            for part in parts {
                assert_eq!(Rule::parse(&part.to_string()).unwrap(), part, "{text}");
            }
        }
    }

    #[test]
    fn rules_have_an_answer_for_every_fact() {
        let facts = RuleFacts::default()
            .with("depth", 2.0)
            .with("model", "Gemini-4")
            .with("locked", "false")
            .with_argument("status", "theme", "complete");
        let cases = [
            ("depth == 2", true),
            ("depth == 0", false),
            ("depth > 0 and depth < 3", true),
            ("depth >= 2 and depth <= 2 and depth != 3", true),
            ("status(\"theme\") == \"complete\"", true),
            ("status(\"beats\") == \"complete\"", false),
            ("status(\"beats\") != \"complete\"", true),
            ("not status(\"beats\")", true),
            ("status(\"theme\")", true),
            ("locked", false),
            ("not locked", true),
            ("model contains \"gemini\"", true),
            ("depth == \"2\"", false),
            ("unknown > 1", false),
            ("depth == 0 or depth == 2 and not (depth == 1)", true),
            ("(depth == 0 or depth == 2) and depth == 1", false),
        ];
        for (rule, expected) in cases {
            assert_eq!(Rule::parse(rule).unwrap().holds(&facts), expected, "{rule}");
        }
        assert_eq!(
            Rule::parse("status(\"a\") == depth or not model")
                .unwrap()
                .names(),
            [("status", Some("a")), ("depth", None), ("model", None)]
        );
    }

    #[test]
    fn what_can_never_hold_is_found() {
        let domain = |name: &str, _: Option<&str>| match name {
            "turns" => FactDomain::number(1.0, f64::INFINITY),
            "tier" => FactDomain::one_of(["full", "minimal"]),
            "depth" => FactDomain::Supplied,
            "done" => FactDomain::Unknown,
            _ => FactDomain::Anything,
        };
        let cases: [(&str, bool, &[&str]); 19] = [
            ("turns > 3", true, &[]),
            ("turns < 0", false, &["turns < 0"]),
            ("0 > turns", false, &["0 > turns"]),
            ("0 < turns", true, &[]),
            ("turns == 1.5", false, &["turns == 1.5"]),
            ("turns == \"3\"", false, &["turns == \"3\""]),
            ("turns != \"3\"", true, &[]),
            ("tier == \"full\"", true, &[]),
            ("tier == \"small\"", false, &["tier == \"small\""]),
            ("tier contains \"MIN\"", true, &[]),
            ("depth == \"1\"", false, &["depth == \"1\""]),
            ("depth == \"one\" or depth == 1", true, &[]),
            ("done(\"a.b\")", false, &["done(\"a.b\")"]),
            (
                "done(\"a.b\") >= 1 or turns > 3",
                true,
                &["done(\"a.b\") >= 1"],
            ),
            (
                "done(\"a.b\") >= 1 and turns > 3",
                false,
                &["done(\"a.b\") >= 1"],
            ),
            ("not done(\"a.b\")", true, &[]),
            ("not not done(\"a.b\")", false, &["done(\"a.b\")"]),
            ("other == 1 and other == turns", true, &[]),
            ("1 == 2", false, &["1 == 2"]),
        ];
        for (rule, can_hold, impossible) in cases {
            let reach = Rule::parse(rule).unwrap().reach(&domain);
            assert_eq!(reach.can_hold, can_hold, "{rule}");
            assert_eq!(reach.impossible, impossible, "{rule}");
        }
    }

    #[test]
    fn faults_have_a_place() {
        let deep = "(".repeat(40);
        let cases = [
            ("", 0),
            ("depth =", 6),
            ("depth == ", 9),
            ("== 1", 0),
            ("depth == 0 and", 14),
            ("(depth == 0", 11),
            ("status(theme)", 7),
            ("status(\"theme\"", 14),
            ("depth == 0 depth", 11),
            ("depth == \"open", 9),
            ("é == 1", 0),
            (deep.as_str(), 32),
        ];
        for (rule, offset) in cases {
            assert_eq!(Rule::parse(rule).unwrap_err().offset, offset, "{rule}");
        }
    }
}
