//! Plain Common Trace Format 1.8, one stream for each CPU: what babeltrace2 and Trace Compass open, whatever the recording's own files are.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::place::OutputPath;
use crate::ctf::directory;
use crate::ctf::rewrite::{Rewriter, SideData};
use crate::error::Result;
use crate::record::Record;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "ctf",
    about: "a folder of plain Common Trace Format, for babeltrace2 and Trace Compass, also of a compressed recording",
    file: "kestrel.ctf",
    begin: |recording, place| Ok(Box::new(Ctf::new(recording, &place)?)),
};

struct Ctf {
    rewriter: Option<Rewriter>,
    beside: SideData,
    /// The buffer that all streams are of.
    buffer: u32,
    /// Events lost so far, by CPU.
    lost: BTreeMap<u32, u64>,
    path: PathBuf,
    new: PathBuf,
    is_whole: bool,
}

impl Ctf {
    fn new(mut recording: RecordingContext, place: &OutputPath) -> Result<Self> {
        let path = place.path().to_owned();
        directory::is_free(&path)?;
        let new = directory::staging_path(&path);
        recording.info.buffers.truncate(1);
        let buffer = recording.info.buffers.first().map_or(0, |buffer| buffer.number);
        Ok(Self {
            rewriter: Some(Rewriter::create_of(&new, recording.info, None)?),
            beside: SideData {
                summary: recording.summary,
                symbols: recording.symbols,
                processes: recording.processes,
                tasks: recording.tasks,
                unwound: recording.unwound,
                calls: recording.calls,
            },
            buffer,
            lost: BTreeMap::new(),
            path,
            new,
            is_whole: false,
        })
    }
}

impl Conversion for Ctf {
    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let lost = self.lost.get(&record.cpu).copied().unwrap_or(0);
        match &mut self.rewriter {
            Some(rewriter) => rewriter.record(self.buffer, record, lost),
            None => Ok(()),
        }
    }

    fn learn_thread_names(&mut self, _record: &Record<'_>) {}

    fn lost(&mut self, cpu: u32, events: u64) -> Result<()> {
        *self.lost.entry(cpu).or_default() += events;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let Some(rewriter) = self.rewriter.take() else {
            return Ok(());
        };
        rewriter.finish(std::mem::take(&mut self.beside), "exported".to_owned())?;
        directory::publish(&self.new, &self.path)?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for Ctf {
    fn drop(&mut self) {
        if !self.is_whole {
            // The unfinished trace is of no use.
            _ = directory::discard(&self.new);
        }
    }
}
