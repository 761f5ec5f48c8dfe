//! Conditions in packs: small, total, without side effects.
//!
//! `depth == 0`, `status("theme") == "complete"`, `xml_reliability == "low" or model contains "gemini"`. A fact that is
//! not known equals nothing and is smaller than nothing, so a rule always has an answer. A fact alone holds if it is
//! known and not `false`.

use std::collections::BTreeMap;
use std::fmt;

/// What is known when rules are judged: values by name, such as `depth`, or by name and argument: `status("theme")`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(BTreeMap<String, Value>);

/// The value of a fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Value {
    /// Reads a value: a number if it is one, a text otherwise.
    #[must_use]
    pub fn read(text: &str) -> Self {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Self::Number(number),
            _ => Self::Text(text.to_owned()),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Facts {
    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Returns a fact's value as text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| match value {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        })
    }

    /// Adds a fact that is asked for with an argument.
    #[must_use]
    pub fn with_argument(self, name: &str, argument: &str, value: impl Into<Value>) -> Self {
        self.with(&key(name, Some(argument)), value)
    }
}

fn key(name: &str, argument: Option<&str>) -> String {
    argument.map_or_else(|| name.to_owned(), |argument| format!("{name}({argument})"))
}

/// A condition that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule(Node);

/// A fault in a condition: what it is, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault {
    /// The fault in words.
    pub message: String,
    /// Where in the condition's text.
    pub offset: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Compare(Operand, Operator, Operand),
    Known(Operand),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    Fact(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Contains,
}

/// The deepest nesting of parentheses and `not`.
const DEPTH: usize = 32;

impl Rule {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// The first fault, with its place.
    pub fn read(text: &str) -> Result<Self, RuleFault> {
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
        };
        let node = reader.any()?;
        match reader.peek() {
            "" => Ok(Self(node)),
            other => Err(reader.fault(format!("`{other}` is not expected here"))),
        }
    }

    /// Tells whether the condition holds.
    #[must_use]
    pub fn holds(&self, facts: &Facts) -> bool {
        self.0.holds(facts)
    }

    /// Returns the facts that the condition asks for: names and arguments.
    #[must_use]
    pub fn names(&self) -> Vec<(&str, Option<&str>)> {
        let mut names = Vec::new();
        self.0.collect_names(&mut names);
        names
    }
}

impl Node {
    fn holds(&self, facts: &Facts) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(facts)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(facts)),
            Self::Not(node) => !node.holds(facts),
            Self::Known(operand) => operand
                .value(facts)
                .is_some_and(|value| *value != Value::Text("false".to_owned())),
            Self::Compare(left, operator, right) => {
                compare(left.value(facts), *operator, right.value(facts))
            }
        }
    }

    fn collect_names<'a>(&'a self, names: &mut Vec<(&'a str, Option<&'a str>)>) {
        let mut add = |operand: &'a Operand| {
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

impl Operand {
    fn value<'a>(&'a self, facts: &'a Facts) -> Option<&'a Value> {
        match self {
            Self::Literal(value) => Some(value),
            Self::Fact(key) => facts.0.get(key),
        }
    }
}

fn compare(left: Option<&Value>, operator: Operator, right: Option<&Value>) -> bool {
    let (Some(left), Some(right)) = (left, right) else {
        return operator == Operator::NotEqual;
    };
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.partial_cmp(right),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        _ => None,
    };
    match operator {
        Operator::Equal => order.is_some_and(|order| order.is_eq()),
        Operator::NotEqual => order.is_none_or(|order| order.is_ne()),
        Operator::Less => order.is_some_and(|order| order.is_lt()),
        Operator::LessOrEqual => order.is_some_and(|order| order.is_le()),
        Operator::More => order.is_some_and(|order| order.is_gt()),
        Operator::MoreOrEqual => order.is_some_and(|order| order.is_ge()),
        Operator::Contains => match (left, right) {
            (Value::Text(left), Value::Text(right)) => {
                left.to_lowercase().contains(&right.to_lowercase())
            }
            _ => false,
        },
    }
}

/// The values that a fact can have, as far as a pack determines them.
pub(super) enum Domain {
    /// It has no value, so only `!=` holds of it.
    Unknown,
    /// Any value.
    Anything,
    /// A value that the caller gives: one that reads as a number is a number.
    Given,
    /// A whole number within bounds.
    Number(f64, f64),
    /// One of some texts.
    OneOf(Vec<String>),
}

