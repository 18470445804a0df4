//! Columns of a terminal: how many a text takes, texts padded and cut to so many. Wide characters (CJK, emoji) take two, combining ones none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Number of a terminal's columns that a text takes.
pub fn columns(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.width(),
    }
}

/// The spaces behind a text that is to take so many columns.
pub fn fill(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(columns(text)))
}

/// The beginning of a text, with a mark where it takes more than so many columns.
pub fn clipped(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut free = width.saturating_sub(1);
    let fits = |letter: &char| {
        let wide = letter.width().unwrap_or(0);
        let fits = wide <= free;
        free = free.saturating_sub(wide);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_combining_ones_none() {
        for (text, wide) in [("abc", 3), ("日本", 4), ("😀a", 3), ("e\u{301}", 1), ("…", 1)] {
            assert_eq!(columns(text), wide, "{text}");
            assert_eq!(fill(text, 5).len(), 5 - wide, "{text}");
        }
        assert_eq!(fill("longer", 2), "");
        assert_eq!(clipped("日本語", 6), "日本語");
        assert_eq!(clipped("日本語", 5), "日本…");
        assert_eq!(clipped("日本語", 4), "日…");
        assert_eq!(clipped("a日本", 3), "a…");
    }
}
