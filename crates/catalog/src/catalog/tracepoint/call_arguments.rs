//! The arguments of system calls as their tracepoints' formats describe them: in the types that the calls declare, with the names of their numbers.

use super::super::lookup::Catalog;
use super::field_type::{pointer_type, value_type};
use crate::arch;
use crate::error::Result;
use kestrel_compiler::context::ValueType;
use kestrel_kernel::tracefs::{Field, Format, Location};
use kestrel_trace::calls::{Parameter, Signature};
use kestrel_trace::layout::{Base, FieldType};
use kestrel_trace::syscall::shape::Shape;
use kestrel_trace::syscall::{ArgumentKind, Pointed, kind};

/// The arguments of a system call among the fields of its entry, in order.
pub(super) fn arguments(format: &Format) -> impl Iterator<Item = &Field> {
    format
        .fields
        .iter()
        .filter(|f| f.name != "__syscall_nr" && f.location == Location::Inline)
}

/// The type that the system call declares, not the register-wide one that its entry stores: `dfd=-100`, not 4294967196; shown by the names that
/// its numbers have.
pub(super) fn argument_type(format: &Format, field: &Field) -> Option<ValueType> {
    let ty = declared_type(format, field)?;
    let kind = format
        .name
        .strip_prefix("sys_enter_")
        .and_then(|call| kind(call, &field.name));
    let ValueType::Integer { size, signed, base } = ty else {
        return Some(ty);
    };
    Some(match kind {
        Some(ArgumentKind::Named(meaning)) => ValueType::Integer {
            size,
            signed,
            base: Base::Named(meaning),
        },
        // Of mmap it is declared as an `unsigned long`.
        Some(ArgumentKind::Descriptor) => ValueType::Integer {
            size: 4,
            signed: true,
            base: Base::Decimal,
        },
        _ => ValueType::Integer { size, signed, base },
    })
}

fn declared_type(format: &Format, field: &Field) -> Option<ValueType> {
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

/// All system calls of this kernel with their numbers and arguments, as their tracepoints describe them, and those of 32-bit programs, with the arguments
/// of the calls that they are like; those of which no tracepoint is known have a name only.
///
/// # Errors
/// When tracefs cannot be read.
pub fn signatures(catalog: &Catalog) -> Result<Vec<(u32, Signature)>> {
    let arch = arch::current();
    let tracefs = catalog.tracefs()?;
    let mut all: Vec<(u32, Signature)> = (0..=arch::HIGHEST_SYSCALL)
        .filter_map(|number| Some((number, Signature::new((arch.syscall_name)(number)?, []))))
        .collect();
    for event in tracefs.events()?.iter().filter(|event| event.group == "syscalls") {
        let Some(call) = event.name.strip_prefix("sys_enter_") else {
            continue;
        };
        let Some(number) = (arch.syscall)(call) else {
            continue;
        };
        let format = tracefs.format("syscalls", &event.name)?;
        let addresses = arguments(&format).filter(|field| field.type_text.ends_with('*'));
        let signature = addresses.fold(Signature::new(call, typed(&format)), |it, field| {
            it.declaring(&field.name, &field.type_text)
        });
        match all.iter_mut().find(|(own, _)| *own == number) {
            Some((_, known)) => *known = signature,
            None => all.push((number, signature)),
        }
    }
    let own = || all.iter().map(|(_, signature)| signature);
    let compat = (0..=arch::HIGHEST_SYSCALL)
        .filter_map(|number| Some((number, Signature::compat((arch.compat_name)(number)?, own()))));
    let compat: Vec<(u32, Signature)> = compat.collect();
    all.extend(compat);
    Ok(all)
}

/// The type that programs have an argument of a recorded call in: that of its tracepoint.
pub fn recorded_type(parameter: &Parameter) -> Option<ValueType> {
    if !matches!(parameter.ty, FieldType::Pointer { .. }) {
        return ValueType::recorded(&parameter.ty);
    }
    let declared = match (&parameter.declared, parameter.kind) {
        (Some(declared), _) => declared,
        (None, Some(ArgumentKind::Text)) => "char *",
        (None, Some(ArgumentKind::Pointed(Pointed { shape, .. }))) => match shape {
            Shape::Strings(_) | Shape::TextCount(_) => "char **",
            Shape::SocketAddress => "struct sockaddr *",
            _ => "void *",
        },
        (None, _) => "void *",
    };
    Some(pointer_type(declared, true))
}

/// The arguments of a call with their types.
pub(super) fn typed(format: &Format) -> impl Iterator<Item = (String, FieldType)> {
    arguments(format).take(6).map(|field| {
        let ty = match argument_type(format, field) {
            _ if field.type_text.ends_with('*') => FieldType::Pointer { symbolic: false },
            Some(ValueType::Integer { size, signed, base }) => FieldType::Integer { size, signed, base },
            _ => FieldType::Integer {
                size: 8,
                signed: false,
                base: Base::Hexadecimal,
            },
        };
        (field.name.clone(), ty)
    })
}
