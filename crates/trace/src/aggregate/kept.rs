//! Contents of maps at the end of a recording, as a file of its trace; how it is shown is `text`'s and `json`'s.

use super::map_type::{MAX_KEY, MapType, ValueKind};
use super::read::Snapshot;
use crate::error::{Error, Result};
use crate::layout::FieldType;
use crate::symbol::{Symbols, kernel_addresses};
use crate::user_symbol::UserSymbols;
use serde::{Deserialize, Serialize};

/// The maps of a trace.
#[derive(Clone, Debug, Default)]
pub struct KeptMaps {
    /// Each as it was at the end.
    pub maps: Vec<Snapshot>,
    /// Names of the addresses in them.
    pub symbols: Symbols,
}

/// Most keys of a map: those of a tuple are as many as there is room for in [`MOST_KEY`] bytes.
const MAX_KEYS: usize = MAX_KEY as usize / 8;

#[derive(Deserialize, Serialize)]
struct File<'m> {
    maps: std::borrow::Cow<'m, [Snapshot]>,
    symbols: String,
    /// Names of processes' code.
    #[serde(default, skip_serializing_if = "UserSymbols::is_empty")]
    user: UserSymbols,
}

impl KeptMaps {
    /// The file within a trace's side folder.
    pub const FILE: &'static str = "maps.json";

    /// Kept maps of these snapshots, with the names of the addresses in them out of `symbols`.
    pub fn new(maps: Vec<Snapshot>, symbols: &Symbols) -> Self {
        let user = symbols.user().clone();
        let symbols = symbols.subset(maps.iter().flat_map(Snapshot::addresses));
        Self {
            maps,
            symbols: symbols.with_user(user),
        }
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let file = File {
            maps: self.maps.as_slice().into(),
            symbols: self.symbols.to_text(),
            user: self.symbols.user().clone(),
        };
        // A struct of strings and numbers cannot fail to serialise.
        serde_json::to_string(&file).unwrap_or_default() + "\n"
    }

    /// Reads what `to_text` wrote.
    ///
    /// # Errors
    /// Where the text is damaged.
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |why: String| Error::Side {
            what: "what the trace's maps held".into(),
            why,
        };
        let file: File<'_> = serde_json::from_str(text).map_err(|e| fail(e.to_string()))?;
        let maps = file.maps.into_owned();
        if let Some(unsound) = maps.iter().find(|map| !map.is_sound()) {
            return Err(fail(format!(
                "@{} does not hold what its type says",
                unsound.ty.name
            )));
        }
        Ok(Self {
            maps,
            symbols: Symbols::parse(&file.symbols)?.with_user(file.user.sorted()),
        })
    }
}

impl Snapshot {
    /// Addresses in it that have names of the kernel's.
    fn addresses(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for row in &self.rows {
            for value in row.keys(&self.ty).chain(row.held(&self.ty)) {
                kernel_addresses(value, &mut |address| all.push(address));
            }
        }
        all
    }

    /// Whether keys and values are what the type says, and the type one that the language makes.
    fn is_sound(&self) -> bool {
        self.ty.is_sound() && self.rows.iter().all(|row| row.is_sound(&self.ty))
    }
}

impl MapType {
    fn is_sound(&self) -> bool {
        let key = |ty: &FieldType| match ty {
            FieldType::CharArray { size } => (1..=MAX_KEY).contains(size),
            FieldType::Stack { .. } => true,
            ty => ty.is_sound(),
        };
        let value = match &self.value {
            ValueKind::Scalar(ty) => ty.integer_size().is_some() && ty.is_sound(),
            ValueKind::CharArray { .. } => true,
            ValueKind::Whole(ty) => ty.is_sound(),
            ValueKind::Aggregation(aggregation) => aggregation.function.is_sound(aggregation),
        };
        value && self.keys.len() <= MAX_KEYS && self.keys.iter().all(key) && self.key_size() <= MAX_KEY
    }
}

#[cfg(test)]
mod tests {
    use super::super::function::{COUNT, LHIST};
    use super::super::{Aggregation, json, text};
    use super::*;
    use crate::layout::Base;
    use proptest::prelude::*;

