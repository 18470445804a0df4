//! The layout of an event's fields in a record, computed when the program is compiled, and a record's bytes as they are filled.

use crate::value::{Field, FieldKind};
use kestrel_layout::packet::CAPACITY;
use kestrel_layout::record::{COUNT, PAYLOAD, Shape, most, place};
use std::marker::PhantomData;

/// Places of an event's fields.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Places<const N: usize> {
    /// Of each field, or of the count of its elements.
    pub offsets: [u32; N],
    /// Bytes before the tail.
    pub end: u32,
    /// Most bytes of a variable field: longer ones are cut.
    pub most: u32,
    /// Whether each of the fields has a fixed size.
    pub is_fixed: bool,
}

/// The shape of a field in the fixed part.
const fn shape(kind: FieldKind) -> Shape {
    let (size, align) = match kind {
        FieldKind::Integer { size, .. } | FieldKind::Float { size } => (size as u32, size as u32),
        FieldKind::Bool => (1, 1),
        FieldKind::Text { size } => (size as u32, 1),
        FieldKind::String | FieldKind::Bytes => return COUNT,
        FieldKind::Array { size, count, .. } => (size as u32 * count as u32, size as u32),
    };
    Shape { size, align }
}

const fn is_variable(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::String | FieldKind::Bytes)
}

/// Where the fixed part of a record of these fields ends, and the most bytes of its variable fields.
pub(crate) fn extent(fields: &[Field]) -> (u32, u32) {
    let shapes: Vec<Shape> = fields.iter().map(|field| shape(field.kind)).collect();
    let mut offsets = vec![0; fields.len()];
    let end = place(&shapes, &mut offsets);
    let variable = fields.iter().filter(|field| is_variable(field.kind)).count();
    (end, most(end, variable as u32))
}

/// The places of fields in memory order: positions in the list of fields.
pub(crate) fn in_memory_order(fields: &[Field]) -> Vec<usize> {
    let shapes: Vec<Shape> = fields.iter().map(|field| shape(field.kind)).collect();
    let mut offsets = vec![0; fields.len()];
    place(&shapes, &mut offsets);
    let mut order: Vec<usize> = (0..fields.len()).collect();
    order.sort_by_key(|at| (offsets[*at], shapes[*at].size));
    order
}

impl<const N: usize> Places<N> {
    /// The places of these fields.
    pub const fn of(fields: &[Field]) -> Self {
        let mut shapes = [COUNT; N];
        let (mut at, mut variable) = (0, 0);
        while at < N {
            shapes[at] = shape(fields[at].kind);
            if is_variable(fields[at].kind) {
                variable += 1;
            }
            at += 1;
        }
        let mut offsets = [0; N];
        let end = place(&shapes, &mut offsets);
        Self {
            offsets,
            end,
            most: most(end, variable),
            is_fixed: variable == 0,
        }
    }

    /// Bytes of a record with so many in its variable fields.
    #[inline(always)]
    pub const fn size(&self, tail: u32) -> u32 {
        (self.end + tail).next_multiple_of(8)
    }

    /// Bytes of a variable field that are recorded.
    #[inline(always)]
    pub fn length(&self, bytes: &[u8]) -> u32 {
        bytes.len().min(self.most as usize) as u32
    }

    /// Truncates a text to the room there is, in whole characters.
    #[inline(always)]
    pub fn text<'t>(&self, text: &'t str) -> &'t [u8] {
        if text.len() <= self.most as usize {
            return text.as_bytes();
        }
        &text.as_bytes()[..text.floor_char_boundary(self.most as usize)]
    }

    /// Truncates bytes to the room there is.
    #[inline(always)]
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[..bytes.len().min(self.most as usize)]
    }
}

/// A record's bytes while they are filled.
#[doc(hidden)]
#[derive(Debug)]
pub struct Slot<'a> {
    record: *mut u8,
    size: u32,
    /// Where the next variable field's bytes go.
    tail: u32,
    _ring: PhantomData<&'a mut [u8]>,
}

impl Slot<'_> {
    /// A record of `size` bytes, of which those before the payload are written already.
    ///
    /// # Safety
    /// There are `size` bytes, which only the caller writes meanwhile; `size` is a multiple of 8, and `end` is not beyond it.
    #[allow(unsafe_code, reason = "memory that readers share")]
    #[inline(always)]
    pub(crate) unsafe fn new(record: *mut u8, size: u32, end: u32) -> Self {
        if size > PAYLOAD && end != size {
            // SAFETY: the last 8 of the bytes; what of them is padding shall not be of an older record.
            unsafe { record.add(size as usize - 8).cast::<u64>().write(0) };
        }
        Self {
            record,
            size,
            tail: end,
            _ring: PhantomData,
        }
    }

    /// Writes bytes at an offset.
    #[allow(unsafe_code, reason = "memory that readers share")]
    #[inline(always)]
    pub fn put(&mut self, offset: u32, bytes: &[u8]) {
        assert!(offset as usize + bytes.len() <= self.size as usize);
        // SAFETY: the bytes are within the record, which no other thread writes; a slice of others cannot lie in it.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.record.add(offset as usize), bytes.len());
        }
    }

    /// Writes a text in `size` bytes, filled with NULs.
    #[inline(always)]
    pub fn text(&mut self, offset: u32, size: u16, text: &str) {
        self.put(offset, text.as_bytes());
        for at in text.len()..usize::from(size) {
            self.put(offset + at as u32, &[0]);
        }
    }

    /// Writes the elements of a variable field behind those before it, and their number.
    #[inline(always)]
    pub fn tail(&mut self, count: u32, bytes: &[u8]) {
        self.put(count, &(bytes.len() as u16).to_le_bytes());
        self.put(self.tail, bytes);
        self.tail += bytes.len() as u32;
    }
}

/// Whether a record of these fields has room in a page.
pub(crate) fn fits(fields: &[Field]) -> bool {
    extent(fields).0.next_multiple_of(8) <= CAPACITY
}
