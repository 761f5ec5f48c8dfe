//! A conversation that is killed at every fail point of a turn, and goes on with the next message.

use std::fs;

use crate::support::recording_agent::{answer, call, calls, define_agents};
use crate::support::{Run, TestProject, run_with_stdin};

/// Writes one field twice, and another one; saves a decision.
const REPLY: &str = "<message>Noted.</message>\n\
<action type=\"write_template\"><template>theme</template><content>\
<central_theme>Trust</central_theme></content></action>\n\
<action type=\"write_template\"><template>theme</template><content>\
<central_theme>Trust and its price</central_theme></content></action>\n\
<action type=\"write_template\"><template>theme</template><content>\
<theme_statement>It must be given.</theme_statement></content></action>\n\
<action type=\"save_decision\"><category>world</category><key>moons</key><value>two</value></action>";

/// The file of the theme after the reply.
const FILE: &str = "---\nartifact: theme\n---\n\n# Theme\n\n\
## Central Theme\n\nTrust and its price\n\n## Theme Statement\n\nIt must be given.\n";

/// A project with an agent that acts and one that only talks.
struct Stage {
    project: TestProject,
}

impl Stage {
    fn new() -> Self {
        let project = TestProject::new();
        let acts = answer(&project, "acts", REPLY);
        let talks = answer(&project, "talks", "<message>Go on.</message>");
        define_agents(
            &project,
            &[("acts", &[&acts], ""), ("talks", &[&talks], "")],
        );
        Self { project }
    }

    fn chat(&self, agent: &str, input: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = self.project.command(&["chat", "--agent", agent]);
        command.envs(variables.iter().copied());
        run_with_stdin(command, input.as_bytes())
    }

    /// Returns the last prompt, from the session state on.
    fn last_prompt(&self, agent: &str) -> String {
        let prompt = call(&self.project, agent, calls(&self.project, agent)).stdin;
        let start = prompt.find("<session_state>").unwrap();
        prompt[start..].to_owned()
    }
}

/// Returns the fail points that a message passes, in order, each with the number of times so far.
fn passed_points() -> Vec<(String, usize)> {
    let stage = Stage::new();
    let trace = stage.project.home().join("trace");
    let path = trace.to_str().unwrap();
    stage
        .chat(
            "acts",
            "The theme is trust.\n",
            &[("AGENTD_FAIL_TRACE", path)],
        )
        .ok();
    assert_eq!(stage.project.read("story/theme.md"), FILE);

    let trace = fs::read_to_string(trace).unwrap();
    let mut passed: Vec<(String, usize)> = Vec::new();
    for name in trace.lines() {
        let earlier = passed.iter().filter(|(known, _)| known == name).count();
        passed.push((name.to_owned(), earlier + 1));
    }
    passed
}

#[test]
fn killed_message_is_complete_or_missing_in_the_next_prompt() {
    let passed = passed_points();
    let changes = passed.iter().filter(|(name, _)| name == "changed");
    assert_eq!(changes.count(), 4, "{passed:?}");

    let mut complete = 0;
    for (point, number) in &passed {
        let stage = Stage::new();
        let fail = format!("{point}@{number}=abort");
        let killed = stage.chat("acts", "The theme is trust.\n", &[("AGENTD_FAIL", &fail)]);
        assert_eq!(killed.code, -1, "{fail}: {}", killed.stderr);

        stage.chat("talks", "Next.\n", &[]).ok();
        let prompt = stage.last_prompt("talks");
        assert!(!prompt.contains("kept the user's text"), "{fail}: {prompt}");
        if prompt.contains("USER: The theme is trust.") {
            complete += 1;
            assert_eq!(stage.project.read("story/theme.md"), FILE, "{fail}");
            assert!(prompt.contains("key=\"moons\""), "{fail}: {prompt}");
            assert!(
                prompt.contains("<completed>central_theme, theme_statement</completed>"),
                "{fail}: {prompt}"
            );
        } else {
            assert!(!stage.project.root().join("story").exists(), "{fail}");
            assert!(!prompt.contains("moons"), "{fail}: {prompt}");
        }

        // No text of the reply is taken for the user's: the agent may replace it.
        let run = stage.chat("acts", "Again.\n", &[]);
        assert!(
            !run.stdout.contains("kept the user's text"),
            "{fail}: {}",
            run.stdout
        );
        assert_eq!(stage.project.read("story/theme.md"), FILE, "{fail}");
    }
    assert!(
        complete > passed.len() / 3,
        "{complete} of {}",
        passed.len()
    );
}
