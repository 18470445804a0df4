//! A rate limit: so many at once, and so many per second in the long run; no clocks of its own.

/// A bucket of permissions that fills at a steady rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    rate: f64,
    burst: f64,
    level: f64,
    /// ns, of the last look.
    at: u64,
}

impl Bucket {
    /// `rate` per second, at most `burst` at once; full at the start. A rate of 0 allows nothing after the burst.
    pub fn new(rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self {
            rate: rate.max(0.0),
            burst,
            level: burst,
            at: 0,
        }
    }

    /// Takes a permission at `now` (ns of any clock that does not run backwards); false if there is none.
    pub fn take(&mut self, now: u64) -> bool {
        let passed = now.saturating_sub(self.at) as f64 / 1e9;
        if self.at != 0 {
            self.level = (self.level + passed * self.rate).min(self.burst);
        }
        self.at = now.max(1);
        if self.level < 1.0 {
            return false;
        }
        self.level -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_then_the_rate() {
        let mut bucket = Bucket::new(2.0, 3);
        let taken = |bucket: &mut Bucket, at| (0..10).filter(|_| bucket.take(at)).count();
        assert_eq!(taken(&mut bucket, 5 * SECOND), 3);
        assert_eq!(taken(&mut bucket, 5 * SECOND + SECOND / 4), 0);
        assert_eq!(taken(&mut bucket, 6 * SECOND), 2);
        assert_eq!(taken(&mut bucket, 100 * SECOND), 3);
        // A clock that stands still or goes back gives nothing.
        assert_eq!(taken(&mut bucket, 99 * SECOND), 0);
    }

    #[test]
    fn no_rate_allows_the_burst_only() {
        let mut bucket = Bucket::new(0.0, 1);
        assert!(bucket.take(SECOND));
        assert!(!bucket.take(1000 * SECOND));
    }
}
