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
            if let Operand::Fact(key) = operand {
                names.push(match key.split_once('(') {
                    Some((name, argument)) => (name, argument.strip_suffix(')')),
                    None => (key.as_str(), None),
                });
            }
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
