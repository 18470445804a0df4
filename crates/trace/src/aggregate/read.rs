//! Raw keys and values of a map become rows: CPUs added up, what was cleared left out, sorted; any bytes are taken.

use super::{MapType, ValueKind, rank, state};
use crate::layout::FieldType;
use crate::value::Value;
use serde::{Deserialize, Serialize};

/// What a map held at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it is.
    pub ty: MapType,
    /// The smallest value first, like bpftrace.
    pub rows: Vec<Row>,
    /// Updates that were not made because there was no room.
    pub lost: u64,
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    key: Vec<u8>,
    /// Its value.
    pub value: Held,
}

/// A value, all CPUs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub enum Held {
    /// A scalar, a count, a sum, a minimum or a maximum: 64 bits, whose sign the map's type knows.
    Number(u64),
    Text(Vec<u8>),
    /// A text that could not be read.
    Fault,
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

    /// Whether key and value are of the sizes that the type says.
    pub(super) fn is_sound(&self, ty: &MapType) -> bool {
        let value = match (&self.value, &ty.value) {
            (Held::Histogram(counts), ValueKind::Histogram(buckets)) => {
                counts.len() == buckets.count() as usize
            }
            (Held::Mean { .. }, kind) => matches!(kind, ValueKind::Average { .. } | ValueKind::Stats { .. }),
            (Held::Text(_) | Held::Fault, kind) => matches!(kind, ValueKind::Text { .. }),
            (Held::Number(_), kind) => !matches!(
                kind,
                ValueKind::Histogram(_)
                    | ValueKind::Text { .. }
                    | ValueKind::Average { .. }
                    | ValueKind::Stats { .. }
            ),
            (Held::Histogram(_), _) => false,
        };
        value && self.key.len() == ty.key_size() as usize
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
            order
                .then_with(|| a.value.words().cmp(b.value.words()))
                .then_with(|| a.key.cmp(&b.key))
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
            return Some(
                match Value::read(&FieldType::Text { size: *size }, values.next()?) {
                    Value::Text(text) => Self::Text(text.to_vec()),
                    _ => Self::Fault,
                },
            );
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
            Self::Text(_) | Self::Fault => 0,
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
        ValueKind::Scalar(FieldType::Integer { signed, .. } | FieldType::Enumeration { signed, .. }) => {
            *signed
        }
        _ => false,
    }
}

