//! Short spellings of checked trees and contexts.

use kestrel_bpf::helper;
use kestrel_compiler::check::tree::*;
use kestrel_compiler::context::{Context, EventNumber, Features, ProgramKind};
use kestrel_compiler::lang::ast::Span;
use kestrel_trace::layout::{Base, FieldType, Layout, Space};

pub fn expr(kind: ExprKind) -> Expr {
    Expr::new(kind, Type::U64, Span::default())
}

pub fn num(n: u64) -> Expr {
    expr(ExprKind::Constant(n))
}

pub fn ctx() -> Expr {
    expr(ExprKind::ContextPointer)
}

pub fn load(address: Expr, offset: i32, size: u8, signed: bool, access: Access) -> Expr {
    expr(ExprKind::Load {
        address: Box::new(address),
        offset,
        size,
        signed,
        access,
    })
}

/// The `index`th `u64` of the context.
pub fn arg(index: i32) -> Expr {
    load(ctx(), index * 8, 8, false, Access::Context)
}

pub fn get(intrinsic: Intrinsic) -> Expr {
    expr(ExprKind::Intrinsic(intrinsic))
}

pub fn pid() -> Expr {
    binary(
        BinaryOp::ShiftRight,
        get(Intrinsic::fixed(helper::GET_CURRENT_PID_TGID)),
        num(32),
    )
}

pub fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    signed_binary(op, false, left, right)
}

pub fn signed_binary(op: BinaryOp, signed: bool, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Binary {
        op,
        signed,
        left: Box::new(left),
        right: Box::new(right),
    })
}

pub fn compare(op: CompareOp, signed: bool, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Compare {
        op,
        signed,
        left: Box::new(left),
        right: Box::new(right),
    })
}

pub fn eq(left: Expr, right: Expr) -> Expr {
    compare(CompareOp::Equal, false, left, right)
}

pub fn and(left: Expr, right: Expr) -> Expr {
    logic(true, left, right)
}

pub fn or(left: Expr, right: Expr) -> Expr {
    logic(false, left, right)
}

fn logic(and: bool, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Logic {
        and,
        left: Box::new(left),
        right: Box::new(right),
    })
}

pub fn not(value: Expr) -> Expr {
    expr(ExprKind::Unary {
        op: UnaryOp::Not,
        value: Box::new(value),
    })
}

pub fn string(address: Expr, space: Space, max: u32) -> Expr {
    expr(ExprKind::ReadString {
        address: Box::new(address),
        space: Some(space),
        max,
        length: None,
    })
}

/// The string in so many bytes at an address.
pub fn string_of(address: Expr, space: Space, max: u32, length: Expr) -> Expr {
    expr(ExprKind::ReadString {
        address: Box::new(address),
        space: Some(space),
        max,
        length: Some(Box::new(length)),
    })
}

/// A read of at most `max` bytes of a process's memory.
pub fn memory(address: Expr, max: u32, length: Expr) -> Expr {
    expr(ExprKind::ReadMemory {
        address: Box::new(address),
        space: Some(Space::User),
        max,
        length: Box::new(length),
    })
}

pub fn stack(space: Space, max: u32) -> Expr {
    expr(ExprKind::Stack { space, max })
}

pub fn bytes(address: Expr, offset: i32, size: u32, access: Access) -> Expr {
    expr(ExprKind::Bytes {
        address: Box::new(address),
        offset,
        size,
        access,
    })
}

/// `left == "text"`, the NUL included.
pub fn is_string(left: Expr, text: &str) -> Expr {
    let mut constant = text.as_bytes().to_vec();
    constant.push(0);
    let bytes = constant.len() as u32;
    constant.resize(16.max(constant.len()), 0);
    expr(ExprKind::StringEqual {
        left: Box::new(left),
        right: Box::new(expr(ExprKind::ConstantBytes(constant))),
        bytes,
        negated: false,
    })
}

pub fn int(size: u8, signed: bool) -> FieldType {
    FieldType::Integer {
        size,
        signed,
        base: Base::Decimal,
    }
}

/// A statement that records these fields.
pub fn record(fields: Vec<(&str, FieldType, Expr)>) -> Statement {
    let layout = Layout::new(
        fields
            .iter()
            .map(|(name, ty, _)| ((*name).to_owned(), ty.clone())),
    );
    let values = fields.into_iter().map(|(_, _, value)| value).collect();
    Statement {
        kind: StatementKind::Record(Record {
            layout,
            values,
            to: Destination::Current,
            asks: None,
        }),
        span: Span::default(),
    }
}

pub fn probe(predicate: Option<Expr>, body: Vec<Statement>) -> CheckedProbe {
    CheckedProbe {
        selector: None,
        predicate,
        guarded: false,
        body,
        variables: Vec::new(),
        pair: None,
    }
}

/// A raw tracepoint on a recent kernel.
pub fn context() -> Context {
    Context {
        name: "raw_syscalls:sys_enter".to_owned(),
        function: None,
        program: ProgramKind::RawTracepoint,
        number: EventNumber::Constant(7),
        selector: None,
        members: [].into(),
        fields: Vec::new(),
        arguments: Vec::new(),
        parameters: None,
        return_value: None,
        registers: Vec::new(),
        remarks: Vec::new(),
        pair: None,
        types: None,
        features: Features {
            preempt_disable: true,
            irq_save: true,
            attach_cookie: true,
            func_ip: true,
            current_task_btf: true,
            user_registers: Some(kestrel_compiler::context::UserRegisters {
                ip: 128,
                sp: 152,
                bp: 32,
            }),
            pid_namespace: None,
            probe_read_kernel: true,
            counted_reads: false,
            preempt_count: None,
        },
        direct_loads: true,
        space: Space::Kernel,
        seq_file: None,
        preemptible: false,
        dispatchers: kestrel_compiler::context::Dispatchers::default(),
    }
}
