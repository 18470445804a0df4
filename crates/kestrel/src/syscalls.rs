//! System calls as a session sees them: the handlers that record a set of calls with the texts their arguments point to, and what processes have
//! open before it begins.

use kestrel_catalog::arch;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::catalog::tracepoint::call_arguments;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::procfs;
use kestrel_trace::calls::{Descriptors, EXIT_TEXT, Signature, Signatures};
use kestrel_trace::syscall::{CLASSES, Kind, Set, usual_name};
use std::collections::BTreeSet;

/// Bytes of a buffer that are recorded.
const BUFFER: usize = 32;
/// Places of arguments that may point to texts: no call has one behind these.
const PLACES: usize = 4;

/// Events that say which processes descend from which, and which are gone.
pub const FORK: &str = "sched:sched_process_fork";
/// See [`FORK`].
pub const EXIT: &str = "sched:sched_process_exit";

/// What is recorded of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Number and result.
    Times,
    /// Arguments, and the texts that they point to; also the calls that change what descriptors mean.
    Lines,
}

/// A set of calls to be recorded.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The numbers of those that are asked for.
    shown: BTreeSet<u64>,
    /// The events with their handlers.
    pub events: Vec<String>,
    /// All calls of the kernel.
    pub signatures: Signatures,
}

/// Places of texts of one kind: the numbers of the calls that have them, by place.
type Places = [BTreeSet<u64>; PLACES];

impl Calls {
    /// The calls of a set, of this kernel.
    ///
    /// # Errors
    /// A word of the set that no call matches; a kernel without tracefs.
    pub fn of(catalog: &Catalog, set: &Set, detail: Detail) -> Result<Self> {
        let mut signatures = Signatures::default();
        let mut names = Vec::new();
        for (number, signature) in call_arguments::signatures(catalog)? {
            let arguments = signature.names().into_iter().map(str::to_owned).collect();
            names.push((signature.call.clone(), arguments));
            signatures.insert(u64::from(number), signature);
        }
        if let Some(word) = set.unmatched(&names).first() {
            return Err(unknown(word, &names));
        }
        let is_shown = |(number, signature): (u64, &Signature)| {
            set.has(&signature.call, &signature.names()).then_some(number)
        };
        let shown: BTreeSet<u64> = signatures.iter().filter_map(is_shown).collect();
        let events = match detail {
            Detail::Times => times(&shown, &signatures),
            Detail::Lines => lines(&shown, &signatures),
        };
        Ok(Self {
            shown,
            events,
            signatures,
        })
    }

    /// The names of those that are asked for; `None` where those are all.
    pub fn shown(&self) -> Option<BTreeSet<String>> {
        let all = self.shown.len() == self.signatures.iter().count();
        let named = self
            .signatures
            .iter()
            .filter(|(number, _)| self.shown.contains(number));
        (!all).then(|| named.map(|(_, it)| it.call.clone()).collect())
    }
}

fn unknown(word: &str, calls: &[(String, Vec<String>)]) -> Error {
    /// Names that are shown.
    const NEAR: usize = 4;
    let bare = word.trim_start_matches('%');
    let calls = calls.iter().map(|(call, _)| usual_name(call));
    let names = CLASSES.iter().map(|class| class.name).chain(calls);
    let near = names
        .filter(|name| bare.len() >= 3 && (name.contains(bare) || name.len() >= 3 && bare.contains(name)));
    Error::NoSuchEvent {
        what: "system call, or class of system calls,".to_owned(),
        wanted: word.to_owned(),
        near: near.take(NEAR).map(str::to_owned).collect(),
    }
}

/// Handlers that record number and result.
fn times(shown: &BTreeSet<u64>, signatures: &Signatures) -> Vec<String> {
    let predicate = predicate(shown, signatures);
    vec![
        format!("raw_syscalls:sys_enter /{predicate}/ {{ record(args.id) }}"),
        format!("raw_syscalls:sys_exit /{predicate}/ {{ record(args.id, args.ret) }}"),
    ]
}

/// Handlers that record arguments and texts. A text is read at the entry, where it may be in memory that is not present, and at the return, when the
/// kernel has read it itself, or filled it.
fn lines(shown: &BTreeSet<u64>, signatures: &Signatures) -> Vec<String> {
    let needed = signatures.iter().filter(|(_, it)| Descriptors::needs(&it.call));
    let recorded: BTreeSet<u64> = shown
        .iter()
        .copied()
        .chain(needed.map(|(number, _)| number))
        .collect();
    let predicate = predicate(&recorded, signatures);
    let places = |wanted: fn(Kind) -> bool| -> Places {
        std::array::from_fn(|place| {
            let calls = signatures.iter().filter(|(number, it)| {
                let kind = it.parameters.get(place).and_then(|it| it.kind);
                recorded.contains(number) && kind.is_some_and(wanted)
            });
            calls.map(|(number, _)| number).collect()
        })
    };
    let given = places(|kind| matches!(kind, Kind::Given(_)));
    let filled = places(|kind| matches!(kind, Kind::Filled));
    let filled_texts = places(|kind| matches!(kind, Kind::FilledText));
    let before = places(|kind| matches!(kind, Kind::Text | Kind::Given(_)));
    let after = places(|kind| {
        matches!(
            kind,
            Kind::Text | Kind::Given(_) | Kind::Filled | Kind::FilledText
        )
    });
    let registers = arch::current().syscall_arguments;
    let entry = |place: usize| {
        let length = format!("args.args[{}]", (place + 1).min(5));
        let bytes = bytes(&[(&given[place], at_most(&length, BUFFER))]);
        text(place, &before[place], &format!("args.args[{place}]"), &bytes)
    };
    let exit = |place: usize| {
        let length = registers.get(place + 1).copied().unwrap_or("di");
        let bytes = bytes(&[
            (&given[place], at_most(&format!("args.regs->{length}"), BUFFER)),
            (&filled[place], returned(BUFFER)),
            (&filled_texts[place], returned(EXIT_TEXT)),
        ]);
        text(
            place,
            &after[place],
            &format!("args.regs->{}", registers[place]),
            &bytes,
        )
    };
    vec![
        handler(
            "raw_syscalls:sys_enter",
            &predicate,
            "args.id, args.args",
            &before,
            entry,
        ),
        handler(
            "raw_syscalls:sys_exit",
            &predicate,
            "args.id, args.ret",
            &after,
            exit,
        ),
        format!("{FORK} {{ record(args.child_pid) }}"),
        format!("{EXIT} {{ record(args.pid) }}"),
    ]
}

