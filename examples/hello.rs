//! A prompt from a shipped template, and its XML.
#![expect(
    clippy::disallowed_methods,
    reason = "an example has the terminal to itself"
)]

use agentd::models::{AgentName, Mode};
use agentd::{SearchPath, Templates, UnifiedPrompt, inject_variables};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let templates = Templates::new(SearchPath::default());
    let template =
        templates.load_system_template(&AgentName::new("gemini")?, &Mode::new("plan")?)?;
    let prompt = UnifiedPrompt::new("Add login")?
        .with_system(inject_variables(&template, &Default::default()))
        .with_file("src/main.rs", "fn main() { if 1 < 2 { login() } }");
    prompt.write_xml(std::io::stdout())?;
    assert_eq!(UnifiedPrompt::from_xml(&prompt.to_xml())?, prompt);
    Ok(())
}