impl Domain {
    /// Makes a domain of whole numbers.
    pub(super) fn number(min: f64, max: f64) -> Self {
        Self::Number(min, max)
    }

    /// Makes a domain of texts.
    pub(super) fn one_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::OneOf(texts.into_iter().map(str::to_owned).collect())
    }

    /// Returns true if a fact with such a value can be in a relation to a value.
    fn allows(&self, operator: Operator, value: &Value) -> bool {
        match (self, value) {
            (Self::Unknown, _) => operator == Operator::NotEqual,
            (Self::Anything, _) | (Self::Given, Value::Number(_)) => true,
            (Self::Given, Value::Text(text)) => {
                matches!(operator, Operator::NotEqual | Operator::Contains)
                    || matches!(Value::read(text), Value::Text(_))
            }
            (Self::Number(min, max), Value::Number(value)) => match operator {
                Operator::Equal => value.fract() == 0.0 && min <= value && value <= max,
                Operator::NotEqual => true,
                Operator::Less => min < value,
                Operator::LessOrEqual => min <= value,
                Operator::More => max > value,
                Operator::MoreOrEqual => max >= value,
                Operator::Contains => false,
            },
            (Self::OneOf(texts), Value::Text(_)) => {
                operator == Operator::NotEqual
                    || texts.iter().any(|text| {
                        compare(Some(&Value::Text(text.clone())), operator, Some(value))
                    })
            }
            (Self::Number(..), Value::Text(_)) | (Self::OneOf(_), Value::Number(_)) => {
                operator == Operator::NotEqual
            }
        }
    }

    /// Returns true if a fact with such a value can hold by itself.
    fn can_be_known(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::OneOf(texts) => texts.iter().any(|text| text != "false"),
            Self::Anything | Self::Given | Self::Number(..) => true,
        }
    }
}

/// What can become of a condition. It may say that one can hold which cannot, never the other way round.
pub(super) struct Reach {
    /// Set unless the condition can never hold.
    pub(super) can_hold: bool,
    /// The comparisons in it that never hold.
    pub(super) impossible: Vec<String>,
}

/// The values that each fact can have, by its name and argument.
type Domains<'a> = dyn Fn(&str, Option<&str>) -> Domain + 'a;

impl Rule {
    /// Judges which parts of the condition can hold.
    pub(super) fn reach(&self, domains: &Domains<'_>) -> Reach {
        let mut impossible = Vec::new();
        let can_hold = self.0.can_hold(domains, &mut impossible);
        Reach {
            can_hold,
            impossible,
        }
    }
}

impl Node {
    fn can_hold(&self, domains: &Domains<'_>, impossible: &mut Vec<String>) -> bool {
        match self {
            // Every part is judged, so that each impossible one is found.
            Self::Any(nodes) => {
                let judged: Vec<bool> = nodes
                    .iter()
                    .map(|node| node.can_hold(domains, impossible))
                    .collect();
                judged.contains(&true)
            }
            Self::All(nodes) => {
                let judged: Vec<bool> = nodes
                    .iter()
                    .map(|node| node.can_hold(domains, impossible))
                    .collect();
                !judged.contains(&false)
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
                    (Operand::Literal(left), Operand::Literal(right)) => {
                        compare(Some(left), *operator, Some(right))
                    }
                    (Operand::Literal(value), fact) | (fact, Operand::Literal(value)) => {
                        let flipped = matches!(left, Operand::Literal(_));
                        match (fact.split(), flipped && *operator == Operator::Contains) {
                            (Some((name, argument)), false) => {
                                let operator = if flipped {
                                    operator.flipped()
                                } else {
                                    *operator
                                };
                                domains(name, argument).allows(operator, value)
                            }
                            _ => true,
                        }
                    }
                    (Operand::Fact(_), Operand::Fact(_)) => true,
                };
                if !holds {
                    impossible.push(format!("{left} {} {right}", operator.symbol()));
                }
                holds
            }
        }
    }

    fn can_fail(&self, domains: &Domains<'_>, impossible: &mut Vec<String>) -> bool {
        match self {
            Self::Not(node) => node.can_hold(domains, impossible),
            Self::Any(nodes) => nodes.iter().all(|node| node.can_fail(domains, impossible)),
            Self::All(nodes) => nodes.iter().any(|node| node.can_fail(domains, impossible)),
            Self::Known(_) | Self::Compare(..) => true,
        }
    }
}

