//! Commands inside a conversation: `/state`, `/mode`, and others.

use agentd::apply::gate_checklist;
use agentd::models::{AgentName, Mode};
use agentd::orchestrator::{
    TurnContext, chat_state, enter_mode, preview_chat, run_command, undo_message,
};
use agentd::{Error, ErrorKind, Pack, Result};
use serde_json::json;

use super::{Dialogue, find_agent, print};
use crate::args::Args;
use crate::commands::input::is_known_agent;
use crate::project;
use crate::terminal::{self, Failure};

/// Text of `/help`.
const HELP: &str = "\
/state                   show the session state that the agent sees
/prompt [MESSAGE]        print the exact prompt of the next message, without sending it
/mode                    show the mode, and the conditions for leaving it
/mode NAME [--insist]    move to another mode; --insist skips a closed gate and records the risk
/model [NAME]            show or choose the agent or the model of the next messages
/undo                    undo the last message and its effects
/help                    show this list
/quit                    end; so does the end of the input

A message is a line, or several lines between lines of \"\"\". A line that starts with / is a
command.
";

/// Commands of every conversation, as hints list them.
const COMMANDS: &str = "/state, /prompt, /mode, /model, /undo, /help, /quit";

/// Width of the names in `/help`.
const NAME_WIDTH: usize = 24;

/// Message in the prompt of `/prompt` without one.
const SAMPLE_MESSAGE: &str = "(your next message)";

/// A command inside a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Help,
    State,
    /// The message to show, if one is given.
    Prompt(Option<String>),
    /// The mode to enter, if one is given.
    Mode {
        name: Option<String>,
        insist: bool,
    },
    /// The agent or model to use, if one is given.
    Model(Option<String>),
    Undo,
    /// A command that the pack declares.
    Pack(String),
    Quit,
}

impl SlashCommand {
    /// Parses a line that starts with `/`, in a conversation with a pack.
    ///
    /// # Errors
    ///
    /// `NameInvalid` for an unknown command or a wrong argument.
    pub(super) fn parse(line: &str, pack: &Pack) -> Result<Self> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        match (name, rest) {
            ("/help", None) => Ok(Self::Help),
            ("/state", None) => Ok(Self::State),
            ("/prompt", message) => Ok(Self::Prompt(message)),
            ("/mode", rest) => Self::parse_mode(rest.as_deref().unwrap_or_default()),
            ("/model", name) => Ok(Self::Model(name)),
            ("/undo", None) => Ok(Self::Undo),
            ("/quit", None) => Ok(Self::Quit),
            ("/help" | "/state" | "/undo" | "/quit", Some(_)) => {
                Err(invalid(format!("`{name}` takes no argument")))
            }
            (name, rest) => Self::parse_pack_command(name, rest.as_deref(), pack),
        }
    }

    fn parse_pack_command(name: &str, rest: Option<&str>, pack: &Pack) -> Result<Self> {
        let word = name.strip_prefix('/').unwrap_or(name);
        if !pack.commands.contains_key(word) {
            return Err(unknown_command(name, pack));
        }
        match rest {
            None => Ok(Self::Pack(word.to_owned())),
            Some(_) => Err(invalid(format!("`{name}` takes no argument"))),
        }
    }

    fn parse_mode(rest: &str) -> Result<Self> {
        let (flags, names): (Vec<&str>, Vec<&str>) = rest
            .split_whitespace()
            .partition(|word| word.starts_with("--"));
        let insist = match flags[..] {
            [] => false,
            ["--insist"] if !names.is_empty() => true,
            ["--insist"] => return Err(invalid("`--insist` needs the name of a mode".to_owned())),
            [flag, ..] => {
                let message = format!("unknown option `{flag}`; usage: /mode [NAME [--insist]]");
                return Err(invalid(message));
            }
        };
        match names[..] {
            [] => Ok(Self::Mode { name: None, insist }),
            [name] => Ok(Self::Mode {
                name: Some(name.to_owned()),
                insist,
            }),
            _ => Err(invalid("`/mode` takes one name".to_owned())),
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::NameInvalid, message).with_hint(format!("commands: {COMMANDS}"))
}

