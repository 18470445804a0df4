//! The control page: one small mapped array per session that hooks read first; its layout.
//!
//! ```text
//! 0      active u64       low half: number of the active table, 0: every hook returns at once; high half: its slot + 1 where it was loaded later
//! 8      start u64        ns of CLOCK_MONOTONIC when the session was made
//! 16     uuid [u8;16]     the session's trace
//! 32     switched u64     ns of CLOCK_REALTIME when a command last changed *active*
//! 40     to u64           the value that it stored
//! 48     silent u64       not 0: no named probe does anything
//! 56     armed u64        the generation of the state up to which named probes have their words
//! 64     per buffer b, 32 bytes each, at most 32 of them:
//!          0  frozen u64  not 0: the buffer takes no records
//!          8  reset u64   ns: what was recorded before counts as forgotten
//! 2048   parameters       u64 each, at most 256
//! 4096   tables           u64 each, at most 512: by place, the value of *active* while the table is used
//! 8192   current          u32 per CPU, at most 4096: the number of the buffer that its records go to
//! 24576  probes           u64 each, at most 4096: low half: a named probe's own number while it is enabled; high half: the slot + 1 of its programs, where
//!                         they were made anew
//! ```
//!
//! A table's *place* is the same as long as the table bears its name; its *number* is new each time it is loaded, so that a hook that
//! knows an older one under this name never takes it for the new one.

use kestrel_bpf::helper;
use kestrel_catalog::Result;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::procfs;
use kestrel_trace::info::Uuid;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name by which programs refer to the control page.
pub const MAP: &str = "control";
/// Size of the page in bytes.
pub const SIZE: u32 = 57344;
const ACTIVE: u32 = 0;
const START: u32 = 8;
const UUID: u32 = 16;
const SWITCHED: u32 = 32;
const SWITCHED_TO: u32 = 40;
const SILENT: u32 = 48;
const ARMED: u32 = 56;
const BUFFERS: u32 = 64;
const PER_BUFFER: u32 = 32;
const PARAMETERS: u32 = 2048;
const TABLES: u32 = 4096;
const CURRENT: u32 = 8192;
const PROBES: u32 = 24576;

/// Most buffers of a session.
pub const MAX_BUFFERS: u32 = 32;
/// Most parameters of a session.
pub const MAX_PARAMETERS: u32 = 256;
/// Most tables of a session.
pub const MAX_TABLES: u32 = 512;
/// Most named probes of a session.
pub const MAX_PROBES: u32 = 4096;
/// Most CPUs that have a current buffer of their own; a power of two.
pub const MAX_CPUS: u32 = 4096;

/// A table as the active word names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table(u64);

impl Table {
    /// No table: everything is masked.
    pub const NONE: Self = Self(0);

    /// Word of the control page.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A table whose handlers are compiled into the hooks.
    pub const fn known(number: u32) -> Self {
        Self(number as u64)
    }

    /// A table whose handlers stand in the hooks' slots.
    pub const fn in_slot(number: u32, slot: u32) -> Self {
        Self(number as u64 | (slot as u64 + 1) << 32)
    }

    /// The number; 0 for none.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    /// The slot, if it was loaded later.
    pub const fn slot(self) -> Option<u32> {
        ((self.0 >> 32) as u32).checked_sub(1)
    }
}

/// A named probe as its word names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeWord(u64);

impl ProbeWord {
    /// No probe: its hooks return at once.
    pub const NONE: Self = Self(0);

    /// A named probe whose programs are compiled into its hooks, or stand in a slot of each.
    pub const fn new(number: u32, slot: Option<u32>) -> Self {
        match slot {
            None => Self(number as u64),
            Some(slot) => Self(number as u64 | (slot as u64 + 1) << 32),
        }
    }

    /// The number; 0 for none.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }
}

/// A session's control page.
#[derive(Debug)]
pub struct Control {
    map: Map,
    mapping: Mapping,
}

