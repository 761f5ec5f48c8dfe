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

/// A tolerated deviation in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[expect(missing_docs, reason = "the name says it all")]
    pub code: ProblemCode,
    #[expect(missing_docs, reason = "the name says it all")]
    pub severity: Severity,
    /// Description for the user.
    pub message: String,
    /// Byte range in the reply.
    pub span: Range<usize>,
}

impl Problem {
    /// Creates a problem with the default severity and message of its code.
    #[must_use]
    pub fn new(code: ProblemCode, span: Range<usize>) -> Self {
        Self {
            code,
            severity: code.severity(),
            message: code.message().to_owned(),
            span,
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $severity:ident $message:literal,)*) => {
        /// Kind of a problem in a reply.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ProblemCode {
            $(#[doc = $message] $variant,)*
        }

        impl ProblemCode {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the stable name, as in JSON output.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the severity of problems with this code.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Returns the message of problems with this code.
            #[must_use]
            pub fn message(self) -> &'static str {
                match self { $(Self::$variant => $message,)* }
            }
        }
    };
}

codes! {
    ContradictingTasks "contradicting_tasks" Warning "a task is reported as done and as failed; it is treated as failed",
    ConvertedReply "converted_reply" Note "tags in other brackets or written as entities were converted",
    CutOff "cut_off" Warning "the reply was cut off; nothing of it was applied",
    CutTag "cut_tag" Warning "the reply ends inside a tag",
    DoubtfulMarker "doubtful_marker" Warning "a marker is quoted or malformed; it was ignored",
    Echo "echo" Warning "a part of the reply repeats the prompt; it was ignored",
    EffectInMessage "effect_in_message" Warning "an action or an update inside the message was ignored",
    Entities "entities" Note "entities in a value were decoded",
    EscapeSequences "escape_sequences" Note "terminal escape sequences were removed",
    FailedCall "failed_call" Warning "the agent failed; its output was not read as a reply",
    FencedReply "fenced_reply" Note "the reply, or each of its blocks, is in a code fence",
    Harmony "harmony" Note "channel tokens in the reply were read as tags",
    InvalidUtf8 "invalid_utf8" Warning "invalid UTF-8 was replaced",
    JsonReply "json_reply" Note "the reply is written as JSON",
    LooseAttribute "loose_attribute" Note "an attribute value has curly quotes or none",
    LooseTag "loose_tag" Note "a tag contains spaces, a prefix or invisible characters",
    MoreProblems "more_problems" Warning "more problems were found than are listed",
    NativeCall "native_call" Note "an action is written as a tool call",
    NestedMessage "nested_message" Note "a message contains message tags",
    OtherSpeaker "other_speaker" Warning "the agent wrote text of another speaker; it was removed",
    Placeholder "placeholder" Warning "an effect contains a copied placeholder; it was ignored",
    PythonReply "python_reply" Note "the reply is written as Python values",
    QuotedEffect "quoted_effect" Warning "an effect in a quote or in code was ignored",
    RefusedEffect "refused_effect" Warning "an effect is unclear or not allowed; it was ignored",
    RepeatedEffect "repeated_effect" Note "a duplicate effect was ignored",
    RepeatedReply "repeated_reply" Note "the reply is repeated; one copy was read",
    SecondMessage "second_message" Note "several messages were joined",
    SeveralVerdicts "several_verdicts" Warning "the verdicts differ; PASS was ignored",
    StrayCloser "stray_closer" Note "a closing tag has no opening tag",
    UncertainPass "uncertain_pass" Warning "a PASS is uncertain; it was ignored",
    UnclosedMessage "unclosed_message" Note "a message is not closed",
    UnclosedThought "unclosed_thought" Warning "a thought has no closing tag; it ends at the message or with the reply",
    UnknownAttribute "unknown_attribute" Note "a tag has an unknown attribute",
    UnknownField "unknown_field" Note "an action has an unknown field",
    UnknownTag "unknown_tag" Note "the reply is inside an unknown tag",
    UnknownTask "unknown_task" Warning "a task status names an unknown task",
    UnopenedThought "unopened_thought" Warning "a thought has no opening tag; all text before its closing tag belongs to it",
    UnreadableMarker "unreadable_marker" Warning "a marker has no readable value",
    WrongRun "wrong_run" Warning "the `run` attribute of a verdict does not match this turn",
    YamlReply "yaml_reply" Note "the reply is written as YAML",
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
