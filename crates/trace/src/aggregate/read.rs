//! Raw keys and values of a map become rows: CPUs added up, what was cleared left out, sorted; any bytes are taken.

use super::{MapType, ValueKind, rank, state};
use crate::layout::FieldType;
use crate::value::Value;

/// What a map held at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What it is.
    pub ty: MapType,
    /// The smallest value first, like bpftrace.
    pub rows: Vec<Row>,
    /// Updates that were not made because there was no room.
    pub lost: u64,
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    key: Vec<u8>,
    /// Its value.
    pub value: Held,
}

/// A value, all CPUs together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub enum Held {
    /// A scalar, a count, a sum, a minimum or a maximum: 64 bits, whose sign the map's type knows.
    Number(u64),
    Text(Vec<u8>),
    Mean {
        count: u64,
        sum: u64,
    },
    /// A count per bucket.
    Histogram(Vec<u64>),
}

impl Row {
    /// Its keys.
    pub fn keys<'a>(&'a self, ty: &'a MapType) -> impl Iterator<Item = Value<'a>> {
        ty.keys.iter().zip(ty.key_offsets()).map(|(ty, at)| {
            let bytes = self.key.get(at as usize..).unwrap_or_default();
            Value::read(ty, bytes)
        })
    }
}

impl Snapshot {
    /// Takes apart what a kernel's map held: keys, each with one value per CPU (or one, where the map is not per CPU), and the state map's bytes.
    /// Elements of the wrong size are passed over.
    pub fn new<'v, C>(ty: &MapType, state: &[u8], elements: impl IntoIterator<Item = (Vec<u8>, C)>) -> Self
    where
        C: IntoIterator<Item = &'v [u8]>,
    {
        let generation = state::word(state, state::generation(ty.number));
        let mut rows: Vec<Row> = elements
            .into_iter()
            .filter(|(key, _)| key.len() == ty.key_size() as usize)
            .filter(|(key, _)| ty.keys.is_empty() || state::word(key, 0) == generation)
            .filter_map(|(key, values)| {
                let value = Held::new(&ty.value, values)?;
                Some(Row { key, value })
            })
            .filter(|row| !(ty.keys.is_empty() && row.value.is_untouched(&ty.value)))
            .collect();
        rows.sort_by(|a, b| {
            let order = a.value.weight(&ty.value).cmp(&b.value.weight(&ty.value));
            order.then_with(|| a.value.words().cmp(b.value.words())).then_with(|| a.key.cmp(&b.key))
        });
        Self {
            ty: ty.clone(),
            rows,
            lost: state::word(state, state::lost(ty.number)),
        }
    }

    /// Whether it has nothing to show: no keys, and nothing lost.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.lost == 0
    }
}

impl Held {
    fn new<'v>(kind: &ValueKind, values: impl IntoIterator<Item = &'v [u8]>) -> Option<Self> {
        let size = kind.size() as usize;
        let mut values = values.into_iter().filter(|bytes| bytes.len() == size).peekable();
        values.peek()?;
        if let ValueKind::Text { size } = kind {
            let bytes = values.next()?;
            let text = bytes.iter().take(*size as usize).take_while(|byte| **byte != 0);
            return Some(Self::Text(text.copied().collect()));
        }
        let mut words = vec![0u64; size / 8];
        for bytes in values {
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                let value = u64::from_le_bytes(*bytes);
                *word = match kind {
                    ValueKind::Min { .. } | ValueKind::Max { .. } => (*word).max(value),
                    _ => word.wrapping_add(value),
                };
            }
        }
        Some(match kind {
            ValueKind::Histogram(_) => Self::Histogram(words),
            ValueKind::Average { .. } | ValueKind::Stats { .. } => Self::Mean {
                count: words.first().copied()?,
                sum: words.get(1).copied()?,
            },
            ValueKind::Min { signed } => Self::Number(rank(!words.first().copied()?, *signed)),
            ValueKind::Max { signed } => Self::Number(rank(words.first().copied()?, *signed)),
            _ => Self::Number(words.first().copied()?),
        })
    }

    /// Whether nothing was ever added: the one element of an array exists before that.
    fn is_untouched(&self, kind: &ValueKind) -> bool {
        match (self, kind) {
            (Self::Number(value), ValueKind::Min { signed }) => *value == rank(u64::MAX, *signed),
            (Self::Number(value), ValueKind::Max { signed }) => *value == rank(0, *signed),
            (Self::Mean { count, .. }, _) => *count == 0,
            (Self::Histogram(counts), _) => counts.iter().all(|c| *c == 0),
            _ => false,
        }
    }

    /// What rows are sorted by.
    fn weight(&self, kind: &ValueKind) -> i128 {
        match self {
            Self::Number(value) if is_signed(kind) => i128::from(*value as i64),
            Self::Number(value) => i128::from(*value),
            Self::Text(_) => 0,
            Self::Mean { count, sum } => mean(*count, *sum, is_signed(kind)),
            Self::Histogram(counts) => counts.iter().map(|c| i128::from(*c)).sum(),
        }
    }

    fn words(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            _ => &[],
        }
    }
}

/// Whether numbers of this kind are signed.
pub(super) fn is_signed(kind: &ValueKind) -> bool {
    match kind {
        ValueKind::Sum { signed }
        | ValueKind::Min { signed }
        | ValueKind::Max { signed }
        | ValueKind::Average { signed }
        | ValueKind::Stats { signed } => *signed,
        ValueKind::Scalar(FieldType::Integer { signed, .. } | FieldType::Enumeration { signed, .. }) => *signed,
        _ => false,
    }
}

/// The mean, cut towards zero.
pub(super) fn mean(count: u64, sum: u64, signed: bool) -> i128 {
    let sum = if signed { i128::from(sum as i64) } else { i128::from(sum) };
    sum / i128::from(count.max(1))
}