    fn sample() -> KeptMaps {
        let ty = |name: &str, keys: Vec<FieldType>, value| MapType {
            name: name.to_owned(),
            number: 0,
            keys,
            value,
            entries: 16,
            evicts: false,
            generations: true,
            marks: false,
            by_event: false,
            first: "kprobe:x".to_owned(),
        };
        let number = FieldType::Integer {
            size: 8,
            signed: true,
            base: Base::Decimal,
        };
        let text = FieldType::CharArray { size: 16 };
        let key = |words: [u64; 4]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let fault = u64::from_le_bytes(crate::value::FAULT_IN_STRING);
        let cat = u64::from_le_bytes(*b"cat\0\0\0\0\0");
        let value = |n: u64| vec![n.to_le_bytes().to_vec()];
        let snapshot = |ty: &MapType, elements: Vec<(Vec<u8>, Vec<Vec<u8>>)>| {
            let lent = elements
                .iter()
                .map(|(k, v)| (k.clone(), v.iter().map(Vec::as_slice)));
            Snapshot::new(ty, &[], lent)
        };
        let counts = ty(
            "n",
            vec![text, number],
            ValueKind::Aggregation(Aggregation::new(COUNT, false)),
        );
        let symbol = FieldType::Pointer { symbolic: true };
        let last = ty("last", vec![], ValueKind::Scalar(symbol));
        let sizes = ty(
            "h",
            vec![],
            ValueKind::Aggregation(Aggregation::with(LHIST, true, vec![0, 10, 5])),
        );
        let buckets: Vec<u8> = [0u64, 3, 0, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
        let maps = vec![
            snapshot(
                &counts,
                vec![
                    (key([0, cat, 0, u64::MAX]), value(7)),
                    (key([0, fault, 0, 3]), value(u64::MAX)),
                ],
            ),
            snapshot(&last, vec![(vec![0; 4], value(0x1010))]),
            snapshot(&sizes, vec![(vec![0; 4], vec![buckets])]),
        ];
        let symbols = [(0x1000, 0x100, "do_exit", None), (0x9000, 0x100, "other", None)];
        KeptMaps::new(maps, &Symbols::new(symbols))
    }

    fn shown(kept: &KeptMaps) -> String {
        kept.maps.iter().map(|map| text(map, &kept.symbols)).collect()
    }

    #[test]
    fn kept_maps_are_shown_as_they_were_after_a_round_trip() {
        let kept = sample();
        let text = shown(&kept);
        assert!(
            text.contains("@n[cat, -1]: 7\n@n[(fault), 3]: 18446744073709551615\n"),
            "{text}"
        );
        assert!(text.contains("@last: do_exit+0x10\n"), "{text}");
        assert_eq!(kept.symbols.len(), 1);
        let back = KeptMaps::parse(&kept.to_text()).unwrap();
        assert_eq!(back.maps, kept.maps);
        assert_eq!(shown(&back), text);
        // Recordings of early versions have this name for aggregations.
        assert!(kept.to_text().contains("\"Gathered\""));
    }

    #[test]
    fn contradictions_are_refused() {
        let good = sample().to_text();
        for (from, to) in [
            ("\"size\":16", "\"size\":4294967295"),
            ("[0,10,5]", "[0,10,0]"),
            ("\"lhist\"", "\"nothing\""),
            ("{\"Words\":[0,3,0,1]}", "{\"Words\":[0,3,0,1,9,9,9,9,9,9]}"),
            ("{\"Words\":[7]}", "{\"Number\":7}"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good, "{from}");
            assert!(KeptMaps::parse(&bad).is_err(), "{to}");
        }
    }

    proptest! {
        #[test]
        fn any_damage_is_an_error_or_can_be_shown(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = sample().to_text().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if byte % 4 == 0 {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(kept) = KeptMaps::parse(&String::from_utf8_lossy(&bytes)) {
                shown(&kept);
                kept.maps.iter().for_each(|map| { json(map, &kept.symbols); });
            }
        }
    }
}
