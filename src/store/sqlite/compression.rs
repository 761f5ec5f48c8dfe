//! How bytes are kept: compressed if that makes them shorter.

use std::borrow::Cow;

use lz4_flex::block;

/// The most that compressed bytes can grow by.
const MOST_GROWTH: usize = 255;

/// The longest body of an event that is kept as it is.
const PLAIN_BODY: usize = 1_024;

/// Maximum size in bytes of a text or the body of an event, packed or not.
pub(super) const MAX_TEXT_BYTES: usize = 256 << 20;

/// Returns bytes as they are kept.
pub(super) fn pack(bytes: &[u8]) -> Cow<'_, [u8]> {
    let packed = block::compress(bytes);
    if packed.len() < bytes.len() {
        Cow::Owned(packed)
    } else {
        Cow::Borrowed(bytes)
    }
}

/// Returns bytes as they were; `None` if they are not what `pack` made of `size` bytes.
pub(super) fn unpack(kept: &[u8], size: usize) -> Option<Vec<u8>> {
    if kept.len() == size {
        return Some(kept.to_vec());
    }
    // A damaged size must not make us ask for more memory than the bytes can fill.
    if kept.len() > size || size > kept.len().saturating_mul(MOST_GROWTH) || size > MAX_TEXT_BYTES {
        return None;
    }
    block::decompress(kept, size)
        .ok()
        .filter(|bytes| bytes.len() == size)
}

/// Returns the compressed body of an event, its length first; `None` if it is kept as the text it is.
pub(super) fn pack_body(json: &str) -> Option<Vec<u8>> {
    let size = u32::try_from(json.len())
        .ok()
        .filter(|_| json.len() > PLAIN_BODY)?;
    Some([&size.to_le_bytes(), &*pack(json.as_bytes())].concat())
}

/// Returns the text of a compressed body; `None` if it is damaged.
pub(super) fn unpack_body(kept: &[u8]) -> Option<String> {
    let (size, kept) = kept.split_first_chunk()?;
    let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
    String::from_utf8(unpack(kept, size)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back() {
        let noise: Vec<u8> = (0..5_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        for bytes in [Vec::new(), b"a".to_vec(), vec![b'x'; 100_000], noise] {
            let kept = pack(&bytes);
            assert!(kept.len() <= bytes.len());
            assert_eq!(unpack(&kept, bytes.len()), Some(bytes.clone()));
        }
        let json = "{\"event\":1}".repeat(1_000);
        let kept = pack_body(&json).unwrap();
        assert!(kept.len() < json.len() / 10);
        assert_eq!(unpack_body(&kept), Some(json));
        assert_eq!(pack_body("{}"), None);
    }

    #[test]
    fn damaged_bytes_are_refused_without_asking_for_memory() {
        let kept = pack(&[b'x'; 1_000]).into_owned();
        for size in [999, 1_001, usize::MAX] {
            assert_eq!(unpack(&kept, size), None, "{size}");
        }
        for body in [&[][..], &[255, 255, 255, 255, 0, 0], &[1, 0, 0]] {
            assert_eq!(unpack_body(body), None);
        }
    }
}
