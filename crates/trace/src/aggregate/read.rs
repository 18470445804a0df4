//! Makes sorted rows of the raw keys and values of a map: the CPUs are added up, and what was cleared is left out. Any bytes are accepted.

use super::map_type::{MapType, ValueKind};
use super::order::{is_signed, number};
use super::state;
use crate::layout::{FieldType, Frames};
use crate::value::{Stacks, Value, ValueContext};
use serde::{Deserialize, Serialize};

/// Most frames of a stack, as the kernel has them.
const MAX_FRAMES: usize = 127;

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The contents of a map at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The map's type.
    pub ty: MapType,
    /// The rows, the smallest value first as in bpftrace.
    pub rows: Vec<Row>,
    /// Number of updates that were lost because the map had no room.
    pub lost: u64,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    key: Vec<u8>,
    /// The frames of stacks in it that are kept by number; those that there was no room for are missing.
    #[serde(default, rename = "frames", skip_serializing_if = "Stacks::is_empty")]
    stacks: Stacks,
    /// When the stacks were read, ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    read_ns: u64,
    /// The value under the key.
    pub value: RowValue,
}

/// A map's value, with all CPUs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub enum RowValue {
    /// A scalar in 64 bits; its type is in the map's type.
    Number(u64),
    Text(Vec<u8>),
    /// The bytes of a value of any type.
    Whole(Vec<u8>),
    /// A text that could not be read.
    Fault,
    /// The words of an aggregation.
    Words(Vec<u64>),
}

impl Row {
    /// The parts of the key, decoded.
    pub fn keys<'a>(&'a self, ty: &'a MapType) -> impl Iterator<Item = Value<'a>> {
        ty.keys.iter().zip(ty.key_offsets()).map(move |(ty, at)| {
            let bytes = self.key.get(at as usize..).unwrap_or_default();
            let FieldType::Stack { .. } = ty else {
                return Value::read_beside(ty, bytes, self.beside());
            };
            let Some(frames) = self.stacks.get(state::word(bytes, 0).cast_signed()) else {
                return Value::Missing;
            };
            match Value::read(ty, frames) {
                Value::Stack(frames) => Value::Stack(frames.of(state::word(bytes, 8) as u32, self.read_ns)),
                value => value,
            }
        })
    }

    /// Time at which its stacks were read, ns.
    pub fn read_ns(&self) -> u64 {
        self.read_ns
    }

    /// The bytes of its key from an offset on.
    pub(super) fn key_from(&self, offset: u32) -> &[u8] {
        self.key.get(offset as usize..).unwrap_or_default()
    }

    fn beside(&self) -> ValueContext<'_> {
        ValueContext {
            stacks: Some(&self.stacks),
            time_ns: self.read_ns,
        }
    }

    /// The value, where it is no aggregation.
    pub fn held<'a>(&'a self, ty: &'a MapType) -> Option<Value<'a>> {
        Some(match (&self.value, &ty.value) {
            // A scalar is in the low bytes of its word.
            (RowValue::Number(n), ValueKind::Scalar(field)) => scalar(field, *n),
            (RowValue::Text(text), _) => Value::Text(text),
            (RowValue::Whole(bytes), ValueKind::Whole(field)) => {
                Value::read_beside(field, bytes, self.beside())
            }
            (RowValue::Fault, _) => Value::Fault,
            _ => return None,
        })
    }

    /// Looks up the frames of its stacks; `frames` gives those of a number, at most as many as wanted.
    fn take_stacks(&mut self, ty: &MapType, now: u64, frames: &mut impl FnMut(u32, u32) -> Option<Vec<u8>>) {
        self.read_ns = now;
        let mut wanted = Vec::new();
        for (ty, at) in ty.keys.iter().zip(ty.key_offsets()) {
            numbers(ty, self.key.get(at as usize..).unwrap_or_default(), &mut wanted);
        }
        if let (ValueKind::Whole(ty), RowValue::Whole(bytes)) = (&ty.value, &self.value) {
            numbers(ty, bytes, &mut wanted);
        }
        // Of a stack that is there twice the larger limit comes first.
        wanted.sort_unstable_by_key(|(_, max)| std::cmp::Reverse(*max));
        for (number, max) in wanted {
            if !self.stacks.contains(number)
                && let Some(frames) = frames(number, max)
            {
                self.stacks.insert(number, frames);
            }
        }
    }

    /// The value as one number: the count, the sum, the average, or how many values a histogram has. 0 for a text.
    pub fn weight(&self, ty: &MapType) -> i128 {
        self.value.weight(&ty.value)
    }

    /// Whether key and value have the sizes that the type says.
    pub(super) fn is_sound(&self, ty: &MapType) -> bool {
        let value = match (&self.value, &ty.value) {
            (RowValue::Number(_), ValueKind::Scalar(_)) => true,
            (RowValue::Text(_) | RowValue::Fault, ValueKind::CharArray { .. }) => true,
            (RowValue::Whole(bytes), kind @ ValueKind::Whole(_)) => bytes.len() == kind.size() as usize,
            (RowValue::Words(words), ValueKind::Aggregation(aggregation)) => {
                words.len() == aggregation.function.words(aggregation) as usize
                    || aggregation.function.had_words(words.len())
            }
            _ => false,
        };
        value
            && self.key.len() == ty.key_size() as usize
            && self.stacks.iter().all(|it| it.len() <= MAX_FRAMES * 32)
    }
}

