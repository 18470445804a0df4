//! Names for records that are shown as they come: each place is named when the first record has it, while its process is mostly still there.

use super::binaries::Binaries;
use super::naming::{self, MappingKey, Namer, Naming, key_of};
use super::perf_map::Growing;
use super::{UserCode, holds_user_stacks};
use kestrel_catalog::Result;
use kestrel_kernel::Host;
use kestrel_trace::event::EventClass;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::unwound::Unwound;
use kestrel_trace::user_symbol::{Binary, Code, Mapping, UserSymbols, code_addresses};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Mappings that are known at most: those of processes that ended long ago go with all others, which are found again.
const MAX_MAPPINGS: usize = 1 << 16;

/// Follows the memory of all processes, and names the places that records have.
#[derive(Debug)]
pub struct LiveNames {
    code: UserCode,
    namer: Namer,
    /// Time up to which changes of memory maps were read, ns.
    taken_ns: u64,
    mappings: HashSet<(u32, MappingKey)>,
    /// Places that were looked for, with a name or without.
    places: HashSet<(u32, u64)>,
    /// By binary as it is mapped: its index among the symbols.
    numbers: HashMap<u32, u32>,
    /// By process: what it wrote of the code that it generates, and the index of that among the symbols.
    generated: HashMap<u32, (Growing, Option<u32>)>,
    /// Why binaries have places without names, each said once.
    known_reasons: BTreeSet<String>,
    pending: Vec<String>,
}

impl LiveNames {
    /// Begins to follow all processes, where records of these classes have stacks of processes, or where `maps` says that keys of maps are.
    ///
    /// # Errors
    /// When perf's side band cannot be opened.
    pub fn follow(classes: &[EventClass], maps: bool, host: &Host) -> Result<Option<Self>> {
        if !maps && !holds_user_stacks(classes) {
            return Ok(None);
        }
        Ok(Some(Self {
            code: UserCode::follow(host)?,
            namer: Namer::new(Naming::default()),
            taken_ns: 0,
            mappings: HashSet::new(),
            places: HashSet::new(),
            numbers: HashMap::new(),
            generated: HashMap::new(),
            known_reasons: BTreeSet::new(),
            pending: Vec::new(),
        }))
    }

    /// Says how code is named from now on.
    pub(crate) fn name_by(&mut self, naming: Naming) {
        self.namer = Namer::new(naming);
        self.code.name_by(naming);
    }

    /// Takes what processes have changed: often, because the way to their binaries may end with them.
    ///
    /// # Errors
    /// When a ring of the side band makes no sense.
    pub fn poll(&mut self) -> Result<()> {
        self.taken_ns = self.code.poll()?.until_ns;
        Ok(())
    }

    /// Finds names for the code addresses of a record.
    ///
    /// # Errors
    /// As [`LiveNames::poll`].
    pub fn learn(&mut self, record: &Record<'_>, symbols: &mut Symbols) -> Result<()> {
        let mut addresses = Vec::new();
        code_addresses(record, |address| addresses.push(address));
        if addresses.is_empty() {
            return Ok(());
        }
        self.catch_up(record)?;
        let user = symbols.user_mut();
        let mut wanted: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for address in addresses {
            let mapping = self.code.maps.locate(record.pid, record.time_ns, address);
            let file = mapping.filter(|it| self.code.binaries.is_of_a_file(it.binary));
            match file {
                Some(mapping) => {
                    self.enter(record.pid, &mapping, user);
                    let at = mapping.place(address);
                    if self.places.insert((mapping.binary, at)) {
                        wanted.entry(mapping.binary).or_default().insert(at);
                    }
                }
                None => self.generated(record, address, mapping, user),
            }
        }
        for (binary, places) in wanted {
            self.name(binary, &places, user);
        }
        Ok(())
    }

