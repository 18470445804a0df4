//! A program on a perf event: by a link, or where the kernel has none, by the event itself.

use super::{Link, Program};
use crate::error::{Errno, Result};
use crate::perf::PerfEvent;

/// The event or link that keeps a program on a perf event; dropping it detaches.
#[derive(Debug)]
pub enum Attachment {
    /// A link: can be pinned and asked about.
    Link(Link),
    /// The event itself, on kernels without perf links.
    Event(PerfEvent),
}

impl PerfEvent {
    /// Attaches a program through a link, or where the kernel has no perf links (before 5.15) and no cookie is wanted, in the old way.
    ///
    /// # Errors
    /// [`Error::System`](crate::error::Error::System): `EINVAL` if the program does not fit the event, or for a cookie on older kernels.
    pub fn attach(self, program: &Program, cookie: u64) -> Result<Attachment> {
        match Link::perf_event(program, &self, cookie) {
            Ok(link) => Ok(Attachment::Link(link)),
            Err(error) if cookie == 0 && error.errno() == Some(Errno::EINVAL) => {
                self.set_program(program).map(|()| Attachment::Event(self))
            }
            Err(error) => Err(error),
        }
    }
}
