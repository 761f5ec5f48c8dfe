//! LZ4 compression of blobs and events, used where it makes them shorter.

use std::borrow::Cow;

use lz4_flex::block;

/// Maximum ratio of original to compressed size that LZ4 can reach.
const MAX_COMPRESSION_RATIO: usize = 255;

/// Maximum size of an event's JSON that is stored uncompressed.
const MAX_PLAIN_BODY_BYTES: usize = 1_024;

/// Maximum size in bytes of a blob or the body of an event, compressed or not.
pub(super) const MAX_TEXT_BYTES: usize = 256 << 20;

/// Compresses bytes; returns them unchanged if that would not make them shorter.
pub(super) fn compress(bytes: &[u8]) -> Cow<'_, [u8]> {
    let compressed = block::compress(bytes);
    if compressed.len() < bytes.len() {
        Cow::Owned(compressed)
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Returns the original bytes; `None` if `stored` is not the output of [`compress`] for `size` bytes.
pub(super) fn decompress(stored: &[u8], size: usize) -> Option<Vec<u8>> {
    if stored.len() == size {
        return Some(stored.to_vec());
    }

    // A damaged size must not allocate more memory than the bytes can fill.
    let max_size = stored
        .len()
        .saturating_mul(MAX_COMPRESSION_RATIO)
        .min(MAX_TEXT_BYTES);
    if stored.len() > size || size > max_size {
        return None;
    }

    block::decompress(stored, size)
        .ok()
        .filter(|bytes| bytes.len() == size)
}

/// Compresses the body of an event: its size as 4 little-endian bytes, then the compressed JSON. `None` if the body is
/// small and stored as text.
pub(super) fn compress_body(json: &str) -> Option<Vec<u8>> {
    let size = u32::try_from(json.len())
        .ok()
        .filter(|_| json.len() > MAX_PLAIN_BODY_BYTES)?;
    Some([&size.to_le_bytes(), &*compress(json.as_bytes())].concat())
}

/// Returns the JSON of a compressed body; `None` if it is damaged.
pub(super) fn decompress_body(stored: &[u8]) -> Option<String> {
    let (size, compressed) = stored.split_first_chunk()?;
    let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
    String::from_utf8(decompress(compressed, size)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_are_restored() {
        let noise: Vec<u8> = (0..5_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        for bytes in [Vec::new(), b"a".to_vec(), vec![b'x'; 100_000], noise] {
            let kept = compress(&bytes);
            assert!(kept.len() <= bytes.len());
            assert_eq!(decompress(&kept, bytes.len()), Some(bytes.clone()));
        }
        let json = "{\"event\":1}".repeat(1_000);
        let kept = compress_body(&json).unwrap();
        assert!(kept.len() < json.len() / 10);
        assert_eq!(decompress_body(&kept), Some(json));
        assert_eq!(compress_body("{}"), None);
    }

    #[test]
    fn damaged_bytes_are_refused_without_a_large_allocation() {
        let kept = compress(&[b'x'; 1_000]).into_owned();
        for size in [999, 1_001, usize::MAX] {
            assert_eq!(decompress(&kept, size), None, "{size}");
        }
        for body in [&[][..], &[255, 255, 255, 255, 0, 0], &[1, 0, 0]] {
            assert_eq!(decompress_body(body), None);
        }
    }
}
