//! The kernel's symbols (/proc/kallsyms): addresses to names and back; not which of them can be probed.

use crate::error::Result;
use crate::host::Host;
use fnv::FnvHasher;
use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::OnceLock;

/// A symbol of the kernel or a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Where it begins; 0 if addresses are hidden.
    pub address: u64,
    /// The name; not unique.
    pub name: &'a str,
    /// The module it belongs to: without brackets; `bpf` for BPF programs.
    pub module: Option<&'a str>,
    /// nm(1)'s letter: `T` and `t` are functions (global, local), `W` and `w` weak ones, `D`, `d`, `B`, `b`, `R`, `r` data, `A` absolute.
    pub letter: char,
}

impl Symbol<'_> {
    /// Whether it stands in code.
    pub fn is_text(&self) -> bool {
        is_text(self.letter as u8)
    }
}

fn is_text(letter: u8) -> bool {
    matches!(letter, b'T' | b't' | b'W' | b'w')
}

/// The kernel's symbol table, as it was when read: modules and BPF programs come and go.
#[derive(Debug)]
pub struct Kallsyms {
    text: String,
    /// By address; symbols of one address in the kernel's order.
    rows: Vec<Row>,
    /// Names of modules; a row's module is an index + 1.
    modules: Vec<String>,
    restricted: bool,
    /// A number made of the name, and which row.
    by_name: OnceLock<Vec<(u32, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    address: u64,
    name: u32,
    length: u16,
    module: u16,
    letter: u8,
}

impl Kallsyms {
    /// Reads the symbols of a host.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the file cannot be read.
    pub fn read(host: &Host) -> Result<Self> {
        Ok(Self::parse(host.read("/proc/kallsyms")?))
    }

    /// Takes the text of a kallsyms file. Lines that are not symbols are passed over.
    pub fn parse(text: String) -> Self {
        let bytes = text.as_bytes();
        let mut rows = Vec::with_capacity(bytes.len() / 40);
        let mut modules: Vec<String> = Vec::new();
        let mut known: HashMap<&str, u16> = HashMap::new();
        let mut start = 0;
        while start < bytes.len() {
            let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |length| start + length);
            if let Some((mut row, module)) = line(&text, start, end) {
                if let Some(module) = module {
                    row.module = *known.entry(module).or_insert_with(|| {
                        modules.push(module.to_owned());
                        modules.len() as u16
                    });
                }
                rows.push(row);
            }
            start = end + 1;
        }
        let restricted = rows.iter().all(|row| row.address == 0);
        // Stable, and nearly sorted already: the kernel's part is in order.
        rows.sort_by_key(|row| row.address);
        Self {
            text,
            rows,
            modules,
            restricted,
            by_name: OnceLock::new(),
        }
    }

    /// The symbols of the kernel and its modules; without those of BPF programs, trampolines and probes, which come and go.
    pub(crate) fn lasting(&self) -> Self {
        let mut lasting = Self {
            text: String::with_capacity(self.text.len() / 2),
            rows: Vec::with_capacity(self.rows.len()),
            modules: self.modules.clone(),
            restricted: self.restricted,
            by_name: OnceLock::new(),
        };
        let passing = |module: &String| module == "bpf" || module.starts_with("__builtin__");
        let passing: Vec<bool> = self.modules.iter().map(passing).collect();
        for row in &self.rows {
            if passing.get((row.module as usize).wrapping_sub(1)) == Some(&true) {
                continue;
            }
            let name = lasting.text.len() as u32;
            lasting.text.push_str(self.name(row));
            lasting.rows.push(Row { name, ..*row });
        }
        lasting
    }

