//! The `format` file of an event of the kernel's: its fields and where they stand in an entry, and what its print format says about each.

mod labels;
mod printed;

pub use labels::{LabelKind, Labels};
pub use printed::Printed;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Place of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// At its offset.
    Inline,
    /// Elsewhere in the entry: at its offset stands a `u32`, of which the low half is the distance from the entry's start, the high half the
    /// length in bytes (`__data_loc`).
    DataLoc,
    /// Elsewhere as with `__data_loc`, its distance counted from the end of that `u32` (`__rel_loc`).
    RelLoc,
}

/// A field of an event's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// The C type as the kernel writes it, of one element if it is an array: `unsigned long`, `struct page *`.
    pub type_text: String,
    /// Bytes from the start of the entry.
    pub offset: u32,
    /// Bytes it takes there.
    pub size: u32,
    /// Whether the kernel says it is signed (for arrays, too).
    pub signed: bool,
    /// Where its bytes are.
    pub location: Location,
    /// Number of elements, if it is an array of known length.
    pub array_len: Option<u32>,
}

impl Field {
    /// Whether it stands for several elements, known in number or not.
    pub fn is_array(&self) -> bool {
        self.array_len.is_some() || self.location != Location::Inline
    }
}

/// The format of an event's entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's name.
    pub name: String,
    /// The number, as in an entry's `common_type` and for perf_event_open(2).
    pub id: u64,
    /// The fields that every entry begins with: `common_type`, `common_flags`, `common_preempt_count`, `common_pid`.
    pub common: Vec<Field>,
    /// The fields of its own.
    pub fields: Vec<Field>,
    /// How the kernel prints it: a C format string and its arguments.
    pub print_fmt: String,
}

impl Format {
    /// Reads a `format` file.
    ///
    /// # Errors
    /// The objection, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut format = Self {
            name: String::new(),
            id: 0,
            common: vec![],
            fields: vec![],
            print_fmt: String::new(),
        };
        let mut id = None;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("name: ") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID: ") {
                id = number.trim().parse().ok();
            } else if let Some(print) = line.strip_prefix("print fmt: ") {
                // The last of the file; it may go on over several lines.
                format.print_fmt = print.to_owned();
                for more in lines.by_ref() {
                    format.print_fmt.push('\n');
                    format.print_fmt.push_str(more);
                }
            } else if line.trim_start().starts_with("field") {
                let field = field(line).ok_or_else(|| format!("no field in `{}`", line.trim()))?;
                let list = if field.name.starts_with("common_") {
                    &mut format.common
                } else {
                    &mut format.fields
                };
                list.push(field);
            }
        }
        format.id = id.ok_or("no line `ID: number`")?;
        if format.name.is_empty() {
            return Err("no line `name: …`".to_owned());
        }
        Ok(format)
    }

    /// The field of that name, common ones included.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields
            .iter()
            .chain(&self.common)
            .find(|field| field.name == name)
    }

    /// Bytes of the fixed part of an entry.
    pub fn size(&self) -> u32 {
        self.common
            .iter()
            .chain(&self.fields)
            .map(|field| field.offset + field.size)
            .max()
            .unwrap_or(0)
    }

    /// The names that the kernel prints for the values of a field, where its print format lists them with plain numbers.
    pub fn labels(&self, field: &str) -> Option<Labels> {
        self.labels_with(field, &|_| None)
    }

    /// The labels of a field, asking for the value of an enumerator that the kernel left as a name (`HRTIMER_MODE_ABS`): its BTF knows.
    pub fn labels_with(&self, field: &str, constant: &dyn Fn(&str) -> Option<i64>) -> Option<Labels> {
        Labels::find(&self.print_fmt, field, constant)
    }
}

/// One line: `field:TYPE NAME[LEN];  offset:N;  size:N;  signed:N;` (`field special:` in one old event).
fn field(line: &str) -> Option<Field> {
    let (_, rest) = line.split_once(':')?;
    let (declaration, rest) = rest.split_once(';')?;
    let number = |key: &str| -> Option<u32> {
        let part = rest
            .split(';')
            .map(str::trim)
            .find_map(|part| part.strip_prefix(key))?;
        part.trim().parse().ok()
    };
    let (offset, size) = (number("offset:")?, number("size:")?);
    offset.checked_add(size)?;
    let signed = number("signed:").unwrap_or(0) != 0;
    let (location, declaration) = match declaration.trim() {
        text if text.starts_with("__data_loc ") => (Location::DataLoc, &text["__data_loc ".len()..]),
        text if text.starts_with("__rel_loc ") => (Location::RelLoc, &text["__rel_loc ".len()..]),
        text => (Location::Inline, text),
    };
    let (type_text, name, length) = declarator(declaration)?;
    let array_len = match (location, length) {
        (Location::Inline, Some(length)) => Some(elements(length, &type_text, size)),
        _ => None,
    };
    Some(Field {
        name,
        type_text,
        offset,
        size,
        signed,
        location,
        array_len,
    })
}