fn unknown_command(name: &str, pack: &Pack) -> Error {
    let own: String = pack
        .commands
        .keys()
        .map(|name| format!(", /{name}"))
        .collect();
    Error::new(ErrorKind::NameInvalid, format!("unknown command `{name}`"))
        .with_hint(format!("commands: {COMMANDS}{own}"))
}

/// Returns the text of `/help`, with the commands of the pack.
fn help_text(pack: &Pack) -> String {
    let mut text = HELP.to_owned();
    if pack.commands.is_empty() {
        return text;
    }

    text.push_str(&format!("\nCommands of the pack {}:\n", pack.name));
    for (name, command) in &pack.commands {
        let name = format!("/{name}");
        let modes: Vec<&str> = command.modes.iter().map(Mode::as_str).collect();
        let modes = match modes.as_slice() {
            [] => String::new(),
            modes => format!(" (in {})", modes.join(", ")),
        };
        let description = command.description.trim();
        text.push_str(&format!("{name:NAME_WIDTH$} {description}{modes}\n"));
    }
    text
}

impl Dialogue {
    /// Runs a command and prints its result on stdout.
    pub(super) fn run_command(
        &mut self,
        args: &Args,
        context: &TurnContext<'_>,
        command: &SlashCommand,
    ) -> Result<(), Failure> {
        match command {
            SlashCommand::Quit => Ok(()),
            SlashCommand::Help => self.print("help", &help_text(&context.workspace.pack)),
            SlashCommand::State => {
                let preview = preview_chat(context, &self.session, SAMPLE_MESSAGE, &self.options)?;
                self.print("state", &format!("{}\n", preview.state_text))
            }
            SlashCommand::Prompt(message) => {
                let message = message.as_deref().unwrap_or(SAMPLE_MESSAGE);
                let preview = preview_chat(context, &self.session, message, &self.options)?;
                let prompt = preview.assembly.draft.rendered();
                self.print("prompt", &format!("{}\n", prompt.trim_end()))
            }
            SlashCommand::Mode { name: None, .. } => self.show_mode(context),
            SlashCommand::Mode {
                name: Some(name),
                insist,
            } => {
                enter_mode(context, &self.session, &Mode::new(name.as_str())?, *insist)?;
                self.show_mode(context)
            }
            SlashCommand::Model(name) => {
                if let Some(name) = name {
                    self.choose_model(args, context, name)?;
                }
                self.show_model(context)
            }
            SlashCommand::Undo => self.undo(context),
            SlashCommand::Pack(name) => {
                let report = run_command(context, &self.session, name)?;
                print::print_command(&report, self.json)?;
                Ok(())
            }
        }
    }

    /// Undoes the last message, and prints the result.
    fn undo(&self, context: &TurnContext<'_>) -> Result<(), Failure> {
        let report = undo_message(context, &self.session)?;
        if self.json {
            terminal::print_json_line(&json!({"undo": report}))?;
            return Ok(());
        }

        let first_line = report.message.lines().next().unwrap_or_default();
        let mut text = format!("undid: {first_line}\n");
        for effect in &report.undone {
            text.push_str(&format!("  restored: {effect}\n"));
        }
        for effect in &report.kept {
            text.push_str(&format!("  kept: {effect}\n"));
        }
        terminal::print_text(&text)?;
        Ok(())
    }

    /// Prints the mode and its gate.
    fn show_mode(&self, context: &TurnContext<'_>) -> Result<(), Failure> {
        let pack = &context.workspace.pack;
        let state = chat_state(context, &self.session)?;
        let mode = state.mode.as_ref().unwrap_or(&pack.start);
        let gate = gate_checklist(pack, &state, mode)?;
        if self.json {
            terminal::print_json_line(&json!({"mode": mode, "gate": gate}))?;
            return Ok(());
        }

        let mut text = format!("mode {mode}\n");
        if let Some(gate) = gate {
            text.push_str(&format!("{gate}\n"));
        }
        terminal::print_text(&text)?;
        Ok(())
    }

