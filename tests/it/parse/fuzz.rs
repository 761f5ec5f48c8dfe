//! Randomly damaged replies: `parse` always returns, and the response keeps its guarantees.
//!
//! `AGENTD_FUZZ_SECONDS=600 cargo test --release --test it parse::fuzz` runs for ten minutes and
//! writes a summary to `target/fuzz-replies.txt`. `AGENTD_FUZZ_SEED` starts another sequence.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use agentd::models::{CallOutcome, Marker, Mode, Response};
use agentd::parse::{self, Grammar, ReplyContext};
use agentd::{Pack, ReviewResult, SearchPath};

use crate::support::reply_case::all_replies;

/// Maximum length of a generated reply.
const MAX_REPLY_BYTES: usize = 16 * 1024;

/// Number of replies in a normal test run.
const SHORT: u64 = 3_000;

/// A nonce that appears in no reply of the corpus and in no fragment.
const NONCE: &str = "zq7zq7zq";

/// A failed call, whose output is not a reply.
const FAILED: CallOutcome = CallOutcome::Crashed {
    code: Some(1),
    signal: None,
};

/// Fragments inserted into replies: syntax that the parser recognises, and syntax that must not
/// confuse it.
const PIECES: [&[u8]; 48] = [
    b"<",
    b">",
    b"</",
    b"/>",
    b"<review>",
    b"</review>",
    b"<review>PASS</review>",
    b"<review>REJECTED</review>",
    b"<review run=\"k3f9x2ab\">PASS</review>",
    b"<think>",
    b"</think>",
    b"<message>",
    b"</message>",
    b"<action type=\"save_decision\">",
    b"</action>",
    b"<key>k</key>",
    b"<invoke name=\"save_decision\">",
    b"<tool_call>{\"name\": \"",
    b"<content_update target=\"a.md\">",
    b"</content_update>",
    b"<task_status id=\"1.1\">COMPLETED</task_status>",
    b"<![CDATA[",
    b"]]>",
    b"<!--",
    b"-->",
    b"`",
    b"``",
    b"```\n",
    b"\n~~~\n",
    b"\n> ",
    b"\n- ",
    b"\n\n",
    b"\r\n",
    b"\\",
    b"\0",
    b"\x1b[31m",
    b"\x1b]0;",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\x8b",
    b"&lt;review&gt;",
    b"[review]",
    b"\xef\xbc\x9creview\xef\xbc\x9e",
    b"<|channel|>final<|message|>",
    b"{\"message\": \"a\", \"actions\": [",
    b"\nUSER: ",
];

/// Pseudo-random numbers, the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit.max(1)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn random_range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = if self.below(4) == 0 { length } else { 40 };
        start..length.min(start + self.below(longest + 1))
    }
}

fn mutate(chance: &mut Chance, reply: &mut Vec<u8>, corpus: &[(Vec<u8>, String)]) {
    let at = chance.below(reply.len() + 1);
    match chance.below(10) {
        0 if !reply.is_empty() => {
            let at = chance.below(reply.len());
            reply[at] ^= 1 << chance.below(8);
        }
        1 => drop(reply.drain(chance.random_range(reply.len()))),
        2 => {
            let copy = reply[chance.random_range(reply.len())].to_vec();
            reply.splice(at..at, copy);
        }
        3 => {
            let other = &chance.pick(corpus).0;
            let part = other[chance.random_range(other.len())].to_vec();
            reply.splice(at..at, part);
        }
        4 => {
            // The start of one reply and the end of another.
            let other = &chance.pick(corpus).0;
            let from = chance.below(other.len() + 1);
            reply.truncate(at);
            reply.extend_from_slice(&other[from..]);
        }
        5 => reply.truncate(at),
        _ => {
            let piece = *chance.pick(&PIECES);
            let count = if chance.below(20) == 0 {
                chance.below(200)
            } else {
                1
            };
            reply.splice(at..at, piece.repeat(count));
        }
    }

    reply.truncate(MAX_REPLY_BYTES);
}

