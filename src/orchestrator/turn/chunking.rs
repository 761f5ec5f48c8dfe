//! Content-defined chunking of texts for the ledger, so that text shared by many turns is stored once.

/// Minimum size in bytes of a chunk that ends at a line chosen by its hash.
const MIN_CHUNK_BYTES: usize = 2 * 1024;

/// Average number of lines between two lines whose hash ends a chunk.
const LINES_PER_CUT: u32 = 64;

/// Splits text into chunks, whose concatenation is the text.
///
/// A chunk of at least [`MIN_CHUNK_BYTES`] ends after the first line whose hash is a multiple of [`LINES_PER_CUT`]. The
/// end of a chunk depends only on nearby lines, so an edit changes one or two chunks and leaves the others unchanged. A
/// line that contains `fresh`, a string that differs in every turn, becomes its own chunk.
pub(crate) fn split_chunks<'a>(text: &'a str, fresh: Option<&str>) -> Vec<&'a str> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let line_end = line_start + line.len();
        let is_fresh = fresh.is_some_and(|fresh| line.contains(fresh));
        if is_fresh && start < line_start {
            chunks.push(&text[start..line_start]);
            start = line_start;
        }

        let is_long_enough = line_end - start >= MIN_CHUNK_BYTES;
        let is_cut = is_long_enough && hash_line(line).is_multiple_of(LINES_PER_CUT);
        if is_fresh || is_cut {
            chunks.push(&text[start..line_end]);
            start = line_end;
        }
        line_start = line_end;
    }
    if start < text.len() {
        chunks.push(&text[start..]);
    }
    chunks
}

/// Returns the 32-bit FNV-1a hash of a line.
fn hash_line(line: &str) -> u32 {
    line.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
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
    fn chunks_concatenate_to_the_text() {
        for text in ["", "one", "one\n", &lines(5_000), &"x".repeat(100_000)] {
            assert_eq!(split_chunks(text, Some("4711")).concat(), text);
            assert!(
                split_chunks(text, None)
                    .iter()
                    .all(|chunk| !chunk.is_empty())
            );
        }
        assert!(split_chunks(&lines(5_000), None).len() > 20);
    }

    #[test]
    fn an_edit_changes_at_most_two_chunks() {
        let old = lines(5_000);
        let new = old.replace("line 2500 of a text\n", "another line\nand one more\n");
        let kept = split_chunks(&old, None);
        let changed = split_chunks(&new, None)
            .into_iter()
            .filter(|chunk| !kept.contains(chunk))
            .count();
        assert!(changed <= 2, "{changed} of {}", kept.len());
    }

    #[test]
    fn a_fresh_line_is_its_own_chunk() {
        let text = "a\nb\nrun=\"k3f9\"\nc\n";
        assert_eq!(
            split_chunks(text, Some("k3f9")),
            ["a\nb\n", "run=\"k3f9\"\n", "c\n"]
        );
    }
}
