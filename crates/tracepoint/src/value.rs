//! Fields of events: what each is, and its value in one event.

use core::fmt;

/// Kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer of so many bytes.
    Integer {
        /// 1, 2, 4 or 8.
        size: u8,
        /// Whether it may be negative.
        signed: bool,
    },
    /// A number with a fraction, of 4 or 8 bytes.
    Float {
        /// 4 or 8.
        size: u8,
    },
    /// True or false.
    Bool,
    /// A text in so many bytes, its NUL among them, as C's `char name[16]`; longer ones are cut.
    Text {
        /// Bytes that it takes.
        size: u16,
    },
    /// A text of its own length.
    String,
    /// Bytes of their own number.
    Bytes,
    /// An array of integers.
    Array {
        /// Bytes of one: 1, 2, 4 or 8.
        size: u8,
        /// Whether they may be negative.
        signed: bool,
        /// The number of elements.
        count: u16,
    },
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name: a C identifier.
    pub name: &'static str,
    /// The field's kind.
    pub kind: FieldKind,
    /// C's name of its type: `unsigned int`, or what the event says it is (`pid_t`).
    pub c_type: &'static str,
}

/// An event's definition as constants of a type: what its USDT probe and its description in the program's file are made of.
pub trait Definition {
    /// Group and name.
    const NAMES: (&'static str, &'static str);
    /// The event's fields.
    const FIELDS: &'static [Field];
    /// The event's print format.
    const PRINT: &'static str;
}

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer without a sign.
    Unsigned(u64),
    /// An integer with one.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(&'a str),
    /// Bytes that it takes.
    Bytes(&'a [u8]),
    /// The elements of an array, as they lie in memory.
    Elements(&'a [u8]),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => fmt::Display::fmt(value, f),
            Self::Signed(value) => fmt::Display::fmt(value, f),
            Self::Float(value) => fmt::Display::fmt(value, f),
            Self::Bool(value) => fmt::Display::fmt(&u8::from(*value), f),
            Self::Text(text) => f.pad(text),
            Self::Bytes(bytes) | Self::Elements(bytes) => {
                f.write_str("{")?;
                for (at, byte) in bytes.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}0x{byte:02x}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// A type of Rust as a field of an event.
#[diagnostic::on_unimplemented(
    message = "an event has no fields of the type `{Self}`",
    label = "not the type of a field",
    note = "fields are integers of 8 to 64 bits, bool, f32, f64, arrays of integers, str, bytes, char[N]"
)]
pub trait FieldType {
    /// Kind of the value, for the event's description.
    const KIND: FieldKind;
    /// C's name of it.
    const C_TYPE: &'static str;

    /// The value in an event.
    fn value(&self) -> Value<'_>;

    /// The bytes in a record.
    fn bytes(&self) -> &[u8];
}

/// Types without padding.
///
/// # Safety
/// Each of a value's bytes is there, whatever the value is.
#[allow(unsafe_code, reason = "a promise about types")]
unsafe trait Plain {}

#[allow(unsafe_code, reason = "a promise about types")]
// SAFETY: one byte, 0 or 1.
unsafe impl Plain for bool {}
#[allow(unsafe_code, reason = "a promise about types")]
// SAFETY: all of its bits are its value.
unsafe impl Plain for f32 {}
#[allow(unsafe_code, reason = "a promise about types")]
// SAFETY: all of its bits are its value.
unsafe impl Plain for f64 {}

#[allow(unsafe_code, reason = "numbers as their bytes")]
#[inline(always)]
fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: the type has no padding, and bytes need no alignment.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}

macro_rules! integers {
    ($($ty:ident, $signed:literal, $value:ident as $wide:ident, $c:literal;)*) => {
        $(
            impl FieldType for $ty {
                const KIND: FieldKind = FieldKind::Integer { size: size_of::<$ty>() as u8, signed: $signed };
                const C_TYPE: &'static str = $c;

                #[inline]
                fn value(&self) -> Value<'_> {
                    Value::$value(*self as $wide)
                }

                #[inline(always)]
                fn bytes(&self) -> &[u8] {
                    bytes_of(self)
                }
            }

            #[allow(unsafe_code, reason = "a promise about types")]
            // SAFETY: all of its bits are its value.
            unsafe impl Plain for $ty {}
            #[allow(unsafe_code, reason = "a promise about types")]
            // SAFETY: arrays have no padding between elements.
            unsafe impl<const N: usize> Plain for [$ty; N] {}

            impl<const N: usize> FieldType for [$ty; N] {
                const KIND: FieldKind = {
                    assert!(N <= u16::MAX as usize, "a field has 65,535 elements at most");
                    FieldKind::Array { size: size_of::<$ty>() as u8, signed: $signed, count: N as u16 }
                };
                const C_TYPE: &'static str = $c;

                #[inline]
                fn value(&self) -> Value<'_> {
                    Value::Elements(bytes_of(self))
                }

                #[inline(always)]
                fn bytes(&self) -> &[u8] {
                    bytes_of(self)
                }
            }
        )*
    };
}

integers! {
    u8, false, Unsigned as u64, "unsigned char";
    u16, false, Unsigned as u64, "unsigned short";
    u32, false, Unsigned as u64, "unsigned int";
    u64, false, Unsigned as u64, "u64";
    usize, false, Unsigned as u64, "size_t";
    i8, true, Signed as i64, "signed char";
    i16, true, Signed as i64, "short";
    i32, true, Signed as i64, "int";
    i64, true, Signed as i64, "s64";
    isize, true, Signed as i64, "ssize_t";
}

impl FieldType for bool {
    const KIND: FieldKind = FieldKind::Bool;
    const C_TYPE: &'static str = "bool";

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Bool(*self)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        bytes_of(self)
    }
}

impl FieldType for f32 {
    const KIND: FieldKind = FieldKind::Float { size: 4 };
    const C_TYPE: &'static str = "float";

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Float(f64::from(*self))
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        bytes_of(self)
    }
}

impl FieldType for f64 {
    const KIND: FieldKind = FieldKind::Float { size: 8 };
    const C_TYPE: &'static str = "double";

    #[inline]
    fn value(&self) -> Value<'_> {
        Value::Float(*self)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        bytes_of(self)
    }
}

/// Values that can be assigned to a field of text or of bytes.
#[diagnostic::on_unimplemented(
    message = "a field of text or of bytes is not made of `{Self}`",
    label = "neither `AsRef<str>` for a text nor `AsRef<[u8]>` for bytes"
)]
pub trait AsField<T: ?Sized> {
    /// The text or the bytes.
    fn as_field(&self) -> &T;
}

impl<S: AsRef<str> + ?Sized> AsField<str> for S {
    #[inline]
    fn as_field(&self) -> &str {
        self.as_ref()
    }
}

impl<S: AsRef<[u8]> + ?Sized> AsField<[u8]> for S {
    #[inline]
    fn as_field(&self) -> &[u8] {
        self.as_ref()
    }
}

/// What each callback of an event is given.
#[diagnostic::on_unimplemented(
    message = "an argument of an event is `Copy`, since each of its callbacks is given it: `{Self}` is not",
    label = "take a reference"
)]
pub trait Argument {}

impl<T: Copy> Argument for T {}

/// For [`crate::events!`]: fails to compile where `T` is no argument's type.
#[doc(hidden)]
pub fn is_argument<T: Argument>() {}

/// Cuts a text to what a field of `size` bytes holds before its NUL, whole characters.
#[inline]
pub fn cut(text: &str, size: u16) -> &str {
    let most = usize::from(size).saturating_sub(1);
    &text[..text.floor_char_boundary(most)]
}