impl Snapshot {
    /// Makes rows of the elements of a BPF map: keys, each with a value per CPU (or one, where the map is not per CPU). `state` are the state map's bytes.
    /// Elements of the wrong size are passed over.
    pub fn new<'v, C>(ty: &MapType, state: &[u8], elements: impl IntoIterator<Item = (Vec<u8>, C)>) -> Self
    where
        C: IntoIterator<Item = &'v [u8]>,
    {
        Self::shown_with(ty, state, elements, state::is_zeroed(state, ty.number))
    }

    /// Like [`Snapshot::new`], for a map that is asked for by its name: one without keys then shows 0 where nothing is set, unless it is a histogram that no
    /// `zero` emptied.
    pub fn by_name<'v, C>(
        ty: &MapType,
        state: &[u8],
        elements: impl IntoIterator<Item = (Vec<u8>, C)>,
    ) -> Self
    where
        C: IntoIterator<Item = &'v [u8]>,
    {
        let shows = match &ty.value {
            ValueKind::Aggregation(aggregation) => aggregation.function.shows_empty(),
            _ => true,
        };
        Self::shown_with(ty, state, elements, shows || state::is_zeroed(state, ty.number))
    }

    fn shown_with<'v, C>(
        ty: &MapType,
        state: &[u8],
        elements: impl IntoIterator<Item = (Vec<u8>, C)>,
        shows_unset: bool,
    ) -> Self
    where
        C: IntoIterator<Item = &'v [u8]>,
    {
        let generation = state::word(state, state::generation(ty.number));
        let written = state::word(state, state::written(ty.number)) != 0;
        let is_unset = |value: &RowValue| match ty.marks {
            true => !written && value.is_zero(),
            // One that was cleared counts as never set until it has another value.
            false => value.is_untouched(&ty.value) || generation > 0 && value.is_zero(),
        };
        let mut rows: Vec<Row> = elements
            .into_iter()
            .filter(|(key, _)| key.len() == ty.key_size() as usize)
            .filter(|(key, _)| match ty.generations && !ty.keys.is_empty() {
                true => state::word(key, 0) == generation,
                false => ty.is_since(generation, key),
            })
            .filter_map(|(key, values)| {
                let value = RowValue::new(&ty.value, values)?;
                Some(Row {
                    key,
                    stacks: Stacks::default(),
                    read_ns: 0,
                    value,
                })
            })
            .filter(|row| !ty.keys.is_empty() || shows_unset || !is_unset(&row.value))
            .collect();
        rows.sort_by(|a, b| a.compare(b, ty));
        Self {
            ty: ty.clone(),
            rows,
            lost: state::word(state, state::lost(ty.number)),
        }
    }

    /// Turns times in values into dates: `offset`, in ns, is added to times of the kernel's monotonic clock.
    #[must_use]
    pub fn dated(mut self, offset: i64) -> Self {
        if let ValueKind::Aggregation(aggregation) = &self.ty.value {
            for row in &mut self.rows {
                if let RowValue::Words(words) = &mut row.value {
                    aggregation.function.to_dates(aggregation, words, offset);
                }
            }
        }
        self
    }

    /// Adds the frames of the stacks in keys: `frames` gives those of a number, at most as many as asked for; `now` is the time in ns.
    #[must_use]
    pub fn with_stacks(mut self, now: u64, mut frames: impl FnMut(u32, u32) -> Option<Vec<u8>>) -> Self {
        for row in &mut self.rows {
            row.take_stacks(&self.ty, now, &mut frames);
        }
        self
    }

    /// A row's value in a few words, where its text has several lines.
    pub fn brief(&self, row: &Row) -> Option<String> {
        match (&row.value, &self.ty.value) {
            (RowValue::Words(words), ValueKind::Aggregation(aggregation)) => {
                aggregation.function.brief(aggregation, words)
            }
            _ => None,
        }
    }

    /// Whether there is nothing to show: no rows, and no lost updates.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.lost == 0
    }
}