    /// Sets the agent or the model of the next messages.
    fn choose_model(&mut self, args: &Args, context: &TurnContext<'_>, name: &str) -> Result<()> {
        if is_known_agent(context.workspace.agents()?, name) {
            context.drivers.find(name)?;
            self.options.agent = Some(AgentName::new(name)?);
            self.options.model = None;
            return Ok(());
        }
        if project::catalogue(args)?.find(name).is_some() {
            self.options.model = Some(name.to_owned());
            return Ok(());
        }
        let message = format!("unknown agent or model `{name}`");
        Err(Error::new(ErrorKind::NameInvalid, message)
            .with_hint("list agents with `agentd doctor`, and models with `agentd models list`"))
    }

    /// Prints the agent and the model of the next message.
    fn show_model(&self, context: &TurnContext<'_>) -> Result<(), Failure> {
        let workspace = context.workspace;
        let state = context.store.state(&self.session)?;
        let mode = state.mode.unwrap_or_else(|| workspace.pack.start.clone());
        let agent = find_agent(workspace, &self.options, &mode)?;
        let model = &self.options.model;
        if self.json {
            terminal::print_json_line(&json!({"agent": agent.as_str(), "model": model}))?;
            return Ok(());
        }

        let model = model.as_ref().map(|model| format!(", model {model}"));
        terminal::print_text(&format!("agent {agent}{}\n", model.unwrap_or_default()))?;
        Ok(())
    }

    fn print(&self, key: &str, text: &str) -> Result<(), Failure> {
        if self.json {
            terminal::print_json_line(&json!({key: text}))?;
        } else {
            terminal::print_text(text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agentd::SearchPath;
    use agentd::pack::BUILT_IN_COMMANDS;

    use super::*;

    fn foreman() -> Pack {
        Pack::load("foreman", &SearchPath::default()).unwrap()
    }

    #[test]
    fn pack_cannot_declare_a_command_of_every_conversation() {
        for name in COMMANDS.split(", ") {
            let name = name.trim_start_matches('/');
            assert!(BUILT_IN_COMMANDS.contains(&name), "{name}");
        }
    }

    #[test]
    fn lines_are_parsed_as_commands() {
        let pack = foreman();
        let mode = |name: Option<&str>, insist| SlashCommand::Mode {
            name: name.map(str::to_owned),
            insist,
        };
        let cases = [
            ("/help", SlashCommand::Help),
            ("/state", SlashCommand::State),
            ("/prompt", SlashCommand::Prompt(None)),
            (
                "/prompt  Who is she? ",
                SlashCommand::Prompt(Some("Who is she?".to_owned())),
            ),
            ("/mode", mode(None, false)),
            ("/mode director", mode(Some("director"), false)),
            ("/mode director --insist", mode(Some("director"), true)),
            ("/mode --insist director", mode(Some("director"), true)),
            ("/model", SlashCommand::Model(None)),
            (
                "/model claude",
                SlashCommand::Model(Some("claude".to_owned())),
            ),
            ("/undo", SlashCommand::Undo),
            ("/lock", SlashCommand::Pack("lock".to_owned())),
            ("/quit", SlashCommand::Quit),
        ];
        for (line, expected) in cases {
            assert_eq!(
                SlashCommand::parse(line, &pack).unwrap(),
                expected,
                "{line}"
            );
        }

        for line in [
            "/",
            "/Help",
            "/mode a b",
            "/mode --insist",
            "/mode a --now",
            "/quit now",
            "/undo 2",
            "/lock now",
            "//lock",
        ] {
            let error = SlashCommand::parse(line, &pack).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NameInvalid, "{line}");
        }
    }
}