impl Operand {
    /// Returns the name and the argument of a fact.
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

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.split()) {
            (Self::Literal(Value::Number(number)), _) => write!(f, "{number}"),
            (Self::Literal(Value::Text(text)), _) => write!(f, "\"{text}\""),
            (Self::Fact(_), Some((name, Some(argument)))) => write!(f, "{name}(\"{argument}\")"),
            (Self::Fact(key), _) => f.write_str(key),
        }
    }
}

impl Operator {
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

    /// Returns the operator for the same comparison with its sides exchanged.
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

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn any(&mut self) -> Result<Node, RuleFault> {
        let mut nodes = vec![self.all()?];
        while self.take("or") {
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            Node::Any(nodes)
        })
    }

    fn all(&mut self) -> Result<Node, RuleFault> {
        let mut nodes = vec![self.one()?];
        while self.take("and") {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 {
            nodes.remove(0)
        } else {
            Node::All(nodes)
        })
    }

    fn one(&mut self) -> Result<Node, RuleFault> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.fault("the condition is nested too deeply".to_owned()));
        }
        let node = if self.take("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.take("(") {
            let node = self.any()?;
            if !self.take(")") {
                return Err(self.fault("`)` is missing".to_owned()));
            }
            node
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, RuleFault> {
        let left = self.operand()?;
        let operator = match self.peek() {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::More,
            ">=" => Operator::MoreOrEqual,
            "contains" => Operator::Contains,
            _ => return Ok(Node::Known(left)),
        };
        self.next();
        Ok(Node::Compare(left, operator, self.operand()?))
    }

    fn operand(&mut self) -> Result<Operand, RuleFault> {
        let fault = |reader: &Self, token: &str| {
            let found = if token.is_empty() {
                "the end".to_owned()
            } else {
                format!("`{token}`")
            };
            reader.fault(format!(
                "a name, a number or a text is expected, not {found}"
            ))
        };
        let token = self.peek();
        if let Some(text) = quoted(token) {
            self.next();
            return Ok(Operand::Literal(Value::Text(text.to_owned())));
        }
        if let Ok(number) = token.parse::<f64>() {
            self.next();
            return Ok(Operand::Literal(Value::Number(number)));
        }
        let is_name = token.starts_with(|c: char| c.is_ascii_alphabetic())
            && !matches!(token, "and" | "or" | "not" | "contains");
        if !is_name {
            return Err(fault(self, token));
        }
        self.next();
        if !self.take("(") {
            return Ok(Operand::Fact(key(token, None)));
        }
        let argument = self.peek();
        let Some(text) = quoted(argument) else {
            return Err(fault(self, argument));
        };
        self.next();
        if !self.take(")") {
            return Err(self.fault("`)` is missing".to_owned()));
        }
        Ok(Operand::Fact(key(token, Some(text))))
    }

    /// Returns the next token without taking it.
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

    fn next(&mut self) {
        let token = self.peek();
        let blank = self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        self.at += blank + token.len();
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    fn fault(&self, message: String) -> RuleFault {
        let blank = self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        RuleFault {
            message,
            offset: self.at + blank,
        }
    }
}

fn quoted(token: &str) -> Option<&str> {
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
    fn rules_have_an_answer_for_every_fact() {
        let facts = Facts::default()
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
            assert_eq!(Rule::read(rule).unwrap().holds(&facts), expected, "{rule}");
        }
        assert_eq!(
            Rule::read("status(\"a\") == depth or not model")
                .unwrap()
                .names(),
            [("status", Some("a")), ("depth", None), ("model", None)]
        );
    }

    #[test]
    fn what_can_never_hold_is_found() {
        let domain = |name: &str, _: Option<&str>| match name {
            "turns" => Domain::number(1.0, f64::INFINITY),
            "tier" => Domain::one_of(["full", "minimal"]),
            "depth" => Domain::Given,
            "done" => Domain::Unknown,
            _ => Domain::Anything,
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
            let reach = Rule::read(rule).unwrap().reach(&domain);
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
            assert_eq!(Rule::read(rule).unwrap_err().offset, offset, "{rule}");
        }
    }
}