impl RowValue {
    /// Whether it is zeroes only.
    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Text(text) => text.iter().all(|byte| *byte == 0),
            Self::Whole(bytes) => bytes.iter().all(|byte| *byte == 0),
            Self::Words(words) => words.iter().all(|word| *word == 0),
            Self::Fault => false,
        }
    }

    fn new<'v>(kind: &ValueKind, values: impl IntoIterator<Item = &'v [u8]>) -> Option<Self> {
        let size = kind.size() as usize;
        let mut values = values.into_iter().filter(|bytes| bytes.len() == size).peekable();
        values.peek()?;
        match kind {
            ValueKind::Scalar(_) => {
                let word = values.next()?.first_chunk::<8>()?;
                Some(Self::Number(u64::from_le_bytes(*word)))
            }
            ValueKind::Whole(_) => Some(Self::Whole(values.next()?.to_vec())),
            ValueKind::CharArray { size } => Some(
                match Value::read(&FieldType::CharArray { size: *size }, values.next()?) {
                    Value::Text(text) => Self::Text(text.to_vec()),
                    _ => Self::Fault,
                },
            ),
            ValueKind::Aggregation(aggregation) => {
                let words = |bytes: &[u8]| -> Vec<u64> {
                    let words = bytes.as_chunks::<8>().0.iter();
                    words.map(|word| u64::from_le_bytes(*word)).collect()
                };
                let mut all = words(values.next()?);
                for bytes in values {
                    aggregation.function.join(aggregation, &mut all, &words(bytes));
                }
                Some(Self::Words(all))
            }
        }
    }

    /// Whether nothing was ever added: the one element of an array exists before that.
    fn is_untouched(&self, kind: &ValueKind) -> bool {
        match (self, kind) {
            (Self::Words(words), ValueKind::Aggregation(aggregation)) => {
                aggregation.function.is_untouched(aggregation, words)
            }
            _ => false,
        }
    }

    /// The number by which rows are sorted.
    pub(super) fn weight(&self, kind: &ValueKind) -> i128 {
        match (self, kind) {
            (Self::Words(words), ValueKind::Aggregation(kind)) => kind.function.weight(kind, words),
            (Self::Number(value), ValueKind::Scalar(ty)) if is_signed(ty) => i128::from(*value as i64),
            (Self::Number(value), _) => i128::from(*value),
            (Self::Whole(bytes), ValueKind::Whole(ty)) if ty.integer_size().is_some() => {
                number(Value::read(ty, bytes))
            }
            _ => 0,
        }
    }
}

