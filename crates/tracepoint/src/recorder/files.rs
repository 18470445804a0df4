//! A recording's files, written with system calls alone: also by the handler of a signal, in a thread that was in the middle of anything.

use std::ffi::{CStr, c_int};
use std::io;
use std::time::Duration;

/// Bytes of a path, its NUL among them.
pub(crate) const LONGEST: usize = 4096;

/// Number of times that a thread checks again whether another has left the lock: a signal's handler may not wait for ever.
pub(crate) const TRIES: u32 = 20_000;
/// The time between two looks.
pub(crate) const PAUSE: Duration = Duration::from_micros(100);

/// A path, put together without memory of the heap.
#[derive(Debug)]
pub(crate) struct Path {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Path {
    /// Makes an empty path.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; LONGEST],
            length: 0,
        }
    }

    /// Sets the path to these bytes.
    pub(crate) fn set(&mut self, text: &[u8]) -> &mut Self {
        self.length = 0;
        self.push(text)
    }

    /// Appends bytes; what has no room makes a path that does not exist.
    pub(crate) fn push(&mut self, text: &[u8]) -> &mut Self {
        let room = LONGEST - 1 - self.length;
        let text = &text[..text.len().min(room)];
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
        self.bytes[self.length] = 0;
        self
    }

    /// Appends a number's digits.
    pub(crate) fn number(&mut self, number: u32) -> &mut Self {
        let mut digits = [0; 10];
        let (mut rest, mut at) = (number, digits.len());
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.push(&digits[at..]);
            }
        }
    }

    fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// Makes a folder, if there is none.
    ///
    /// # Errors
    /// When the kernel refuses.
    #[allow(unsafe_code, reason = "a system call")]
    pub(crate) fn make_folder(&self) -> Result<(), c_int> {
        // SAFETY: a path with its NUL.
        let made = unsafe { libc::mkdir(self.as_c().as_ptr(), 0o700) };
        match (made, errno()) {
            (0, _) | (_, libc::EEXIST) => Ok(()),
            (_, error) => Err(error),
        }
    }

    /// Cuts the file to a length; one that does not exist is created.
    ///
    /// # Errors
    /// When the kernel refuses.
    #[allow(unsafe_code, reason = "system calls")]
    pub(crate) fn cut(&self, length: u64) -> Result<(), c_int> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: a path with its NUL.
        let file = unsafe { libc::open(self.as_c().as_ptr(), flags, 0o600) };
        if file < 0 {
            return Err(errno());
        }
        // SAFETY: a descriptor of ours and a number.
        let result = match unsafe { libc::ftruncate(file, length as libc::off_t) } {
            0 => Ok(()),
            _ => Err(errno()),
        };
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(file) };
        result
    }

    /// Writes bytes at an offset of the file, which is made if there is none.
    ///
    /// # Errors
    /// When the kernel refuses.
    #[allow(unsafe_code, reason = "system calls")]
    pub(crate) fn write(&self, bytes: *const u8, length: usize, offset: u64) -> Result<(), c_int> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: a path with its NUL.
        let file = unsafe { libc::open(self.as_c().as_ptr(), flags, 0o600) };
        if file < 0 {
            return Err(errno());
        }
        let mut done = 0;
        let result = loop {
            if done == length {
                break Ok(());
            }
            let at = (offset + done as u64) as libc::off_t;
            // SAFETY: the kernel reads the rest of the bytes.
            let written = unsafe { libc::pwrite(file, bytes.add(done).cast(), length - done, at) };
            match (written, errno()) {
                (1.., _) => done += written as usize,
                (_, libc::EINTR) if written < 0 => {}
                (0, _) => break Err(libc::EIO),
                (_, error) => break Err(error),
            }
        };
        // SAFETY: a descriptor of ours.
        unsafe { libc::close(file) };
        result
    }
}

/// The error of the last call.
#[allow(unsafe_code, reason = "a word of the thread's")]
pub(crate) fn errno() -> c_int {
    // SAFETY: the address is the thread's own word.
    unsafe { *libc::__errno_location() }
}

/// Sets the error of the last call: a signal handler leaves it as it was.
#[allow(unsafe_code, reason = "a word of the thread's")]
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

/// The error as the standard library has it.
pub(crate) fn as_io(error: c_int) -> io::Error {
    io::Error::from_raw_os_error(error)
}
