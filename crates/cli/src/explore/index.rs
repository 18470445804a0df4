//! Index of a recording's records: checkpoints among them, from which any record is reached by reading a little, in memory that does not grow with the number of records.

/// Checkpoints among the records of a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    checkpoints: Vec<Checkpoint>,
    records: u64,
    /// Records of the recording since the last checkpoint.
    passed: u64,
    /// Number of times that every other checkpoint was dropped: they are `1 << shift` times as far apart as at first.
    shift: u32,
    last_ns: u64,
    same: u64,
}

/// A record from whose time on reading finds the records behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The number among those that are looked at.
    pub(crate) number: u64,
    /// The time of the record.
    pub(crate) time_ns: u64,
    /// Number of records of the same time before it.
    pub(crate) before: u64,
}

/// Most checkpoints; where there would be more, every other one is dropped.
const CHECKPOINTS: usize = 1 << 15;
/// Records that are looked at between two checkpoints, at first.
const STRIDE: u64 = 256;
/// Records of the recording between two checkpoints, at first.
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
        let is_due = self.checkpoints.last().is_none_or(|last| {
            self.records - last.number >= STRIDE << self.shift || self.passed >= PASSED << self.shift
        });
        if is_due {
            self.add_checkpoint(time_ns);
        }
        self.records += 1;
    }

    fn add_checkpoint(&mut self, time_ns: u64) {
        if self.checkpoints.len() >= CHECKPOINTS {
            let mut keep = false;
            self.checkpoints.retain(|_| {
                keep = !keep;
                keep
            });
            self.shift += 1;
        }
        self.passed = 0;
        self.checkpoints.push(Checkpoint {
            number: self.records,
            time_ns,
            before: self.same,
        });
    }

    /// Number of records in the scope.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The last checkpoint that is not behind a record.
    pub(crate) fn checkpoint_before(&self, number: u64) -> Option<Checkpoint> {
        let behind = self
            .checkpoints
            .partition_point(|checkpoint| checkpoint.number <= number);
        self.checkpoints.get(behind.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record that a reader finds who begins at a checkpoint's time.
    fn found(times: &[(u64, bool)], checkpoint: Checkpoint, number: u64) -> Option<u64> {
        let wanted = times.iter().filter(|(_, wanted)| *wanted);
        let mut from = wanted.filter(|(time, _)| *time >= checkpoint.time_ns);
        let (time, _) = from.nth((checkpoint.before + number - checkpoint.number) as usize)?;
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
            let checkpoint = index.checkpoint_before(number).unwrap();
            assert!(checkpoint.number <= number && number - checkpoint.number < STRIDE);
            assert_eq!(
                found(&times, checkpoint, number),
                Some(*time),
                "{number} from {checkpoint:?}"
            );
        }
        assert_eq!(Index::default().checkpoint_before(7), None);
    }

    #[test]
    fn memory_is_bounded_and_rare_records_have_marks_of_their_own() {
        let mut index = Index::default();
        (0..CHECKPOINTS as u64 * STRIDE * 3).for_each(|n| index.take(n, true));
        assert!(
            index.checkpoints.len() <= CHECKPOINTS,
            "{}",
            index.checkpoints.len()
        );
        let mut rare = Index::default();
        (0..PASSED * 40).for_each(|n| rare.take(n, n % (PASSED * 2) == 0));
        assert_eq!((rare.records(), rare.checkpoints.len()), (20, 20));
    }
}
