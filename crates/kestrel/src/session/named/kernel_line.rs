//! Lines of the kernel's own `kprobe_events` (Documentation/trace/kprobetrace.rst): read into the language's text, and named probes written as such.
//!
//! ```text
//! p[:[GRP/]EVENT] [MOD:]SYM[+OFFS]|ADDRESS [NAME=]FETCH[:TYPE] …
//! r[MAXACTIVE][:[GRP/]EVENT] [MOD:]SYM …
//! ```

mod argument;
mod expand;
mod fetch;
mod kernel;
mod name;
mod number;
mod place;
mod source;
mod typed;
mod word;
mod write;
mod written;

pub use kernel::{Dialect, Kernel, Resolution};
pub use place::LinePlace;
pub use write::of;

use super::request::ProbeRequest;
use fetch::Unfound;
use kestrel_catalog::catalog::find_kind;
use kestrel_catalog::catalog::phase::Phase;
use kestrel_catalog::{Error, Result};
use word::{Parsed, Word, Wrong};

/// Longest line that the kernel reads (`trace_parse_run_command`).
const LONGEST: usize = 4094;
/// Most calls that a kretprobe follows (`KRETPROBE_MAXACTIVE_MAX`).
const MAX_CALLS: u64 = 4096;

/// The predicate of a probe that fetches from a symbol which the kernel does not have: there it is never hit.
const PREDICATE_FALSE: &str = "/0/";

/// Whether a text is such a line: `p` or `r`, perhaps with a name, then a place. A probe called `p` or `r` whose event is named with its kind
/// (`p kprobe:vfs_read`), or has a block, is none.
pub fn is_kernel_line(text: &str) -> bool {
    // Text behind `#` is a remark.
    let text = text.split('#').next().unwrap_or_default();
    let Some((head, rest)) = text.trim().split_once(char::is_whitespace) else {
        return false;
    };
    let (kind, name) = match head.split_once(':') {
        Some((kind, name)) => (kind, Some(name)),
        None => (head, None),
    };
    let probe =
        matches!(kind.as_bytes(), [b'p' | b'r', number @ ..] if number.iter().all(u8::is_ascii_digit));
    if !probe || rest.trim().is_empty() {
        return false;
    }
    let event = rest
        .split_once(':')
        .is_some_and(|(first, _)| find_kind(first.trim()).is_some());
    name.is_some() || kind.len() > 1 || !event && !rest.contains('{')
}

/// Reads a line as `kernel` would.
///
/// # Errors
/// [`Error::KernelLine`] with what is wrong and where.
pub fn read(line: &str, kernel: &dyn Kernel) -> Result<ProbeRequest> {
    let line = line.trim();
    let request = parse(line, kernel).map_err(|wrong| Error::KernelLine {
        line: line.to_owned(),
        at: wrong.at,
        why: wrong.why,
    })?;
    Ok(ProbeRequest {
        line: Some(line.to_owned()),
        ..request
    })
}

/// Whether a character stands between words: vertical tabs, too (`isspace`).
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// The words of a line, up to a remark.
fn words(line: &str) -> Vec<Word<'_>> {
    let line = line.split('#').next().unwrap_or(line);
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| !is_space(c)) {
        let word = &rest[start..];
        let end = word.find(is_space).unwrap_or(word.len());
        let at = line.len() - rest.len() + start;
        words.push(Word {
            text: &word[..end],
            at,
        });
        rest = &word[end..];
    }
    words
}

