//! Layout of C's structs and unions: the rules of the System V ABI, which gcc and clang follow.

/// Size and alignment of a member, on which the layout depends.
pub(super) struct Field {
    pub(super) size: u64,
    pub(super) align: u64,
    /// At least so aligned, by an attribute.
    pub(super) min_align: u64,
    /// The width of a bit field; 0 ends the unit that is being filled.
    pub(super) bits: Option<u8>,
    pub(super) named: bool,
}

/// Place of a member in its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemberPlace {
    pub(super) bit_offset: u32,
    pub(super) bits: Option<u8>,
}

/// Bytes, alignment and places; in a union all begin at the start.
pub(super) fn lay_out(
    fields: &[Field],
    union: bool,
    packed: bool,
    min_align: u64,
) -> (u64, u64, Vec<MemberPlace>) {
    // Bits from the start; the end of the largest member.
    let (mut at, mut end) = (0_u64, 0_u64);
    let mut max_align = min_align.max(1);
    let mut places = Vec::with_capacity(fields.len());
    for field in fields {
        if union {
            at = 0;
        }
        let align = match packed {
            true => field.min_align,
            false => field.align.max(field.min_align),
        };
        let align = align.max(1);
        let bits = match field.bits {
            Some(0) => {
                at = at.next_multiple_of((field.align.max(1)) * 8);
                0
            }
            Some(bits) => {
                let (bits, unit) = (u64::from(bits), (field.size * 8).max(1));
                if field.min_align > 1 {
                    at = at.next_multiple_of(field.min_align * 8);
                }
                // A bit field lies in one unit of its type.
                if !packed && at / unit != (at + bits - 1) / unit {
                    at = at.next_multiple_of(align * 8);
                }
                bits
            }
            None => {
                at = at.next_multiple_of(align * 8);
                field.size.saturating_mul(8)
            }
        };
        // A bit field without a name does not align what it lies in.
        if field.bits.is_none() || field.named {
            max_align = max_align.max(align);
        }
        places.push(MemberPlace {
            bit_offset: u32::try_from(at).unwrap_or(u32::MAX),
            bits: field.bits,
        });
        at = at.saturating_add(bits);
        end = end.max(at);
    }
    let bytes = end.div_ceil(8).next_multiple_of(max_align);
    (bytes, max_align, places)
}
