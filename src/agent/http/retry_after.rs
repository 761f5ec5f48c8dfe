//! Parses the header `retry-after`.

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_UNIX_EPOCH: u64 = 719_468;

/// Returns the seconds to wait: `retry-after` is a number, or a date that is compared with the header `date`.
pub(super) fn parse_retry_after(retry_after: &str, date: Option<&str>) -> Option<u64> {
    let retry_after = retry_after.trim();
    if let Ok(seconds) = retry_after.parse::<f64>() {
        return (seconds >= 0.0).then(|| seconds.ceil() as u64);
    }
    // Both times come from the server's clock, so the local clock does not matter.
    Some(parse_http_date(retry_after)?.saturating_sub(parse_http_date(date?)?))
}

/// Returns the Unix time of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_http_date(written: &str) -> Option<u64> {
    let parts: Vec<&str> = written.split_ascii_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = parts[..] else {
        return None;
    };
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = months.iter().position(|name| *name == month)? as u64;
    let day = day.parse::<u64>().ok()?;
    let year = year.parse::<u64>().ok()?;
    let time: Vec<u64> = time
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [hour, minute, second] = time[..] else {
        return None;
    };
    if !(1970..=9999).contains(&year)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }

    // Days from civil date: a year that begins in March has its leap day at the end.
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let unix_days = days.checked_sub(DAYS_TO_UNIX_EPOCH)?;
    Some(unix_days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_as_numbers_and_as_dates() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (written, date, wait) in [
            ("30", None, Some(30)),
            (" 1.2 ", None, Some(2)),
            ("-1", None, None),
            ("Sun, 06 Nov 1994 08:50:37 GMT", date, Some(60)),
            ("Tue, 08 Nov 1994 08:49:37 GMT", date, Some(172_800)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", date, Some(0)),
            (
                "Fri, 01 Mar 2024 00:00:00 GMT",
                Some("Wed, 28 Feb 2024 00:00:00 GMT"),
                Some(172_800),
            ),
            ("Sun, 06 Nov 1994 08:50:37 GMT", None, None),
            ("Sun, 06 Nov 1994 25:50:37 GMT", date, None),
            ("soon", date, None),
        ] {
            assert_eq!(parse_retry_after(written, date), wait, "{written}");
        }
        assert_eq!(
            parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777)
        );
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
    }
}
