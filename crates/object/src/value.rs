//! Bytes of maps and records as values, by their types: JSON for tools, one line for people.

use kestrel_bpf::btf::{Btf, Type, TypeId};
use serde_json::{Map, Value};

/// Structs inside of structs; a type that contains itself is damaged.
const DEPTH: u32 = 16;
/// Elements of arrays and members shown of one value.
const MAX: usize = 4096;

/// A value by its type: structs are objects, arrays of characters strings, other arrays lists. Pointers are strings in hexadecimal. Where bytes are
/// missing, `null` stands.
pub fn to_json(btf: &Btf, ty: TypeId, bytes: &[u8]) -> Value {
    Reader { btf, left: MAX }.json(ty, bytes, 0)
}

/// Bytes of no known type: a number if there are 1, 2, 4 or 8, else a text in hexadecimal.
pub fn plain(bytes: &[u8]) -> Value {
    match bytes.len() {
        1 | 2 | 4 | 8 => unsigned(bytes).into(),
        _ => bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(" ")
            .into(),
    }
}

/// A JSON value on one line, as people read it: `{pid: 12, comm: "cat"}`.
pub fn to_text(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{name}: {}", to_text(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(elements) => format!(
            "[{}]",
            elements.iter().map(to_text).collect::<Vec<_>>().join(", ")
        ),
        other => other.to_string(),
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(8)
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn signed(bytes: &[u8]) -> i64 {
    let bits = 8 * bytes.len().min(8) as u32;
    if bits == 0 {
        0
    } else {
        (unsigned(bytes) << (64 - bits)) as i64 >> (64 - bits)
    }
}

struct Reader<'b> {
    btf: &'b Btf,
    left: usize,
}

