//! The built-in `percpu_kaddr`: the address of a CPU's copy of a kernel variable.

use super::symbol::address_of;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Access, BinaryOp, CompareOp, Expr, ExprKind, Intrinsic, Pointee, Pointer, Type};
use crate::check::value::{comparison, constant, operation, scaled};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;
use kestrel_trace::layout::Space;

/// Where each CPU's variables begin, by how far that is from where the linker put them: an array of addresses.
const OFFSETS: &str = "__per_cpu_offset";
/// CPUs that the kernel numbers.
const CPUS: &str = "nr_cpu_ids";

pub(crate) static PERCPU_KADDR: Builtin = Builtin {
    name: "percpu_kaddr",
    numbered: false,
    usage: "percpu_kaddr(\"symbol\"[, cpu])",
    about: "the address of this CPU's, or another one's, copy of a variable of the kernel; 0 where there is no such CPU",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 2)?;
        let Some(symbol) = args.first() else {
            return Err(checker.error(usage.span, "the name of a symbol is missing"));
        };
        let span = usage.span;
        if checker.globals.is_recorded {
            let message = "percpu_kaddr() finds its address in the kernel's memory, which no recording has";
            let hint = "record(args, NAME = (uint64)percpu_kaddr(…)) keeps it with each record of an event, as args.NAME";
            return Err(checker.report(Diagnostic::error(span, message).hint(hint)));
        }
        // Addresses that are not known yet are asked for all at once.
        let addresses = [
            address_of(checker, usage, symbol),
            checker.known_address(OFFSETS, span),
            checker.known_address(CPUS, span),
        ];
        let [variable, offsets, cpus] = addresses;
        let (variable, offsets, cpus) = (variable?, offsets?, cpus?);
        let load = |address: Expr, size: u8| {
            let kind = ExprKind::Load {
                address: Box::new(address),
                offset: 0,
                size,
                signed: false,
                access: Access::Kernel,
            };
            Expr::new(kind, Type::integer(size, false), span)
        };
        let at = |cpu: Expr| {
            let place = scaled(cpu, 8);
            let place = operation(
                BinaryOp::Add,
                Type::U64,
                constant(offsets, Type::U64, span),
                place,
                span,
            );
            let variable = constant(variable, Type::U64, span);
            operation(BinaryOp::Add, Type::U64, variable, load(place, 8), span)
        };
        let value = match args.get(1) {
            None => {
                let this = usage.intrinsic(Intrinsic::fixed(helper::GET_SMP_PROCESSOR_ID), Type::U64);
                at(this)
            }
            Some(cpu) => {
                let cpu = checker.scalar(cpu)?;
                let last = load(constant(cpus, Type::U64, span), 4);
                let condition = comparison(CompareOp::Less, false, cpu.clone(), last, span);
                let kind = ExprKind::Ternary {
                    condition: Box::new(condition),
                    then: Some(Box::new(at(cpu))),
                    otherwise: Box::new(constant(0, Type::U64, span)),
                };
                Expr::new(kind, Type::U64, span)
            }
        };
        let ty = Type::Pointer(Pointer {
            to: Pointee::Integer {
                size: 8,
                signed: false,
            },
            levels: 0,
            space: Space::Kernel,
            trusted: false,
            symbolic: false,
        });
        Ok(Expr { ty, ..value })
    }),
};
