//! Reading replies: clean ones beside quick-xml's bare events and a memchr of every `<`, hostile ones by their growth.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use agentd::models::Mode;
use agentd::parse::{Grammar, ReplyContext, Stream, parse};
use agentd::{Pack, SearchPath};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::{least, row, shown};

const MB: usize = 1_000_000;

pub(crate) fn run() {
    let pack = Pack::load("foreman", &SearchPath::default()).unwrap();
    let grammar = pack.grammar(&Mode::new("architect").unwrap()).unwrap();
    clean(&grammar);
    hostile(&grammar);
    echo(&grammar);
    stream(&grammar);
}

/// Prose in lines of about 200 bytes.
fn prose(bytes: usize) -> String {
    let line = "The harbour was quiet, and she counted every lantern before opening the letter again; \
                nothing in it had changed, yet the words \"if a > b & c\" seemed to say something else \
                than they had said at noon.\n";
    line.repeat(bytes / line.len() + 1)[..bytes].to_owned()
}

/// A reply as it should be: a thought, a message, actions, a verdict.
fn reply(bytes: usize, actions: usize) -> String {
    let part = bytes / (actions + 2);
    let mut text = format!(
        "<thinking>\n{}\n</thinking>\n<message>\n{}\n</message>\n",
        prose(part),
        prose(part)
    );
    for number in 0..actions {
        let value = prose(part.saturating_sub(150));
        let _never = writeln!(
            text,
            "<action type=\"save_decision\">\n  <category>world</category>\n  <key>key_{number}</key>\n  \
             <value>{value}</value>\n</action>"
        );
    }
    text + "<review>PASS</review>\n"
}

/// Counts quick-xml's events; `None` if it refuses the text.
fn events(text: &str) -> Option<usize> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    let mut count = 0;
    loop {
        match reader.read_event() {
            Ok(Event::Eof) => return Some(count),
            Ok(event) => drop(black_box(event)),
            Err(_) => return None,
        }
        count += 1;
    }
}

fn brackets(text: &str) {
    black_box(memchr::memchr_iter(b'<', text.as_bytes()).fold(0, |sum, at| sum ^ at));
}

fn rate(bytes: usize, time: Duration) -> String {
    format!("{:.0} MB/s", bytes as f64 / MB as f64 / time.as_secs_f64())
}

fn clean(grammar: &Grammar) {
    let sizes = [
        ("S, 1 KB", 1_000, 1, 20_000),
        ("M, 100 KB", 100_000, 50, 1_000),
        ("L, 10 MB", 10 * MB, 4_000, 15),
    ];
    for (name, bytes, actions, samples) in sizes {
        let text = reply(bytes, actions);
        let context = ReplyContext::default();
        let read = parse(&text, grammar, &context);
        assert_eq!(read.actions.len(), actions.min(64));
        let ours = least(samples, || {
            drop(black_box(parse(black_box(&text), grammar, &context)))
        });
        let peer = least(samples, || {
            assert!(black_box(events(black_box(&text))).is_some())
        });
        let bare = least(samples, || brackets(black_box(&text)));
        row(&format!("parse {name}: to quick-xml's events"), ours, peer);
        row(&format!("parse {name}: to memchr of `<`"), ours, bare);
        println!(
            "{:<44} {:>12}",
            format!("parse {name}: rate"),
            rate(text.len(), ours)
        );
    }
}

/// A text that repeats a piece, up to a size.
fn repeated(piece: &str, bytes: usize) -> String {
    piece.repeat(bytes / piece.len() + 1)
}

/// A text of numbered pieces, up to a size.
fn numbered(bytes: usize, piece: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes + 100);
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&piece(number));
    }
    text
}

