//! Reads a reply of an agent: its message, the actions that it asks for, and its verdict.
#![expect(clippy::print_stdout, reason = "an example has the terminal to itself")]

use agentd::models::Mode;
use agentd::parse::{ReplyContext, parse, parse_review_marker, verdict};
use agentd::{Pack, Result, SearchPath};

const REPLY: &str = r#"<thinking>The loop reads one element too many.</thinking>
<message>One thing is wrong.</message>
<action type="finding">
  <severity>blocker</severity>
  <file>src/main.rs</file>
  <line>12</line>
  <problem>The loop ends one element too late.</problem>
</action>
<review run="k3f9x2ab">NEEDS_CHANGES</review>"#;

fn main() -> Result<()> {
    // A grammar lists what a reply in one mode of a pack may contain.
    let pack = Pack::load("light", &SearchPath::default())?;
    let grammar = pack.grammar(&Mode::new("review")?)?;

    // The prompt asked the agent to repeat this value in its verdict: a verdict that is quoted from a file lacks it.
    let context = ReplyContext {
        nonce: Some("k3f9x2ab"),
        ..ReplyContext::default()
    };
    let response = parse(REPLY, &grammar, &context);
    println!("message: {}", response.message);
    for action in &response.actions {
        let value = |name: &str| action.values[name].as_str().unwrap_or_default();
        println!("{}: {} {}", action.name, value("severity"), value("file"));
    }
    if let Some(verdict) = verdict(&response, &grammar)? {
        println!("verdict: {verdict}");
    }

    // Where only the verdict matters, there is a shorter way.
    let verdict = parse_review_marker("Fine.\n<review>PASS</review>")?;
    println!("verdict: {verdict}");
    Ok(())
}