impl Control {
    /// Makes the page; no table is active.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(uuid: Uuid, now: u64) -> Result<Self> {
        let spec = MapSpec::new(MapKind::ARRAY, "kestrel_control", 4, SIZE, 1).with_flags(sys::MAP_MMAPABLE);
        let control = Self::open(Map::create(&spec)?)?;
        control.mapping.copy_in(START as usize, &now.to_le_bytes())?;
        control.mapping.copy_in(UUID as usize, &uuid.0)?;
        Ok(control)
    }

    /// The page of a session that is there already.
    ///
    /// # Errors
    /// The kernel's, or when the map has another shape.
    pub fn open(map: Map) -> Result<Self> {
        let mapping = Mapping::new(map.as_fd(), 0, SIZE as usize, Access::ReadWrite)?;
        Ok(Self { map, mapping })
    }

    /// The control page's map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    fn word(&self, at: u32) -> Option<&AtomicU64> {
        self.mapping.atomic_u64(at as usize)
    }

    fn set(&self, at: u32, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::SeqCst);
        }
    }

    fn get(&self, at: u32) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Makes a table active on all CPUs from their next event on: one store.
    pub fn activate(&self, table: Table) {
        self.set(ACTIVE, table.0);
    }

    /// Makes a table active by a command, and notes the time.
    pub fn switch(&self, table: Table) {
        // No time is known until both are written; the table comes first, so that a look at the clock does not delay it.
        self.set(SWITCHED_TO, 0);
        self.activate(table);
        self.set(SWITCHED, procfs::realtime());
        self.set(SWITCHED_TO, table.0);
    }

    /// Time of the switch to the active table, ns since 1970; `None` where a handler switched.
    pub fn switched(&self) -> Option<u64> {
        let at = self.get(SWITCHED);
        (self.get(SWITCHED_TO) == self.get(ACTIVE)).then_some(at)
    }

    /// Time at which the session was made, ns of `CLOCK_MONOTONIC`.
    pub fn start(&self) -> u64 {
        self.get(START)
    }

    /// Replaces the active table by one that was loaded under its name, if `from` is active; returns whether it was.
    pub fn succeed(&self, from: Table, to: Table) -> bool {
        let was = self.exchange(from, to);
        if was && self.get(SWITCHED_TO) == from.0 {
            self.set(SWITCHED_TO, to.0);
        }
        was
    }

    /// The active table.
    pub fn active(&self) -> Table {
        Table(self.get(ACTIVE))
    }

    /// Makes `to` active if `from` is; returns whether it was.
    pub fn exchange(&self, from: Table, to: Table) -> bool {
        self.word(ACTIVE).is_some_and(|word| {
            word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
        })
    }

    /// Sets the table that `use_table` makes active for a place.
    pub fn set_table(&self, place: u32, table: Table) {
        if place < MAX_TABLES {
            self.set(TABLES + place * 8, table.0);
        }
    }

    /// Table that `use_table` makes active for a place.
    pub fn table(&self, place: u32) -> Table {
        if place < MAX_TABLES {
            Table(self.get(TABLES + place * 8))
        } else {
            Table::NONE
        }
    }

    /// Sets a parameter.
    pub fn set_parameter(&self, index: usize, value: u64) {
        if index < MAX_PARAMETERS as usize {
            self.set(PARAMETERS + index as u32 * 8, value);
        }
    }

    /// A parameter's value.
    pub fn parameter(&self, index: usize) -> u64 {
        if index < MAX_PARAMETERS as usize {
            self.get(PARAMETERS + index as u32 * 8)
        } else {
            0
        }
    }
}

impl Control {
    /// Writes a named probe's word: its own enables it from the next event on, any other disables it.
    pub fn set_probe(&self, place: u32, word: ProbeWord) {
        if place < MAX_PROBES {
            self.set(probe_at(place), word.0);
        }
    }

    /// A named probe's word.
    pub fn probe(&self, place: u32) -> ProbeWord {
        match place < MAX_PROBES {
            true => ProbeWord(self.get(probe_at(place))),
            false => ProbeWord::NONE,
        }
    }

    /// Switches all named probes that are enabled by themselves on or off: one store.
    pub fn switch_probes(&self, on: bool) {
        self.set(SILENT, u64::from(!on));
    }

    /// Whether named probes work that are enabled themselves.
    pub fn probes_on(&self) -> bool {
        self.get(SILENT) == 0
    }

    /// The generation of the state up to which named probes have their words.
    pub fn armed(&self) -> u64 {
        self.get(ARMED)
    }

    /// Stores the generation of the state up to which named probes have their words.
    pub fn set_armed(&self, generation: u64) {
        self.set(ARMED, generation);
    }
}

const fn probe_at(place: u32) -> u32 {
    PROBES + place * 8
}

impl Control {
    /// Freezes a buffer, or lets it take records again.
    pub fn freeze(&self, buffer: u32, frozen: bool) {
        if buffer < MAX_BUFFERS {
            self.set(frozen_at(buffer), u64::from(frozen));
        }
    }

    /// Whether a buffer takes no records.
    pub fn is_frozen(&self, buffer: u32) -> bool {
        buffer < MAX_BUFFERS && self.get(frozen_at(buffer)) != 0
    }

    /// Forgets what a buffer holds from before `now` (ns of CLOCK_MONOTONIC).
    pub fn reset(&self, buffer: u32, now: u64) {
        if buffer < MAX_BUFFERS {
            self.set(reset_at(buffer), now);
        }
    }

    /// The number of the buffer that a CPU's records go to.
    pub fn current(&self, cpu: u32) -> u32 {
        let at = CURRENT + (cpu & (MAX_CPUS - 1)) * 4;
        let pair = self.get(at & !7);
        if at & 4 == 0 {
            pair as u32
        } else {
            (pair >> 32) as u32
        }
    }

    /// Sends the records of a CPU that name no buffer to this one.
    pub fn set_current(&self, cpu: u32, buffer: u32) {
        let at = CURRENT + (cpu & (MAX_CPUS - 1)) * 4;
        let shift = if at & 4 == 0 { 0 } else { 32 };
        if let Some(word) = self.word(at & !7) {
            let changed =
                |pair: u64| Some(pair & !(u64::from(u32::MAX) << shift) | u64::from(buffer) << shift);
            // The neighbour's handlers may write the other half of the word meanwhile.
            let _always_some = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
        }
    }