/// A hostile shape, by its size.
type Shape = (&'static str, fn(usize) -> String);

/// The shapes of which each has made some reader slower than linear.
const SHAPES: [Shape; 22] = [
    ("clean", |bytes| reply(bytes, bytes / 2_500)),
    ("`<`", |bytes| repeated("<", bytes)),
    ("unclosed actions", |bytes| {
        repeated("<action type=\"x\">", bytes)
    }),
    ("distinct unclosed fields in an action", |bytes| {
        format!(
            "<action type=\"save_decision\">{}</action>",
            numbered(bytes, |n| format!("<p{n}>"))
        )
    }),
    ("nested actions", |bytes| {
        let pairs = bytes / 26;
        "<action type=\"x\">".repeat(pairs) + &"</action>".repeat(pairs)
    }),
    ("nested messages", |bytes| {
        "<message>".repeat(bytes / 19) + &"</message>".repeat(bytes / 19)
    }),
    ("one run of backticks", |bytes| repeated("`", bytes)),
    ("many runs of backticks", |bytes| repeated("a ` b", bytes)),
    ("runs of all lengths", |bytes| {
        numbered(bytes, |n| format!("{} ", "`".repeat(n % 1_000 + 1)))
    }),
    ("unclosed verdicts", |bytes| repeated("<review>", bytes)),
    ("verdicts on one line", |bytes| {
        repeated("<review>REJECTED</review>", bytes)
    }),
    ("closers of verdicts on one line", |bytes| {
        repeated("</review>", bytes)
    }),
    ("closers of thoughts", |bytes| repeated("</think>", bytes)),
    ("thoughts on one line", |bytes| {
        repeated("<think></think>`a` ", bytes)
    }),
    ("updates on one line", |bytes| {
        repeated("a <content_update target=\"b\">", bytes)
    }),
    ("closers of an update", |bytes| {
        let closers = repeated("</content_update>", bytes);
        format!("<content_update target=\"a\">{closers}\n</content_update>\n")
    }),
    ("quotes in tags", |bytes| {
        repeated("<review a=\"b\"c=\"", bytes)
    }),
    ("verdicts in a fence", |bytes| {
        format!("```\n{}", repeated("<review>", bytes))
    }),
    ("`[`", |bytes| repeated("[", bytes)),
    ("entities", |bytes| repeated("&lt;", bytes)),
    ("empty lines", |bytes| repeated("\n", bytes)),
    ("one line", |bytes| repeated("a", bytes)),
];

fn hostile(grammar: &Grammar) {
    let context = ReplyContext::default();
    let time = |samples, text: &str| {
        least(samples, || {
            drop(black_box(parse(black_box(text), grammar, &context)))
        })
    };
    for (name, text) in [
        ("100,000 `<`", "<".repeat(100_000)),
        (
            "32,000 unclosed actions",
            "<action type=\"x\">".repeat(32_000),
        ),
        (
            "32,000 unclosed fields",
            format!(
                "<action type=\"x\">{}</action>",
                numbered(210_000, |n| format!("<p{n}>"))
            ),
        ),
        ("a million backticks", "`".repeat(MB)),
    ] {
        let ours = time(20, &text);
        let name = format!("parse {name}");
        row(
            &format!("{name}: to memchr of `<`"),
            ours,
            least(20, || brackets(black_box(&text))),
        );
        match events(&text) {
            Some(_) => {
                let peer = least(20, || {
                    assert!(black_box(events(black_box(&text))).is_some())
                });
                row(&format!("{name}: to quick-xml's events"), ours, peer);
            }
            None => println!(
                "{:<44} {:>12} {:>12}",
                format!("{name}: to quick-xml"),
                shown(ours),
                "refuses"
            ),
        }
    }
    println!(
        "{:<44} {:>10} {:>10} {:>10} {:>8}",
        "", "1 MB", "10 MB", "100 MB", "exponent"
    );
    // What memory alone costs: it is fresh where a reply is large, and in the cache where it is small.
    growth(
        "a copy of the reply",
        |bytes| repeated("a", bytes),
        |text| drop(black_box(text.to_owned())),
    );
    for (name, make) in SHAPES {
        growth(&format!("parse {name}"), make, |text| {
            drop(black_box(parse(text, grammar, &context)))
        });
    }
}

/// Prints how the time grows with the length.
fn growth(name: &str, make: impl Fn(usize) -> String, run: impl Fn(&str)) {
    let times = [(1, 7), (10, 3), (100, 2)].map(|(size, samples)| {
        let text = make(size * MB);
        (text.len() as f64, least(samples, || run(black_box(&text))))
    });
    let [(bytes, least), _, (more, longest)] = times;
    let exponent = (longest.as_secs_f64() / least.as_secs_f64()).ln() / (more / bytes).ln();
    let [small, medium, large] = times.map(|(_, time)| shown(time));
    println!("{name:<44} {small:>10} {medium:>10} {large:>10} {exponent:>8.2}");
}

/// Cost of looking for a reply in the prompt: a prompt of 1 MB, a reply of 100 KB.
fn echo(grammar: &Grammar) {
    let prompt = numbered(MB, |number| {
        format!("let value_{number}: Vec<u8> = read(&path, limit)?; // keep the first\n")
    });
    let text = reply(100_000, 50);
    let (alone, sent) = (
        ReplyContext::default(),
        ReplyContext {
            sent: vec![&prompt],
            ..ReplyContext::default()
        },
    );
    let without = least(200, || {
        drop(black_box(parse(black_box(&text), grammar, &alone)))
    });
    let with = least(50, || {
        drop(black_box(parse(black_box(&text), grammar, &sent)))
    });
    row("parse M with a prompt of 1 MB: to without", with, without);
}

/// Cost of showing a reply while it arrives, compared with reading it at its end, by the size of its chunks.
fn stream(grammar: &Grammar) {
    let text = reply(100_000, 50);
    let context = ReplyContext::default();
    let whole = least(100, || {
        drop(black_box(parse(black_box(&text), grammar, &context)))
    });
    for size in [16, 256, 4096] {
        let pieces = text.len().div_ceil(size);
        let ours = least(30, || {
            let mut stream = Stream::new(grammar);
            let shown: usize = text
                .as_bytes()
                .chunks(size)
                .map(|piece| stream.push(piece).len())
                .sum();
            drop(black_box((shown, stream.finish(&context))));
        });
        row(
            &format!("stream M in pieces of {size}: to parse"),
            ours,
            whole,
        );
        let each = ours.saturating_sub(whole) / u32::try_from(pieces).unwrap_or(u32::MAX);
        println!(
            "{:<44} {:>12}",
            format!("stream M in pieces of {size}: more, per piece"),
            super::shown(each)
        );
    }
}
