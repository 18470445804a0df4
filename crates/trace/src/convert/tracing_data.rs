//! The common head of `perf.data` and `trace.dat`, in which the kernel's tracers describe pages, events, symbols and names
//! (`tracing_data_get` in tools/perf/util/trace-event-info.c, `trace-cmd.dat.v6.5`).

use super::kernel_form::Form;
use crate::symbol::Symbols;
use std::collections::BTreeMap;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Bytes of a page's head.
pub(super) const HEAD: usize = 16;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\
    \ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";

/// Appends the head; `names` is lines of a thread's number and name each.
pub(super) fn head<'f>(
    version: &str,
    forms: impl IntoIterator<Item = &'f Form>,
    symbols: &Symbols,
    names: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"\x17\x08\x44tracing");
    text(version, out);
    // Little endian, numbers of 8 bytes.
    out.extend_from_slice(&[0, 8]);
    out.extend_from_slice(&(PAGE as u32).to_le_bytes());
    for (name, body) in [("header_page", HEADER_PAGE), ("header_event", HEADER_EVENT)] {
        text(name, out);
        long(body.as_bytes(), out);
    }
    // Events of ftrace itself.
    out.extend_from_slice(&0u32.to_le_bytes());
    let mut systems: BTreeMap<&str, Vec<&Form>> = BTreeMap::new();
    for form in forms {
        systems.entry(&form.system).or_default().push(form);
    }
    out.extend_from_slice(&(systems.len() as u32).to_le_bytes());
    for (system, forms) in systems {
        text(&system.replace('\0', "_"), out);
        out.extend_from_slice(&(forms.len() as u32).to_le_bytes());
        for form in forms {
            long(form.text.as_bytes(), out);
        }
    }
    let symbols = kallsyms(symbols);
    out.extend_from_slice(&(symbols.len() as u32).to_le_bytes());
    out.extend_from_slice(symbols.as_bytes());
    // Formats of trace_printk.
    out.extend_from_slice(&0u32.to_le_bytes());
    long(names, out);
}

/// A text with its end.
pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Bytes of text behind their length.
fn long(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

/// Symbols in the form of /proc/kallsyms.
pub(super) fn kallsyms(symbols: &Symbols) -> String {
    let mut all = String::new();
    for line in symbols.to_text().lines() {
        let mut words = line.splitn(3, ' ');
        if let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) {
            all.push_str(&format!("{address} t {}\n", name.replacen(' ', "\t", 1)));
        }
    }
    all
}