fn parse(line: &str, kernel: &dyn Kernel) -> Parsed<ProbeRequest> {
    if line.len() > LONGEST {
        return Err(Wrong::at(
            LONGEST,
            format!("the kernel reads {LONGEST} letters of a line"),
        ));
    }
    let words = words(line);
    let [head, at, arguments @ ..] = words.as_slice() else {
        return Err(Wrong::at(line.len(), "it names no place"));
    };
    let (kind, name) = match head.text.split_once(':') {
        Some((kind, name)) => (kind, Some((name, head.at + kind.len() + 1))),
        None => (head.text, None),
    };
    let (at_return, most) = kind_and_maxactive(kind, head.at)?;
    let (place, returns) = place::read(at.text, at.at)?;
    let at_return = at_return || returns;
    let spot = kernel.resolve(&place);
    if let Resolution::Several(functions) = spot {
        let why = format!(
            "{functions} functions are called {}: name one by its module or its address",
            place.symbol
        );
        return Err(Wrong::at(at.at, why));
    }
    if at_return && spot == Resolution::Inside && place.address.is_none() {
        let why = format!("a return probe sits at the entry of {}", place.symbol);
        return Err(Wrong::at(at.at, why));
    }
    let (group, event) = match name {
        Some((name, at)) => name::event(name, at)?,
        None => (None, None),
    };
    let event = match event {
        Some(event) => event.to_owned(),
        None => name::of_place(&place.name(), place.offset, place.address, at_return),
    };
    let mut reader = fetch::Reader::new(kernel, &place, spot, at_return);
    let read = reader.arguments(arguments)?;
    // Where the kernel waits for the place, it waits for what the line fetches, too, and where it has an address, for that alone.
    let waits = place.address.is_some() || spot == Resolution::Missing && place.module.is_some();
    let unfound = match reader.unfound() {
        Some(Unfound::Missing(_)) if waits => true,
        Some(Unfound::Missing(wrong) | Unfound::Unreadable(wrong)) => return Err(wrong),
        None => false,
    };
    let kind = if at_return { "kretprobe" } else { "kprobe" };
    let calls = most.map_or_else(String::new, |most| Phase::Return(most).written());
    let block = source::block(&read, at_return);
    // A place may lie in another function than that of its symbol.
    let text = match kernel
        .address_past_symbol(&place)
        .filter(|_| place.address.is_none())
    {
        Some(address) => format!("{address:#x}"),
        None => place.text(),
    };
    Ok(ProbeRequest {
        // A name of ours does not begin like an option.
        name: group.map_or_else(
            || event.clone(),
            |group| match group.strip_prefix('-') {
                Some(rest) => format!("_{rest}/{event}"),
                None => format!("{group}/{event}"),
            },
        ),
        source: match unfound {
            true => format!("{kind}:{text}{calls} {PREDICATE_FALSE} {block}"),
            false => format!("{kind}:{text}{calls} {block}"),
        },
        ..ProbeRequest::default()
    })
}

