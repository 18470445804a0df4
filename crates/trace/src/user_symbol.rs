//! Names of addresses of processes: which binary lay where in whose memory and when, and what its code is called; who finds names is not known here.
//!
//! A recorder keeps only the mappings and the places in binaries that its records' stacks need, so a trace is read anywhere, when processes and binaries are gone.

use crate::error::{Error, Result};
use crate::layout::{FieldType, Named, Space};
use crate::record::Record;
use crate::value::{NamedValue, Value};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A function and where in it; also what it was inlined into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Bytes from the start of the file; the address itself where the code lies in no file.
    pub at: u64,
    /// The function, demangled.
    pub function: String,
    /// Bytes from the start of the function.
    pub offset: u64,
    /// The source line, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// The functions that the compiler put in its place here, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<Inlined>,
}

/// A line of source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The file's path, as the compiler knew it.
    pub file: String,
    /// The number; 0 where only the file is known.
    pub number: u32,
}

/// A function that was compiled into another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inlined {
    /// The function, demangled.
    pub function: String,
    /// The source line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
}

/// A program, a library, or other code in memory, with names of the places that records need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binary {
    /// The path as the process saw it; `[vdso]`; `//anon` for memory of no file.
    pub path: String,
    /// The build id in hexadecimal digits, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Why some of its places have no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed: Option<String>,
    /// Names, by place.
    #[serde(default)]
    pub code: Vec<Code>,
}

/// A mapping of a binary into a process's memory for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// When it was mapped, ns of the trace's clock.
    pub from_ns: u64,
    /// When the process ended or began another program.
    pub until_ns: u64,
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Bytes of the file before it.
    pub offset: u64,
    /// Index of the binary.
    pub binary: u32,
}

/// Mappings and symbols of a trace's processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSymbols {
    binaries: Vec<Binary>,
    /// By process, in order of time.
    processes: BTreeMap<u32, Vec<Mapping>>,
}

/// A place in a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// The binary that the address is in.
    pub binary: &'a Binary,
    /// Bytes from its start, as [`Code::at`].
    pub at: u64,
}

/// The address by which a frame's code is found: that of the call, not of what follows it (which may be another function), for all frames but the innermost.
pub fn code_address(address: u64, innermost: bool) -> u64 {
    address.saturating_sub(u64::from(!innermost))
}

impl Mapping {
    /// Whether it says what lay at an address at a time.
    pub fn covers(&self, time_ns: u64, address: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&time_ns) && (self.start..self.end).contains(&address)
    }

    /// The place in the binary of an address.
    pub fn place(&self, address: u64) -> u64 {
        (address - self.start).saturating_add(self.offset)
    }
}

impl UserSymbols {
    /// The file within a trace's side folder: JSON.
    pub const FILE: &'static str = "user_symbols";

    /// Names of code, by binary, and where the binaries lay, by process and time.
    pub fn new(mut binaries: Vec<Binary>, mut processes: BTreeMap<u32, Vec<Mapping>>) -> Self {
        for binary in &mut binaries {
            binary.code.sort_by_key(|code| code.at);
        }
        for mappings in processes.values_mut() {
            mappings.sort_by_key(|mapping| mapping.from_ns);
        }
        Self { binaries, processes }
    }

    /// In the order in which it is searched: a file of others may have another.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self::new(self.binaries, self.processes)
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The maps with the binaries renamed for which `rename` has a name.
    #[must_use]
    pub fn renamed(&self, mut rename: impl FnMut(&Binary) -> Option<Binary>) -> Self {
        let binaries = self
            .binaries
            .iter()
            .map(|binary| rename(binary).unwrap_or_else(|| binary.clone()));
        Self::new(binaries.collect(), self.processes.clone())
    }

    /// Enters one more binary; gives its index.
    pub fn add_binary(&mut self, mut binary: Binary) -> u32 {
        binary.code.sort_by_key(|code| code.at);
        self.binaries.push(binary);
        self.binaries.len() as u32 - 1
    }

    /// Enters names of more places of a binary, and why others have none.
    pub fn add_code(&mut self, binary: u32, code: Vec<Code>, unnamed: Option<String>) {
        let Some(known) = self.binaries.get_mut(binary as usize) else {
            return;
        };
        known.unnamed = unnamed.or(known.unnamed.take());
        for code in code {
            match known.code.binary_search_by_key(&code.at, |it| it.at) {
                Ok(at) => known.code[at] = code,
                Err(at) => known.code.insert(at, code),
            }
        }
    }

