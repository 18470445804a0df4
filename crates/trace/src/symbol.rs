//! Names of addresses: the kernel's in a sorted table, `symbol+0x10`, and its file, and those of processes beside them; where symbols come from is not known here.

use crate::error::{Error, Result};
use crate::layout::{FieldType, Named, Space};
use crate::names::{KeptNames, NOTHING, Names};
use crate::record::Record;
use crate::user_symbol::UserSymbols;
use crate::value::{NamedValue, Value};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Symbols of the kernel, by address, and of processes.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Shared by all who print: they may be many.
    user: Arc<UserSymbols>,
    /// Names of other numbers.
    others: Option<Arc<dyn Names>>,
    /// Those of them that a recorder found.
    kept: Arc<KeptNames>,
    entries: Vec<Entry>,
    /// All names, one behind the other.
    names: String,
    modules: Vec<String>,
    /// Where others have to be asked for.
    elsewhere: Option<LateSymbols>,
}

/// Symbols of what comes and goes, which are read when the first address outside of a range is asked for.
#[derive(Clone)]
struct LateSymbols {
    /// Where the table itself knows all names.
    own: Range<u64>,
    read: Arc<dyn Fn() -> Symbols + Send + Sync>,
    known: Arc<OnceLock<Symbols>>,
}

impl fmt::Debug for LateSymbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LateSymbols outside of {:x?}", self.own)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    size: u64,
    name: (u32, u32),
    /// 1 + index in `modules`, or 0.
    module: u32,
}

/// An address with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// The symbol that the address lies in.
    pub name: &'a str,
    /// Bytes from its start.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// The module that it belongs to, if any.
    pub module: Option<&'a str>,
}

/// Equal tables name every address alike, however their names are kept.
impl PartialEq for Symbols {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Entry, &Entry)| {
            a.address == b.address && self.resolved(a, a.address) == other.resolved(b, b.address)
        };
        self.len() == other.len()
            && self.user == other.user
            && self.kept == other.kept
            && self.entries.iter().zip(&other.entries).all(same)
    }
}

/// Bytes that a symbol without a size takes at most: up to the next symbol, but not over a hole in the address space.
pub const REACH: u64 = 1 << 20;

impl Symbols {
    /// The file within a trace's side folder: lines `ADDRESS SIZE NAME [MODULE]`, numbers in hexadecimal.
    pub const FILE: &'static str = "symbols";

