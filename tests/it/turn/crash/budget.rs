//! Budgets: a call that could exceed one is refused beforehand, and no budget is exceeded by more
//! than one call.

use agentd::models::Amount;
use agentd::store::{BudgetScope, Store};

use super::{Stage, TURN, WRITTEN, answers, session};

/// A turn for a model with a price: $2.50 and $10 per million tokens.
const PRICED: [&str; 9] = [
    "turn",
    "plan",
    "Add login",
    "--agent",
    "fake",
    "--session",
    "s",
    "--model",
    "gpt-4o",
];

/// A project whose agent reports its usage.
fn stage(input: u64, output: u64, settings: &str) -> Stage {
    let reply = "Planned.\\n<content_update target=\\\"proposal.md\\\">\\n# Login\\n</content_update>\\n<review>PASS</review>";
    let event = format!("out {{\"say\":\"{reply}\",\"end\":true,\"in\":{input},\"out\":{output}}}");
    let stage = Stage::with(&[&event]);
    stage.define(
        "    output: {kind: jsonl, text: [{path: say}], final: {end: true}, usage: {input: in, output: out}}\n",
    );
    stage.settings(settings);
    stage
}

fn spent(stage: &Stage) -> Amount {
    stage
        .store()
        .unwrap()
        .spent(&BudgetScope::Session(&session()))
        .unwrap()
        .amount
}

/// Takes turns until one is refused, and returns the number of turns.
fn turns_until_refused(stage: &Stage, turn: &[&str], words: &[&str]) -> usize {
    for taken in 0..20 {
        let (before, calls) = (stage.events(), stage.calls());
        let run = stage.run(turn);
        if run.code == 0 {
            assert_eq!(stage.calls(), calls + 1);
            continue;
        }
        run.fails(8, words);
        assert_eq!(stage.calls(), calls, "it was refused before the call");
        assert_eq!(stage.events(), before, "no event is recorded");
        return taken;
    }
    panic!("nothing is refused");
}

#[test]
fn turn_over_the_session_tokens_is_refused() {
    let stage = stage(20_000, 1_000, "[budget.session]\ntokens = 60000");
    let words = ["BudgetExhausted", "60000 tokens"];
    // Each turn uses 21 000, and a call may take the tokens of the prompt and 8 000 more.
    assert_eq!(turns_until_refused(&stage, &TURN, &words), 3);
    assert_eq!(spent(&stage).tokens, 63_000, "over by less than one call");
}

#[test]
fn overuse_exceeds_a_budget_by_at_most_one_call() {
    let stage = stage(1_000_000, 1_000_000, "[budget.session]\ntokens = 30000");
    assert_eq!(turns_until_refused(&stage, &TURN, &["BudgetExhausted"]), 1);
    assert_eq!(spent(&stage).tokens, 2_000_000, "one call");
}

#[test]
fn call_over_the_run_tokens_is_refused() {
    let stage = stage(10, 10, "[budget.run]\ntokens = 5000");
    assert_eq!(
        turns_until_refused(&stage, &TURN, &["BudgetExhausted", "5000 tokens"]),
        0
    );
    // Each invocation is a separate run.
    stage.settings("[budget.run]\ntokens = 15000");
    for _ in 0..3 {
        stage.run(&TURN).ok();
    }
    assert_eq!(spent(&stage).tokens, 60);
}

#[test]
fn turn_over_the_session_dollars_is_refused() {
    // 40 000 tokens in and 1 000 out cost 11 cents. Up to about 9 cents are reserved.
    let stage = stage(40_000, 1_000, "[budget.session]\ndollars = 0.30");
    let words = ["BudgetExhausted", "$0.3000", "$0.2200 was used"];
    assert_eq!(turns_until_refused(&stage, &PRICED, &words), 2);
    assert_eq!(spent(&stage).micro_dollars, 220_000);
    let usage = stage.run(&["usage", "s", "--json"]).json();
    assert_eq!(
        (&usage[0]["micro_dollars"], &usage[0]["calls"]),
        (&220_000.into(), &2.into())
    );
}

#[test]
fn call_without_a_price_is_refused_under_a_dollar_budget() {
    for scope in ["run", "session"] {
        let stage = stage(10, 10, &format!("[budget.{scope}]\ndollars = 100"));
        for model in [&[][..], &["--model", "nobody-knows"]] {
            let run = stage.run(&[&TURN[..], model].concat());
            run.fails(8, &["PriceUnknown", "agentd models list"]);
        }
        assert_eq!((stage.calls(), stage.events().len()), (0, 0));
        stage.run(&PRICED).ok();
    }
}

#[test]
fn retried_turn_is_held_to_the_same_budget() {
    let stage = stage(40_000, 1_000, "[budget.session]\ndollars = 0.30");
    stage.run_with(&PRICED, "called=abort");
    stage.run(&["resume"]).ok();
    let lost = spent(&stage).micro_dollars;
    assert!(
        lost > 80_000,
        "a lost call counts with its reservation: {lost}"
    );
    stage.run(&["resume", "s"]).ok();
    assert_eq!(
        spent(&stage).micro_dollars,
        lost + 110_000,
        "the repeated call has its price"
    );

    stage.run_with(&PRICED, "called=abort");
    let run = stage.run(&["resume", "s"]);
    assert_eq!(run.code, 8, "{}", run.stderr);
    assert!(run.stderr.contains("BudgetExhausted"), "{}", run.stderr);
    assert!(spent(&stage).micro_dollars <= 300_000, "I6");
    assert_eq!(stage.calls(), 1);

    stage.settings("[budget.session]\ndollars = 3.00");
    stage.run(&["resume", "s"]).ok();
    stage.check_end(2, WRITTEN);
}

/// The agent of a model that is not in the catalogue.
#[test]
fn retried_turn_needs_a_price() {
    let stage = stage(10, 10, "");
    stage.run_with(&TURN, "called=abort");
    stage.settings("[budget.run]\ndollars = 1");
    let run = stage.run(&["resume", "s"]);
    assert_eq!(run.code, 8, "{}", run.stderr);
    assert!(run.stderr.contains("PriceUnknown"), "{}", run.stderr);
    assert_eq!(stage.calls(), 0);
    stage
        .run(&["replay", "s/1", "--agent", "fake"])
        .fails(8, &["PriceUnknown"]);
    assert_eq!(stage.calls(), 0);
}

#[test]
fn session_turn_limit_is_enforced() {
    let stage = stage(10, 10, "[budget.session]\nturns = 2");
    assert_eq!(
        turns_until_refused(&stage, &TURN, &["BudgetExhausted", "2 turns; 2 were taken"]),
        2
    );
}

#[test]
fn session_time_limit_is_enforced() {
    let stage = stage(10, 10, "[budget.session]\nminutes = 0");
    assert_eq!(
        turns_until_refused(&stage, &TURN, &["BudgetExhausted", "0 seconds"]),
        0
    );
}

#[test]
fn reservation_counts_until_the_call_ends() {
    let stage = stage(10, 10, "[budget.session]\ntokens = 12000");
    stage.run_with(&TURN, "recorded=abort");
    let reserved = spent(&stage).tokens;
    assert!((8_000..12_000).contains(&reserved), "{reserved}");
    stage.run(&["resume"]).ok();
    let answered = &answers(&stage.events())[0];
    assert_eq!(spent(&stage), answered.spent);
}