fn handler(
    event: &str,
    predicate: &str,
    fields: &str,
    places: &Places,
    text: impl Fn(usize) -> Option<String>,
) -> String {
    let any: BTreeSet<u64> = places.iter().flatten().copied().collect();
    let texts: Vec<String> = (0..PLACES).filter_map(text).collect();
    if any.is_empty() {
        return format!("{event} /{predicate}/ {{ record({fields}) }}");
    }
    format!(
        "{event} /{predicate}/ {{ if ({}) {{ record({fields}, {}) }} else {{ record({fields}) }} }}",
        is_one_of(&any),
        texts.join(", ")
    )
}

/// A field with the text of one place, of the calls that have one there.
fn text(place: usize, calls: &BTreeSet<u64>, address: &str, bytes: &str) -> Option<String> {
    let read = format!("text{place} = str({} ? {address} : 0{bytes})", is_one_of(calls));
    (!calls.is_empty()).then_some(read)
}

/// How many bytes are read, where some calls say so: `, A ? x : B ? y : 255`.
fn bytes(limits: &[(&BTreeSet<u64>, String)]) -> String {
    let cases: Vec<String> = limits
        .iter()
        .filter(|(calls, _)| !calls.is_empty())
        .map(|(calls, limit)| format!("{} ? {limit} : ", is_one_of(calls)))
        .collect();
    match cases.is_empty() {
        true => String::new(),
        false => format!(", {}{EXIT_TEXT}", cases.concat()),
    }
}

fn at_most(length: &str, most: usize) -> String {
    format!("({length} < {most} ? {length} : {most})")
}

fn returned(most: usize) -> String {
    format!("(args.ret < 0 ? 0 : args.ret < {most} ? args.ret : {most})")
}

/// Calls of the native ABI, as numbers of another mean other calls.
fn predicate(calls: &BTreeSet<u64>, signatures: &Signatures) -> String {
    let mut all = vec!["(curtask->thread_info.status & 2) == 0".to_owned()];
    if calls.len() < signatures.iter().count() {
        all.push(is_one_of(calls));
    }
    all.join(" && ")
}

/// Whether `args.id` is one of these numbers.
fn is_one_of(calls: &BTreeSet<u64>) -> String {
    /// So many comparisons cost no more than a look at bits.
    const FEW: usize = 3;
    if calls.len() <= FEW {
        let each: Vec<String> = calls
            .iter()
            .map(|number| format!("args.id == {number}"))
            .collect();
        return format!(
            "({})",
            if each.is_empty() {
                "0".to_owned()
            } else {
                each.join(" || ")
            }
        );
    }
    let words = calls.iter().max().map_or(0, |number| number / 64 + 1);
    let word = |at: u64| {
        let bits = calls.iter().filter(|number| **number / 64 == at);
        bits.fold(0_u64, |bits, number| bits | 1 << (number % 64))
    };
    let cases: Vec<String> = (0..words)
        .map(|at| format!("args.id < {} ? {:#x} : ", (at + 1) * 64, word(at)))
        .collect();
    format!("((({}0) >> (args.id & 63)) & 1)", cases.concat())
}

/// The files that processes have open: those of one process, or of all. What changes while this is read has no name.
pub fn open_files(host: &Host, pid: Option<u32>) -> Vec<(u32, i64, String)> {
    let pids = pid.map_or_else(|| procfs::processes(host).unwrap_or_default(), |pid| vec![pid]);
    let mut all = Vec::new();
    for pid in pids {
        let Ok(open) = procfs::open_files(host, pid) else {
            continue;
        };
        let files = open
            .files
            .into_iter()
            .map(|(number, path)| (i64::from(number), path));
        let current = open.current.map(|path| (Descriptors::CURRENT, path));
        let named = files
            .chain(current)
            .map(|(number, path)| (pid, number, path.display().to_string()));
        all.extend(named);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers_are_tested_by_bits() {
        assert_eq!(is_one_of(&[257].into()), "(args.id == 257)");
        assert_eq!(
            is_one_of(&[0, 1, 63, 64, 130].into()),
            "(((args.id < 64 ? 0x8000000000000003 : args.id < 128 ? 0x1 : args.id < 192 ? 0x4 : 0) >> (args.id & 63)) & 1)"
        );
    }
}
