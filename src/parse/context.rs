//! What is known of a reply beside its text.

/// How a reply came to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// The agent said that it was done, or nothing else is known.
    #[default]
    Stop,
    /// The limit of its length was reached.
    Length,
    /// The agent was stopped, or ended without saying so.
    Killed,
    /// The agent failed: its output is no reply.
    Failed,
}

/// What the driver knows of a reply.
#[derive(Clone, Debug, Default)]
pub struct Context<'a> {
    /// The pack's own prose that the prompt was made from.
    pub ours: Vec<&'a str>,
    /// The segments that were sent.
    pub sent: Vec<&'a str>,
    /// How the reply came to its end.
    pub finish: Finish,
    /// The exit code of the agent, if it has one.
    pub exit_code: Option<i32>,
    /// The `run` that verdicts of this turn must carry; `None` if the prompt has none.
    pub nonce: Option<&'a str>,
    /// The ids of the tasks that there are, if they are known.
    pub tasks: Option<Vec<String>>,
}

impl Context<'_> {
    /// Tells whether the reply may lack its end.
    pub(super) fn is_cut(&self) -> bool {
        self.finish != Finish::Stop || self.exit_code.is_some_and(|code| code != 0)
    }
}
