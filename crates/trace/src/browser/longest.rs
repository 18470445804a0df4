//! The longest of many stretches of time, in bounded memory: where there is too much of it, the shortest goes.

/// Something that begins and ends.
pub(super) trait Lasting {
    /// Time at which it began, ns.
    fn begin_ns(&self) -> u64;
    /// Duration, ns.
    fn ns(&self) -> u64;
}

/// The longest of all that were given.
#[derive(Debug)]
pub(super) struct Longest<T> {
    kept: Vec<T>,
    most: usize,
    /// Threshold: spans that take no longer are left out from now on; none while all are kept.
    over_ns: Option<u64>,
    left_out: u64,
}

impl<T: Lasting> Longest<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most,
            over_ns: None,
            left_out: 0,
        }
    }

    /// Whether what takes so long is kept; if not, it counts as left out.
    pub(super) fn wants(&mut self, ns: u64) -> bool {
        let wants = self.over_ns.is_none_or(|over| ns > over);
        self.left_out += u64::from(!wants);
        wants
    }

    /// Keeps one that [`Longest::wants`] wanted, and gives up the shorter half where there are too many.
    pub(super) fn push(&mut self, lasting: T) {
        self.kept.push(lasting);
        if self.kept.len() <= self.most {
            return;
        }
        let mut lengths: Vec<u64> = self.kept.iter().map(Lasting::ns).collect();
        let middle = lengths.len() / 2;
        let (_, over, _) = lengths.select_nth_unstable(middle);
        let (over, before) = (*over, self.kept.len());
        self.kept.retain(|it| it.ns() > over);
        self.left_out += (before - self.kept.len()) as u64;
        self.over_ns = Some(over);
    }

    /// Gives the longest, in the order of their beginnings.
    pub(super) fn finish(mut self) -> LongestKept<T> {
        self.kept.sort_by_key(Lasting::begin_ns);
        LongestKept {
            kept: self.kept,
            left_out: self.left_out,
            up_to_ns: self.over_ns.unwrap_or(0),
        }
    }
}

/// The longest of all, and how many others there were.
#[derive(Debug)]
pub(super) struct LongestKept<T> {
    /// The longest, in the order of their beginnings.
    pub(super) kept: Vec<T>,
    /// Number of spans left out,
    pub(super) left_out: u64,
    /// none of which took longer, ns.
    pub(super) up_to_ns: u64,
}