    /// All of them as bytes, for [`Kallsyms::from_bytes`] on the same machine: how many bytes of names, rows and modules, the rows (address, length, module,
    /// letter; names follow each other), the rows' order by names, names of modules in lines, names.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let names: usize = self.rows.iter().map(|row| row.length as usize).sum();
        let modules = self.modules.join("\n");
        let mut bytes = Vec::with_capacity(names + self.rows.len() * (ROW + ORDER) + modules.len() + 12);
        for count in [names, self.rows.len(), modules.len()] {
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for row in &self.rows {
            bytes.extend_from_slice(&row.address.to_le_bytes());
            bytes.extend_from_slice(&row.length.to_le_bytes());
            bytes.extend_from_slice(&row.module.to_le_bytes());
            bytes.push(row.letter);
        }
        for (number, index) in self.order() {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&index.to_le_bytes());
        }
        bytes.extend_from_slice(modules.as_bytes());
        self.rows
            .iter()
            .for_each(|row| bytes.extend_from_slice(self.name(row).as_bytes()));
        bytes
    }

    /// The table from the bytes of [`Kallsyms::to_bytes`]; `None` where it is something else.
    pub(crate) fn from_bytes(mut whole: Vec<u8>) -> Option<Self> {
        let (counts, bytes) = whole.split_at_checked(12)?;
        let count = |at: usize| Some(u32::from_le_bytes(counts.get(at..at + 4)?.try_into().ok()?) as usize);
        let (names, count, modules) = (count(0)?, count(4)?, count(8)?);
        let (rows_bytes, bytes) = bytes.split_at_checked(count.checked_mul(ROW)?)?;
        let (order_bytes, bytes) = bytes.split_at_checked(count.checked_mul(ORDER)?)?;
        let (modules, text) = bytes.split_at_checked(modules)?;
        let modules = std::str::from_utf8(modules).ok()?;
        if text.len() != names {
            return None;
        }
        let behind = whole.len() - names;
        let mut rows = Vec::with_capacity(count);
        let mut name = 0u32;
        for row in rows_bytes.chunks_exact(ROW) {
            let (address, rest) = row.split_first_chunk()?;
            let &[length_low, length_high, module_low, module_high, letter] = rest else {
                return None;
            };
            let length = u16::from_le_bytes([length_low, length_high]);
            rows.push(Row {
                address: u64::from_le_bytes(*address),
                name,
                length,
                module: u16::from_le_bytes([module_low, module_high]),
                letter,
            });
            name = name.checked_add(u32::from(length))?;
        }
        let mut order = Vec::with_capacity(count);
        for entry in order_bytes.chunks_exact(ORDER) {
            let (number, index) = entry.split_first_chunk()?;
            let index = u32::from_le_bytes(index.try_into().ok()?);
            order.push((
                u32::from_le_bytes(*number),
                index.min(u32::try_from(count).ok()? - 1),
            ));
        }
        // Lookups search by halves and index without checks: an index file that was cut or changed is not used.
        if name as usize != names || !rows.is_sorted_by_key(|row| row.address) {
            return None;
        }
        let modules = modules.lines().map(str::to_owned).collect();
        // The names are not copied: a second copy would take memory that counts as the tracer's.
        whole.drain(..behind);
        whole.shrink_to_fit();
        Some(Self {
            text: String::from_utf8(whole).ok()?,
            rows,
            modules,
            restricted: false,
            by_name: OnceLock::from(order),
        })
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether the kernel hides all addresses from this process (`kernel.kptr_restrict`, or no CAP_SYSLOG): names can be found, addresses not.
    pub fn is_restricted(&self) -> bool {
        self.restricted
    }

    fn symbol(&self, row: &Row) -> Symbol<'_> {
        Symbol {
            address: row.address,
            name: self.name(row),
            module: self
                .modules
                .get((row.module as usize).wrapping_sub(1))
                .map(String::as_str),
            letter: row.letter as char,
        }
    }

    fn name(&self, row: &Row) -> &str {
        let start = row.name as usize;
        self.text
            .get(start..start + row.length as usize)
            .unwrap_or_default()
    }

    /// All symbols by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.rows.iter().map(|row| self.symbol(row))
    }

    /// All symbols in code, by address.
    pub fn functions(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.rows
            .iter()
            .filter(|row| is_text(row.letter))
            .map(|row| self.symbol(row))
    }

    /// The symbol that an address lies in, and how far inside. Among several of one address the first in code. `None` for an address
    /// outside of the kernel's and its modules' symbols (kallsyms does not say where one ends, so a gap of 1 MiB counts as outside), and
    /// always if addresses are hidden.
    pub fn at(&self, address: u64) -> Option<(Symbol<'_>, u64)> {
        if self.restricted || address == 0 {
            return None;
        }
        let after = self.rows.partition_point(|row| row.address <= address);
        let last = self.rows.get(after.checked_sub(1)?)?;
        let first = self.rows.partition_point(|row| row.address < last.address);
        let same = &self.rows[first..after];
        let row = same.iter().find(|row| is_text(row.letter)).unwrap_or(last);
        let offset = address - row.address;
        (offset < FARTHEST && row.address != 0).then(|| (self.symbol(row), offset))
    }

    /// All symbols that begin at an address.
    pub fn at_exactly(&self, address: u64) -> impl Iterator<Item = Symbol<'_>> {
        let first = self.rows.partition_point(|row| row.address < address);
        let same = self.rows[first..]
            .iter()
            .take_while(move |row| row.address == address);
        same.map(|row| self.symbol(row))
    }

    /// Where the next symbol behind an address begins, of whatever kind.
    pub fn next_address(&self, address: u64) -> Option<u64> {
        let after = self.rows.partition_point(|row| row.address <= address);
        self.rows.get(after).map(|row| row.address)
    }

    fn order(&self) -> &[(u32, u32)] {
        self.by_name.get_or_init(|| {
            let numbered = self.rows.iter().zip(0u32..);
            let mut order: Vec<(u32, u32)> = numbered
                .map(|(row, index)| (number_of(self.name(row)), index))
                .collect();
            order.sort_unstable();
            order
        })
    }

    /// All symbols of that name, by address. A suffix of the compiler (`.isra.0`, `.cold`) is part of the name.
    pub fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = Symbol<'a>> + use<'a> {
        let order = self.order();
        let wanted = number_of(name);
        let first = order.partition_point(|(number, _)| *number < wanted);
        let count = order[first..].partition_point(|(number, _)| *number == wanted);
        // Names that are not the one asked for may have its number.
        let rows = order[first..first + count]
            .iter()
            .map(|(_, index)| &self.rows[*index as usize]);
        let found: Vec<&Row> = rows.filter(|row| self.name(row) == name).collect();
        found.into_iter().map(|row| self.symbol(row))
    }
}