    /// Enters where a binary lies in a process's memory.
    pub fn add_mapping(&mut self, pid: u32, mapping: Mapping) {
        let own = self.processes.entry(pid).or_default();
        let at = own.partition_point(|it| it.from_ns <= mapping.from_ns);
        own.insert(at, mapping);
    }

    /// Takes what another recording knows of the processes that `wants`, of times that lie so much later here.
    pub(crate) fn extend(&mut self, others: &Self, later_ns: u64, wants: impl Fn(u32) -> bool) {
        let mut numbers = Vec::new();
        for binary in &others.binaries {
            let same = |known: &Binary| {
                binary.build_id.is_some()
                    && (&known.path, &known.build_id) == (&binary.path, &binary.build_id)
            };
            numbers.push(match self.binaries.iter().position(same) {
                Some(known) => {
                    self.add_code(known as u32, binary.code.clone(), binary.unnamed.clone());
                    known as u32
                }
                None => self.add_binary(binary.clone()),
            });
        }
        for (pid, mapping) in others.mappings().filter(|(pid, _)| wants(*pid)) {
            let Some(&binary) = numbers.get(mapping.binary as usize) else {
                continue;
            };
            let moved = Mapping {
                from_ns: mapping.from_ns.saturating_add(later_ns),
                until_ns: mapping.until_ns.saturating_add(later_ns),
                binary,
                ..*mapping
            };
            if self.processes.get(&pid).is_none_or(|own| !own.contains(&moved)) {
                self.add_mapping(pid, moved);
            }
        }
    }

    /// Ends all mappings of a process at a time: it began another program.
    pub fn close(&mut self, pid: u32, time_ns: u64) {
        for mapping in self.processes.get_mut(&pid).into_iter().flatten() {
            mapping.until_ns = mapping.until_ns.min(time_ns);
        }
    }

    /// Forgets the memory of all processes, not the names of binaries.
    pub fn forget_processes(&mut self) {
        self.processes.clear();
    }

    /// The binaries of the recording.
    pub fn binaries(&self) -> &[Binary] {
        &self.binaries
    }

    /// Mappings of binaries, each with its process.
    pub fn mappings(&self) -> impl Iterator<Item = (u32, &Mapping)> {
        let processes = self.processes.iter();
        processes.flat_map(|(pid, mappings)| mappings.iter().map(|mapping| (*pid, mapping)))
    }

    /// Mappings of one process.
    pub fn mappings_of(&self, pid: u32) -> impl Iterator<Item = &Mapping> {
        self.processes.get(&pid).into_iter().flatten()
    }

    /// Where a process's code address lay at a time. The newest mapping counts where several cover it.
    pub fn locate(&self, pid: u32, time_ns: u64, address: u64) -> Option<Location<'_>> {
        let mappings = self.processes.get(&pid)?;
        let mapping = mappings
            .iter()
            .rev()
            .find(|mapping| mapping.covers(time_ns, address))?;
        Some(Location {
            binary: self.binaries.get(mapping.binary as usize)?,
            at: mapping.place(address),
        })
    }

    /// Why code could not be named, a line for each binary.
    pub fn remarks(&self) -> Vec<String> {
        let unnamed = |binary: &Binary| Some(format!("{}: {}", binary.path, binary.unnamed.as_ref()?));
        let lines: BTreeSet<String> = self.binaries.iter().filter_map(unnamed).collect();
        lines.into_iter().collect()
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        // A struct of strings and numbers cannot fail to serialise.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads what `to_text` wrote.
    ///
    /// # Errors
    /// [`Error::Side`] where it is something else.
    pub fn parse(text: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(text).map_err(|error| Error::Side {
            what: "the trace's symbols of programs".into(),
            why: error.to_string(),
        })?;
        Ok(read.sorted())
    }
}

impl<'a> Location<'a> {
    /// Function and line of the code there.
    pub fn code(&self) -> Option<&'a Code> {
        let code = &self.binary.code;
        let found = code.binary_search_by_key(&self.at, |code| code.at).ok()?;
        code.get(found)
    }
}

/// Calls `each` with every frame of a record's user stacks, and every other address of code in it that is shown by name, by its [`code_address`].
pub fn code_addresses(record: &Record<'_>, mut each: impl FnMut(u64)) {
    for field in record.event.layout.fields() {
        if has_code(&field.ty) {
            addresses_of(record.value(field), &mut |_, address| each(address));
        }
    }
}

/// Whether values of a type hold addresses of processes' code that are shown by name.
pub fn has_code(ty: &FieldType) -> bool {
    match ty {
        FieldType::Array { element, .. } => has_code(element),
        FieldType::Composite(composite) => composite.members.iter().any(|member| has_code(&member.ty)),
        FieldType::HeldStack(stack) => stack.space == Space::User,
        FieldType::Named(named) => *named == Named::UserSymbol,
        ty => ty.is_user_stack(),
    }
}

