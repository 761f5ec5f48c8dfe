//! Fits one prompt to a model with a small window and to one with a large window, and compares the blocks.
#![expect(clippy::print_stdout, reason = "an example has the terminal to itself")]

use agentd::compose::{Draft, FitBlock, PromptRequest, compose};
use agentd::models::{Catalogue, Mode, State};
use agentd::{Pack, Result, SearchPath};

fn main() -> Result<()> {
    let pack = Pack::load("foreman", &SearchPath::default())?;
    let state = State::in_mode(Mode::new("architect")?);

    let draft_for = |model: &str| -> Result<Draft> {
        let request = PromptRequest {
            count: true,
            ..PromptRequest::new("What is missing?").with_model(Catalogue::built_in()?, model)
        };
        compose(&pack, &state, &request)
    };
    let small = draft_for("llama3.2:3b")?;
    let large = draft_for("gpt-4o")?;

    println!("{:<14} {:>13} {:>13}", "", "llama3.2:3b", "gpt-4o");
    for block in &large.fit_report.blocks {
        let in_small = small.fit_report.blocks.iter();
        let shorter = in_small.clone().find(|other| other.block == block.block);
        let [small, large] = [shorter, Some(block)].map(describe);
        println!("{:<14} {small:>13} {large:>13}", block.block);
    }
    for draft in [&small, &large] {
        let report = &draft.fit_report;
        let tokens = report.tokens.unwrap_or_default();
        println!("{tokens} tokens, {:?}", report.count);
    }
    Ok(())
}

/// Returns the length that a block has in a prompt, and its tokens.
fn describe(block: Option<&FitBlock>) -> String {
    block.map_or("-".to_owned(), |block| {
        format!("{} {}", block.rung, block.tokens.unwrap_or_default())
    })
}
