//! Places that the kernel keeps for itself: static branches, static calls, BUG and WARN; read from its own tables.

use super::function::Why;
use crate::facts::Facts;
use kestrel_bpf::btf::BtfKind;
use kestrel_kernel::kcore::Kcore;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// A table of places that the linker put together: the kernel's own by symbols, a module's by its section.
struct Table {
    begin: &'static str,
    end: &'static str,
    section: &'static str,
    /// Bytes of an entry; its first four are the distance from itself to the place.
    entry: u64,
    why: Why,
}

/// `struct jump_entry` with relative addresses (`include/linux/jump_label.h`), `struct static_call_site` (`include/linux/static_call_types.h`).
const JUMP_ENTRY: u64 = 16;
const CALL_SITE: u64 = 8;
/// `struct bug_entry` of kernels whose types do not say.
const BUG_ENTRY: u64 = 12;
/// A table larger than this is not one.
const LARGEST: u64 = 16 << 20;

/// The tables, and what they say of the part of memory that was last asked for: mostly one function is, and tens of thousands of places lie elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    tables: Vec<Copied>,
    part: RefCell<(Range<u64>, HashMap<u64, Why>)>,
}

/// A table's bytes and where they are in the kernel.
#[derive(Debug)]
struct Copied {
    begin: u64,
    bytes: Vec<u8>,
    entry: usize,
    why: Why,
}

/// Bytes of memory whose places are looked for together; a power of two.
const PART: u64 = 1 << 16;

impl Reserved {
    /// Reads the tables of the kernel and its modules; what cannot be read is left out: then the kernel's refusal says less, later.
    pub(crate) fn read(facts: &Facts, memory: &Kcore) -> Self {
        let bug = || {
            let types = facts.types().ok()?;
            types.size_of(types.find(BtfKind::Struct, "bug_entry")?)
        };
        let tables = [
            Table {
                begin: "__start___jump_table",
                end: "__stop___jump_table",
                section: "__jump_table",
                entry: JUMP_ENTRY,
                why: Why::StaticBranch,
            },
            Table {
                begin: "__start_static_call_sites",
                end: "__stop_static_call_sites",
                section: ".static_call_sites",
                entry: CALL_SITE,
                why: Why::StaticCall,
            },
            Table {
                begin: "__start___bug_table",
                end: "__stop___bug_table",
                section: "__bug_table",
                entry: bug().unwrap_or(BUG_ENTRY),
                why: Why::Trap,
            },
        ];
        let copies = tables.iter().flat_map(|table| {
            let ranges = ranges(facts, table).into_iter();
            ranges.filter_map(|(begin, end)| Copied::of(memory, table, begin, end))
        });
        Self {
            tables: copies.collect(),
            part: RefCell::default(),
        }
    }

    pub(super) fn why(&self, address: u64) -> Option<Why> {
        let mut part = self.part.borrow_mut();
        if !part.0.contains(&address) {
            let begin = address & !(PART - 1);
            let range = begin..begin.saturating_add(PART);
            let mut places = HashMap::new();
            for table in &self.tables {
                for place in table.places().filter(|place| range.contains(place)) {
                    places.entry(place).or_insert_with(|| table.why.clone());
                }
            }
            *part = (range, places);
        }
        part.1.get(&address).cloned()
    }
}

impl Copied {
    fn of(memory: &Kcore, table: &Table, begin: u64, end: u64) -> Option<Self> {
        let length = end.checked_sub(begin).filter(|length| *length <= LARGEST)?;
        Some(Self {
            begin,
            bytes: memory.bytes(begin, length as usize).ok()?,
            entry: (table.entry as usize).max(4),
            why: table.why.clone(),
        })
    }

    fn places(&self) -> impl Iterator<Item = u64> {
        let entries = (self.begin..)
            .step_by(self.entry)
            .zip(self.bytes.chunks_exact(self.entry));
        entries.map(|(at, entry)| {
            let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            at.wrapping_add_signed(i64::from(distance))
        })
    }
}

/// Address ranges of the kernel's table and those of modules.
fn ranges(facts: &Facts, table: &Table) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    if let Ok(symbols) = facts.symbols() {
        let own = |name: &str| {
            symbols
                .named(name)
                .find(|s| s.module.is_none())
                .map(|s| s.address)
        };
        ranges.extend(own(table.begin).zip(own(table.end)));
    }
    let modules = std::fs::read_dir(facts.host().path("/sys/module"));
    for module in modules.into_iter().flatten().flatten() {
        ranges.extend(section(facts, &module.path().join("sections"), table.section));
    }
    ranges
}

/// A module's section: from its address to the next section's.
fn section(facts: &Facts, sections: &std::path::Path, name: &str) -> Option<(u64, u64)> {
    let number = |path: &std::path::Path| {
        let text = facts
            .host()
            .read(path.strip_prefix(facts.host().path("/")).ok()?)
            .ok()?;
        u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let begin = number(&sections.join(name)).filter(|address| *address != 0)?;
    let all = std::fs::read_dir(sections).ok()?.flatten();
    let ends = all
        .filter_map(|section| number(&section.path()))
        .filter(|address| *address > begin);
    ends.min().map(|end| (begin, end))
}
