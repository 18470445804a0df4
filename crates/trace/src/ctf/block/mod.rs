//! Runs of packets as small blocks: records taken apart into columns, so that like stands beside like, then compressed with zstd.
//!
//! ```text
//! 0    magic u32, packets u32                              the highest bit of packets set where the heads name threads
//! 8    times of the first and the last record u64, u64     ns; all times there are where a packet does not tell
//! 24   bytes of the headers, compressed u32
//! 28   bytes of the heads, compressed u32; as they were u32
//! 36   bytes of the fields, compressed u32; as they were u32
//! 44   check u32                                           of the bytes before
//! 48   headers     a zstd frame: for each packet 0 or 1 (kept as it is), then the words of their headers as columns of differences
//!      heads       a zstd frame:
//!                    shapes    count u16; event number u16 and words u16 of each, the highest bit set where its fields come here
//!                    events    count u32; the shape of each (two planes of bytes)
//!                              time since the event before it in the packet (six planes)
//!                              pid and tid
//!                    fields of the shapes of which they tell how long a record is, or name threads
//!                    packets that are kept as they are, without their headers
//!      fields      a zstd frame, or nothing:
//!                    by shape: of short records word by word, of long ones (strings, stacks) record by record
//! ```
//!
//! Each frame has zstd's checksum. A packet comes back as it was up to the end of its content; what stood behind it is zeros. Headers alone are enough to tell what
//! a packet holds, so a reader of other times does not unpack the rest; heads are enough to count, by thread with its name, too.

mod header;
mod layout;
mod pack;
mod unpack;

pub use header::{BLOCK_HEADER, BlockError, BlockHeader, Depth, MAGIC};
pub use layout::PACKETS;
pub use pack::{LEVEL, LEVELS, Packer};
pub use unpack::Unpacker;
