//! Sizes and alignment of values in memory, as C lays them out.

use crate::check::checker::Checker;
use crate::check::shape::{NAME, alignment, is_named_number};
use crate::check::tree::Type;
use kestrel_bpf::btf::TypeId;
use kestrel_trace::layout::{COPIED_WORDS, FieldType, HeldStack, Named, Space};

impl<'a> Checker<'a> {
    /// Bytes that a value of the type takes in memory.
    pub(crate) fn size_of(&self, ty: &Type) -> Option<u32> {
        match ty {
            Type::Integer { size, .. } => Some(u32::from(*size)),
            Type::Bool => Some(1),
            Type::Pointer(_) => Some(8),
            Type::CharArray { size } => Some(*size),
            Type::String { max } | Type::Memory { max } => Some(*max),
            Type::Array { element, count } => self.size_of(element)?.checked_mul(*count),
            Type::Tuple(tuple) => Some(tuple.size),
            Type::Named(named) => Some(named.shape().0),
            Type::Buffer { max } => Some(FieldType::Buffer { max: *max }.fixed_size()),
            Type::HeldStack(stack) => Some(stack.size()),
            Type::Struct(id, _) => u32::try_from(self.btf()?.size_of(*id)?).ok(),
            Type::Stack { max, .. } => max.checked_mul(8),
            Type::StackCopy { max, .. } => max.unwrap_or_default().checked_add(COPIED_WORDS * 8),
        }
    }

    /// What `sizeof` says of a value: in scripts as of bpftrace's own types, whose strings have their NUL in the longest that there may be, and whose
    /// stacks, buffers and values with a name lie otherwise.
    pub(crate) fn size_by_name(&self, ty: &Type) -> Option<u32> {
        let own = self.size_of(ty);
        if !self.globals.infers_types {
            return own;
        }
        match ty {
            // Among other strings such a name is one.
            ty if is_named_number(ty) => Some(NAME),
            Type::CharArray { size } if *size == self.longest() + 1 => Some(self.longest()),
            Type::String { max } => Some((max + 1).min(self.longest())),
            Type::Buffer { max } | Type::Memory { max } => max.checked_add(4),
            Type::Named(Named::Inet) => Some(24),
            Type::Named(Named::Date { .. } | Named::Cgroup { .. }) => Some(16),
            // The number of frames, and of a process's stack whose it is.
            Type::HeldStack(HeldStack { space, max, .. }) | Type::Stack { space, max, .. } => {
                let head = if *space == Space::User { 16 } else { 8 };
                max.checked_mul(8)?.checked_add(head)
            }
            _ => own,
        }
    }

    /// Alignment of a value of so many bytes in memory, as C places it.
    pub(crate) fn align_of(&mut self, ty: &Type, size: u32) -> u32 {
        self.align_at(ty, size, 0)
    }

    fn align_at(&mut self, ty: &Type, size: u32, depth: u8) -> u32 {
        match ty {
            Type::Struct(id, _) if depth < 8 => {
                let members: Vec<TypeId> = self
                    .btf()
                    .and_then(|btf| btf.composite(*id))
                    .map(|composite| composite.members().map(|member| member.ty).collect())
                    .unwrap_or_default();
                let mut align = 1;
                for member in members {
                    if let Some(ty) = self.btf_type(member) {
                        let size = self.size_of(&ty).unwrap_or(1);
                        align = align.max(self.align_at(&ty, size, depth + 1));
                    }
                }
                align
            }
            Type::Array { element, .. } if depth < 8 => {
                let size = self.size_of(element).unwrap_or(1);
                self.align_at(element, size, depth + 1)
            }
            ty => alignment(ty, size),
        }
    }
}
