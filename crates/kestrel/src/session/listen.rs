//! Sleeping until the writers of a session's rings have something for their reader.

use super::attached::Session;
use kestrel_catalog::Result;
use kestrel_hook::buffer::bell::Doorbell;
use std::os::fd::BorrowedFd;

impl Session {
    /// Readable when a writer has woken the reader that [listens](Self::listen); `None` where the plan has no bell.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.resources.doorbell.as_ref().map(Doorbell::fd)
    }

    /// Asks the writers of all rings to make [`Session::bell`] readable when there is enough to read: of rings that are read record by record call it before reading, of those
    /// that are read page by page afterwards, and then sleep. What woke the reader before is forgotten; gives whether there was anything. A writer of pages wakes the reader a moment before its page is whole.
    ///
    /// # Errors
    /// When the bell's memory is damaged.
    pub fn listen(&mut self) -> Result<bool> {
        let resources = &mut self.resources;
        let Some(doorbell) = &mut resources.doorbell else {
            return Ok(false);
        };
        let rang = doorbell.drain()?;
        for (buffer, bell) in resources.buffers.iter().zip(&resources.bells) {
            buffer.ring().listen(*bell);
        }
        Ok(rang)
    }
}
