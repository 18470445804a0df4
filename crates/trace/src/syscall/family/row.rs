//! Families of names for numbers, such as the flags of open(2): tables made from the constants of the kernel's headers, and the writing of a number by them.

/// A row of a family: the name is written where `bits & mask == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The bits that the name is about; all of them where the whole number has one name.
    pub mask: i64,
    /// The value of those bits.
    pub value: i64,
    /// The header's name.
    pub name: &'static str,
}

/// Form of a number without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// `42`, `-1`.
    Decimal,
    /// `0x2a`.
    Hexadecimal,
}

/// A family of names for one kind of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The names, those of more bits before those of fewer.
    pub rows: &'static [Row],
    /// The form of numbers or bits without a name.
    pub unnamed: Unnamed,
}

/// Rows of the headers' names: those of the bits of a mask (`& MASK MODULE [NAME, …]`), of one bit each (`bit MODULE […]`), of the whole number
/// (`whole MODULE […]`), and of those that the crate of headers lacks: whole numbers (`+ whole [NAME = NUMBER, …]`) and others by their mask (`+ [NAME = NUMBER / MASK, …]`).
macro_rules! rows {
    (
        $(& $mask:literal $from:ident [$($part:ident),* $(,)?])*
        $(bit $bits:ident [$($bit:ident),* $(,)?])?
        $(whole $wholes:ident [$($whole:ident),* $(,)?])*
        $(+ whole [$($own_whole:ident = $own_value:literal),* $(,)?])?
        $(+ [$($own:ident = $number:literal / $own_mask:literal),* $(,)?])?
    ) => {
        &[
            $($($crate::syscall::family::row::Row {
                mask: $mask,
                value: linux_raw_sys::$from::$part as i64,
                name: stringify!($part),
            },)*)*
            $($($crate::syscall::family::row::Row {
                mask: linux_raw_sys::$bits::$bit as i64,
                value: linux_raw_sys::$bits::$bit as i64,
                name: stringify!($bit),
            },)*)?
            $($($crate::syscall::family::row::Row {
                mask: -1,
                value: linux_raw_sys::$wholes::$whole as i64,
                name: stringify!($whole),
            },)*)*
            $($($crate::syscall::family::row::Row { mask: -1, value: $own_value, name: stringify!($own_whole) },)*)?
            $($($crate::syscall::family::row::Row { mask: $own_mask, value: $number, name: stringify!($own) },)*)?
        ]
    };
}
pub(super) use rows;

/// Names of bits, the rest in hexadecimal.
pub(super) const fn flags(rows: &'static [Row]) -> Family {
    Family {
        rows,
        unnamed: Unnamed::Hexadecimal,
    }
}

/// Names of numbers, others in decimal.
pub(super) const fn names(rows: &'static [Row]) -> Family {
    Family {
        rows,
        unnamed: Unnamed::Decimal,
    }
}

impl Family {
    /// Appends the names of a number, `A|B|0x40`; the number itself where it has none.
    pub fn write(&self, value: i64, out: &mut String) {
        let start = out.len();
        let (mut taken, mut zero) = (0_i64, None);
        for row in self.rows {
            if value & row.mask != row.value || taken & row.mask != 0 {
                continue;
            }
            // A field of bits that is 0 has a name (`O_RDONLY`); a flag whose bits are all 0 is not written.
            if row.mask == 0 {
                zero = Some(row.name);
                continue;
            }
            taken |= row.mask;
            separated(row.name, start, out);
        }
        let rest = value & !taken;
        match (rest, out.len() == start, zero) {
            (0, true, Some(name)) => out.push_str(name),
            (0, true, None) => out.push('0'),
            (0, false, _) => {}
            _ => self.number(rest, start, out),
        }
    }

    fn number(&self, value: i64, start: usize, out: &mut String) {
        match self.unnamed {
            Unnamed::Decimal => separated(&value.to_string(), start, out),
            Unnamed::Hexadecimal => separated(&format!("{value:#x}"), start, out),
        }
    }
}

fn separated(text: &str, start: usize, out: &mut String) {
    if out.len() > start {
        out.push('|');
    }
    out.push_str(text);
}
