//! Problems: tolerated deviations in a reply, each with a stable code and a severity.

use std::fmt;
use std::ops::Range;

use serde::{Serialize, Serializer};

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A deviation in form; nothing is lost.
    Note,
    /// Possibly intended input was ignored.
    Warning,
}

/// A tolerated deviation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[expect(missing_docs, reason = "the name says it all")]
    pub code: Code,
    #[expect(missing_docs, reason = "the name says it all")]
    pub severity: Severity,
    /// Description for people.
    pub message: String,
    /// Byte range in the reply.
    pub span: Range<usize>,
}

impl Problem {
    /// Creates a problem with the default severity and message of its code.
    #[must_use]
    pub fn new(code: Code, span: Range<usize>) -> Self {
        Self {
            code,
            severity: code.severity(),
            message: code.words().to_owned(),
            span,
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $severity:ident $words:literal,)*) => {
        /// Codes of problems.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $words] $variant,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable name, as in JSON output.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the severity of such a problem.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Returns the message of such a problem.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }
        }
    };
}

codes! {
    ContradictingTasks "contradicting_tasks" Warning "a task is reported both as done and as failed, so it failed",
    ConvertedReply "converted_reply" Note "the tags are written in another form",
    CutOff "cut_off" Warning "the reply was cut off, so nothing of it is done",
    CutTag "cut_tag" Warning "the reply ends inside a tag",
    DoubtfulMarker "doubtful_marker" Warning "a marker stands in a quote or cannot be read, and does not count",
    Echo "echo" Warning "this repeats the prompt, and does not count",
    EffectInMessage "effect_in_message" Warning "an action or an update inside the message does not count",
    Entities "entities" Note "entities in a value are read as the characters they stand for",
    EscapeSequences "escape_sequences" Note "the escape sequences of a terminal are left out",
    FailedCall "failed_call" Warning "the agent failed, so its output is no message",
    FencedReply "fenced_reply" Note "the reply, or each of its blocks, is in a code fence",
    Harmony "harmony" Note "the reply holds channel marks, which are read as tags",
    InvalidUtf8 "invalid_utf8" Warning "bytes that are no UTF-8 are replaced",
    JsonReply "json_reply" Note "the reply is written as JSON",
    LooseAttribute "loose_attribute" Note "an attribute has no quotes, or curly ones",
    LooseTag "loose_tag" Note "a tag has blanks, a prefix or invisible characters in it",
    MoreProblems "more_problems" Warning "there are more problems than are listed",
    NativeCall "native_call" Note "an action is written as a tool call",
    NestedMessage "nested_message" Note "a message holds message tags",
    OtherSpeaker "other_speaker" Warning "the agent goes on in another's name; that is left out",
    Placeholder "placeholder" Warning "this copies a placeholder, and does not count",
    PythonReply "python_reply" Note "the reply is written as Python values",
    QuotedEffect "quoted_effect" Warning "an effect in a quote or in code does not count",
    RefusedEffect "refused_effect" Warning "an effect is not clear, and does not count",
    RepeatedEffect "repeated_effect" Note "the same effect stands twice, and counts once",
    RepeatedReply "repeated_reply" Note "the reply stands twice, and is read once",
    SecondMessage "second_message" Note "there are several messages, which are joined",
    SeveralVerdicts "several_verdicts" Warning "the verdicts differ, and PASS does not count",
    StrayCloser "stray_closer" Note "a tag is closed that was not opened",
    UncertainPass "uncertain_pass" Warning "this PASS does not count",
    UnclosedMessage "unclosed_message" Note "a message is not closed",
    UnclosedThought "unclosed_thought" Warning "a thought is not closed",
    UnknownAttribute "unknown_attribute" Note "an attribute is not known",
    UnknownField "unknown_field" Note "an action has a field that it does not know",
    UnknownTag "unknown_tag" Note "the reply stands in a tag that is not known",
    UnknownTask "unknown_task" Warning "there is no such task",
    UnopenedThought "unopened_thought" Warning "a thought is closed that was not opened; all before it belongs to it",
    UnreadableMarker "unreadable_marker" Warning "a marker holds no value that can be read",
    WrongRun "wrong_run" Warning "a verdict does not carry this turn's `run`",
    YamlReply "yaml_reply" Note "the reply is written as YAML",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
