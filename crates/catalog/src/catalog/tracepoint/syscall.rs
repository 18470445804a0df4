//! System calls: `raw_syscalls:*` and `syscalls:sys_enter_x`, `sys_exit_x`, read from the two raw tracepoints `sys_enter` and `sys_exit`, entries also at the function of the call.

use super::super::instruction::names_one;
use super::super::kind::{Instance, Resolved, Strategy, Via};
use super::super::lookup::Catalog;
use super::super::raw_tracepoint;
use super::call_arguments::{argument_type, typed};
use super::field_type::value_type;
use super::raw::from_expressions;
use super::resolve::resolve_one;
use crate::arch::{self, Arch};
use crate::attach::{self, Mechanism};
use crate::code::CodePlace;
use crate::error::Result;
use kestrel_compiler::context::{Context, EventField, EventNumber, ProgramKind, Selector, Source, ValueType};
use kestrel_kernel::tracefs::{Field, Format, Location};
use kestrel_trace::layout::{Base, FieldType, Layout, UNUSED};

/// Strategies to see a system-call tracepoint raw; empty if this is none, or its number is not known.
pub(super) fn strategies(
    catalog: &Catalog,
    group: &str,
    name: &str,
    format: &Format,
    via: Via,
) -> Vec<Strategy> {
    let arch = arch::current();
    let full = format!("{group}:{name}");
    if group == "raw_syscalls" {
        return raw(catalog, &full, name, arch, format);
    }
    if group != "syscalls" {
        return Vec::new();
    }
    if let Some(call) = name.strip_prefix("sys_enter_") {
        return (arch.syscall)(call).map_or(Vec::new(), |number| {
            entry(catalog, &full, number, arch, format, via)
        });
    }
    let Some(number) = name.strip_prefix("sys_exit_").and_then(arch.syscall) else {
        return Vec::new();
    };
    let fields = format.fields.iter().map(|field| {
        let value = if field.name == "__syscall_nr" {
            number_of(arch)
        } else {
            "ret".to_owned()
        };
        // The return value is a number, or an error below zero; its tracepoint prints the bits in hexadecimal.
        Some((field.name.clone(), argument_type(format, field)?, value))
    });
    let guard = Some(guard(&format!("args.{}", number_of(arch)), number));
    fields.collect::<Option<Vec<_>>>().map_or(Vec::new(), |f| {
        from_expressions(catalog, &full, "sys_exit", f, guard)
    })
}

fn number_of(arch: &Arch) -> String {
    format!("regs->{}", arch.syscall_number)
}

/// The call's number, made by the native ABI: numbers of the 32-bit ABI mean other calls (`TS_COMPAT`, x86 `thread_info.h`).
fn guard(value: &str, number: u32) -> String {
    format!("{value} == {number} && (curtask->thread_info.status & 2) == 0")
}

fn raw(catalog: &Catalog, full: &str, name: &str, arch: &Arch, format: &Format) -> Vec<Strategy> {
    let registers: Vec<String> = arch
        .syscall_arguments
        .iter()
        .map(|r| format!("regs->{r}"))
        .collect();
    let value = |field: &Field| match (name, field.name.as_str()) {
        ("sys_enter", "id") => Some("id".to_owned()),
        ("sys_enter", "args") => Some(format!("({})", registers.join(", "))),
        ("sys_exit", "id") => Some(number_of(arch)),
        ("sys_exit", "ret") => Some("ret".to_owned()),
        _ => None,
    };
    let fields = format.fields.iter().map(|field| {
        Some((
            field.name.clone(),
            value_type(format, field, true)?,
            value(field)?,
        ))
    });
    fields
        .collect::<Option<Vec<_>>>()
        .map_or(Vec::new(), |f| from_expressions(catalog, full, name, f, None))
}

fn entry(
    catalog: &Catalog,
    full: &str,
    number: u32,
    arch: &Arch,
    format: &Format,
    via: Via,
) -> Vec<Strategy> {
    let mut strategies = Vec::new();
    if via != Via::Raw {
        strategies.extend(at_function(catalog, full, number, arch, format));
    }
    // Where the kernel reads for the entry what arguments point to (6.19), its formatted tracepoint costs other calls nothing; but it misses hits where threads are
    // preempted in its programs.
    if via == Via::Raw || !format.fields.iter().any(is_withheld) || catalog.preemption().tracepoints {
        strategies.extend(by_arguments(catalog, full, number, arch, format));
    }
    strategies
}

