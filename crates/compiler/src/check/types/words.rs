//! Types in words: in messages, and in the spelling of the language (`typeof`, bpftrace's errors).

use crate::check::checker::{Checker, Reported};
use crate::check::tree::{Expr, ExprKind, Pointee, Pointer, Type, VariableId};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::{Named, Space, StackMode};

impl<'a> Checker<'a> {
    /// Kind and full spelling of a type in the language's own words: `int`, `uint64`.
    pub(crate) fn spelled_type(&self, ty: &Type) -> (&'static str, String) {
        let whole = |word: &'static str| (word, word.to_owned());
        match ty {
            Type::Integer { size, signed, .. } => {
                let sign = if *signed { "" } else { "u" };
                ("int", format!("{sign}int{}", u32::from(*size) * 8))
            }
            Type::Bool => whole("bool"),
            Type::Pointer(pointer) if pointer.symbolic => whole("ksym_t"),
            Type::Pointer(pointer) => ("pointer", self.describe_pointer(*pointer)),
            Type::CharArray { size } => ("string", format!("string[{size}]")),
            // `max` does not count the NUL, which the spelling of a type does.
            Type::String { max } => ("string", format!("string[{}]", max + 1)),
            Type::Memory { max } | Type::Buffer { max } => ("buffer", format!("buffer[{max}]")),
            Type::Array { element, count } => ("array", format!("{}[{count}]", self.spelled_type(element).1)),
            Type::Struct(..) => ("c_type", self.describe(ty)),
            Type::Tuple(tuple) if tuple.members.iter().any(|member| !member.name.is_empty()) => {
                let members = tuple.members.iter();
                let members =
                    members.map(|member| format!(".{} = {}", member.name, self.spelled_type(&member.ty).1));
                let members: Vec<String> = members.collect();
                ("record", format!("record {{ {} }}", members.join(", ")))
            }
            Type::Tuple(tuple) => {
                let members = tuple.members.iter().map(|member| self.spelled_type(&member.ty).1);
                let members: Vec<String> = members.collect();
                ("tuple", format!("({})", members.join(",")))
            }
            Type::Named(Named::KernelSymbol) => whole("ksym_t"),
            Type::Named(Named::UserSymbol) => whole("usym_t"),
            Type::Named(Named::Inet) => whole("inet"),
            Type::Named(Named::Mac) => whole("mac_address"),
            Type::Named(Named::Date { .. }) => whole("timestamp"),
            Type::Named(Named::Cgroup { .. }) => whole("cgroup_path_t"),
            Type::Named(Named::User) => whole("username"),
            Type::Named(Named::Error) => whole("strerror_t"),
            Type::Named(_) => whole("name"),
            Type::HeldStack(stack) => spelled_stack(stack.space, stack.mode, stack.max),
            Type::Stack { space, max, mode } => spelled_stack(*space, *mode, *max),
            Type::StackCopy { .. } => whole("stack"),
        }
    }

    /// A type in words, for messages: `an integer`, `struct file *`.
    pub(crate) fn describe(&self, ty: &Type) -> String {
        match ty {
            Type::Integer { .. } => "an integer".to_owned(),
            Type::Bool => "a bool".to_owned(),
            Type::Pointer(pointer) => self.describe_pointer(*pointer),
            Type::CharArray { .. } | Type::String { .. } => "a string".to_owned(),
            Type::Array { element, count } => format!("an array of {count} × {}", self.describe(element)),
            Type::Struct(id, _) => self
                .btf()
                .map_or_else(|| "a struct".to_owned(), |btf| btf.render(*id)),
            Type::Tuple(tuple) => {
                let named = tuple.members.iter().any(|member| !member.name.is_empty());
                let word = if named { "record" } else { "tuple" };
                format!("a {word} of {}", tuple.members.len())
            }
            Type::Named(_) => "a value with a name".to_owned(),
            Type::Memory { .. } | Type::Buffer { .. } => "bytes of memory".to_owned(),
            Type::HeldStack(_) | Type::Stack { .. } | Type::StackCopy { .. } => "a stack".to_owned(),
        }
    }