/// Checks the invariants of the response to any reply.
pub(crate) fn check_response(
    reply: &[u8],
    response: &Response,
    grammar: &Grammar,
    context: &ReplyContext<'_>,
) {
    let spans = response.problems.iter().map(|problem| &problem.span);
    let spans = spans.chain(response.actions.iter().map(|action| &action.span));
    let spans = spans.chain(response.updates.iter().map(|update| &update.span));

    for span in spans.chain(response.proposals.iter().map(|proposal| &proposal.span)) {
        assert!(
            span.start <= span.end && span.end <= reply.len(),
            "{span:?}"
        );
    }

    assert!(response.actions.len() <= 64 && response.proposals.len() <= 256);
    assert!(
        response
            .actions
            .iter()
            .all(|action| grammar.actions.contains_key(&action.name))
    );
    assert!(
        response
            .updates
            .iter()
            .all(|update| !update.target.trim().is_empty())
    );

    let reviews: Vec<ReviewResult> = response
        .markers
        .iter()
        .filter_map(|marker| match marker {
            Marker::Review { verdict } => Some(*verdict),
            _ => None,
        })
        .collect();
    if context.outcome != CallOutcome::Ok {
        assert!(!response.complete && response.actions.is_empty() && response.updates.is_empty());
        assert!(!reviews.contains(&ReviewResult::Pass) && reviews.len() == response.markers.len());
    }

    if context.nonce == Some(NONCE) && !grammar.verdicts.is_empty() {
        assert!(
            reviews.is_empty(),
            "no verdict can carry the nonce of this turn"
        );
    }

    if context.outcome == FAILED {
        assert!(response.message.is_empty());
    }
    if let Ok(Some(verdict)) = parse::verdict(response, grammar) {
        assert!(reviews.contains(&verdict) && reviews.iter().all(|other| *other <= verdict));
    }
}

/// The grammars that the replies are parsed with.
pub(crate) fn grammars() -> Vec<Grammar> {
    let grammar = |pack: &str, mode: &str| {
        Pack::load(pack, &SearchPath::default())
            .unwrap()
            .grammar(&Mode::new(mode).unwrap())
            .unwrap()
    };
    vec![
        grammar("sdd", "challenge"),
        grammar("sdd", "implement"),
        grammar("foreman", "architect"),
        Grammar::any_review(),
    ]
}

fn context<'a>(chance: &mut Chance, sent: &'a str) -> ReplyContext<'a> {
    ReplyContext {
        sent: if chance.below(3) == 0 {
            vec![sent]
        } else {
            vec![]
        },
        ours: if chance.below(6) == 0 {
            vec![sent]
        } else {
            vec![]
        },
        outcome: chance
            .pick(&[
                CallOutcome::Ok,
                CallOutcome::Ok,
                CallOutcome::Cut,
                CallOutcome::Stopped,
                FAILED,
            ])
            .clone(),
        nonce: Some(NONCE).filter(|_| chance.below(2) == 0),
        ..ReplyContext::default()
    }
}

fn env_number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn fuzz_replies() {
    let corpus = all_replies();
    let grammars = grammars();
    let limit = env_number("AGENTD_FUZZ_SECONDS").map(Duration::from_secs);
    let mut chance = Chance(env_number("AGENTD_FUZZ_SEED").unwrap_or(1).max(1));
    let start = Instant::now();
    let (mut count, mut bytes, mut slowest) = (0_u64, 0, (Duration::ZERO, Vec::new()));

    while limit.map_or(count < SHORT, |limit| start.elapsed() < limit) {
        let (reply, sent) = chance.pick(&corpus);
        let mut reply = reply.clone();
        for _ in 0..=chance.below(12) {
            mutate(&mut chance, &mut reply, &corpus);
        }

        // A prompt that contains text of the reply, or one that does not.
        let quoted = String::from_utf8_lossy(&reply[chance.random_range(reply.len())]).into_owned();
        let sent = if chance.below(2) == 0 { sent } else { &quoted };
        let (grammar, context) = (chance.pick(&grammars), context(&mut chance, sent));
        let began = Instant::now();

        let done = catch_unwind(AssertUnwindSafe(|| {
            let response = parse::parse(&reply, grammar, &context);
            if began.elapsed() > slowest.0 {
                slowest = (began.elapsed(), reply.clone());
            }
            check_response(&reply, &response, grammar, &context);
            assert!(count % 16 != 0 || response == parse::parse(&reply, grammar, &context));
        }));
        assert!(
            done.is_ok(),
            "run {count}: {}\n{context:?}",
            reply.escape_ascii()
        );

        (count, bytes) = (count + 1, bytes + reply.len());
    }

    if limit.is_some() {
        let (time, reply) = slowest;
        let line = format!(
            "{count} replies, {} MB, the slowest {time:?}: ",
            bytes / 1_000_000
        );
        let text = line + &reply.escape_ascii().to_string() + "\n";
        std::fs::write(
            crate::support::repository().join("target/fuzz-replies.txt"),
            text,
        )
        .unwrap();
    }
}
