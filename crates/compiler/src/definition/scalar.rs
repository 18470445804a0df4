//! C's arithmetic types, with all spellings of each.

/// Encoding of a number in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Signed,
    Unsigned,
    Bool,
    Float,
}

use Encoding::{Bool, Float, Signed, Unsigned};

/// Name, bytes, how it is read; the words of C's own names in any order.
const SCALARS: &[(&str, u32, Encoding)] = &[
    ("char", 1, Signed),
    ("signed char", 1, Signed),
    ("unsigned char", 1, Unsigned),
    ("short", 2, Signed),
    ("unsigned short", 2, Unsigned),
    ("int", 4, Signed),
    ("unsigned int", 4, Unsigned),
    ("long", 8, Signed),
    ("unsigned long", 8, Unsigned),
    ("long long", 8, Signed),
    ("unsigned long long", 8, Unsigned),
    ("__int128", 16, Signed),
    ("unsigned __int128", 16, Unsigned),
    ("float", 4, Float),
    ("double", 8, Float),
    ("long double", 16, Float),
    ("bool", 1, Bool),
    ("_Bool", 1, Bool),
    ("int8", 1, Signed),
    ("int16", 2, Signed),
    ("int32", 4, Signed),
    ("int64", 8, Signed),
    ("uint8", 1, Unsigned),
    ("uint16", 2, Unsigned),
    ("uint32", 4, Unsigned),
    ("uint64", 8, Unsigned),
    ("int8_t", 1, Signed),
    ("int16_t", 2, Signed),
    ("int32_t", 4, Signed),
    ("int64_t", 8, Signed),
    ("uint8_t", 1, Unsigned),
    ("uint16_t", 2, Unsigned),
    ("uint32_t", 4, Unsigned),
    ("uint64_t", 8, Unsigned),
    ("__int128_t", 16, Signed),
    ("__uint128_t", 16, Unsigned),
    ("s8", 1, Signed),
    ("s16", 2, Signed),
    ("s32", 4, Signed),
    ("s64", 8, Signed),
    ("u8", 1, Unsigned),
    ("u16", 2, Unsigned),
    ("u32", 4, Unsigned),
    ("u64", 8, Unsigned),
    ("__s8", 1, Signed),
    ("__s16", 2, Signed),
    ("__s32", 4, Signed),
    ("__s64", 8, Signed),
    ("__u8", 1, Unsigned),
    ("__u16", 2, Unsigned),
    ("__u32", 4, Unsigned),
    ("__u64", 8, Unsigned),
    ("__be16", 2, Unsigned),
    ("__be32", 4, Unsigned),
    ("__be64", 8, Unsigned),
    ("__le16", 2, Unsigned),
    ("__le32", 4, Unsigned),
    ("__le64", 8, Unsigned),
    ("size_t", 8, Unsigned),
    ("ssize_t", 8, Signed),
    ("off_t", 8, Signed),
    ("loff_t", 8, Signed),
    ("time_t", 8, Signed),
    ("intptr_t", 8, Signed),
    ("uintptr_t", 8, Unsigned),
    ("pid_t", 4, Signed),
    ("uid_t", 4, Unsigned),
    ("gid_t", 4, Unsigned),
    ("dev_t", 4, Unsigned),
];

/// The number of that name: its name, its bytes, how it is read.
pub(super) fn find(name: &str) -> Option<(&'static str, u32, Encoding)> {
    let row = |name: &str| SCALARS.iter().find(|row| row.0 == name).copied();
    row(name).or_else(|| row(&sorted(name)?))
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCALARS.iter().map(|row| row.0)
}

/// `long unsigned int` as `unsigned long`.
fn sorted(name: &str) -> Option<String> {
    let count = |word| name.split(' ').filter(|own| *own == word).count();
    let (longs, shorts, chars) = (count("long"), count("short"), count("char"));
    let wide = count("__int128");
    let known = ["long", "short", "char", "int", "__int128", "signed", "unsigned"];
    if longs > 2 || (wide > 0 && count("int") > 0) || name.split(' ').any(|word| !known.contains(&word)) {
        return None;
    }
    let width = match (longs, shorts, chars, wide) {
        (0, 0, 1, 0) => "char",
        (0, 1, 0, 0) => "short",
        (0, 0, 0, 0) => "int",
        (1, 0, 0, 0) => "long",
        (2, 0, 0, 0) => "long long",
        (0, 0, 0, 1) => "__int128",
        _ => return None,
    };
    let sign = match (count("unsigned"), count("signed"), width) {
        (1, 0, _) => "unsigned ",
        (0, _, "char") if count("signed") == 1 => "signed ",
        (0, _, _) => "",
        _ => return None,
    };
    Some(format!("{sign}{width}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_number_stand_in_any_order() {
        for (name, found) in [
            ("unsigned", Some("unsigned int")),
            ("long unsigned int", Some("unsigned long")),
            ("long long int unsigned", Some("unsigned long long")),
            ("short int", Some("short")),
            ("signed char", Some("signed char")),
            ("signed", Some("int")),
            ("__int128 unsigned", Some("unsigned __int128")),
            ("signed __int128", Some("__int128")),
            ("long __int128", None),
            ("int __int128", None),
            ("long long long", None),
            ("short long", None),
            ("struct", None),
        ] {
            assert_eq!(find(name).map(|row| row.0), found, "{name}");
        }
    }
}
