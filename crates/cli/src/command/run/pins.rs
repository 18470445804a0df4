//! Iterators that a program leaves pinned.

use crate::exit::Failure;
use kestrel::session::Session;
use kestrel_trace::output::Form;
use std::io::Write;

/// Pins them, and says where.
///
/// # Errors
/// When one cannot be pinned; none is left then.
pub(super) fn leave(session: &Session, form: Form<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    for place in session.pin_iterators()? {
        out.write_all(&form.pinned(&place))?;
    }
    Ok(out.flush()?)
}
