//! The built-in `curtask`: the address of the task that runs.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Intrinsic, Pointee, Pointer, Type};
use kestrel_bpf::btf::BtfKind;
use kestrel_bpf::helper;
use kestrel_trace::layout::Space;

pub(crate) static CURTASK: Builtin = Builtin {
    name: "curtask",
    numbered: false,
    usage: "curtask",
    about: "the address of the task that runs: struct task_struct *",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let task = checker
            .btf()
            .and_then(|btf| btf.find(BtfKind::Struct, "task_struct"));
        let context = checker.context;
        let direct = task.is_some() && context.direct_loads && context.features.current_task_btf;
        let which = if direct {
            Intrinsic::fixed(helper::GET_CURRENT_TASK_BTF)
        } else {
            Intrinsic::fixed(helper::GET_CURRENT_TASK)
        };
        let ty = Type::Pointer(Pointer {
            to: task.map_or(Pointee::Unknown, Pointee::Btf),
            levels: 0,
            space: Space::Kernel,
            trusted: direct,
            symbolic: false,
        });
        Ok(usage.intrinsic(which, ty))
    }),
};