    /// Finds the frames of a record that holds a copy of its process's stack; none of others.
    ///
    /// # Errors
    /// As [`LiveNames::poll`].
    pub fn unwind(&mut self, record: &Record<'_>) -> Result<Option<Unwound>> {
        let Some(copy) = record.stack_copy() else {
            return Ok(None);
        };
        self.catch_up(record)?;
        let code = &mut self.code;
        let mappings = code.maps.at(record.pid, record.time_ns);
        let frames = code.unwinding.frames(&copy, record.pid, mappings, &code.binaries);
        let mut unwound = Unwound::default();
        unwound.insert(record.key(), &frames.addresses, frames.truncated);
        Ok(Some(unwound))
    }

    /// A record that has come was made after all that its process had mapped by then.
    fn catch_up(&mut self, record: &Record<'_>) -> Result<()> {
        if record.time_ns >= self.taken_ns {
            self.poll()?;
        }
        Ok(())
    }

    /// Enters where a binary lies.
    fn enter(&mut self, pid: u32, mapping: &Mapping, user: &mut UserSymbols) {
        if !self.mappings.insert((pid, key_of(mapping))) {
            return;
        }
        if self.mappings.len() > MAX_MAPPINGS {
            self.mappings = [(pid, key_of(mapping))].into();
            self.generated.clear();
            user.forget_processes();
        }
        let number = index(mapping.binary, &self.code.binaries, &mut self.numbers, user);
        let mapping = Mapping {
            binary: number,
            ..*mapping
        };
        user.add_mapping(pid, mapping);
    }

    /// Names places of a binary.
    fn name(&mut self, binary: u32, places: &BTreeSet<u64>, user: &mut UserSymbols) {
        let number = index(binary, &self.code.binaries, &mut self.numbers, user);
        let Some(mapped) = self.code.binaries.get(binary) else {
            return;
        };
        let found = naming::of_file(mapped, places, &self.namer, &self.code.host);
        if let Some(why) = &found.unnamed {
            let line = format!("{}: {why}", found.path);
            if self.known_reasons.insert(line.clone()) {
                self.pending.push(line);
            }
        }
        user.add_code(number, found.code, found.unnamed);
    }

    /// Names an address that lies in no file: code that its process generates, as far as that has written what it is.
    fn generated(
        &mut self,
        record: &Record<'_>,
        address: u64,
        mapping: Option<Mapping>,
        user: &mut UserSymbols,
    ) {
        let pid = record.pid;
        let located = user.locate(pid, record.time_ns, address);
        if located.is_some_and(|it| it.code().is_some_and(|code| code.at == address)) {
            return;
        }
        if located.is_some() && mapping.is_none() {
            // The old mappings are gone: the process has begun another program.
            user.close(pid, record.time_ns);
            self.mappings.retain(|(of, _)| *of != pid);
            self.generated.remove(&pid);
        }
        let (names, number) = self.generated.entry(pid).or_default();
        if names.symbols().resolve(address).is_none() {
            names.refresh(&self.code.host, pid, self.code.binaries.home(pid));
        }
        let Some(found) = names.symbols().resolve(address) else {
            return;
        };
        let path = names.path().display().to_string();
        let number = *number.get_or_insert_with(|| {
            user.add_binary(Binary {
                path,
                ..Binary::default()
            })
        });
        let code = Code {
            at: address,
            function: found.name.to_owned(),
            offset: found.offset,
            ..Code::default()
        };
        let start = address - found.offset;
        user.add_code(number, vec![code], None);
        // Its places are the addresses themselves.
        user.add_mapping(
            pid,
            Mapping {
                from_ns: mapping.map_or(0, |it| it.from_ns),
                until_ns: u64::MAX,
                start,
                end: start.saturating_add(found.size),
                offset: start,
                binary: number,
            },
        );
    }

    /// Code of the processes, as far as it is known.
    pub fn code(&mut self) -> &mut UserCode {
        &mut self.code
    }

    /// Why binaries have places without names, a line for each that was not taken yet.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending)
    }
}

/// The index of a binary among the symbols, where it is entered if it is new.
fn index(binary: u32, binaries: &Binaries, numbers: &mut HashMap<u32, u32>, user: &mut UserSymbols) -> u32 {
    *numbers
        .entry(binary)
        .or_insert_with(|| user.add_binary(binaries.get(binary).map(naming::unnamed).unwrap_or_default()))
}