/// `p`, `r`, `rMAXACTIVE`: whether it is a return, and how many calls are followed.
fn kind_and_maxactive(kind: &str, at: usize) -> Parsed<(bool, Option<u32>)> {
    let (at_return, number) = match (kind.strip_prefix('p'), kind.strip_prefix('r')) {
        (Some(number), _) => (false, number),
        (_, Some(number)) => (true, number),
        _ => return Err(Wrong::at(at, format!("`{kind}` is not p, r or rMAXACTIVE"))),
    };
    match number {
        // The kernel passes over text that is no number.
        other if !other.starts_with(|c: char| c.is_ascii_digit()) => Ok((at_return, None)),
        _ if !at_return => Err(Wrong::at(at + 1, "only returns are limited: rMAXACTIVE")),
        number => match number::unsigned(number) {
            Some(most @ 1..=MAX_CALLS) => Ok((true, Some(most as u32))),
            _ => Err(Wrong::at(
                at + 1,
                format!("`{number}` is not a number of calls from 1 to {MAX_CALLS}"),
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::btf::write::{Builder, Placed};
    use kestrel_bpf::btf::{Btf, TypeId};
    use std::sync::Arc;

    /// A kernel with a few functions.
    pub(super) struct Small {
        pub(super) dialect: Dialect,
        types: Arc<Btf>,
    }

    impl Small {
        pub(super) fn new(dialect: Dialect) -> Self {
            let mut b = Builder::new();
            let int = b.int("int", 4);
            let unsigned = b.unsigned("unsigned int", 4);
            let long = b.unsigned("unsigned long", 8);
            let char = b.unsigned("char", 1);
            let text = b.pointer(char);
            let name = b.array(char, 16);
            let qstr = b.structure("qstr", &[("hash", long), ("name", text)]);
            let dentry = b.structure("dentry", &[("flags", long), ("d_name", qstr)]);
            let dentry = b.pointer(dentry);
            let path = b.structure("path", &[("mnt", long), ("dentry", dentry)]);
            let bit = |name, ty, bit_offset, bits| Placed {
                name,
                ty,
                bit_offset,
                bits,
            };
            let file = b.struct_at_offsets(
                "file",
                64,
                &[
                    bit("f_path", path, 64, None),
                    bit("f_mode", unsigned, 192, None),
                    bit("f_bits", unsigned, 227, Some(5)),
                    bit("f_name", name, 256, None),
                    bit("f_text", text, 384, None),
                ],
            );
            let file = b.pointer(file);
            b.function("f", int, &[("file", file), ("count", unsigned), ("pos", long)]);
            b.function("quiet", TypeId::VOID, &[]);
            let types = Arc::new(Btf::parse(b.finish()).unwrap());
            Self { dialect, types }
        }
    }

    impl Kernel for Small {
        fn address(&self, symbol: &str) -> Option<u64> {
            (symbol == "jiffies").then_some(0xffff_ffff_8200_1000)
        }

        fn resolve(&self, place: &LinePlace<'_>) -> Resolution {
            match (place.symbol, place.offset) {
                ("many", _) => Resolution::Several(3),
                ("missing", _) => Resolution::Missing,
                (_, 0 | 4) => Resolution::Entry,
                _ => Resolution::Inside,
            }
        }

        fn address_past_symbol(&self, place: &LinePlace<'_>) -> Option<u64> {
            (place.offset >= 0x1000).then_some(0xffff_ffff_8100_0000 + place.offset)
        }

        fn prototype(&self, function: &str) -> Option<(Arc<Btf>, TypeId)> {
            let proto = self.types.function(function)?.proto_id;
            Some((self.types.clone(), proto))
        }

        fn types(&self) -> Option<Arc<Btf>> {
            Some(self.types.clone())
        }

        fn dialect(&self) -> Dialect {
            self.dialect
        }
    }

    const OLD: Dialect = Dialect {
        parameters: false,
        entry_arguments: false,
        casts: false,
    };

    #[test]
    fn all_strings_of_a_line_have_room() {
        let kernel = Small::new(Dialect::NEWEST);
        for (count, cut) in [(3, ", 1023)"), (10, "$k9)"), (11, ", 253)"), (64, ", 42)")] {
            let line = format!("p:o g a=+0(%si):string[{count}]");
            let read = read(&line, &kernel).unwrap();
            assert!(read.source.contains(cut), "{line}: {}", read.source);
        }
    }

    #[test]
    fn lines_become_text() {
        let kernel = Small::new(Dialect::NEWEST);
        let either = |ty: &str, place: &str| {
            format!("(({place}) >> 63 == 0 ? *({ty} *)uptr({place}) : *({ty} *)kptr({place}))")
        };
        let si8 = either("uint64", "reg(\"si\") + 8");
        for (line, name, source) in [
            ("p:grp/name g+0x12", "grp/name", "kprobe:g+0x12 { record() }".to_owned()),
            ("p:grp.name g", "grp/name", "kprobe:g { record() }".to_owned()),
            ("p:a-b/ g", "a-b/p_g_0", "kprobe:g { record() }".to_owned()),
            ("p g", "p_g_0", "kprobe:g { record() }".to_owned()),
            ("r:back f $retval", "back", "kretprobe:f { record(arg1 = (int32)((uint64)retval)) }".to_owned()),
            ("r010:back g r=$retval:s8", "back", "kretprobe:g:maxactive=8 { record(r = (int8)((uint64)retval)) }".to_owned()),
            ("p g+0x1000 %di", "p_g_4096", "kprobe:0xffffffff81001000 { record(arg1 = reg(\"di\")) }".to_owned()),
            ("p:x g%return", "x", "kretprobe:g { record() }".to_owned()),
            ("p ext4:ext4_sync_fs+4", "p_ext4_ext4_sync_fs_4", "kprobe:ext4:ext4_sync_fs+0x4 { record() }".to_owned()),
            ("p 18446744071578845200", "p_0xffffffff81000010", "kprobe:0xffffffff81000010 { record() }".to_owned()),
            ("p:o g t=+0(%si):string u=+u0(%si):ustring v=+0(%si):ustring", "o",
                "kprobe:g { record(t = str(reg(\"si\"), 1023), u = str(uptr(reg(\"si\")), 1023), v = str(uptr(reg(\"si\")), 1023)) }".to_owned()),
            ("p:o g t=+0(+8(%si)):string c=$comm n=\\\"a:b\\\"", "o", String::new()),
            ("p:o g t=+0(+8(%si)):string c=$comm n=\\\"ab\"", "o",
                format!("kprobe:g {{ $k0 = {si8}; record(t = str($k0, 1023), c = comm, n = \"ab\") }}")),
            ("p:o g v=+u4(%si):u32 s=$stack2 a=$arg2:u8 p=$stack", "o",
                "kprobe:g { record(v = *(uint32 *)uptr(reg(\"si\") + 4), s = *(uint64 *)kptr(reg(\"sp\") + 16), \
                 a = (uint8)(arg1), p = reg(\"sp\")) }".to_owned()),
            ("p:o g x=$arg7 i=\\-1 j=\\0x10:u8", "o",
                "kprobe:g { record(x = *(uint64 *)kptr(reg(\"sp\") + 8), i = 18446744073709551615, j = (uint8)(16)) }".to_owned()),
            ("p:o g a=%di:b1@18446744073709551615/8 b=%di:b3@18446744073709551614/16 c=%di:b2@18446744073709551614/32", "o",
                "kprobe:g { record(a = (((uint8)(reg(\"di\")) >> 0) & 0x0) << 1, b = (((uint16)(reg(\"di\")) >> 0) & 0x1) << 2, \
                 c = ((uint32)(reg(\"di\")) >> 30) & 0x3) }".to_owned()),
            ("p:o g a=-8(%sp):x16[2] b=%ax:b4@2/32 s=%ip:symbol", "o",
                "kprobe:g { record(a_0 = *(uint16 *)kptr(reg(\"sp\") - 8), a_1 = *(uint16 *)kptr(reg(\"sp\") - 6), \
                 b = ((uint32)(reg(\"ax\")) >> 2) & 0xf, s = ksym(((uint64)reg(\"ip\") + 1))) }".to_owned()),
            ("p:o g a=+0(+16(%sp)):string[2]", "o",
                format!("kprobe:g {{ $k0 = *(uint64 *)kptr(reg(\"sp\") + 16); $k1 = {}; $k2 = {}; record(a_0 = str($k1, 1023), a_1 = str($k2, 1023)) }}",
                    either("uint64", "$k0"), either("uint64", "$k0 + 8"))),
            ("p:o g j=@jiffies:u32 k=@jiffies+0x10", "o",
                "kprobe:g { record(j = *(uint32 *)kptr(18446744071595626496), k = *(uint64 *)kptr(18446744071595626512)) }".to_owned()),
            ("p:o f count $arg3 file->f_mode n=file->f_name:string t=file->f_text:string", "o",
                format!("kprobe:f {{ $k0 = {}; record(count = (uint32)(arg1), pos = arg2, arg3 = {}, n = str(arg0 + 32, 1023), t = str($k0, 1023)) }}",
                    either("uint64", "arg0 + 48"), either("uint32", "arg0 + 24"))),
            ("p:o f b=file->f_bits", "o",
                format!("kprobe:f {{ record(b = ((uint32)({}) >> 3) & 0x1f) }}", either("uint32", "arg0 + 28"))),
            ("p:o f $arg*", "o", "kprobe:f { record(file = arg0, count = (uint32)(arg1), pos = arg2) }".to_owned()),
            ("r:o f c=$arg2 count", "o", "kretprobe:f { record(c = entry.arg1, count = (uint32)(entry.arg1)) }".to_owned()),
            ("p:o f $arg1:%pd n=$arg1:%pD", "o",
                format!("kprobe:f {{ $k0 = {}; $k1 = {}; record(arg1 = str($k0, 1023), n = str($k1, 1023)) }}",
                    either("uint64", "arg0 + 16"), either("uint64", "$k0 + 16"))),
            ("p:o g\u{b}a=\\5:string[1] b=\\5:string[2]", "o",
                "kprobe:g { record(a_0 = str(5, 1023), b_0 = str(0, 1023), b_1 = str(0, 1023)) }".to_owned()),
            ("p:o mod:missing a=@nowhere b=+8(@nowhere-8)", "o",
                format!("kprobe:mod:missing /0/ {{ $k0 = {}; record(a = {}, b = {}) }}",
                    either("uint64", "0"), either("uint64", "0"), either("uint64", "$k0 + 8"))),
            ("p:o 0xffffffff81000010 a=@nowhere", "o",
                format!("kprobe:0xffffffff81000010 /0/ {{ record(a = {}) }}", either("uint64", "0"))),
            ("p:o f n=$arg1:%pd # remark", "o",
                format!("kprobe:f {{ $k0 = {}; record(n = str($k0, 1023)) }}", either("uint64", "arg0 + 16"))),
        ] {
            if source.is_empty() {
                read(line, &kernel).unwrap_err();
                continue;
            }
            assert!(is_kernel_line(line), "{line}");
            let read = read(line, &kernel).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(read.name, name, "{line}");
            assert_eq!(read.source, source, "{line}");
            assert_eq!(read.line.as_deref(), Some(line));
            let (_, wrong) = kestrel_compiler::lang::parse_events(&read.source);
            assert!(wrong.is_empty(), "{line}: {wrong:?}");
        }
    }

    #[test]
    fn lines_that_the_kernel_refuses_are_refused_at_their_place() {
        let kernel = Small::new(Dialect::NEWEST);
        let long = "x".repeat(64);
        let many = format!("p:x g{}", " %di".repeat(129));
        let deep = format!("p:x g a={}%sp{}", "+0(".repeat(9), ")".repeat(9));
        let parameters = format!("p:x f{}", " $arg1:u64".repeat(15));
        let entries: String = (0..8).map(|n| format!(" b{n}=+0(%di):%pD")).collect();
        let entries = format!("p:x g{entries}");
        let body = format!("p:x g a=\\{}", "1".repeat(255));
        let longer = format!("p:x g {long}=%di");
        let longest = format!("p:{long} g");
        for (line, at, part) in [
            ("p:x g %nope", 6, "%nope"),
            ("p:x g %rdi", 6, "%di"),
            ("p:x g a=@nowhere", 8, "@nowhere"),
            ("p:x g a=@jiffies*2", 8, "@jiffies*2"),
            ("p:x g a=@jiffies+x", 16, "+x"),
            ("p:x missing a=@nowhere", 14, "@nowhere"),
            ("p:x mod:missing a=@jiffies+x", 26, "+x"),
            ("p:x mod:missing a=@nowhere b=%nope", 29, "%nope"),
            ("p:x g a=@08", 8, "08"),
            ("p:x g a=@+8", 8, "files"),
            ("p:x g a=%di:string", 12, "memory"),
            ("p:x g a=$stack0:string", 16, "memory"),
            ("p:x g a=%di:u128", 12, "u128"),
            ("p:x g a=%di:b4@30/32", 12, "b4@30/32"),
            ("p:x g a=+8(%di", 14, ")"),
            ("p:x g a=+8%di", 8, "(FETCH)"),
            ("p:x g a=+(%di)", 8, "offset"),
            ("p:x g a=+0($comm)", 11, "string"),
            ("p:x g a=$comm:u8", 14, "string"),
            ("p:x g a=\\\"x", 11, "no end"),
            ("p:x g a=\\x", 9, "number"),
            ("p:x g a=$retval", 8, "$retval"),
            ("p:x g a=$stack10000", 8, "2048"),
            ("p:x g a=$arg0", 8, "$arg1"),
            ("p:x g+8 a=$arg1", 10, "entry"),
            ("p:x f $arg4", 6, "3 parameters"),
            ("p:x f $arg* $arg*", 12, "once"),
            ("p:x f nope", 6, "no parameter"),
            ("p:x mod:f count", 10, "of f alone"),
            ("p:x mod:f $arg*", 10, "of f alone"),
            ("p:x f file.f_mode", 10, "->"),
            ("p:x f file->nope", 12, "no member"),
            ("p:x f count->x", 13, "no pointer"),
            ("p:x f $arg1 $arg1", 12, "another"),
            ("r:x quiet $retval", 10, "nothing"),
            ("r:x g+8", 4, "entry"),
            ("p:x g a=%di:u8[2]", 12, "array"),
            ("p:x g a=+u0(%di):u8[2]", 17, "array"),
            ("p:x g a=+0(%di):u8[65]", 19, "64"),
            ("p:x g a=+0(%di):u8[2", 20, "]"),
            ("p:x g 1a=%di", 6, "1a"),
            ("p:x g =%di", 6, "name"),
            ("p:x g a=", 8, "nothing"),
            ("p:x g common_pid=%di", 6, "every event"),
            ("p:x g-4", 5, "-4"),
            ("p:x g%foo", 5, "%foo"),
            ("p:x many", 4, "3 functions"),
            ("p:foo.1/bar g", 2, "foo.1"),
            ("p: g", 2, "name"),
            ("p:a-b g", 2, "a-b"),
            ("p:1a g", 2, "1a"),
            ("p:/x g", 2, "group"),
            ("r0:x g", 1, "calls"),
            ("r4097:x g", 1, "4096"),
            ("p5:x g", 1, "returns"),
            ("r08:x g", 1, "calls"),
            ("x:x g", 0, "rMAXACTIVE"),
            ("p:x", 3, "no place"),
            (&longest, 2, "63"),
            (&longer, 6, "32"),
            (&many, 5 + 128 * 4 + 1, "128"),
            (&parameters, 6 + 14 * 10, "room"),
            (&entries, 6 + 6 * 15, "room"),
            (&deep, 8 + 8 * 3, "8 deep"),
            (&body, 8, "255"),
            ("r:x f a=$arg11", 8, "first 10"),
            ("r:x f pos:string", 10, "neither a string"),
            ("r:x f $arg1:string", 6, "no string"),
        ] {
            match read(line, &kernel) {
                Err(Error::KernelLine { at: found, why, .. }) => {
                    assert!(why.contains(part), "{line}: {why}");
                    assert_eq!(found, at, "{line}: {why}");
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_older_kernel_takes_what_it_cannot_check() {
        let kernel = Small::new(OLD);
        let many = format!("p:x g{} nothing", " %di".repeat(128));
        let first: Vec<String> = (1..=128).map(|n| format!("arg{n} = reg(\"di\")")).collect();
        let first = format!("kprobe:g {{ record({}) }}", first.join(", "));
        for (line, source) in [
            ("p:x f $arg5", "kprobe:f { record(arg1 = arg4) }"),
            ("p:x f $arg+2", "kprobe:f { record(arg1 = arg1) }"),
            ("p:x f $arg2:u16", "kprobe:f { record(arg1 = (uint16)(arg1)) }"),
            (
                "r:x quiet $retval",
                "kretprobe:quiet { record(arg1 = (uint64)retval) }",
            ),
            (&many, &first),
            // Newer forms are taken, too.
            ("p:x f count", "kprobe:f { record(count = (uint32)(arg1)) }"),
        ] {
            assert_eq!(read(line, &kernel).unwrap().source, source, "{line}");
        }
    }

    #[test]
    fn a_fetch_is_as_long_and_as_deep_as_the_kernel_lets_it_be() {
        let before = Small::new(Dialect {
            casts: false,
            ..Dialect::NEWEST
        });
        let newest = Small::new(Dialect::NEWEST);
        let nested = |depth| format!("p:x g a={}%sp{}", "+0(".repeat(depth), ")".repeat(depth));
        let long = |letters: usize| format!("p:x g a=\\{}1", "0".repeat(letters - 2));
        for (kernel, depth, letters, part) in [(&before, 14, 63, "steps"), (&newest, 8, 255, "8 deep")] {
            read(&nested(depth), kernel).unwrap();
            read(&long(letters), kernel).unwrap();
            let why = read(&nested(depth + 1), kernel).unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
            let why = read(&long(letters + 1), kernel).unwrap_err().to_string();
            assert!(why.contains(&letters.to_string()), "{why}");
        }
    }

    #[test]
    fn a_probe_with_an_event_is_no_line() {
        for other in [
            "reads",
            "kprobe:vfs_read",
            "p:x",
            "profile:hz:99 { count() }",
            "q x",
            "p kprobe:vfs_read",
            "r k:vfs_read { count() }",
        ] {
            assert!(!is_kernel_line(other), "{other}");
        }
        assert!(is_kernel_line("p vfs_read $arg3:u32"));
        assert!(is_kernel_line("r64 vfs_read"));
    }

    #[test]
    fn a_mistake_is_shown_below_the_line() {
        let error = read("p:x g %nope", &Small::new(Dialect::NEWEST)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.ends_with("\n    p:x g %nope\n          ^"), "{shown}");
    }
}
