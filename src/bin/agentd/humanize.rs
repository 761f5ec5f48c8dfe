//! Durations, ages and counts as the program prints them everywhere.

/// Returns a duration in its two largest units, such as `850ms`, `9s`, `2m05s` or `3h10m`.
pub(crate) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0 => format!("{milliseconds}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Returns a duration of whole seconds, such as `0s`, `9s` or `2m05s`.
pub(crate) fn seconds(seconds: u64) -> String {
    match seconds {
        0 => "0s".to_owned(),
        _ => duration(seconds.saturating_mul(1_000)),
    }
}

/// Returns an age in its largest unit, such as `9s`, `5m`, `3h` or `2d`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a number with its noun, such as `1 file` or `2 files`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if noun.ends_with('s') { "es" } else { "s" };
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}{plural}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{age, count, duration};

    #[test]
    fn durations_use_two_units() {
        assert_eq!(duration(850), "850ms");
        assert_eq!(duration(9_400), "9s");
        assert_eq!(duration(125_000), "2m05s");
        assert_eq!(duration(11_400_000), "3h10m");
    }

    #[test]
    fn ages_use_one_unit() {
        assert_eq!(age(9), "9s");
        assert_eq!(age(359), "5m");
        assert_eq!(age(10_800), "3h");
        assert_eq!(age(172_800), "2d");
    }

    #[test]
    fn counts_agree_with_their_noun() {
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(3, "process"), "3 processes");
    }
}