    /// What to write where one value is wanted, and there are several together.
    pub(crate) fn hint_of_parts(ty: &Type) -> Option<String> {
        let Type::Tuple(tuple) = ty else { return None };
        let members = tuple.members.iter().enumerate();
        let members: Vec<String> = members
            .map(|(number, member)| match member.name.as_str() {
                "" => format!(".{number}"),
                name => format!(".{name}"),
            })
            .collect();
        (!members.is_empty()).then(|| format!("take one of its members: {}", members.join(", ")))
    }

    /// Two types that differ in words: in their full spelling where the short words are the same.
    pub(crate) fn told_apart(&self, one: &Type, other: &Type) -> (String, String) {
        let (short, shorter) = (self.describe(one), self.describe(other));
        match short == shorter {
            true => (self.spelled_type(one).1, self.spelled_type(other).1),
            false => (short, shorter),
        }
    }

    /// The type of a value as scripts write it.
    pub(crate) fn spelled_value(&self, value: &Expr) -> String {
        match (&value.ty, &value.kind) {
            // With the byte that ends it.
            (Type::CharArray { .. }, ExprKind::ConstantBytes(known)) => {
                format!("string[{}]", known.len() + 1)
            }
            (ty, _) => self.spelled_type(ty).1,
        }
    }

    /// The message where a value of another type is stored under a name; with the types as scripts write them where the text is a script.
    pub(crate) fn mismatch(&self, name: &str, value: &Expr, held: &Type) -> String {
        if !self.globals.infers_types {
            let (this, held) = self.told_apart(&value.ty, held);
            return format!("this is {this}, but {name} holds {held}");
        }
        let stored = self.spelled_value(value);
        let held = self.spelled_type(held).1;
        let what = if name.starts_with('@') { "map" } else { "variable" };
        format!(
            "Type mismatch for {name}: trying to assign value of type '{stored}' when {what} already has a type '{held}'"
        )
    }

    /// The place of such a message: in scripts, as in bpftrace, that of the assignment.
    pub(crate) fn place_of_mismatch(&self, value: &Expr, assignment: Span) -> Span {
        match self.globals.infers_types {
            true => assignment,
            false => value.span,
        }
    }

    /// Reports that a variable holds another type than that of a value.
    pub(in crate::check) fn other_type(
        &mut self,
        variable: VariableId,
        ty: &Type,
        value: &Expr,
        span: Span,
    ) -> Reported {
        let name = self
            .variables
            .get(variable.0 as usize)
            .map(|known| known.name.clone());
        let message = self.mismatch(&format!("${}", name.unwrap_or_default()), value, ty);
        let span = self.place_of_mismatch(value, span);
        self.report(Diagnostic::error(span, message).hint("cast it, or use another variable"))
    }

    fn describe_pointer(&self, pointer: Pointer) -> String {
        let stars = "*".repeat(usize::from(pointer.levels) + 1);
        match (pointer.to, self.btf()) {
            (Pointee::Char, _) => format!("char {stars}"),
            (Pointee::Integer { size, signed }, _) => {
                format!(
                    "{}int{} {stars}",
                    if signed { "" } else { "u" },
                    u32::from(size) * 8
                )
            }
            (Pointee::Integers { size, signed, count }, _) => {
                let (_, element) = self.spelled_type(&Type::integer(size, signed));
                format!("{element}[{count}] {stars}")
            }
            (Pointee::Btf(id), Some(btf)) => format!("{} {stars}", btf.render(id)),
            (Pointee::String { size }, _) => format!("string[{size}] {stars}"),
            (Pointee::Value(value), _) => match self.globals.shapes.pointee_type(value) {
                Some(ty) => format!("{} {stars}", self.spelled_type(ty).1),
                None => format!("void {stars}"),
            },
            _ => format!("void {stars}"),
        }
    }
}

/// A stack of at most so many frames in a mode: `kstack_perf_10`.
fn spelled_stack(space: Space, mode: StackMode, max: u32) -> (&'static str, String) {
    let word = match space {
        Space::Kernel => "kstack",
        Space::User => "ustack",
    };
    let mode = match mode {
        StackMode::Bpftrace => "bpftrace",
        StackMode::Perf => "perf",
        StackMode::Raw => "raw",
        StackMode::BuildId => "build_id",
    };
    (word, format!("{word}_{mode}_{max}"))
}