    /// A table of symbols in any order: address, size (0: up to the next), name, module. Of several at one address the first counts.
    pub fn new<'a>(symbols: impl IntoIterator<Item = (u64, u64, &'a str, Option<&'a str>)>) -> Self {
        let mut table = Self::default();
        for (address, size, name, module) in symbols {
            let start = table.names.len() as u32;
            table.names.push_str(name);
            let module = module.map_or(0, |module| table.module(module));
            table.entries.push(Entry {
                address,
                size,
                name: (start, table.names.len() as u32),
                module,
            });
        }
        table.sort();
        table
    }

    /// Brings the entries into their order. A function of its own: [`Symbols::new`] exists once for each kind of list.
    #[inline(never)]
    fn sort(&mut self) {
        self.entries.sort_by_key(|entry| entry.address);
        self.fill_sizes();
    }

    fn module(&mut self, name: &str) -> u32 {
        // Symbols of a module mostly stand together: look from the end.
        if let Some(index) = self.modules.iter().rposition(|module| module == name) {
            return index as u32 + 1;
        }
        self.modules.push(name.to_owned());
        self.modules.len() as u32
    }

    fn fill_sizes(&mut self) {
        let mut next = None;
        let mut boundary = None;
        for entry in self.entries.iter_mut().rev() {
            if next != Some(entry.address) {
                (boundary, next) = (next, Some(entry.address));
            }
            if entry.size == 0 {
                entry.size = boundary.map_or(REACH, |next| next - entry.address).min(REACH);
            }
        }
    }

    /// With the symbols of processes.
    pub fn with_user(self, user: UserSymbols) -> Self {
        let user = Arc::new(user);
        Self { user, ..self }
    }

    /// Adds a source of the symbols outside of `own`, which is read when the first address there is looked up: a table of all symbols is costly to make.
    pub fn with_elsewhere(self, own: Range<u64>, read: impl Fn() -> Self + Send + Sync + 'static) -> Self {
        let elsewhere = Some(LateSymbols {
            own,
            read: Arc::new(read),
            known: Arc::default(),
        });
        Self { elsewhere, ..self }
    }

    /// Adds a source of names for numbers that are no addresses.
    pub fn with_names(self, names: Arc<dyn Names>) -> Self {
        let others = Some(names);
        Self { others, ..self }
    }

    /// Source of names for numbers that are no addresses.
    pub fn names(&self) -> &dyn Names {
        self.others.as_deref().unwrap_or(NOTHING)
    }

    /// With names for other numbers that a recorder found.
    pub fn with_kept_names(self, names: KeptNames) -> Self {
        let kept = Arc::new(names);
        Self { kept, ..self }
    }

    /// Names for other numbers that the recorder found.
    pub fn kept_names(&self) -> &KeptNames {
        &self.kept
    }

    /// The symbols of processes.
    pub fn user(&self) -> &UserSymbols {
        &self.user
    }

    /// The symbols of processes, to be added to; of a copy, where others show them too.
    pub fn user_mut(&mut self) -> &mut UserSymbols {
        Arc::make_mut(&mut self.user)
    }

    /// The address of the first symbol of this name.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let named = |entry: &&Entry| self.resolved(entry, entry.address).name == name;
        self.entries.iter().find(named).map(|entry| entry.address)
    }

    /// Number of symbols of the kernel.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds no symbols.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The symbol in which `address` lies.
    pub fn resolve(&self, address: u64) -> Option<Resolved<'_>> {
        match &self.elsewhere {
            Some(elsewhere) if !elsewhere.own.contains(&address) => {
                let known = elsewhere.known.get_or_init(|| (elsewhere.read)());
                known.resolve(address)
            }
            _ => self.find(address).map(|entry| self.resolved(entry, address)),
        }
    }

    fn find(&self, address: u64) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.address <= address);
        let nearest = self.entries.get(after.checked_sub(1)?)?.address;
        let first = self.entries.partition_point(|entry| entry.address < nearest);
        let entry = self.entries.get(first)?;
        (address - entry.address < entry.size).then_some(entry)
    }

    fn resolved(&self, entry: &Entry, address: u64) -> Resolved<'_> {
        Resolved {
            name: self
                .names
                .get(entry.name.0 as usize..entry.name.1 as usize)
                .unwrap_or_default(),
            offset: address - entry.address,
            size: entry.size,
            module: (entry.module as usize)
                .checked_sub(1)
                .and_then(|index| self.modules.get(index))
                .map(String::as_str),
        }
    }

    /// Only the symbols in which one of `addresses` lies.
    pub fn subset(&self, addresses: impl IntoIterator<Item = u64>) -> Self {
        let mut used: Vec<&Entry> = addresses
            .into_iter()
            .filter_map(|address| self.find(address))
            .collect();
        used.sort_by_key(|entry| entry.address);
        used.dedup_by_key(|entry| entry.address);
        Self::new(used.into_iter().map(|entry| {
            let it = self.resolved(entry, entry.address);
            (entry.address, it.size, it.name, it.module)
        }))
    }

    /// The code of the kernel's functions whose names match, in the order of addresses.
    pub(crate) fn code(&self, matches: impl Fn(&str) -> bool) -> impl Iterator<Item = Range<u64>> {
        let matching = self.of_kernel().filter(move |(_, _, name, _)| matches(name));
        matching.map(|(address, size, ..)| address..address.saturating_add(size))
    }

    /// The kernel's symbols, in the order of their addresses.
    fn of_kernel(&self) -> impl Iterator<Item = (u64, u64, &str, Option<&str>)> {
        self.entries.iter().map(|entry| {
            let it = self.resolved(entry, entry.address);
            (entry.address, it.size, it.name, it.module)
        })
    }

    /// The union with those of another recording, of the same boot or of another; gives also how many names were dropped because another boot has another one
    /// there. Names of processes are left out.
    pub(crate) fn joined(&self, others: &Self, same_boot: bool) -> (Self, usize) {
        let mut all: Vec<_> = self.of_kernel().chain(others.of_kernel()).collect();
        all.sort_by_key(|symbol| symbol.0);
        all.dedup();
        if same_boot {
            return (Self::new(all), 0);
        }
        let mut dropped = vec![false; all.len()];
        for at in 1..all.len() {
            let (before, this) = (&all[at - 1], &all[at]);
            // Aliases, of which a kernel has several at an address, are no contradiction.
            let overlaps = before.0 != this.0 && this.0 - before.0 < before.1;
            let differs = before.0 == this.0 && before.2 != this.2;
            if overlaps || differs {
                (dropped[at - 1], dropped[at]) = (true, true);
            }
        }
        let count = dropped.iter().filter(|it| **it).count();
        let kept = all.into_iter().zip(dropped).filter(|(_, dropped)| !dropped);
        (Self::new(kept.map(|(symbol, _)| symbol)), count)
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let it = self.resolved(entry, entry.address);
            let module = it.module.map(|module| format!(" [{module}]")).unwrap_or_default();
            text.push_str(&format!(
                "{:016x} {:x} {}{module}\n",
                entry.address, it.size, it.name
            ));
        }
        text
    }

    /// Reads what `to_text` wrote.
    pub fn parse(text: &str) -> Result<Self> {
        let mut symbols = Vec::new();
        for line in text.lines() {
            let Some(symbol) = parse_line(line) else {
                return Err(Error::Side {
                    what: "the trace's symbols".into(),
                    why: format!("{line:?} is not an address, a size and a name"),
                });
            };
            symbols.push(symbol);
        }
        Ok(Self::new(symbols))
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, &str, Option<&str>)> {
    let mut words = line.splitn(3, ' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let size = u64::from_str_radix(words.next()?, 16).ok()?;
    let name = words.next()?;
    Some(
        match name.strip_suffix(']').and_then(|name| name.rsplit_once(" [")) {
            Some((name, module)) => (address, size, name, Some(module)),
            None => (address, size, name, None),
        },
    )
}

/// Adds the kernel addresses of `record` that are shown by name: frames of kernel stacks, and symbolic pointers.
pub fn addresses(record: &Record<'_>, all: &mut HashSet<u64>) {
    for field in record.event.layout.fields() {
        if has_addresses(&field.ty) {
            kernel_addresses(record.value(field), &mut |address| _ = all.insert(address));
        }
    }
}

/// Whether values of a type hold addresses of the kernel that are shown by name.
pub fn has_addresses(ty: &FieldType) -> bool {
    match ty {
        FieldType::Pointer { symbolic } => *symbolic,
        FieldType::Stack { space, .. } => *space == Space::Kernel,
        FieldType::HeldStack(stack) => stack.space == Space::Kernel,
        FieldType::Named(Named::KernelSymbol) => true,
        FieldType::Array { element, .. } => has_addresses(element),
        FieldType::Composite(composite) => composite.members.iter().any(|member| has_addresses(&member.ty)),
        FieldType::Integer { .. }
        | FieldType::Bool
        | FieldType::Float { .. }
        | FieldType::Enumeration { .. }
        | FieldType::Flags { .. }
        | FieldType::CharArray { .. }
        | FieldType::InlineString { .. }
        | FieldType::Buffer { .. }
        | FieldType::Named(_)
        | FieldType::String { .. }
        | FieldType::Bytes { .. }
        | FieldType::StackCopy { .. } => false,
    }
}

/// Calls `each` with the kernel's addresses in a value that are shown by name.
pub(crate) fn kernel_addresses(value: Value<'_>, each: &mut impl FnMut(u64)) {
    match value {
        Value::Pointer {
            address,
            symbolic: true,
        }
        | Value::Named(NamedValue::KernelSymbol(address)) => each(address),
        Value::Stack(frames) if frames.space == Space::Kernel => frames.iter().for_each(each),
        Value::Array(elements) => elements.iter().for_each(|value| kernel_addresses(value, each)),
        Value::Composite(parts) => parts.iter().for_each(|(_, value)| kernel_addresses(value, each)),
        Value::Signed { .. }
        | Value::Unsigned { .. }
        | Value::Bool(_)
        | Value::Float(_)
        | Value::Pointer { .. }
        | Value::Enumeration { .. }
        | Value::Flags { .. }
        | Value::Text(_)
        | Value::Fault
        | Value::CutText(_)
        | Value::Buffer(_)
        | Value::Named(_)
        | Value::Stack(_)
        | Value::Missing => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Symbols {
        Symbols::new([
            (0x3000, 0, "last", Some("ext4")),
            (0x1000, 0x20, "sized", None),
            (0x2000, 0, "first_alias", None),
            (0x2000, 0, "second_alias", None),
        ])
    }

    fn show(symbols: &Symbols, address: u64) -> Option<String> {
        symbols
            .resolve(address)
            .map(|it| format!("{}+{:#x}/{:#x}", it.name, it.offset, it.size))
    }

    #[test]
    fn addresses_get_the_name_of_the_symbol_they_lie_in() {
        let table = table();
        assert_eq!(show(&table, 0xfff), None);
        assert_eq!(show(&table, 0x101f).as_deref(), Some("sized+0x1f/0x20"));
        assert_eq!(show(&table, 0x1020), None);
        assert_eq!(show(&table, 0x2fff).as_deref(), Some("first_alias+0xfff/0x1000"));
        assert_eq!(table.resolve(0x3001).unwrap().module, Some("ext4"));
        assert_eq!(show(&table, u64::MAX), None);
    }

    #[test]
    fn the_file_brings_the_table_back_and_a_subset_keeps_sizes() {
        let table = table();
        assert_eq!(Symbols::parse(&table.to_text()).unwrap(), table);
        let subset = table.subset([0x2010, 0x3000, 0x2020, 0x10]);
        assert_eq!(
            subset.to_text(),
            "0000000000002000 1000 first_alias\n0000000000003000 100000 last [ext4]\n"
        );
        assert!(Symbols::parse("zz 1 name").is_err());
    }
}