/// The scalar in a word.
fn scalar(ty: &FieldType, word: u64) -> Value<'_> {
    match ty {
        FieldType::Integer { size, signed, base } => match signed {
            true => Value::Signed {
                value: word.cast_signed(),
                base: *base,
                size: *size,
            },
            false => Value::Unsigned {
                value: word,
                base: *base,
                size: *size,
            },
        },
        FieldType::Enumeration { signed, names, .. } => Value::Enumeration {
            value: word.cast_signed(),
            signed: *signed,
            names,
        },
        FieldType::Flags { names, .. } => Value::Flags { bits: word, names },
        FieldType::Bool => Value::Bool(word as u8 != 0),
        FieldType::Pointer { symbolic } => Value::Pointer {
            address: word,
            symbolic: *symbolic,
        },
        _ => Value::Missing,
    }
}

/// The numbers of the stacks in a value that are kept by number, and how many frames of each are wanted.
fn numbers(ty: &FieldType, bytes: &[u8], wanted: &mut Vec<(u32, u32)>) {
    match ty {
        FieldType::Stack { max, .. } => wanted.extend(stack_number(bytes, *max)),
        FieldType::HeldStack(stack) if stack.frames == Frames::Numbered => {
            wanted.extend(stack_number(bytes, stack.max));
        }
        FieldType::Array { element, count } => {
            let size = (element.fixed_size() as usize).max(1);
            for bytes in bytes.chunks_exact(size).take(*count as usize) {
                numbers(element, bytes, wanted);
            }
        }
        FieldType::Composite(composite) => {
            for member in &composite.members {
                numbers(
                    &member.ty,
                    bytes.get(member.offset as usize..).unwrap_or_default(),
                    wanted,
                );
            }
        }
        _ => {}
    }
}

fn stack_number(bytes: &[u8], max: u32) -> Option<(u32, u32)> {
    Some((u32::try_from(state::word(bytes, 0).cast_signed()).ok()?, max))
}

