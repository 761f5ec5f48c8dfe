//! How a text is cut for the ledger, so that what many turns share is kept once.

/// The shortest piece that ends of itself.
const SHORTEST: usize = 2 * 1024;

/// Of so many lines, one ends a piece.
const LINES: u32 = 64;

/// Cuts a text behind lines that its own content chooses, so that a change moves no cut but those beside it. Lines with
/// a word that is fresh in every turn stand alone.
pub(crate) fn pieces<'a>(text: &'a str, fresh: Option<&str>) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut cut = |start: &mut usize, at: usize| {
        if at > *start {
            pieces.push(&text[*start..at]);
            *start = at;
        }
    };
    for line in text.split_inclusive('\n') {
        let stands_alone = fresh.is_some_and(|fresh| line.contains(fresh));
        if stands_alone {
            cut(&mut start, at);
        }
        at += line.len();
        if stands_alone || (at - start >= SHORTEST && sum(line).is_multiple_of(LINES)) {
            cut(&mut start, at);
        }
    }
    cut(&mut start, text.len());
    pieces
}

/// Returns a number that depends on all bytes of a line (FNV-1a).
fn sum(line: &str) -> u32 {
    line.bytes().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        (0..count)
            .map(|number| format!("line {number} of a text\n"))
            .collect()
    }

    #[test]
    fn the_pieces_are_the_text() {
        for text in ["", "one", "one\n", &lines(5_000), &"x".repeat(100_000)] {
            assert_eq!(pieces(text, Some("4711")).concat(), text);
            assert!(pieces(text, None).iter().all(|piece| !piece.is_empty()));
        }
        assert!(pieces(&lines(5_000), None).len() > 20);
    }

    #[test]
    fn a_change_moves_no_cut_but_those_beside_it() {
        let old = lines(5_000);
        let new = old.replace("line 2500 of a text\n", "another line\nand one more\n");
        let kept = pieces(&old, None);
        let changed = pieces(&new, None)
            .into_iter()
            .filter(|piece| !kept.contains(piece))
            .count();
        assert!(changed <= 2, "{changed} of {}", kept.len());
    }

    #[test]
    fn what_is_fresh_stands_alone() {
        let text = "a\nb\nrun=\"k3f9\"\nc\n";
        assert_eq!(
            pieces(text, Some("k3f9")),
            ["a\nb\n", "run=\"k3f9\"\n", "c\n"]
        );
    }
}
