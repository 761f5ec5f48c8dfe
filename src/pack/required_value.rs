//! The value that a rule requires of a fact.

/// The text that a fact must have, in a rule such as `status("summary") == "complete"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct RequiredValue<'a> {
    pub fact: &'a str,
    pub argument: Option<&'a str>,
    pub value: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Rule;

    #[test]
    fn rule_with_one_equality_requires_a_value() {
        let required = |fact, argument, value| {
            Some(RequiredValue {
                fact,
                argument,
                value,
            })
        };
        let cases = [
            ("status(\"a\") == \"b\"", required("status", Some("a"), "b")),
            ("\"b\" == verdict", required("verdict", None, "b")),
            ("status(\"a\") != \"b\"", None),
            ("depth == 2", None),
            ("\"a\" == \"b\"", None),
            ("locked", None),
            ("a == \"b\" and c == \"d\"", None),
        ];
        for (text, expected) in cases {
            let rule = Rule::parse(text).unwrap();
            assert_eq!(rule.required_value(), expected, "{text}");
        }
    }
}
