//! Buckets of histograms: which one a value falls into, and what each is called; no counting.

use serde::{Deserialize, Serialize};

/// Bucketing of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Buckets {
    /// By powers of two, each cut into `2^bits` parts (0 to 5). The first bucket is for negative values: all are taken as signed.
    Powers {
        /// Bits of precision within a power of two.
        bits: u8,
    },
    /// Buckets of equal width (the last may be narrower) between one for what is below and one for what is above.
    Linear {
        /// Where the first begins.
        min: i64,
        /// Where the last ends.
        max: i64,
        /// Width, at least 1.
        step: i64,
    },
}

/// The values of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The least; `None` for no limit.
    pub from: Option<i128>,
    /// The greatest, included; `None` for no limit.
    pub to: Option<i128>,
}

impl Buckets {
    /// Most bits of [`Buckets::Powers`].
    pub const MAX_BITS: u8 = 5;
    /// Most buckets of [`Buckets::Linear`] between the two outer ones.
    pub const MAX_LINEAR: u32 = 1000;

    /// Number of buckets.
    pub fn count(self) -> u32 {
        match self {
            Self::Powers { bits, .. } => {
                ((64 - u32::from(bits.min(Self::MAX_BITS))) << bits.min(Self::MAX_BITS)) + 1
            }
            Self::Linear { min, max, step } => {
                let (width, step) = (i128::from(max) - i128::from(min), i128::from(step.max(1)));
                let inner = (width + step - 1) / step;
                inner.clamp(0, i128::from(Self::MAX_LINEAR)) as u32 + 2
            }
        }
    }

    /// The bucket of a value: what generated code computes, too.
    pub fn index(self, value: u64) -> u32 {
        match self {
            Self::Powers { .. } if (value as i64) < 0 => 0,
            Self::Powers { bits } if value < 1 << bits.min(Self::MAX_BITS) => value as u32 + 1,
            Self::Powers { bits } => {
                let bits = bits.min(Self::MAX_BITS);
                let up = value.ilog2() - u32::from(bits);
                ((up + 1) << bits) + ((value >> up) as u32 & ((1 << bits) - 1)) + 1
            }
            Self::Linear { min, .. } if (value as i64) < min => 0,
            Self::Linear { max, .. } if (value as i64) >= max => self.count() - 1,
            Self::Linear { min, step, .. } => {
                ((i128::from(value as i64) - i128::from(min)) / i128::from(step.max(1))) as u32 + 1
            }
        }
    }

    /// The values that fall into a bucket.
    pub fn label(self, index: u32) -> Label {
        let between = |from: i128, width: i128| Label {
            from: Some(from),
            to: Some(from + width - 1),
        };
        match self {
            Self::Powers { .. } if index == 0 => Label {
                from: None,
                to: Some(-1),
            },
            Self::Powers { bits, .. } => {
                let (index, bits) = (index - 1, u32::from(bits.min(Self::MAX_BITS)));
                let (group, part) = (index >> bits, i128::from(index & ((1 << bits) - 1)));
                match group.checked_sub(1) {
                    None => between(part, 1),
                    Some(up) => {
                        let up = up.min(64);
                        between(((1 << bits) + part) << up, 1 << up)
                    }
                }
            }
            Self::Linear { min, .. } if index == 0 => Label {
                from: None,
                to: Some(i128::from(min) - 1),
            },
            Self::Linear { max, .. } if index + 1 >= self.count() => Label {
                from: Some(max.into()),
                to: None,
            },
            Self::Linear { min, max, step } => {
                let step = i128::from(step.max(1));
                let from = i128::from(min) + i128::from(index - 1) * step;
                between(from, step.min(i128::from(max) - from))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_buckets() -> impl Strategy<Value = Buckets> {
        let powers = (0..=5u8).prop_map(|bits| Buckets::Powers { bits });
        let linear = (-1000i64..1000, 1i64..50, 1i64..1000).prop_map(|(min, step, width)| Buckets::Linear {
            min,
            max: min + width,
            step,
        });
        prop_oneof![powers, linear]
    }

    proptest! {
        #[test]
        fn every_value_falls_into_the_bucket_that_names_it(
            buckets in any_buckets(), value in any::<i64>(), shift in 0..64u32
        ) {
            let value = (value >> shift) as u64;
            let index = buckets.index(value);
            prop_assert!(index < buckets.count());
            let label = buckets.label(index);
            let value = i128::from(value as i64);
            prop_assert!(label.from.is_none_or(|from| from <= value), "{label:?} {value}");
            prop_assert!(label.to.is_none_or(|to| value <= to), "{label:?} {value}");
        }
    }

    #[test]
    fn the_buckets_of_powers_follow_each_other() {
        let buckets = Buckets::Powers { bits: 0 };
        assert_eq!([0, 1, 2, 3, 4].map(|v| buckets.index(v)), [1, 2, 3, 3, 4]);
        assert_eq!(buckets.index(u64::MAX), 0);
        for bits in 0..=5 {
            let buckets = Buckets::Powers { bits };
            let labels: Vec<Label> = (1..buckets.count()).map(|i| buckets.label(i)).collect();
            for pair in labels.windows(2) {
                assert_eq!(pair[0].to.map(|to| to + 1), pair[1].from);
            }
            assert_eq!(labels.last().and_then(|l| l.to), Some(i64::MAX.into()));
        }
    }
}