const FARTHEST: u64 = 1 << 20;

/// Bytes of a row that is kept: address, length, module, letter.
const ROW: usize = 13;
/// Bytes of an entry of the order by names that is kept: number, row.
const ORDER: usize = 8;

/// A number by which a name is found: names of one number are few. To order a kernel's names by it takes a fraction of what their letters take.
fn number_of(name: &str) -> u32 {
    let mut hasher = FnvHasher::default();
    hasher.write(name.as_bytes());
    let number = hasher.finish();
    (number ^ (number >> 32)) as u32
}

/// One line of the text: `address letter name`, perhaps a tab and `[module]`.
fn line(text: &str, start: usize, end: usize) -> Option<(Row, Option<&str>)> {
    let line = text.as_bytes().get(start..end)?;
    let digits = memchr::memchr(b' ', line)?;
    let mut address = 0u64;
    for digit in &line[..digits] {
        address = address << 4 | u64::from((*digit as char).to_digit(16)?);
    }
    let letter = *line.get(digits + 1)?;
    let name = digits + 3;
    let rest = line.get(name..)?;
    let length = rest
        .iter()
        .position(|byte| matches!(byte, b'\t' | b' '))
        .unwrap_or(rest.len());
    let row = Row {
        address,
        name: u32::try_from(start + name).ok()?,
        length: u16::try_from(length).ok().filter(|length| *length > 0)?,
        module: 0,
        letter,
    };
    let behind = text.get(start + name + length..end)?.trim();
    let module = behind
        .strip_prefix('[')
        .and_then(|module| module.strip_suffix(']'));
    Some((row, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t local_one
ffffffff81000100 T vfs_read
ffffffff81000200 D some_data
ffffffffc0001000 t local_one\t[ext4]
ffffffffc0000000 t first [ext4]
junk
";

    #[test]
    fn addresses_to_names() {
        let symbols = Kallsyms::parse(TEXT.to_owned());
        assert_eq!(symbols.len(), 7);
        let at = |address| {
            symbols
                .at(address)
                .map(|(symbol, offset)| (symbol.name, symbol.module, offset))
        };
        assert_eq!(at(0xffff_ffff_8100_0104), Some(("vfs_read", None, 4)));
        assert_eq!(at(0xffff_ffff_8100_0000), Some(("_stext", None, 0)));
        assert_eq!(at(0xffff_ffff_8100_003f), Some(("_stext", None, 0x3f)));
        assert_eq!(at(0xffff_ffff_c000_1001), Some(("local_one", Some("ext4"), 1)));
        assert_eq!(at(0xffff_ffff_c000_0000), Some(("first", Some("ext4"), 0)));
        assert_eq!(at(0xffff_ffff_8000_0000), None);
        assert_eq!(at(0xffff_ffff_f000_0000), None, "far behind everything");
        assert_eq!(at(0), None);
        assert_eq!(
            symbols.next_address(0xffff_ffff_8100_0000),
            Some(0xffff_ffff_8100_0040)
        );
        assert_eq!(symbols.next_address(0xffff_ffff_c000_1000), None);
        let names = |address| symbols.at_exactly(address).map(|s| s.name).collect::<Vec<_>>();
        assert_eq!(names(0xffff_ffff_8100_0000), ["_stext", "_text"]);
        assert!(names(0xffff_ffff_8100_0001).is_empty());
    }

    #[test]
    fn names_to_all_their_addresses() {
        let symbols = Kallsyms::parse(TEXT.to_owned());
        let found: Vec<_> = symbols.named("local_one").map(|symbol| symbol.address).collect();
        assert_eq!(found, [0xffff_ffff_8100_0040, 0xffff_ffff_c000_1000]);
        assert_eq!(symbols.named("local").count(), 0);
        assert_eq!(symbols.named("zzz").count(), 0);
        assert_eq!(symbols.functions().count(), 6);
    }

    #[test]
    fn hidden_addresses_are_a_state_not_an_answer() {
        let symbols = Kallsyms::parse("0000000000000000 T a\n0000000000000000 t b\n".to_owned());
        assert!(symbols.is_restricted());
        assert_eq!(symbols.at(0), None);
        assert_eq!(symbols.named("b").count(), 1);
    }

    #[test]
    fn the_symbols_of_this_kernel_find_themselves() {
        let Ok(symbols) = Kallsyms::read(&Host::default()) else {
            return println!("skipped: no /proc/kallsyms");
        };
        if symbols.is_restricted() {
            return println!("skipped: addresses are hidden");
        }
        let functions = symbols
            .functions()
            .filter(|symbol| symbol.address != 0)
            .step_by(97);
        for function in functions {
            let (found, offset) = symbols.at(function.address).unwrap();
            assert_eq!((found.address, offset), (function.address, 0));
            assert!(symbols.named(function.name).any(|other| other == function));
        }
    }
}
