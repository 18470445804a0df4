//! The order in which rows of a map are shown: by their values where these are numbers, like bpftrace, else by their keys.

use super::map_type::{MapType, ValueKind};
use super::read::Row;
use crate::layout::FieldType;
use crate::value::Value;
use std::cmp::Ordering;

/// Whether integers of this type are signed.
pub(super) fn is_signed(ty: &FieldType) -> bool {
    matches!(
        ty,
        FieldType::Integer { signed: true, .. } | FieldType::Enumeration { signed: true, .. }
    )
}

/// An integer as a number of its sign.
pub(super) fn number(value: Value<'_>) -> i128 {
    let signed = match value {
        Value::Signed { .. } => true,
        Value::Enumeration { signed, .. } => signed,
        _ => false,
    };
    match value.as_i64() {
        Some(value) if signed => value.into(),
        Some(value) => value.cast_unsigned().into(),
        None => 0,
    }
}

impl Row {
    /// The smallest value first; those that are equal, or no numbers, by their keys, the first part first.
    pub(super) fn compare(&self, other: &Self, ty: &MapType) -> Ordering {
        let by_value = match &ty.value {
            ValueKind::Aggregation(_) => true,
            ValueKind::Scalar(ty) | ValueKind::Whole(ty) => {
                matches!(ty, FieldType::Integer { .. } | FieldType::Enumeration { .. })
            }
            ValueKind::CharArray { .. } => false,
        };
        let by_values = match by_value {
            true => self.weight(ty).cmp(&other.weight(ty)),
            false => Ordering::Equal,
        };
        let keys = || {
            let pairs = ty.keys.iter().zip(ty.key_offsets());
            let mut parts = pairs.map(|(part, at)| {
                values(
                    Value::read(part, self.key_from(at)),
                    Value::read(part, other.key_from(at)),
                )
            });
            parts.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        by_values
            .then_with(keys)
            .then_with(|| self.key_from(0).cmp(other.key_from(0)))
    }
}

fn in_turn<'v>(pairs: impl Iterator<Item = (Value<'v>, Value<'v>)>) -> Ordering {
    let mut orders = pairs.map(|(a, b)| values(a, b));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The order of two values of one type: of numbers, strings, and what is made of them.
fn values(a: Value<'_>, b: Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Text(a) | Value::CutText(a), Value::Text(b) | Value::CutText(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => in_turn(a.iter().zip(b.iter())),
        (Value::Composite(a), Value::Composite(b)) => {
            in_turn(a.iter().zip(b.iter()).map(|((_, a), (_, b))| (a, b)))
        }
        (a, b) => number(a).cmp(&number(b)),
    }
}
