//! Dates by formats of strftime(3), in the reader's time zone, with `%f` for microseconds.

use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

/// A time of a clock as a date: `offset` is what has to be added to it to have ns since 1970.
pub fn written(format: &str, ns: u64, offset: i64) -> String {
    let since_1970 = i128::from(ns) + i128::from(offset);
    in_zone(format, since_1970, &TimeZone::system())
}

/// A moment, ns since 1970, as a date.
fn in_zone(format: &str, since_1970: i128, zone: &TimeZone) -> String {
    let Ok(moment) = Timestamp::from_nanosecond(since_1970) else {
        return format!("{since_1970} ns");
    };
    let moment = moment.to_zoned_datetime(zone.clone());
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out += &rest[..at];
        let piece = &rest[at..at + piece_length(&rest[at..])];
        rest = &rest[at + piece.len()..];
        out += &match piece {
            "%f" => format!("{:06}", since_1970.rem_euclid(1_000_000_000) / 1000),
            "%s" => since_1970.div_euclid(1_000_000_000).to_string(),
            // The format of the C locale.
            "%c" => conversion("%a %b %e %H:%M:%S %Y", &moment),
            "%x" => conversion("%m/%d/%y", &moment),
            "%X" => conversion("%H:%M:%S", &moment),
            "%r" => conversion("%I:%M:%S %p", &moment),
            "%L" | "%N" | "%Q" | "%q" | "%." | "%:" | "%" => piece.to_owned(),
            _ => conversion(piece, &moment),
        };
    }
    out + rest
}

/// Bytes of a conversion: the percent sign, flags, a width, a modifier, a letter.
fn piece_length(text: &str) -> usize {
    let inner = |c: char| matches!(c, '_' | '-' | '^' | '#' | 'E' | 'O') || c.is_ascii_digit();
    let behind = text.char_indices().skip(1).find(|(_, c)| !inner(*c));
    behind.map_or(text.len(), |(at, c)| at + c.len_utf8())
}

/// Writes a conversion; one that does not exist is written as it stands, as by the C library.
fn conversion(piece: &str, moment: &ZonedDateTime) -> String {
    let plain: String = piece.chars().filter(|c| !matches!(c, 'E' | 'O')).collect();
    strtime::format(&plain, moment).unwrap_or_else(|_| piece.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_the_c_library_does() {
        let moment = 1_700_000_000_123_456_789;
        for (format, text) in [
            ("%H:%M:%S", "22:13:20"),
            ("%m/%d/%y", "11/14/23"),
            ("%s.%f", "1700000000.123456"),
            (
                "%c|%x|%X|%r",
                "Tue Nov 14 22:13:20 2023|11/14/23|22:13:20|10:13:20 PM",
            ),
            ("%L %%", "%L %"),
            ("%F %T%", "2023-11-14 22:13:20%"),
            ("é%dé", "é14é"),
            ("%é", "%é"),
            ("%Ey %e|%j %u %a %b", "23 14|318 2 Tue Nov"),
        ] {
            assert_eq!(in_zone(format, moment, &TimeZone::UTC), text, "{format}");
        }
        assert_eq!(in_zone("%s.%f", 123_000, &TimeZone::UTC), "0.000123");
        assert_eq!(in_zone("%s.%f", -1000, &TimeZone::UTC), "-1.999999");
        assert_eq!(
            in_zone("%s", i128::MAX, &TimeZone::UTC),
            format!("{} ns", i128::MAX)
        );
    }
}
