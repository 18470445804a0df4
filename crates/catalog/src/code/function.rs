//! A function's instructions as they are shown and probed, and places in it.

use std::fmt;

/// A place in a function.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CodePlace {
    /// The module that the symbol belongs to.
    pub module: Option<String>,
    /// The function's symbol.
    pub symbol: String,
    /// Bytes from its beginning.
    pub offset: u64,
}

impl fmt::Display for CodePlace {
    /// `vfs_read`, `vfs_read+0x12`, `ext4:ext4_sync_fs+0x9`: as events spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(module) = &self.module {
            write!(f, "{module}:")?;
        }
        match self.offset {
            0 => f.write_str(&self.symbol),
            offset => write!(f, "{}+{offset:#x}", self.symbol),
        }
    }
}

/// A function's extent.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) module: Option<String>,
    pub(super) symbol: String,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// A function and its instructions, padding behind it left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The function's symbol.
    pub symbol: String,
    /// The module it belongs to.
    pub module: Option<String>,
    /// Where it begins.
    pub address: u64,
    /// Bytes from there to the next symbol.
    pub size: u64,
    /// By offset, without a gap.
    pub instructions: Vec<Instruction>,
}

/// An instruction of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes from the function's beginning.
    pub offset: u64,
    /// The instruction's address.
    pub address: u64,
    /// The bytes; what the kernel put over them is taken away.
    pub bytes: Vec<u8>,
    /// The instruction in the syntax of the GNU tools, targets with their names.
    pub text: String,
    /// Whether a kprobe can be put on it, or why not.
    pub probeable: std::result::Result<(), Why>,
    /// The patch that the kernel has put over it now.
    pub patched: Option<Patch>,
}

/// Why an instruction cannot be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The kernel bars the range from kprobes; the symbol it gives for that.
    Blacklisted(String),
    /// The function was built without a place for ftrace: perf and tracefs refuse all of it.
    NotTraced,
    /// A jump that the kernel rewrites (a static branch).
    StaticBranch,
    /// A call that the kernel rewrites.
    StaticCall,
    /// A trap: `BUG`, `WARN`, a breakpoint.
    Trap,
    /// A direct call with a prefix (`cs call`, before the thunk of an indirect one): the kernel takes the probe and crashes at the next hit, for it
    /// returns to five bytes behind the call's beginning, however long that is (`int3_emulate_call`; seen on 6.12).
    PrefixedCall,
    /// The kernel has no way to run it out of its place.
    NotMovable(&'static str),
}

impl Why {
    /// The reason in a word or two.
    pub fn short(&self) -> &'static str {
        match self {
            Self::Blacklisted(_) => "blacklisted",
            Self::NotTraced => "not traced",
            Self::StaticBranch => "static branch",
            Self::StaticCall => "static call",
            Self::Trap => "trap",
            Self::PrefixedCall => "call with a prefix",
            Self::NotMovable(what) => what,
        }
    }

    /// Whether it is the whole function's rather than the instruction's.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Blacklisted(_) | Self::NotTraced)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blacklisted(symbol) => write!(f, "{symbol} is on the kernel's blacklist (what kprobes themselves need)"),
            Self::NotTraced => f.write_str("the function has no place for ftrace (notrace, or from a file built without tracing), so the kernel refuses probes anywhere in it"),
            Self::StaticBranch => f.write_str("the kernel rewrites it while it runs (a static branch)"),
            Self::StaticCall => f.write_str("the kernel rewrites it while it runs (a static call)"),
            Self::Trap => f.write_str("it traps (BUG, WARN or a breakpoint)"),
            Self::PrefixedCall => f.write_str("it is a call with a prefix, from which the kernel would return to a wrong place and crash when it has a probe; probe what it calls, or the instruction before it"),
            Self::NotMovable(what) => write!(f, "the kernel cannot run {what} out of its place"),
        }
    }
}

/// A patch in memory over an instruction's own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// A kprobe's breakpoint.
    Breakpoint,
    /// An optimised kprobe's jump; it may cover the instructions behind it, too.
    Jump,
    /// ftrace's call.
    Ftrace,
}

/// Patches with their places from the beginning of a text on.
pub(super) type Patches = Vec<(u64, Patch)>;

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Breakpoint => "breakpoint",
            Self::Jump => "jump",
            Self::Ftrace => "ftrace",
        })
    }
}

/// Functions longer than this are not shown: kallsyms does not say where the last one of a range ends.
pub(super) const LONGEST: u64 = 1 << 20;
