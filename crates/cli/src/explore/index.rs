//! Where records lie that are looked at: marks among them, from which any of them is reached by reading a little, in memory that does not grow with their number.

/// Marks among the records of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    marks: Vec<Mark>,
    records: u64,
    /// Records of the recording since the last mark.
    passed: u64,
    /// After every two to the power of this many times so many is a mark.
    shift: u32,
    last_ns: u64,
    same: u64,
}

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number among those that are looked at.
    pub(crate) number: u64,
    /// The time of the record.
    pub(crate) time_ns: u64,
    /// How many of this very time come before it.
    pub(crate) before: u64,
}

/// Marks at most; after halving their number, half of them.
const MARKS: usize = 1 << 15;
/// Records that are looked at between two marks, at first.
const STRIDE: u64 = 256;
/// Records of the recording between two marks, at first.
const PASSED: u64 = 1 << 14;

impl Index {
    /// Takes the next record of the recording.
    pub(crate) fn take(&mut self, time_ns: u64, wanted: bool) {
        self.passed += 1;
        if !wanted {
            return;
        }
        self.same = if self.records > 0 && time_ns == self.last_ns {
            self.same + 1
        } else {
            0
        };
        self.last_ns = time_ns;
        let is_due = self.marks.last().is_none_or(|last| {
            self.records - last.number >= STRIDE << self.shift || self.passed >= PASSED << self.shift
        });
        if is_due {
            self.mark(time_ns);
        }
        self.records += 1;
    }

    fn mark(&mut self, time_ns: u64) {
        if self.marks.len() >= MARKS {
            let mut keep = false;
            self.marks.retain(|_| {
                keep = !keep;
                keep
            });
            self.shift += 1;
        }
        self.passed = 0;
        self.marks.push(Mark {
            number: self.records,
            time_ns,
            before: self.same,
        });
    }

    /// How many records are looked at.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The last mark that is not behind a record.
    pub(crate) fn mark_before(&self, number: u64) -> Option<Mark> {
        let behind = self.marks.partition_point(|mark| mark.number <= number);
        self.marks.get(behind.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record that a reader finds who begins at a mark's time.
    fn found(times: &[(u64, bool)], mark: Mark, number: u64) -> Option<u64> {
        let wanted = times.iter().filter(|(_, wanted)| *wanted);
        let mut from = wanted.filter(|(time, _)| *time >= mark.time_ns);
        let (time, _) = from.nth((mark.before + number - mark.number) as usize)?;
        Some(*time)
    }

    #[test]
    fn every_record_is_reached_from_its_mark() {
        // Runs of equal times, of which some records are not looked at.
        let times: Vec<(u64, bool)> = (0..40_000_u64).map(|n| (n / 700, n % 3 != 0)).collect();
        let mut index = Index::default();
        times.iter().for_each(|(time, wanted)| index.take(*time, *wanted));
        let wanted: Vec<u64> = times.iter().filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(index.records(), wanted.len() as u64);
        for (number, time) in (0..).zip(&wanted) {
            let mark = index.mark_before(number).unwrap();
            assert!(mark.number <= number && number - mark.number < STRIDE);
            assert_eq!(found(&times, mark, number), Some(*time), "{number} from {mark:?}");
        }
        assert_eq!(Index::default().mark_before(7), None);
    }

    #[test]
    fn memory_is_bounded_and_rare_records_have_marks_of_their_own() {
        let mut index = Index::default();
        (0..MARKS as u64 * STRIDE * 3).for_each(|n| index.take(n, true));
        assert!(index.marks.len() <= MARKS, "{}", index.marks.len());
        let mut rare = Index::default();
        (0..PASSED * 40).for_each(|n| rare.take(n, n % (PASSED * 2) == 0));
        assert_eq!((rare.records(), rare.marks.len()), (20, 20));
    }
}