/// The mean, cut towards zero.
pub(super) fn mean(count: u64, sum: u64, signed: bool) -> i128 {
    let sum = if signed {
        i128::from(sum as i64)
    } else {
        i128::from(sum)
    };
    sum / i128::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::{Buckets, json, text};
    use super::*;
    use crate::layout::Base;
    use crate::symbol::Symbols;
    use proptest::prelude::*;

    fn number(signed: bool) -> FieldType {
        FieldType::Integer {
            size: 8,
            signed,
            base: Base::Decimal,
        }
    }

    fn map(keys: Vec<FieldType>, value: ValueKind) -> MapType {
        MapType {
            name: "x".to_owned(),
            number: 2,
            keys,
            value,
            entries: 10,
            by_event: false,
            first: String::new(),
        }
    }

    /// Bytes of words.
    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn snapshot(ty: &MapType, state: &[u8], elements: &[(Vec<u8>, Vec<Vec<u8>>)]) -> Snapshot {
        let elements = elements
            .iter()
            .map(|(key, values)| (key.clone(), values.iter().map(Vec::as_slice)));
        Snapshot::new(ty, state, elements)
    }

    #[test]
    fn processors_are_added_up_and_rows_sorted() {
        let ty = map(vec![FieldType::Text { size: 8 }, number(true)], ValueKind::Count);
        let key = |text: &[u8; 8], n: i64| {
            let mut key = words(&[0]);
            key.extend(text);
            key.extend(n.to_le_bytes());
            key
        };
        let elements = [
            (key(b"foo\0\0\0\0\0", 3), vec![words(&[5]), words(&[7])]),
            (key(b"bar\0junk", -1), vec![words(&[1]), words(&[0])]),
            (words(&[1, 0, 0]), vec![words(&[9]), words(&[9])]),
            (vec![1, 2], vec![words(&[9])]),
        ];
        let snapshot = snapshot(&ty, &words(&[0, 0, 0, 0, 0, 4]), &elements);
        assert_eq!(
            text(&snapshot, &Symbols::default()),
            "@x[bar, -1]: 1\n@x[foo, 3]: 12\n\
             @x: 4 updates were not counted: there is room for 10 keys (config = { max_map_keys = N })\n"
        );
        let expected =
            serde_json::json!({ "type": "map", "data": { "@x": { "bar,-1": 1, "foo,3": 12 } }, "lost": 4 });
        assert_eq!(json(&snapshot, &Symbols::default()), expected);
    }

    #[test]
    fn what_an_older_generation_left_is_not_seen() {
        let ty = map(vec![number(false)], ValueKind::Scalar(number(true)));
        let elements = [
            (words(&[2, 7]), vec![words(&[1])]),
            (words(&[3, 7]), vec![words(&[-5i64 as u64])]),
        ];
        let snapshot = snapshot(&ty, &words(&[0, 0, 0, 0, 3, 0]), &elements);
        assert_eq!(text(&snapshot, &Symbols::default()), "@x[7]: -5\n");
    }

    #[test]
    fn statistics_and_histograms_as_json() {
        let one = |value: ValueKind, element: &[u64]| {
            let elements = [(vec![0; 4], vec![words(element)])];
            json(
                &snapshot(&map(vec![], value), &[], &elements),
                &Symbols::default(),
            )
        };
        assert_eq!(
            one(ValueKind::Stats { signed: true }, &[4, -8i64 as u64]),
            serde_json::json!({ "type": "stats", "data": { "@x": { "count": 4, "average": -2, "total": -8 } } })
        );
        let buckets = Buckets::Linear {
            min: 0,
            max: 20,
            step: 10,
        };
        assert_eq!(
            one(ValueKind::Histogram(buckets), &[3, 0, 5, 1]),
            serde_json::json!({ "type": "hist", "data": { "@x": [
                { "max": -1, "count": 3 }, { "min": 0, "max": 9, "count": 0 },
                { "min": 10, "max": 19, "count": 5 }, { "min": 20, "count": 1 }
            ] } })
        );
        assert_eq!(
            one(ValueKind::Min { signed: false }, &[0])["data"]["@x"],
            serde_json::Value::Null
        );
    }

    fn any_kind() -> impl Strategy<Value = ValueKind> {
        prop_oneof![
            Just(ValueKind::Count),
            Just(ValueKind::Scalar(FieldType::Pointer { symbolic: true })),
            Just(ValueKind::Scalar(FieldType::Bool)),
            (0u32..40).prop_map(|size| ValueKind::Text { size }),
            any::<bool>().prop_map(|signed| ValueKind::Sum { signed }),
            any::<bool>().prop_map(|signed| ValueKind::Min { signed }),
            any::<bool>().prop_map(|signed| ValueKind::Max { signed }),
            any::<bool>().prop_map(|signed| ValueKind::Average { signed }),
            any::<bool>().prop_map(|signed| ValueKind::Stats { signed }),
            any::<u8>().prop_map(|bits| ValueKind::Histogram(Buckets::Powers { bits })),
            any::<[i64; 3]>().prop_map(|[min, max, step]| ValueKind::Histogram(Buckets::Linear {
                min,
                max,
                step
            })),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_shown(
            kind in any_kind(), keys in 0usize..4, state in proptest::collection::vec(any::<u8>(), 0..80),
            fill in any::<u64>(), odd in 0usize..3,
        ) {
            let types = [FieldType::Text { size: 5 }, number(false), FieldType::Flags { size: 8, names: [].into() }];
            let ty = map(types.into_iter().take(keys).collect(), kind);
            let bytes = |n: usize| -> Vec<u8> { fill.to_le_bytes().into_iter().cycle().take(n).collect() };
            let key = bytes(ty.key_size() as usize + odd / 2);
            let value = bytes(ty.value.size() as usize + odd % 2);
            let mut state = state;
            state.resize(state.len().max(48), 0);
            if key.len() >= 8 {
                state[32..40].copy_from_slice(&key[..8]);
            }
            let snapshot = snapshot(&ty, &state, &[(key, vec![value.clone(), value])]);
            prop_assert!(snapshot.rows.len() <= 1);
            let shown = text(&snapshot, &Symbols::default());
            prop_assert_eq!(shown.is_empty(), snapshot.is_empty());
            json(&snapshot, &Symbols::default());
            let kept: MapType = serde_json::from_str(&serde_json::to_string(&ty).unwrap()).unwrap();
            prop_assert_eq!(kept, ty);
        }
    }
}
