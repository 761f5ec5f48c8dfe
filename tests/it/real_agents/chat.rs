//! A conversation: the reply acts, and the next message of any agent knows it.

use serde_json::json;

use super::{Stage, for_each_agent, program};
use crate::support::run_with_stdin;

const ACTS: &str = "<message>Noted.</message>\n\
<action type=\"write_template\"><template>theme</template><content>\
<central_theme>Can trust be learned?</central_theme></content></action>\n";

#[test]
fn conversation_acts_and_remembers() {
    for_each_agent(|cli| {
        let replies = json!([{"text": ACTS}, {"text": "<message>Go on.</message>"}]);
        let Some(stage) = Stage::set(cli, |_| replies) else {
            return;
        };
        let chat = |message: &str| {
            let args = ["chat", "--agent", cli.name()];
            let command = program(&stage.project, &stage.variables, &args);
            run_with_stdin(command, message.as_bytes())
        };

        let run = chat("The theme is trust.\n");
        assert_eq!(
            run.ok(),
            "Noted.\n✓ write_template: wrote central_theme in story/theme.md\n",
            "{cli:?}"
        );
        let file = stage.project.read("story/theme.md");
        assert!(file.contains("Can trust be learned?"), "{cli:?}: {file}");

        let run = chat("And now?\n");
        assert_eq!(run.ok(), "Go on.\n", "{cli:?}");
        let prompt = stage.recorded_call(2).stdin;
        for text in [
            "USER: The theme is trust.",
            "<completed>central_theme</completed>",
            "outcome=\"done\"",
        ] {
            assert!(prompt.contains(text), "{cli:?}: {text}\n{prompt}");
        }
        assert_eq!(prompt, stage.sent_prompt(), "{cli:?}");
    });
}