    /// Time of a buffer's last reset, ns of CLOCK_MONOTONIC: records from before do not count.
    pub fn since(&self, buffer: u32) -> u64 {
        if buffer < MAX_BUFFERS {
            self.get(reset_at(buffer))
        } else {
            0
        }
    }
}

const fn frozen_at(buffer: u32) -> u32 {
    BUFFERS + buffer * PER_BUFFER
}

const fn reset_at(buffer: u32) -> u32 {
    BUFFERS + buffer * PER_BUFFER + 8
}

/// A word that is not 0 while a buffer is frozen.
pub(crate) fn emit_frozen(b: &mut Builder, buffer: u32) -> Vreg {
    let word = address(b, frozen_at(buffer));
    b.load(Width::B8, word, 0)
}

/// Freezes or thaws a buffer.
pub(crate) fn emit_freeze(b: &mut Builder, buffer: u32, frozen: bool) {
    let word = address(b, frozen_at(buffer));
    b.store(Width::B8, word, 0, i64::from(frozen));
}

/// Forgets what a buffer holds.
pub(crate) fn emit_reset(b: &mut Builder, buffer: u32) {
    let now = b.helper(helper::KTIME_GET_NS, &[]);
    let word = address(b, reset_at(buffer));
    b.store(Width::B8, word, 0, now);
}

/// Address of the word with the number of the buffer that this CPU's records go to.
fn current(b: &mut Builder) -> Vreg {
    let cpu = b.helper(helper::GET_SMP_PROCESSOR_ID, &[]);
    let cpu = b.and(cpu, i64::from(MAX_CPUS - 1));
    let at = b.shift_left(cpu, 2);
    let words = address(b, CURRENT);
    b.add(words, at)
}

/// The number of the buffer that this CPU's records go to.
pub(crate) fn emit_current(b: &mut Builder) -> Vreg {
    let word = current(b);
    b.load(Width::B4, word, 0)
}

/// Sends this CPU's records to a buffer from now on.
pub(crate) fn emit_use_buffer(b: &mut Builder, buffer: u32) {
    let word = current(b);
    b.store(Width::B4, word, 0, i64::from(buffer));
}

/// Address of a byte of the page.
fn address(b: &mut Builder, at: u32) -> Vreg {
    let map = b.external(MAP);
    b.map_value(map, at)
}

/// The active word: what a hook reads first, once.
pub(crate) fn emit_active(b: &mut Builder) -> Vreg {
    let word = address(b, ACTIVE);
    b.load(Width::B8, word, 0)
}

/// Jumps to `skip` unless a table is active; returns the active word.
pub(crate) fn emit_any_active(b: &mut Builder, skip: BlockId) -> Vreg {
    let active = emit_active(b);
    b.branch_if(Condition::Equal, active, 0, skip);
    active
}

/// Jumps to `skip` unless a named probe is enabled, whichever of its programs are in force.
pub(crate) fn emit_probe(b: &mut Builder, place: u32, number: u32, skip: BlockId) {
    // The low half comes first.
    let word = address(b, probe_at(place));
    let own = b.load(Width::B4, word, 0);
    b.branch_if(Condition::NotEqual, own, i64::from(number), skip);
}

/// A named probe's word: what its hooks read first, once.
pub(crate) fn emit_probe_word(b: &mut Builder, place: u32) -> Vreg {
    let word = address(b, probe_at(place));
    b.load(Width::B8, word, 0)
}

/// Jumps to `skip` where all named probes are switched off.
pub(crate) fn emit_probes_on(b: &mut Builder, skip: BlockId) {
    let silent = address(b, SILENT);
    let silent = b.load(Width::B8, silent, 0);
    b.branch_if(Condition::NotEqual, silent, 0, skip);
}

/// Makes the table at a place active.
pub(crate) fn emit_use_table(b: &mut Builder, place: u32) {
    let word = address(b, TABLES + place * 8);
    let table = b.load(Width::B8, word, 0);
    // A handler switches, not a command: the time of the switch is not kept, even where it returns to the table that a command chose.
    let by_command = address(b, SWITCHED_TO);
    b.store(Width::B8, by_command, 0, 0);
    let active = address(b, ACTIVE);
    b.store(Width::B8, active, 0, table);
}

/// Masks all events of the session from the next one on.
pub(crate) fn emit_deactivate(b: &mut Builder) {
    let active = address(b, ACTIVE);
    b.store(Width::B8, active, 0, 0);
}

/// Offset of a parameter in the page.
pub const fn parameter_at(index: u32) -> u32 {
    PARAMETERS + index * 8
}

/// A parameter's value.
pub(crate) fn emit_parameter(b: &mut Builder, index: u32) -> Vreg {
    let word = address(b, parameter_at(index));
    b.load(Width::B8, word, 0)
}

/// Time at which the session was made, for `elapsed`.
pub(crate) fn emit_start(b: &mut Builder) -> Vreg {
    let word = address(b, START);
    b.load(Width::B8, word, 0)
}
