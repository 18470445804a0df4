//! The head in which the kernel's tracers describe pages, events, symbols and names, in `perf.data` and in `trace.dat`: `convert::tracing_data` writes it.

use super::input::Input;
use crate::process::Processes;
use crate::symbol::Symbols;
use kestrel_layout::entry::Format;

/// The parsed head.
#[derive(Clone, Debug, Default)]
pub(super) struct TracingData {
    pub(super) version: String,
    pub(super) page: u32,
    /// The form of a page's head.
    pub(super) header_page: String,
    /// Systems and formats.
    pub(super) events: Vec<(String, Format)>,
    pub(super) symbols: Symbols,
    pub(super) processes: Processes,
    /// Remarks about what is not understood.
    pub(super) remarks: Vec<String>,
}

/// First bytes of such a head.
pub(super) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Says that a part ended too early.
fn cut(part: &str) -> impl FnOnce() -> String + '_ {
    move || format!("it ends within {part}")
}

impl TracingData {
    /// Reads what stands first: the version, and how numbers are written.
    pub(super) fn begin(input: &mut Input<'_>) -> Result<Self, String> {
        let mut data = Self::default();
        let mut first = || {
            let magic = input.take(MAGIC.len())?;
            let version = input.text()?;
            Some((magic, version, input.u8()?, input.u8()?, input.u32()?))
        };
        let (magic, version, endian, _long, page) = first().ok_or_else(cut("its head"))?;
        if magic != MAGIC {
            return Err("its description of events does not begin as one".to_owned());
        }
        if endian != 0 {
            return Err("its numbers are big-endian, which is not read".to_owned());
        }
        (data.version, data.page) = (version, page);
        Ok(data)
    }

    /// Reads the parts in the order in which `perf.data` and version 6 of `trace.dat` have them.
    pub(super) fn parts(&mut self, input: &mut Input<'_>) -> Result<(), String> {
        self.pages(input)?;
        self.own_events(input)?;
        self.systems(input)?;
        let length = input.u32().ok_or_else(cut("its symbols"))?;
        let symbols = input.take(length as usize).ok_or_else(cut("its symbols"))?;
        self.kallsyms(symbols);
        let length = input.u32().ok_or_else(cut("formats of trace_printk"))?;
        input
            .take(length as usize)
            .ok_or_else(cut("formats of trace_printk"))?;
        // Older files of perf end here.
        if let Some(names) = input.long() {
            self.names(names);
        }
        Ok(())
    }

    /// Reads the form of pages.
    pub(super) fn pages(&mut self, input: &mut Input<'_>) -> Result<(), String> {
        for name in ["header_page", "header_event"] {
            let found = input.text().ok_or_else(cut(name))?;
            if found != name {
                return Err(format!("it has {found:?} where {name} should be"));
            }
            let body = input.long().ok_or_else(cut(name))?;
            if name == "header_page" {
                self.header_page = String::from_utf8_lossy(body).into_owned();
            }
        }
        Ok(())
    }

    /// Reads the formats of ftrace's own events.
    pub(super) fn own_events(&mut self, input: &mut Input<'_>) -> Result<(), String> {
        let part = "the formats of ftrace's own events";
        let count = input.u32().ok_or_else(cut(part))?;
        for _ in 0..count {
            let text = input.long().ok_or_else(cut(part))?;
            self.format("ftrace", text);
        }
        Ok(())
    }

    /// Reads the formats of the events of all systems.
    pub(super) fn systems(&mut self, input: &mut Input<'_>) -> Result<(), String> {
        let part = "the formats of events";
        let systems = input.u32().ok_or_else(cut(part))?;
        for _ in 0..systems {
            let system = input.text().ok_or_else(cut(part))?;
            let count = input.u32().ok_or_else(cut(part))?;
            for _ in 0..count {
                let text = input.long().ok_or_else(cut(part))?;
                self.format(&system, text);
            }
        }
        Ok(())
    }

    fn format(&mut self, system: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match Format::parse(&text) {
            Ok(format) => self.events.push((system.to_owned(), format)),
            Err(why) => {
                let name = text.lines().next().unwrap_or_default();
                self.remarks.push(format!(
                    "a format of {system} ({name:?}) is not understood: {why}"
                ));
            }
        }
    }

    /// Reads symbols as /proc/kallsyms has them; those of data are left out.
    pub(super) fn kallsyms(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let lines = text.trim_end_matches('\0').lines().filter_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            let (kind, rest) = rest.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            let (name, module) = match rest.split_once('\t') {
                Some((name, module)) => (name, Some(module.trim_start_matches('[').trim_end_matches(']'))),
                None => (rest, None),
            };
            let is_code = matches!(kind, "t" | "T" | "w" | "W");
            (is_code && address != 0).then_some((address, 0, name, module))
        });
        self.symbols = Symbols::new(lines);
    }

    /// Reads names of threads: lines of a number and a name.
    pub(super) fn names(&mut self, text: &[u8]) {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        for line in text.split(|byte| *byte == b'\n') {
            if let Some(at) = line.iter().position(|byte| *byte == b' ')
                && let Ok(tid) = std::str::from_utf8(&line[..at]).unwrap_or_default().parse()
                && tid != 0
            {
                self.processes.insert(tid, &line[at + 1..]);
            }
        }
    }
}
