//! System calls: `raw_syscalls:*` and `syscalls:sys_enter_x`, `sys_exit_x`, all read from the two raw tracepoints `sys_enter` and `sys_exit`.

use super::super::Catalog;
use super::super::arch::{self, Arch};
use super::super::kind::Way;
use super::classic::value_type;
use super::raw::from_expressions;
use kestrel_compiler::context::ValueType;
use kestrel_kernel::tracefs::{Field, Format};
use kestrel_trace::layout::Base;

/// The ways to see a system-call tracepoint raw; empty if this is none, or its number is not known.
pub(super) fn ways(catalog: &Catalog, group: &str, name: &str, format: &Format) -> Vec<Way> {
    let arch = arch::current();
    let full = format!("{group}:{name}");
    if group == "raw_syscalls" {
        return raw(catalog, &full, name, arch, format);
    }
    if group != "syscalls" {
        return Vec::new();
    }
    if let Some(call) = name.strip_prefix("sys_enter_") {
        return (arch.syscall)(call).map_or(Vec::new(), |number| entry(catalog, &full, number, arch, format));
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
        Some((field.name.clone(), value_type(format, field, true)?, value))
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

fn raw(catalog: &Catalog, full: &str, name: &str, arch: &Arch, format: &Format) -> Vec<Way> {
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

fn entry(catalog: &Catalog, full: &str, number: u32, arch: &Arch, format: &Format) -> Vec<Way> {
    let mut registers = arch.syscall_arguments.iter();
    let fields = format.fields.iter().map(|field| {
        if field.name == "__syscall_nr" {
            return Some((
                field.name.clone(),
                value_type(format, field, true)?,
                "id".to_owned(),
            ));
        }
        Some((
            field.name.clone(),
            argument_type(format, field)?,
            format!("regs->{}", registers.next()?),
        ))
    });
    let guard = Some(guard("args.id", number));
    fields.collect::<Option<Vec<_>>>().map_or(Vec::new(), |f| {
        from_expressions(catalog, full, "sys_enter", f, guard)
    })
}

/// The type that the system call declares, not the register-wide one that its entry stores: `dfd=-100`, not 4294967196.
pub(super) fn argument_type(format: &Format, field: &Field) -> Option<ValueType> {
    let integer = |size, signed, base| Some(ValueType::Integer { size, signed, base });
    match field.type_text.as_str() {
        "int" | "pid_t" | "key_t" | "clockid_t" | "timer_t" | "mqd_t" | "key_serial_t" | "rwf_t" => {
            integer(4, true, Base::Decimal)
        }
        "unsigned int" | "unsigned" | "uid_t" | "gid_t" | "u32" | "__u32" | "qid_t" => {
            integer(4, false, Base::Decimal)
        }
        "umode_t" => integer(2, false, Base::Octal),
        "long" | "loff_t" | "off_t" => integer(8, true, Base::Decimal),
        "size_t" => integer(8, false, Base::Decimal),
        _ => value_type(format, field, true),
    }
}
