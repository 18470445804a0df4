//! Values made of values: elements of arrays, members of tuples, records and structures, and stacks in a fixed number of bytes.

use super::{Frames, Value, unsigned};
use crate::layout::{Composite, FieldType, Frames as FramePlace, HeldStack, Member, StackMode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernel's number of a stack that is empty: `-EFAULT`.
const NO_STACK: i64 = -14;

/// Frames of stacks, by the number that the kernel gave them in a map's table of stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stacks(BTreeMap<u32, Vec<u8>>);

impl Stacks {
    /// Enters the frames of a stack, 8 bytes each (32 for build ids).
    pub fn insert(&mut self, number: u32, frames: Vec<u8>) {
        self.0.insert(number, frames);
    }

    /// Whether the frames of that stack were entered.
    pub fn contains(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of each stack's frames.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(Vec::as_slice)
    }

    /// The frames of that stack.
    pub fn get(&self, number: i64) -> Option<&[u8]> {
        let number = u32::try_from(number).ok()?;
        self.0.get(&number).map(Vec::as_slice)
    }
}

/// Data beside a value's bytes to which they refer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueContext<'a> {
    /// Frames of stacks that are kept by number.
    pub stacks: Option<&'a Stacks>,
    /// When the value was read or made, ns: what a process's addresses mean depends on it.
    pub time_ns: u64,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    pub(super) ty: &'a FieldType,
    pub(super) bytes: &'a [u8],
    pub(super) beside: ValueContext<'a>,
}

impl<'a> Elements<'a> {
    /// The bytes, one behind the other.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The elements in order.
    pub fn iter(self) -> impl Iterator<Item = Value<'a>> {
        let size = (self.ty.fixed_size() as usize).max(1);
        self.bytes
            .chunks_exact(size)
            .map(move |bytes| Value::read_beside(self.ty, bytes, self.beside))
    }
}

/// The members of a composite.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub(super) ty: &'a Composite,
    pub(super) bytes: &'a [u8],
    pub(super) beside: ValueContext<'a>,
}

impl<'a> Parts<'a> {
    /// The type of the composite.
    pub fn ty(&self) -> &'a Composite {
        self.ty
    }

    /// The members in order, with their values.
    pub fn iter(self) -> impl Iterator<Item = (&'a Member, Value<'a>)> {
        let members = self.ty.members.iter();
        members.map(move |member| (member, self.member(member)))
    }

    fn member(&self, member: &'a Member) -> Value<'a> {
        let Some(bytes) = self.bytes.get(member.offset as usize..) else {
            return Value::Missing;
        };
        let value = Value::read_beside(&member.ty, bytes, self.beside);
        let Some(bits) = member.bits else { return value };
        let width = u32::from(bits.width.clamp(1, 64));
        // Not the member's value: of a bool that says only whether any bit of the byte is set.
        let Some(whole) = member.ty.integer_size().and_then(|size| whole(bytes, size)) else {
            return value;
        };
        let low = whole.checked_shr(bits.first.into()).unwrap_or(0) & (u64::MAX >> (64 - width));
        value.with_bits(low, width)
    }
}

