//! Parses arbitrary bytes as a reply and checks what every response must satisfy.

#![no_main]

use std::sync::LazyLock;

use agentd::models::{CallOutcome, Marker, Mode, Response};
use agentd::parse::{self, ReplyContext, Grammar, Stream};
use agentd::{Pack, SearchPath, ReviewResult};
use libfuzzer_sys::fuzz_target;

/// A nonce that no seed contains. Replies that contain it are skipped.
const NONCE: &str = "zq7zq7zq";

/// Longest reply that is also parsed as a stream, byte by byte.
const MAX_STREAMED_BYTES: usize = 2048;

/// Grammars of shipped packs: verdicts, tasks, actions, and the grammar without a pack.
static GRAMMARS: LazyLock<Vec<Grammar>> = LazyLock::new(|| {
    let from_pack = |pack: &str, mode: &str| {
        let pack = Pack::load(pack, &SearchPath::default()).unwrap();
        pack.grammar(&Mode::new(mode).unwrap()).unwrap()
    };
    vec![
        from_pack("sdd", "challenge"),
        from_pack("sdd", "implement"),
        from_pack("foreman", "architect"),
        Grammar::any_review(),
    ]
});

fuzz_target!(|reply: &[u8]| {
    let contains_nonce = reply.windows(NONCE.len()).any(|window| window == NONCE.as_bytes());
    if contains_nonce {
        return;
    }

    let contexts = [
        ReplyContext::default(),
        ReplyContext { outcome: CallOutcome::Cut, ..ReplyContext::default() },
        ReplyContext { nonce: Some(NONCE), ..ReplyContext::default() },
    ];
    for grammar in GRAMMARS.iter() {
        for context in &contexts {
            let response = parse::parse(reply, grammar, context);
            check_response(reply, &response, grammar, context);
        }
        check_stream(reply, grammar);
    }
});

fn check_response(reply: &[u8], response: &Response, grammar: &Grammar, context: &ReplyContext<'_>) {
    check_spans(reply, response);

    assert!(response.actions.iter().all(|action| grammar.actions.contains_key(&action.name)));
    assert!(response.updates.iter().all(|update| !update.target.trim().is_empty()));

    let verdicts: Vec<ReviewResult> = response
        .markers
        .iter()
        .filter_map(|marker| match marker {
            Marker::Review { verdict } => Some(*verdict),
            _ => None,
        })
        .collect();
    if verdicts.contains(&ReviewResult::Pass) {
        assert!(may_contain_pass(reply), "PASS from a reply that does not contain it");
    }
    if let Ok(Some(verdict)) = parse::verdict(response, grammar) {
        assert!(verdicts.contains(&verdict));
        assert!(verdicts.iter().all(|other| *other <= verdict), "the most severe verdict wins");
    }

    if context.outcome != CallOutcome::Ok {
        assert!(!response.complete);
        assert!(response.actions.is_empty() && response.updates.is_empty());
        assert!(!verdicts.contains(&ReviewResult::Pass), "PASS from a reply that was cut off");
    }
    if context.nonce.is_some() && !grammar.verdicts.is_empty() {
        assert!(verdicts.is_empty(), "a verdict without the required nonce");
    }
}

/// Checks that every span lies within the reply.
fn check_spans(reply: &[u8], response: &Response) {
    let problems = response.problems.iter().map(|problem| &problem.span);
    let actions = response.actions.iter().map(|action| &action.span);
    let updates = response.updates.iter().map(|update| &update.span);
    let proposals = response.proposals.iter().map(|proposal| &proposal.span);

    for span in problems.chain(actions).chain(updates).chain(proposals) {
        assert!(span.start <= span.end && span.end <= reply.len(), "{span:?}");
    }
}

/// Checks that a streamed reply gives the same response, and the same text, wherever it is cut.
fn check_stream(reply: &[u8], grammar: &Grammar) {
    if reply.len() > MAX_STREAMED_BYTES {
        return;
    }
    let context = ReplyContext::default();
    let (text, response) = parse_chunks(reply, reply.len().max(1), grammar, &context);
    assert_eq!(response, parse::parse(reply, grammar, &context));
    assert_eq!((text, response), parse_chunks(reply, 1, grammar, &context));
}

fn parse_chunks(
    reply: &[u8],
    chunk_bytes: usize,
    grammar: &Grammar,
    context: &ReplyContext<'_>,
) -> (String, Response) {
    let mut stream = Stream::new(grammar);
    let mut text: String = reply.chunks(chunk_bytes).map(|chunk| stream.push(chunk)).collect();
    let (rest, response) = stream.finish(context);
    text.push_str(&rest);
    (text, response)
}

/// Returns `false` only if no reading of the reply contains the word PASS.
///
/// Escapes can spell letters (`&#80;`, `\u0050`) or come between them (terminal sequences), so a reply
/// with one of these may contain anything.
fn may_contain_pass(reply: &[u8]) -> bool {
    let text = String::from_utf8_lossy(reply);
    if text.contains(['&', '\\', '\u{1b}', '\u{9b}', '\u{9d}', '\u{90}']) {
        return true;
    }
    let letters: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_uppercase).collect();
    letters.contains("PASS")
}
