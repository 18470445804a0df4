//! Records that are longer than a page: put together in scratch memory, then written in pieces, behind which comes a record that says so
//! ([`kestrel_trace::stack_pieces`]).

use super::record::fixed_size;
use super::{Lower, emit_identity};
use crate::check::tree::Record;
use crate::error::Error;
use crate::ir::{Vreg, Width, helper};
use crate::sink::Size;
use kestrel_bpf::code::SourceRange as Span;
use kestrel_trace::stack_pieces::{LONG, LONG_PIECE, LONG_SIZE, LONG_TAKEN};

impl Lower<'_> {
    /// Writes one long record. Where a piece finds no room the last record comes without it, and its reader counts that as lost.
    pub(super) fn long_record(&mut self, record: &Record, identity: Vreg, span: Span) -> Result<(), Error> {
        let size = record.layout.constant_size().ok_or(Error::Malformed {
            what: "a long record with fields of variable size",
            span,
        })?;
        let image = self.b.slot(size, 8);
        for (field, value) in record.layout.fields().iter().zip(&record.values) {
            if value.ty.is_scalar() {
                let plan = self.prepare(&field.ty, value)?;
                let to = self.b.slot_address(image, 0);
                self.fill(field.offset(), &field.ty, &plan, to)?;
            } else {
                self.put(value, image, field.offset(), fixed_size(&field.ty))?;
            }
        }
        let taken = self.b.helper(helper::KTIME_GET_NS, &[]);
        let from = self.b.slot_address(image, 0);
        let written = self.b.block();
        for done in (0..size).step_by(LONG_PIECE as usize) {
            let at = self.b.add(from, done);
            let piece = LONG_PIECE.min(size - done);
            let numbers = [done.into(), taken.into()];
            self.piece((at, piece.into()), numbers, identity, &record.to, (written, span))?;
        }
        self.b.jump(written);
        self.b.switch_to(written);
        let (number, join) = (self.number(record), self.b.block());
        let whole = (number, Size::Constant(LONG));
        self.reserved(whole, &record.to, (join, span), |lower, to| {
            emit_identity(&mut lower.b, identity, to);
            lower.b.store(Width::B8, to, LONG_TAKEN as i16, taken);
            lower.b.store(Width::B8, to, LONG_SIZE as i16, i64::from(size));
            Ok(())
        })?;
        self.b.jump(join);
        self.b.switch_to(join);
        Ok(())
    }
}