/// The integer of the first `size` bytes, as little-endian machines keep it.
fn whole(bytes: &[u8], size: u8) -> Option<u64> {
    let mut word = [0; 8];
    let bytes = bytes.get(..usize::from(size))?;
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

impl<'a> Value<'a> {
    /// An integer of the same type from other bits, of which the low `width` are its value.
    fn with_bits(self, bits: u64, width: u32) -> Self {
        let unused = 64 - width;
        let extended = (bits << unused).cast_signed() >> unused;
        match self {
            Self::Signed { base, size, .. } => Self::Signed {
                value: extended,
                base,
                size,
            },
            Self::Unsigned { base, size, .. } => Self::Unsigned {
                value: bits,
                base,
                size,
            },
            Self::Enumeration { signed, names, .. } => Self::Enumeration {
                value: if signed { extended } else { bits.cast_signed() },
                signed,
                names,
            },
            Self::Bool(_) => Self::Bool(bits != 0),
            Self::Pointer { symbolic, .. } => Self::Pointer {
                address: bits,
                symbolic,
            },
            Self::Flags { names, .. } => Self::Flags { bits, names },
            other => other,
        }
    }

    /// The stack of a type of fixed size.
    pub(super) fn held_stack(ty: &HeldStack, bytes: &'a [u8], beside: ValueContext<'a>) -> Option<Self> {
        let bytes = bytes.get(..ty.size() as usize)?;
        let first = unsigned(bytes, 8)?.cast_signed();
        let pid = unsigned(bytes.get(ty.pid_offset() as usize..)?, 4)? as u32;
        let frames = match ty.frames {
            // There is none, as of a thread that was not in the kernel (`bpf_get_stackid`).
            FramePlace::Numbered if first == NO_STACK => Some(&[][..]),
            FramePlace::Numbered => beside.stacks.and_then(|stacks| stacks.get(first)),
            FramePlace::Inline => {
                let count = usize::try_from(first).unwrap_or(0).min(ty.max as usize);
                let all = bytes.get(8..ty.pid_offset() as usize)?;
                all.get(..count * ty.frame_size() as usize)
            }
        };
        let Some(bytes) = frames else {
            return Some(Self::Missing);
        };
        let most = (ty.max as usize).saturating_mul(ty.frame_size() as usize);
        Some(Self::Stack(Frames {
            space: ty.space,
            mode: Some(ty.mode),
            pid,
            time_ns: beside.time_ns,
            truncated: false,
            bytes: &bytes[..bytes.len().min(most)],
        }))
    }
}

/// A frame by the binary that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildIdFrame<'a> {
    /// A place in the file of this build id.
    File {
        /// The build id.
        build_id: &'a [u8],
        /// Bytes from the start of the file.
        offset: u64,
    },
    /// An address, where no build id was found.
    Address(u64),
}

impl<'a> Frames<'a> {
    /// The frames by build id, where its mode is [`StackMode::BuildId`].
    pub(crate) fn build_ids(self) -> Option<impl Iterator<Item = BuildIdFrame<'a>>> {
        // The kernel's struct: status s32 (1: a build id, 2: an address), build id of 20 bytes, offset or address.
        let (frames, _) = self.bytes.as_chunks::<32>();
        let frame = |frame: &'a [u8; 32]| {
            let number = frame.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            match frame[0] {
                1 => Some(BuildIdFrame::File {
                    build_id: &frame[4..24],
                    offset: number,
                }),
                2 => Some(BuildIdFrame::Address(number)),
                _ => None,
            }
        };
        (self.mode == Some(StackMode::BuildId)).then(|| frames.iter().filter_map(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Base, Bits, Composite, CompositeKind, FieldType, Member};

    /// `struct { unsigned a : 3; int b : 5; bool c : 1, d : 1; }`, bools at other bits than the lowest.
    #[test]
    fn bit_fields_are_the_bits_that_they_have() {
        let number = |signed| FieldType::Integer {
            size: 4,
            signed,
            base: Base::Decimal,
        };
        let member = |name: &str, ty: FieldType, offset, first, width| Member {
            name: name.to_owned(),
            offset,
            bits: Some(Bits { first, width }),
            ty,
        };
        let ty = Composite {
            kind: CompositeKind::Struct,
            size: 4,
            align: 4,
            members: vec![
                member("a", number(false), 0, 0, 3),
                member("b", number(true), 0, 3, 5),
                member("c", FieldType::Bool, 1, 3, 1),
                member("d", FieldType::Bool, 1, 4, 1),
            ],
        };
        for (word, expected) in [
            (0x0000_00cd_u32, [5, -7, 0, 0]),
            (0x0000_0800, [0, 0, 1, 0]),
            (0x0000_1000, [0, 0, 0, 1]),
            (0x0000_18ff, [7, -1, 1, 1]),
            (0x0000_e700, [0, 0, 0, 0]),
        ] {
            let bytes = word.to_le_bytes();
            let parts = Parts {
                ty: &ty,
                bytes: &bytes,
                beside: ValueContext::default(),
            };
            let values: Vec<i64> = parts.iter().filter_map(|(_, value)| value.as_i64()).collect();
            assert_eq!(values, expected, "{word:#x}");
        }
    }
}