#[cfg(test)]
mod tests {
    use super::super::function::{COUNT, FUNCTIONS, LHIST, MIN, STATS};
    use super::super::{Aggregation, json, text};
    use super::*;
    use crate::layout::{Base, Space};
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
            evicts: false,
            generations: true,
            marks: false,
            by_event: false,
            first: String::new(),
        }
    }

    fn kind_of(function: &'static dyn super::super::aggregation::Function) -> ValueKind {
        ValueKind::Aggregation(Aggregation::new(function, false))
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
    fn stacks_are_keys_by_their_frames() {
        let stack = FieldType::Stack {
            space: Space::User,
            max: 3,
        };
        let ty = map(vec![stack, FieldType::CharArray { size: 8 }], kind_of(COUNT));
        let key = |number: i64, pid: u64| {
            let mut key = words(&[0, number.cast_unsigned(), pid]);
            key.extend(b"cat\0\0\0\0\0");
            key
        };
        let elements = [
            (key(5, 7), vec![words(&[2])]),
            (key(5, 8), vec![words(&[3])]),
            (key(6, 7), vec![words(&[1])]),
            // The kernel had no place for it.
            (key(-17, 7), vec![words(&[9])]),
        ];
        let read = snapshot(&ty, &words(&[0]), &elements).with_stacks(50, |number, most| {
            assert_eq!(most, 3);
            (number == 5).then(|| words(&[0x10, 0x20]))
        });
        assert!(read.rows.iter().all(|row| row.is_sound(&ty)));
        let frames = read.rows.iter().find_map(|row| match row.keys(&ty).next() {
            Some(Value::Stack(frames)) => {
                Some((frames.pid, frames.time_ns, frames.iter().collect::<Vec<_>>()))
            }
            _ => None,
        });
        assert_eq!(frames, Some((7, 50, vec![0x10, 0x20])));
        // Two processes whose stacks read alike are one row, and what has no frames is one.
        let shown = text(&read, &Symbols::default());
        assert_eq!(
            shown,
            "@x[\n    0x10\n    0x20\n, cat]: 5\n@x[<missing>, cat]: 10\n"
        );
        let json = json(&read, &Symbols::default());
        assert_eq!(json["data"]["@x"]["<missing>,cat"], 10);
    }

    #[test]
    fn a_row_of_an_earlier_version_takes_one_of_this() {
        let stack = FieldType::Stack {
            space: Space::User,
            max: 3,
        };
        let ty = map(vec![stack], kind_of(MIN));
        let key = |pid| words(&[0, 5, pid]);
        // The greatest number alone was added: its rank is 0.
        let elements = [(key(7), vec![words(&[0, 0])]), (key(8), vec![words(&[0, 1])])];
        let mut read = snapshot(&ty, &words(&[0]), &elements).with_stacks(50, |_, _| Some(words(&[0x10])));
        for row in &mut read.rows {
            if matches!(&row.value, RowValue::Words(words) if *words == [0, 0]) {
                row.value = RowValue::Words(vec![0]);
            }
        }
        assert!(read.rows.iter().all(|row| row.is_sound(&ty)));
        let shown = text(&read, &Symbols::default());
        assert_eq!(shown, "@x[\n    0x10\n]: 18446744073709551615\n");
    }

    #[test]
    fn processors_are_added_up_and_rows_sorted() {
        let key = vec![FieldType::CharArray { size: 8 }, number(true)];
        let ty = map(key, kind_of(COUNT));
        let key = |text: &[u8; 8], n: i64| {
            let parts = [&words(&[0])[..], text, &n.to_le_bytes()];
            parts.concat()
        };
        let elements = [
            (key(b"foo\0\0\0\0\0", 3), vec![words(&[5]), words(&[7])]),
            (key(b"bar\0junk", -1), vec![words(&[1]), words(&[0])]),
            (words(&[1, 0, 0]), vec![words(&[9]), words(&[9])]),
            (vec![1, 2], vec![words(&[9])]),
        ];
        let snapshot = snapshot(&ty, &words(&[0, 0, 0, 0, 0, 0, 0, 4, 0]), &elements);
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
    fn elements_of_a_cleared_generation_are_not_shown() {
        let ty = map(vec![number(false)], ValueKind::Scalar(number(true)));
        let elements = [
            (words(&[2, 7]), vec![words(&[1])]),
            (words(&[3, 7]), vec![words(&[-5i64 as u64])]),
        ];
        let snapshot = snapshot(&ty, &words(&[0, 0, 0, 0, 0, 0, 3, 0, 0]), &elements);
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
            one(
                ValueKind::Aggregation(Aggregation::new(STATS, true)),
                &[4, -8i64 as u64]
            ),
            serde_json::json!({ "type": "stats", "data": { "@x": { "count": 4, "average": -2, "total": -8 } } })
        );
        let buckets = Aggregation::with(LHIST, true, vec![0, 20, 10]);
        assert_eq!(
            one(ValueKind::Aggregation(buckets), &[3, 0, 5, 1]),
            serde_json::json!({ "type": "hist", "data": { "@x": [
                { "max": -1, "count": 3 }, { "min": 0, "max": 9, "count": 0 },
                { "min": 10, "max": 19, "count": 5 }, { "min": 20, "count": 1 }
            ] } })
        );
        assert_eq!(one(kind_of(MIN), &[0])["data"]["@x"], serde_json::Value::Null);
    }

    fn any_kind() -> impl Strategy<Value = ValueKind> {
        prop_oneof![
            Just(ValueKind::Scalar(FieldType::Pointer { symbolic: true })),
            Just(ValueKind::Scalar(FieldType::Bool)),
            (0u32..40).prop_map(|size| ValueKind::CharArray { size }),
            (0..FUNCTIONS.len(), any::<bool>(), any::<[i64; 3]>(), 0..4usize).prop_map(
                |(which, signed, numbers, count)| {
                    let function = FUNCTIONS[which];
                    ValueKind::Aggregation(Aggregation::with(
                        function,
                        signed,
                        numbers[..count.min(3)].to_vec(),
                    ))
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_shown(
            kind in any_kind(), keys in 0usize..4, state in proptest::collection::vec(any::<u8>(), 0..80),
            fill in any::<u64>(), odd in 0usize..3,
        ) {
            let types = [FieldType::CharArray { size: 5 }, number(false), FieldType::Flags { size: 8, names: [].into() }];
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
