//! A trace instance of tracefs: events that are enabled there do not appear in other readers' instances.

use super::Tracefs;
use crate::error::{Errno, Error, Result};
use crate::host::Host;
use crate::procfs::ProcessIdentity;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

const PREFIX: &str = "kestrel_";

/// An instance; dropping it removes it. One that a killed process left goes when the next is made.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    pipe: Option<File>,
}

impl Instance {
    /// Makes an instance that is named after this process.
    ///
    /// # Errors
    /// [`Error::System`]: `EEXIST` if this process has one, `ENOMEM`.
    pub fn create(tracefs: &Tracefs, host: &Host) -> Result<Self> {
        sweep(tracefs, host);
        let path = tracefs.path(&format!("instances/{PREFIX}{}", ProcessIdentity::own(host)?));
        let failed = |error| Error::system("create the trace instance", path.display().to_string(), error);
        fs::create_dir(&path).map_err(failed)?;
        let mut instance = Self {
            path: path.clone(),
            pipe: None,
        };
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path.join("trace_pipe"));
        instance.pipe = Some(pipe.map_err(failed)?);
        Ok(instance)
    }

    /// Switches an event on in it.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if the kernel has no such event.
    pub fn enable(&self, group: &str, name: &str) -> Result<()> {
        let path = self.path.join(format!("events/{group}/{name}/enable"));
        fs::write(&path, "1")
            .map_err(|error| Error::system("enable the event", path.display().to_string(), error))
    }

    /// New text since the last time; it does not wait.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn read(&self) -> Result<String> {
        let mut text = Vec::new();
        let mut chunk = [0; 16 << 10];
        let Some(mut pipe) = self.pipe.as_ref() else {
            return Ok(String::new());
        };
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => text.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if Errno::EINTR == error.raw_os_error().map_or(Errno(0), Errno) => {}
                Err(error) => {
                    return Err(Error::system(
                        "read",
                        self.path.join("trace_pipe").display().to_string(),
                        error,
                    ));
                }
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.pipe = None; // the kernel keeps an instance that is being read
        let _ = fs::remove_dir(&self.path);
    }
}

/// Instances whose process is gone.
fn sweep(tracefs: &Tracefs, host: &Host) {
    for entry in fs::read_dir(tracefs.path("instances"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).map(str::parse::<ProcessIdentity>);
        if let Some(Ok(maker)) = maker
            && !maker.is_alive(host)
        {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
