//! The kernel symbols that a trace keeps: those of its addresses, all of them where addresses may still come, or none where no record has an address.

use crate::arch;
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::{Host, index, procfs};
use kestrel_trace::event::EventClass;
use kestrel_trace::symbol::{REACH, Symbols, has_addresses};
use std::collections::HashSet;
use std::ops::Range;

/// Whether records of these classes hold addresses that people want to see as names.
pub fn shows_addresses(classes: &[EventClass]) -> bool {
    classes
        .iter()
        .any(|class| class.layout.fields().iter().any(|field| has_addresses(&field.ty)))
}

/// The kernel's function symbols, if records of these classes hold addresses.
pub fn symbols_for(classes: &[EventClass], host: &Host) -> Symbols {
    if !shows_addresses(classes) {
        return Symbols::default();
    }
    match Kallsyms::read(host) {
        Ok(table) if !table.is_restricted() => all_symbols(&table),
        _ => Symbols::default(),
    }
}

/// Names for addresses as they come: the kernel's own from what is kept of it, those of modules and BPF programs read when the first of them is asked for.
pub fn live_symbols(host: &Host) -> Symbols {
    let whole = |host: &Host| match Kallsyms::read(host) {
        Ok(table) if !table.is_restricted() => all_symbols(&table),
        _ => Symbols::default(),
    };
    let Some((table, own)) = index::symbols(host).ok().and_then(|table| {
        let own = own_code(&table)?;
        Some((table, own))
    }) else {
        return whole(host);
    };
    let host = host.clone();
    functions_of(&table, |address| own.contains(&address)).with_elsewhere(own, move || whole(&host))
}

/// The symbols of a recorded kernel, if it is the one that runs: of this release, with this symbol at the same address.
pub fn symbols_if_running(release: &str, (name, address): (&str, u64), host: &Host) -> Option<Symbols> {
    procfs::kernel_release(host)
        .ok()
        .filter(|running| running == release)?;
    let table = Kallsyms::read(host).ok().filter(|table| !table.is_restricted())?;
    let is_there = table
        .named(name)
        .any(|found| found.address == address && found.module.is_none());
    is_there.then(|| all_symbols(&table))
}

/// Where the kernel itself lies, without modules and programs.
fn own_code(table: &Kallsyms) -> Option<Range<u64>> {
    let bound = |name| {
        let found = table.named(name).find(|symbol| symbol.module.is_none());
        found.map(|symbol| symbol.address).filter(|address| *address != 0)
    };
    // Without its data the table ends with the code.
    Some(bound("_stext")?..bound("_end").or_else(|| bound("_etext"))?)
}

/// All function symbols of the running kernel; each ends where anything else begins, as data behind the last function does.
pub fn all_symbols(table: &Kallsyms) -> Symbols {
    functions_of(table, |_| true)
}

fn functions_of(table: &Kallsyms, wanted: impl Fn(u64) -> bool) -> Symbols {
    let size = |address| {
        let next = table.next_address(address).map(|next| next - address);
        // Without a size it ends itself before the next hole.
        next.filter(|size| *size < REACH).unwrap_or(0)
    };
    Symbols::new(
        table
            .functions()
            .filter(|symbol| wanted(symbol.address))
            .map(|s| (s.address, size(s.address), s.name, s.module)),
    )
}

/// The kernel's names of these addresses.
pub fn kernel_symbols(host: &Host, addresses: &HashSet<u64>) -> Symbols {
    let lowest = arch::current().lowest_code;
    let kept = index::symbols(host).ok().filter(|table| {
        let known = |kernel: &Range<u64>, address: &u64| *address < lowest || kernel.contains(address);
        own_code(table).is_some_and(|kernel| addresses.iter().all(|address| known(&kernel, address)))
    });
    // Elsewhere there may be programs and trampolines, which come and go.
    let Some(table) = kept.or_else(|| Kallsyms::read(host).ok()) else {
        return Symbols::default();
    };
    if table.is_restricted() {
        return Symbols::default();
    }
    let begin = own_code(&table).map(|kernel| kernel.start);
    all_symbols(&table).subset(addresses.iter().copied().chain(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_behind_the_last_function_is_no_part_of_it() {
        let table = Kallsyms::parse(
            "ffffffff81000000 T _stext\nffffffff81000040 t last_exit\nffffffff81000080 D some_timer\nffffffffc0000000 t in_module\t[m]\n"
                .to_owned(),
        );
        let symbols = all_symbols(&table);
        let name = |address| {
            symbols
                .resolve(address)
                .map(|found| (found.name.to_owned(), found.offset))
        };
        assert_eq!(name(0xffff_ffff_8100_0048), Some(("last_exit".to_owned(), 8)));
        assert_eq!(name(0xffff_ffff_8100_0088), None);
        assert_eq!(name(0xffff_ffff_c000_0010), Some(("in_module".to_owned(), 16)));
    }
}