/// The call's entry as a kprobe on the function that does it, which is called with the same registers right behind the tracepoint. Where threads are preempted
/// inside the programs of tracepoints, and so make the kernel skip hits, this misses none, and costs less than second chances; other system calls cost nothing more.
fn at_function(catalog: &Catalog, full: &str, number: u32, arch: &Arch, format: &Format) -> Option<Strategy> {
    if !catalog.preemption().tracepoints || !catalog.has_kprobes() {
        return None;
    }
    let call = full.strip_prefix("syscalls:sys_enter_")?;
    let target = raw_tracepoint::target(catalog, "sys_enter")?;
    let symbol = format!("{}{call}", arch.syscall_function);
    let place = CodePlace {
        module: None,
        symbol: symbol.clone(),
        offset: 0,
    };
    // A name that several functions bear would attach to all of them.
    if !names_one(catalog, &place) {
        return None;
    }
    let mut fields = raw_tracepoint::argument_fields(&target, false, false);
    fields.retain(|field| field.name == "regs");
    let registers = fields.first_mut()?;
    registers.source = Source::Register {
        offset: *arch.arguments.first()?,
    };
    for (name, ty, expression) in values(format, arch, &number.to_string())? {
        fields.push(EventField {
            name,
            ty,
            source: Source::Expression(expression),
            recorded: true,
        });
    }
    fields.extend(withheld_of(format));
    Some(Strategy::new(
        Mechanism::Entry(attach::Entry { symbol }),
        Context {
            fields,
            types: Some(target.types),
            features: catalog.features(ProgramKind::Kprobe),
            ..Context::new(full, ProgramKind::Kprobe)
        },
    ))
}

/// Whether a field of a system call's tracepoint is in the entry that tracefs and perf write, and only there: what arguments point to, behind
/// them (`__filename_val` of newer kernels). A program is given the call's number and its arguments (`perf_call_bpf_enter`, kernel/trace/trace_syscalls.c);
/// what lies behind those in its context is not the entry's.
pub(super) fn is_withheld(field: &Field) -> bool {
    field.location != Location::Inline
}

/// The formatted tracepoint for which the kernel reads what arguments of a call point to, where it does.
pub fn read_for<'e>(catalog: &Catalog, event: &'e str) -> Option<(&'e str, &'e str)> {
    let (group, name) = event.split_once(':')?;
    name.strip_prefix("sys_enter_").filter(|_| group == "syscalls")?;
    let format = catalog.tracefs().ok()?.format(group, name).ok()?;
    format.fields.iter().any(is_withheld).then_some((group, name))
}

/// A withheld field, with the reason that a handler which names it is given.
pub(super) fn withheld(format: &Format, field: &Field) -> EventField {
    let argument = field.name.strip_prefix("__").and_then(|n| n.strip_suffix("_val"));
    let argument = argument.and_then(|name| format.field(name));
    let instead = argument.map(|argument| match argument_type(format, argument) {
        Some(ValueType::CString { .. }) => {
            format!("read it where the argument points: str(args.{})", argument.name)
        }
        _ => format!("the argument is where it lies: args.{}", argument.name),
    });
    EventField {
        name: field.name.clone(),
        ty: ValueType::String,
        source: Source::Absent {
            why: "the kernel writes it for tracefs and perf only; programs are given the call's number and arguments".to_owned(),
            instead,
        },
        recorded: false,
    }
}

/// The fields of a call's entry that programs are given: its number, which is `number`, and its arguments, which are in the registers.
fn values(format: &Format, arch: &Arch, number: &str) -> Option<Vec<(String, ValueType, String)>> {
    let mut registers = arch.syscall_arguments.iter();
    let mut value = |field: &Field| {
        let (ty, value) = match field.name.as_str() {
            "__syscall_nr" => (value_type(format, field, true)?, number.to_owned()),
            _ => (
                argument_type(format, field)?,
                format!("regs->{}", registers.next()?),
            ),
        };
        Some((field.name.clone(), ty, value))
    };
    let inline = format.fields.iter().filter(|f| f.location == Location::Inline);
    inline.map(&mut value).collect()
}

/// Fields of the formatted entry that programs are not given.
fn withheld_of(format: &Format) -> impl Iterator<Item = EventField> {
    let others = format.fields.iter().filter(|f| is_withheld(f));
    others.map(|field| withheld(format, field))
}

/// Strategies to see a call's entry that have its number and its arguments, and no more.
fn by_arguments(catalog: &Catalog, full: &str, number: u32, arch: &Arch, format: &Format) -> Vec<Strategy> {
    let guard = Some(guard("args.id", number));
    let mut strategies = values(format, arch, "id").map_or(Vec::new(), |f| {
        from_expressions(catalog, full, "sys_enter", f, guard)
    });
    for strategy in &mut strategies {
        strategy.context.fields.extend(withheld_of(format));
    }
    strategies
}