/// Takes `char comm[16]`, `char[] name`, `struct x *p`, `void (*f)(int)` apart: element type, name, what stands in brackets.
fn declarator(text: &str) -> Option<(String, String, Option<&str>)> {
    let text = text.trim();
    if let Some((before, after)) = text.split_once("(*") {
        let (name, _) = after.split_once(')')?;
        return Some((format!("{}(*)()", before), name.trim().to_owned(), None));
    }
    // `char[] name` has its brackets in the type, `char name[16]` behind the name.
    let (text, length) = match text.split_once('[') {
        Some((before, after)) => {
            let (inside, behind) = after.split_once(']')?;
            let behind = behind.trim();
            let name = behind.rsplit(']').next().unwrap_or_default().trim();
            if name.is_empty() {
                (
                    before.trim().to_owned(),
                    Some(if behind.is_empty() { inside } else { "" }),
                )
            } else {
                (format!("{} {name}", before.trim()), Some(inside))
            }
        }
        None => (text.to_owned(), None),
    };
    let mut parts = text.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
    let name = parts.next()?;
    let type_text = text[..text.len() - name.len()].trim();
    (!type_text.is_empty() && !name.is_empty()).then(|| (type_text.to_owned(), name.to_owned(), length))
}

/// The length in brackets; where it is not a number (a macro, several dimensions), the size says.
fn elements(length: &str, type_text: &str, size: u32) -> u32 {
    length
        .trim()
        .parse()
        .unwrap_or_else(|_| size / element_size(type_text).max(1))
}

fn element_size(type_text: &str) -> u32 {
    let text = type_text.trim_start_matches("const ").trim();
    match text {
        "char" | "unsigned char" | "signed char" | "u8" | "s8" | "__u8" | "__s8" | "uint8_t" | "bool" => 1,
        "short" | "unsigned short" | "u16" | "s16" | "__u16" | "__be16" | "__le16" => 2,
        "int" | "unsigned int" | "unsigned" | "u32" | "s32" | "__u32" | "__be32" | "__le32" | "uint32_t" => 4,
        "long" | "unsigned long" | "u64" | "s64" | "__u64" | "__be64" | "__le64" | "long long"
        | "unsigned long long" | "uint64_t" => 8,
        pointer if pointer.ends_with('*') => 8,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch
ID: 316
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;

print fmt: \"prev_comm=%s prev_pid=%d prev_state=%s\", REC->prev_comm, REC->prev_pid, REC->prev_state
";

    #[test]
    fn reads_fields_in_place() {
        let format = Format::parse(SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 316));
        assert_eq!(format.common.len(), 2);
        let comm = format.field("prev_comm").unwrap();
        assert_eq!(
            (comm.type_text.as_str(), comm.array_len, comm.offset),
            ("char", Some(16), 8)
        );
        let state = format.field("prev_state").unwrap();
        assert_eq!(
            (state.type_text.as_str(), state.signed, state.is_array()),
            ("long", true, false)
        );
        assert_eq!(format.size(), 40);
        assert!(format.print_fmt.ends_with("REC->prev_state"));
    }

    #[test]
    fn reads_the_odd_declarations() {
        let one = |declaration: &str, size: u32| {
            field(&format!(
                "\tfield:{declaration};\toffset:8;\tsize:{size};\tsigned:0;"
            ))
            .unwrap()
        };
        let name = one("__data_loc char[] filename", 4);
        assert_eq!(
            (name.name.as_str(), name.type_text.as_str()),
            ("filename", "char")
        );
        assert_eq!((name.location, name.array_len), (Location::DataLoc, None));
        assert_eq!(one("__rel_loc cpumask_t[] mask", 4).location, Location::RelLoc);
        assert_eq!(one("unsigned long args[6]", 48).array_len, Some(6));
        assert_eq!(one("char name[IFNAMSIZ]", 16).array_len, Some(16));
        assert_eq!(one("u32 pairs[2][3]", 24).name, "pairs");
        let pointer = one("const struct page *page", 8);
        assert_eq!(
            (pointer.name.as_str(), pointer.type_text.as_str()),
            ("page", "const struct page *")
        );
        let function = one("void (*function)(struct x *)", 8);
        assert_eq!(
            (function.name.as_str(), function.type_text.as_str()),
            ("function", "void (*)()")
        );
        assert_eq!(one("const char * const * argv", 8).name, "argv");
    }

    #[test]
    fn refuses_without_panicking() {
        for text in [
            "",
            "ID: 1\n",
            "name: x\nID: y\n",
            "name: x\nID: 1\n\tfield:int;\toffset:0;\tsize:4;\n",
            "name: x\nID: 1\n\tfield:u64 ä;\toffset:0;\tsize:4;\n",
        ] {
            assert!(Format::parse(text).is_err(), "{text}");
        }
        let huge = "name: x\nID: 1\n\tfield:int a;\toffset:4294967295;\tsize:4;\tsigned:1;\n";
        assert!(Format::parse(huge).is_err());
    }
}
