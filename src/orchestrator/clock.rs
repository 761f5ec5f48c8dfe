//! The wall clock, and the format of timestamps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the wall clock; others get the time as a value"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the current date in UTC, such as `2026-11-16`.
pub(crate) fn today() -> String {
    format_utc(now()).chars().take(10).collect()
}

/// Formats a time in UTC by RFC 3339, such as `2026-11-16T06:45:54Z`. A time before 1970 is formatted as
/// `1970-01-01T00:00:00Z`.
#[must_use]
pub fn format_utc(moment: SystemTime) -> String {
    let seconds = moment
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs();
    let (year, month, day) = date_from_days(seconds / 86_400);

    let hour = seconds / 3_600 % 24;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns the year, month and day of a number of days since 1970 in the Gregorian calendar.
///
/// Years are counted from 1 March of the year 0, so that a leap day is the last day of its year. The calendar repeats
/// every 400 years (an era of 146,097 days). This is the algorithm `civil_from_days` by Howard Hinnant.
fn date_from_days(days: u64) -> (u64, u64, u64) {
    let days_since_year_0 = days + 719_468;
    let era = days_since_year_0 / 146_097;
    let day_of_era = days_since_year_0 % 146_097;

    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);

    // Counted from March, every group of five months has 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;

    let year = era * 400 + year_of_era;
    if month_from_march < 10 {
        (year, month_from_march + 3, day)
    } else {
        (year + 1, month_from_march - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, written) in cases {
            assert_eq!(
                format_utc(UNIX_EPOCH + Duration::from_secs(seconds)),
                written
            );
        }
    }
}
