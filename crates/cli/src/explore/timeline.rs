//! The histogram over time, and a range of it that is chosen by keys.

use crate::terminal::{KeyCode, KeyEvent, KeyModifiers};
use kestrel_trace::analyze::Histogram;
use std::ops::RangeInclusive;

/// A cursor in the histogram, while a range is being chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selecting {
    /// The column of the cursor.
    at: usize,
    /// The column where the range begins, once that was said.
    anchor: Option<usize>,
    columns: usize,
}

/// Effect of a key on the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelectionChange {
    /// The selection goes on.
    More,
    /// The selection is these columns.
    Columns(RangeInclusive<usize>),
    /// The selection is dropped.
    Dropped,
}

impl Selecting {
    /// A cursor in the middle of so many columns.
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            at: columns / 2,
            anchor: None,
            columns: columns.max(1),
        }
    }

    /// The columns between the place where the range begins and the cursor.
    pub(crate) fn columns(&self) -> RangeInclusive<usize> {
        let anchor = self.anchor.unwrap_or(self.at);
        anchor.min(self.at)..=anchor.max(self.at)
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> SelectionChange {
        let steps = match key
            .modifiers
            .intersects(KeyModifiers::SHIFT | KeyModifiers::CONTROL)
        {
            true => 10,
            false => 1,
        };
        let last = self.columns - 1;
        match key.code {
            KeyCode::Left | KeyCode::Char('h' | 'H') => self.at = self.at.saturating_sub(steps),
            KeyCode::Right | KeyCode::Char('l' | 'L') => self.at = (self.at + steps).min(last),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = last,
            KeyCode::Char(' ' | 'v') => {
                self.anchor = match self.anchor {
                    None => Some(self.at),
                    Some(_) => None,
                }
            }
            KeyCode::Enter => return SelectionChange::Columns(self.columns()),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('t' | 'q') => return SelectionChange::Dropped,
            _ => {}
        }
        SelectionChange::More
    }
}

/// Number of a histogram's columns where `room` have room.
pub(crate) fn columns(histogram: &Histogram, room: usize) -> usize {
    histogram.counts.len().min(room).max(1)
}

/// The times of columns of a histogram: those of the records that [`Histogram::columns`] counts there.
pub(crate) fn times(
    histogram: &Histogram,
    columns: usize,
    chosen: &RangeInclusive<usize>,
) -> RangeInclusive<u64> {
    let buckets = histogram.counts.len().max(1);
    // The first bucket that is counted in a column.
    let first = |column: usize| (column * buckets).div_ceil(columns.max(1)) as u64;
    let time = |bucket: u64| {
        histogram
            .begin_ns
            .saturating_add(bucket.saturating_mul(histogram.bucket_ns))
    };
    let (from, to) = (time(first(*chosen.start())), time(first(chosen.end() + 1)));
    from..=to.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::testing::press;

    #[test]
    fn the_times_of_columns_hold_the_records_that_the_columns_count() {
        for (buckets, columns) in [(1, 1), (7, 7), (7, 3), (100, 80), (4096, 186)] {
            let histogram = Histogram {
                begin_ns: 1000,
                end_ns: 1000 + buckets as u64 * 8,
                bucket_ns: 8,
                counts: (0..buckets).map(|n| n as u64 % 5).collect(),
            };
            let counted = histogram.columns(columns);
            for (column, count) in counted.iter().enumerate() {
                let times = times(&histogram, columns, &(column..=column));
                let buckets = histogram.counts.iter().enumerate();
                let inside = buckets.filter(|(at, _)| times.contains(&(1000 + *at as u64 * 8)));
                assert_eq!(
                    inside.map(|(_, count)| count).sum::<u64>(),
                    *count,
                    "{column} of {columns}"
                );
            }
            let all = times(&histogram, columns, &(0..=columns - 1));
            assert_eq!(all, 1000..=1000 + buckets as u64 * 8 - 1);
        }
    }

    #[test]
    fn a_range_is_chosen_by_keys() {
        let mut selecting = Selecting::new(40);
        for (code, columns) in [
            (KeyCode::Left, 19..=19),
            (KeyCode::Char(' '), 19..=19),
            (KeyCode::Right, 19..=20),
            (KeyCode::Home, 0..=19),
            (KeyCode::Left, 0..=19),
            (KeyCode::End, 19..=39),
            (KeyCode::Right, 19..=39),
        ] {
            assert_eq!(selecting.key(press(code)), SelectionChange::More);
            assert_eq!(selecting.columns(), columns, "{code:?}");
        }
        let far = KeyEvent::new(KeyCode::Left, KeyModifiers::SHIFT);
        assert_eq!(selecting.key(far), SelectionChange::More);
        assert_eq!(
            selecting.key(press(KeyCode::Enter)),
            SelectionChange::Columns(19..=29)
        );
        assert_eq!(selecting.key(press(KeyCode::Esc)), SelectionChange::Dropped);
    }
}
