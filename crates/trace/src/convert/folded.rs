//! Folded stacks: a line for each, frames from the thread's name to the innermost with `;` between them, and how many records had it.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::place::OutputPath;
use crate::error::Result;
use crate::record::Record;
use crate::stacks::{Stacks, Weight, folded};

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "folded",
    about: "stacks of records as folded lines, for flame graph tools and speedscope",
    file: "kestrel.folded",
    begin: |recording, place| Ok(Box::new(Folded::new(recording, place))),
};

struct Folded {
    place: OutputPath,
    stacks: Stacks,
    without_stack: u64,
}

impl Folded {
    fn new(recording: RecordingContext, place: OutputPath) -> Self {
        Self {
            place,
            stacks: Stacks::new(recording.symbols, recording.processes, Weight::Records),
            without_stack: 0,
        }
    }
}

impl Conversion for Folded {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.stacks.pass(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.without_stack += u64::from(!self.stacks.add(record));
        Ok(())
    }

    fn left_out(&self) -> u64 {
        self.without_stack
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut file = self.place.file()?;
        for line in folded(&self.stacks.finish()) {
            file.append(line.as_bytes())?;
            file.append(b"\n")?;
        }
        file.finish()
    }
}