impl Reader<'_> {
    fn json(&mut self, ty: TypeId, bytes: &[u8], depth: u32) -> Value {
        self.left = self.left.saturating_sub(1);
        // Types of an object are foreign bytes: they can be as deep and as wide as these say.
        if depth > DEPTH || self.left == 0 {
            return Value::String("…".to_owned());
        }
        let sized = |size: u32| bytes.get(..size as usize);
        match self.btf.resolved(ty) {
            Type::Int(int) => match sized(int.size) {
                Some(bytes) if int.size > 8 => plain(bytes),
                Some(bytes) if int.bool => (unsigned(bytes) != 0).into(),
                Some(bytes) if int.signed => signed(bytes).into(),
                Some(bytes) => unsigned(bytes).into(),
                None => Value::Null,
            },
            Type::Enum(values) => {
                let Some(bytes) = sized(values.size) else {
                    return Value::Null;
                };
                let number = if values.signed {
                    signed(bytes)
                } else {
                    unsigned(bytes) as i64
                };
                let named = values.values().find(|value| value.value == number);
                match named {
                    Some(value) => value.name.into(),
                    None if values.signed => number.into(),
                    None => (number as u64).into(),
                }
            }
            Type::Ptr(_) => sized(8).map_or(Value::Null, |bytes| format!("{:#x}", unsigned(bytes)).into()),
            Type::Float { size: 4, .. } => bytes
                .first_chunk()
                .map_or(Value::Null, |b| f64::from(f32::from_le_bytes(*b)).into()),
            Type::Float { size: 8, .. } => bytes
                .first_chunk()
                .map_or(Value::Null, |b| f64::from_le_bytes(*b).into()),
            Type::Array { element, count, .. } => self.array(element, count, bytes, depth),
            Type::Struct(composite) | Type::Union(composite) => {
                let mut members = Map::new();
                self.members(composite, bytes, depth, &mut members);
                Value::Object(members)
            }
            Type::Datasec { entries, .. } => {
                let mut members = Map::new();
                for variable in entries.variables() {
                    let Type::Var { name, ty, .. } = self.btf.ty(variable.ty) else {
                        continue;
                    };
                    let rest = bytes.get(variable.offset as usize..).unwrap_or(&[]);
                    members.insert(name.to_owned(), self.json(ty, rest, depth + 1));
                }
                Value::Object(members)
            }
            _ => plain(bytes),
        }
    }

    /// Members of anonymous structs and unions stand beside the others.
    fn members(
        &mut self,
        composite: kestrel_bpf::btf::Composite<'_>,
        bytes: &[u8],
        depth: u32,
        members: &mut Map<String, Value>,
    ) {
        if depth > DEPTH {
            return;
        }
        for member in composite.members() {
            let rest = bytes.get(member.bit_offset as usize / 8..).unwrap_or(&[]);
            match (member.bits, member.name, self.btf.composite(member.ty)) {
                (Some(bits), name, _) if !name.is_empty() => {
                    let shift = member.bit_offset % 8;
                    let number = unsigned(rest) >> shift;
                    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
                    members.insert(name.to_owned(), (number & mask).into());
                }
                (_, "", Some(inner)) => self.members(inner, rest, depth + 1, members),
                (_, "", None) => {}
                (_, name, _) => {
                    let value = self.json(member.ty, rest, depth + 1);
                    members.insert(name.to_owned(), value);
                }
            }
        }
    }

    fn array(&mut self, element: TypeId, count: u32, bytes: &[u8], depth: u32) -> Value {
        let size = self.btf.size_of(element).unwrap_or(0) as usize;
        if let Type::Int(int) = self.btf.resolved(element)
            && int.size == 1
            && (int.char || int.name == "char")
        {
            let text = bytes.get(..count as usize).unwrap_or(bytes);
            let text = text.split(|byte| *byte == 0).next().unwrap_or(&[]);
            return String::from_utf8_lossy(text).into_owned().into();
        }
        if size == 0 {
            return Value::Array(Vec::new());
        }
        let chunks = bytes.chunks_exact(size).take((count as usize).min(self.left));
        Value::Array(chunks.map(|chunk| self.json(element, chunk, depth + 1)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::btf::write::Builder;

    #[test]
    fn structs_arrays_and_numbers() {
        let mut builder = Builder::new();
        let int = builder.int("int", 4);
        let char = builder.int("char", 1);
        let comm = builder.array(char, 8);
        let pair = builder.array(int, 2);
        let event = builder.structure("event", &[("pid", int), ("comm", comm), ("pair", pair)]);
        let btf = Btf::parse(builder.finish()).unwrap();
        let bytes = [
            7, 0, 0, 0, b'c', b'a', b't', 0, 9, 9, 9, 9, 1, 0, 0, 0, 2, 0, 0, 0,
        ];
        let value = to_json(&btf, event, &bytes);
        assert_eq!(
            value,
            serde_json::json!({"pid": 7, "comm": "cat", "pair": [1, 2]})
        );
        assert_eq!(
            to_text(&value),
            "{comm: \"cat\", pair: [1, 2], pid: 7}"
                .replace("comm: \"cat\", pair: [1, 2], pid: 7", &order(&value))
        );
        assert_eq!(to_json(&btf, event, &bytes[..2])["pid"], Value::Null, "cut short");
        assert_eq!(plain(&[1, 2, 3]), "01 02 03");
    }

    #[test]
    fn integers_are_exact_numbers() {
        let mut builder = Builder::new();
        let unsigned = builder.unsigned("long unsigned int", 8);
        let signed = builder.int("long int", 8);
        let enumeration = builder.enumeration("wide", 8, &[("ONE", 1)]);
        let btf = Btf::parse(builder.finish()).unwrap();
        for value in [0, (1 << 53) + 1, i64::MAX as u64, 1 << 63, u64::MAX] {
            let bytes = value.to_le_bytes();
            let digits = |ty| to_json(&btf, ty, &bytes).to_string();
            assert_eq!(digits(unsigned), value.to_string());
            assert_eq!(digits(signed), (value as i64).to_string());
            assert_eq!(digits(enumeration), value.to_string());
            assert_eq!(plain(&bytes).to_string(), value.to_string());
        }
    }

    /// Members in the order in which this build of the JSON library keeps them.
    fn order(value: &Value) -> String {
        let members = value.as_object().unwrap().iter();
        members
            .map(|(name, value)| format!("{name}: {}", to_text(value)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