/// One system call's entry as the program of a set of them can see it: with its arguments, whatever else its tracepoint has.
pub(super) fn member(catalog: &Catalog, full: &str) -> Result<Option<Resolved>> {
    let arch = arch::current();
    let Some(call) = full.strip_prefix("syscalls:sys_enter_") else {
        return Ok(None);
    };
    let Some(number) = (arch.syscall)(call) else {
        return Ok(None);
    };
    let format = catalog
        .tracefs()?
        .format("syscalls", &format!("sys_enter_{call}"))?;
    let strategies = by_arguments(catalog, full, number, arch, &format);
    Ok((!strategies.is_empty()).then(|| Resolved {
        kind: "tracepoint",
        instances: vec![Instance::named(full)],
        strategies,
        members: Vec::new(),
    }))
}

/// More system calls than this share one program per side, which distinguishes them by their numbers.
const FEW: usize = 4;
/// Bytes of each field in the record of a set.
const WORD: u8 = 8;

/// System calls by tracepoint name: a few with a program each, many through one program on `sys_enter` and one on `sys_exit`.
pub(super) fn resolve(catalog: &Catalog, names: Vec<String>, via: Via) -> Result<Vec<Resolved>> {
    let arch = arch::current();
    let mut rest = Vec::new();
    let mut sides = [Vec::new(), Vec::new()];
    for name in names {
        let event = name.strip_prefix("syscalls:").unwrap_or(&name);
        let call = |prefix| event.strip_prefix(prefix).and_then(arch.syscall);
        match (call("sys_enter_"), call("sys_exit_")) {
            (Some(number), _) => sides[0].push((name, number)),
            (None, Some(number)) => sides[1].push((name, number)),
            (None, None) => rest.push(name),
        }
    }
    let mut all = Vec::new();
    for (at_exit, side) in [false, true].into_iter().zip(sides) {
        let one_by_one = || side.iter().map(|(name, _)| resolve_one(catalog, name, via));
        let separate = one_by_one().collect::<Result<Vec<_>>>()?;
        match (side.len() > FEW)
            .then(|| set(catalog, &side, at_exit, arch))
            .transpose()?
            .flatten()
        {
            Some(set) => {
                let separate = separate.into_iter().map(Resolved::at_tracepoints).collect();
                all.push(Resolved {
                    members: separate,
                    ..set
                });
            }
            None => all.extend(separate),
        }
    }
    for name in rest {
        all.push(resolve_one(catalog, &name, via)?);
    }
    Ok(all)
}

/// Exactly these system calls as a set, in this order, where all are of one side.
pub(super) fn set_of(catalog: &Catalog, names: &[String]) -> Result<Option<Resolved>> {
    let arch = arch::current();
    for (prefix, at_exit) in [("syscalls:sys_enter_", false), ("syscalls:sys_exit_", true)] {
        let call = |name: &String| Some((name.clone(), (arch.syscall)(name.strip_prefix(prefix)?)?));
        let side: Option<Vec<(String, u32)>> = names.iter().map(call).collect();
        if let Some(side) = side {
            return set(catalog, &side, at_exit, arch);
        }
    }
    Ok(None)
}

fn set(catalog: &Catalog, side: &[(String, u32)], at_exit: bool, arch: &Arch) -> Result<Option<Resolved>> {
    let long = |signed, base| ValueType::Integer {
        size: WORD,
        signed,
        base,
    };
    let number = if at_exit { number_of(arch) } else { "id".to_owned() };
    let value = if at_exit {
        ("ret".to_owned(), long(true, Base::Decimal), "ret".to_owned())
    } else {
        let registers: Vec<String> = arch
            .syscall_arguments
            .iter()
            .map(|r| format!("regs->{r}"))
            .collect();
        let element = Box::new(long(false, Base::Hexadecimal));
        (
            "args".to_owned(),
            ValueType::Array { element, count: 6 },
            format!("({})", registers.join(", ")),
        )
    };
    let fields = vec![
        (
            "__syscall_nr".to_owned(),
            long(true, Base::Decimal),
            number.clone(),
        ),
        value,
    ];
    let name = if at_exit {
        "syscalls:sys_exit_*"
    } else {
        "syscalls:sys_enter_*"
    };
    let raw = if at_exit { "sys_exit" } else { "sys_enter" };
    // Calls of the 32-bit ABI have other numbers (see `guard`).
    let guard = Some("(curtask->thread_info.status & 2) == 0".to_owned());
    let mut strategies = from_expressions(catalog, name, raw, fields, guard);
    if strategies.is_empty() {
        return Ok(None);
    }
    for strategy in &mut strategies {
        strategy.context.number = EventNumber::Selected { first: 0, stride: 1 };
        strategy.context.selector = Some(Selector {
            value: number.clone(),
            map: format!("numbers:{raw}"),
        });
    }
    let instances = side
        .iter()
        .map(|(name, number)| instance(catalog, name, *number, at_exit));
    let instances = instances.collect::<Result<Vec<_>>>()?;
    Ok(Some(Resolved {
        kind: "tracepoint",
        instances,
        strategies,
        members: Vec::new(),
    }))
}