/// Calls `each` with the process and the address of all code of processes in a value that is shown by name.
pub fn addresses_of(value: Value<'_>, each: &mut impl FnMut(u32, u64)) {
    match value {
        Value::Stack(frames) if frames.space == Space::User => {
            for (index, address) in frames.iter().enumerate() {
                each(frames.pid, code_address(address, index == 0));
            }
        }
        Value::Named(NamedValue::UserSymbol { address, pid, .. }) => each(pid, code_address(address, true)),
        Value::Array(elements) => elements.iter().for_each(|value| addresses_of(value, each)),
        Value::Composite(parts) => parts.iter().for_each(|(_, value)| addresses_of(value, each)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> UserSymbols {
        let code = |at, function: &str| Code {
            at,
            function: function.to_owned(),
            offset: 4,
            ..Code::default()
        };
        let binary = |path: &str, code| Binary {
            path: path.to_owned(),
            code,
            ..Binary::default()
        };
        let binaries = vec![
            binary("/bin/old", vec![code(0x1010, "b"), code(0x1004, "a")]),
            binary("/bin/new", Vec::new()),
        ];
        let mapping = |from_ns, until_ns, binary| Mapping {
            from_ns,
            until_ns,
            start: 0x40_0000,
            end: 0x40_2000,
            offset: 0x1000,
            binary,
        };
        let processes = [(7, vec![mapping(50, u64::MAX, 1), mapping(10, 50, 0)])].into();
        UserSymbols::new(binaries, processes)
    }

    #[test]
    fn an_address_means_the_mapping_of_its_time() {
        let symbols = symbols();
        let name = |pid, time, address| {
            let found = symbols.locate(pid, time, address)?;
            let function = found.code().map_or("", |code| code.function.as_str());
            Some((found.binary.path.as_str(), found.at, function))
        };
        assert_eq!(name(7, 10, 0x40_0004), Some(("/bin/old", 0x1004, "a")));
        assert_eq!(name(7, 49, 0x40_0010), Some(("/bin/old", 0x1010, "b")));
        assert_eq!(name(7, 50, 0x40_0004), Some(("/bin/new", 0x1004, "")));
        assert_eq!(name(7, 9, 0x40_0004), None);
        assert_eq!(name(7, 20, 0x40_2000), None);
        assert_eq!(name(8, 20, 0x40_0004), None);
    }

    #[test]
    fn a_mapping_added_later_is_found_by_time_and_address() {
        let mut symbols = symbols();
        let binary = symbols.add_binary(Binary {
            path: "/bin/later".to_owned(),
            ..Binary::default()
        });
        symbols.close(7, 100);
        let mapping = Mapping {
            from_ns: 100,
            until_ns: u64::MAX,
            start: 0x1000,
            end: 0x2000,
            offset: 0,
            binary,
        };
        symbols.add_mapping(7, mapping);
        for at in [0x20, 0x10] {
            let code = Code {
                at,
                function: format!("f{at:x}"),
                ..Code::default()
            };
            symbols.add_code(binary, vec![code], None);
        }
        symbols.add_code(binary, Vec::new(), Some("it is stripped".to_owned()));
        let name = |symbols: &UserSymbols, time, address| {
            let found = symbols.locate(7, time, address)?;
            Some(found.code()?.function.clone())
        };
        assert_eq!(name(&symbols, 100, 0x1010).as_deref(), Some("f10"));
        assert_eq!(name(&symbols, 100, 0x1020).as_deref(), Some("f20"));
        assert_eq!(symbols.locate(7, 100, 0x40_0004), None, "closed");
        assert!(symbols.locate(7, 99, 0x40_0004).is_some());
        assert_eq!(symbols.remarks(), ["/bin/later: it is stripped"]);
        symbols.forget_processes();
        assert!(symbols.is_empty() && symbols.locate(7, 100, 0x1010).is_none());
    }

    #[test]
    fn the_file_brings_them_back() {
        let symbols = symbols();
        assert_eq!(UserSymbols::parse(&symbols.to_text()).unwrap(), symbols);
        assert!(UserSymbols::parse("{").is_err());
        // A file of others may name binaries that it does not have.
        let strange = r#"{"binaries":[],"processes":{"1":[{"from_ns":0,"until_ns":9,"start":0,"end":9,"offset":18446744073709551615,"binary":3}]}}"#;
        assert_eq!(UserSymbols::parse(strange).unwrap().locate(1, 2, 3), None);
    }
}