/// One system call of a set, with names and types for the words that the program stores.
fn instance(catalog: &Catalog, name: &str, number: u32, at_exit: bool) -> Result<Instance> {
    let event = name.strip_prefix("syscalls:").unwrap_or(name);
    let fields = match at_exit {
        true => vec![("ret".to_owned(), WHOLE)],
        false => words(&catalog.tracefs()?.format("syscalls", event)?),
    };
    let fields = std::iter::once(("__syscall_nr".to_owned(), WHOLE)).chain(fields);
    Ok(Instance {
        code: Some(number),
        layout: Some(Layout::words(fields)),
        ..Instance::named(name)
    })
}

/// A whole word of a set's record as a number.
const WHOLE: FieldType = FieldType::Integer {
    size: WORD,
    signed: true,
    base: Base::Decimal,
};

/// The six argument registers of a set's record as the arguments of a call: of an `int` the low half counts, as in the kernel.
fn words(format: &Format) -> Vec<(String, FieldType)> {
    let word = FieldType::Integer {
        size: WORD,
        signed: false,
        base: Base::Hexadecimal,
    };
    let mut fields: Vec<_> = typed(format).collect();
    let count = 6 - fields.len() as u32;
    if count > 0 {
        let element = Box::new(word);
        fields.push((UNUSED.to_owned(), FieldType::Array { element, count }));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAT: &str = "name: sys_enter_openat\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:struct x * where;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc u8[] __where_val;\toffset:52;\tsize:4;\tsigned:0;\n\
        \nprint fmt: \"dfd: 0x%08lx\", ((unsigned long)(REC->dfd))\n";

    #[test]
    fn arguments_have_one_type_alone_and_among_many() {
        let format = Format::parse(OPENAT).unwrap();
        let alone = |name: &str| argument_type(&format, format.field(name).unwrap()).unwrap();
        let dfd = ValueType::Integer {
            size: 4,
            signed: true,
            base: Base::Named(kestrel_trace::syscall::Meaning::Directory),
        };
        assert_eq!(alone("dfd"), dfd);
        let layout = Layout::words(words(&format));
        let places: Vec<_> = layout
            .fields()
            .iter()
            .map(|f| (f.name.as_str(), f.offset()))
            .collect();
        assert_eq!(
            places,
            [("dfd", 16), ("filename", 24), ("where", 32), (UNUSED, 40)]
        );
        assert_eq!(layout.constant_size(), Some(16 + 6 * 8));
        let mut record = [0xee; 64];
        record[16..24].copy_from_slice(&0xffff_ff9c_u64.to_le_bytes());
        let read = kestrel_trace::value::Value::read(&layout.fields()[0].ty, &record[16..]);
        assert_eq!(read.as_i64(), Some(-100));
        let exit = Format::parse(
            "name: sys_exit_openat\nID: 8\nformat:\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n\nprint fmt: \"0x%lx\", REC->ret\n",
        );
        let exit = exit.unwrap();
        let ret = argument_type(&exit, exit.field("ret").unwrap()).unwrap();
        assert_eq!(
            ret,
            ValueType::Integer {
                size: 8,
                signed: true,
                base: Base::Decimal
            }
        );
    }

    #[test]
    fn fields_of_the_ring_entry_alone_are_listed_but_not_recorded() {
        let format = Format::parse(OPENAT).unwrap();
        let fields = super::super::classic::fields(&format, true);
        let recorded: Vec<&str> = fields
            .iter()
            .filter(|f| f.recorded)
            .map(|f| f.name.as_str())
            .collect();
        assert_eq!(recorded, ["__syscall_nr", "dfd", "filename", "where"]);
        let instead = |name: &str| match &fields.iter().find(|f| f.name == name).unwrap().source {
            Source::Absent { instead, .. } => instead.clone().unwrap(),
            other => panic!("{other:?}"),
        };
        assert!(instead("__filename_val").ends_with("str(args.filename)"));
        assert!(instead("__where_val").ends_with("args.where"));
        // Of any other tracepoint, programs are given the entry itself.
        let fields = super::super::classic::fields(&format, false);
        let value = fields.iter().find(|f| f.name == "__filename_val").unwrap();
        assert!(value.recorded && value.source == Source::DataLocation { offset: 48 });
    }
}
