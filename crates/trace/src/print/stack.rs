//! Stacks in lines, in bpftrace's modes and in Kestrel's own.

use super::text::digits;
use super::{escape::escape, frame, hexadecimal};
use crate::layout::{Space, StackMode};
use crate::symbol::Symbols;
use crate::user_symbol::{Code, Line, Location, code_address};
use crate::value::{BuildIdFrame, Frames};
use std::io::Write;

/// Appends a stack, a frame a line, with a line break before it and behind each frame.
pub(super) fn stack(frames: &Frames<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    out.push(b'\n');
    if let Some(frames) = frames.build_ids() {
        return build_ids(frames, out);
    }
    for (index, address) in frames.iter().enumerate() {
        match frames.mode {
            None => {
                out.extend_from_slice(b"    ");
                frame(frames, index, address, symbols, out);
                out.push(b'\n');
            }
            Some(StackMode::Raw | StackMode::BuildId) => digits_of(address, out),
            Some(mode) => named(frames, mode, index, address, symbols, out),
        }
    }
}

/// An address in hexadecimal digits, a line.
fn digits_of(address: u64, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "{address:x}");
}

fn build_ids<'a>(frames: impl Iterator<Item = BuildIdFrame<'a>>, out: &mut Vec<u8>) {
    for frame in frames {
        match frame {
            BuildIdFrame::Address(address) => digits_of(address, out),
            BuildIdFrame::File { build_id, offset } => {
                build_id.iter().for_each(|byte| digits(*byte, out));
                out.push(b' ');
                hexadecimal(offset, out);
                out.push(b'\n');
            }
        }
    }
}

/// A frame by its name, after those of the functions that were compiled into it.
fn named(
    frames: &Frames<'_>,
    mode: StackMode,
    index: usize,
    address: u64,
    symbols: &Symbols,
    out: &mut Vec<u8>,
) {
    let begin = |out: &mut Vec<u8>| {
        let _ = match mode {
            StackMode::Perf => write!(out, "\t{address:x} "),
            _ => write!(out, "        "),
        };
    };
    if frames.space == Space::Kernel {
        begin(out);
        match symbols.resolve(address) {
            None => hexadecimal(address, out),
            Some(it) => {
                escape(it.name.as_bytes(), out);
                let _ = write!(out, "+{}", it.offset);
                if let (StackMode::Perf, Some(module)) = (mode, it.module) {
                    let _ = write!(out, " ([{module}])");
                }
            }
        }
        return out.push(b'\n');
    }
    let called = code_address(address, index == 0);
    let location = symbols.user().locate(frames.pid, frames.time_ns, called);
    let code = location.and_then(|location| location.code());
    for inlined in code.into_iter().flat_map(|code| code.inlined.iter().rev()) {
        begin(out);
        out.extend_from_slice(b"[inlined] ");
        escape(inlined.function.as_bytes(), out);
        source(mode, inlined.line.as_ref(), out);
        out.push(b'\n');
    }
    begin(out);
    match code {
        None => hexadecimal(address, out),
        Some(code) => function(code, address - called, mode, out),
    }
    if mode == StackMode::Perf {
        binary(location, out);
    }
    out.push(b'\n');
}

fn function(code: &Code, behind: u64, mode: StackMode, out: &mut Vec<u8>) {
    escape(code.function.as_bytes(), out);
    let _ = write!(out, "+{}", code.offset.saturating_add(behind));
    source(mode, code.line.as_ref(), out);
}

/// `@file.c:12`: bpftrace's mode only has lines of source.
fn source(mode: StackMode, line: Option<&Line>, out: &mut Vec<u8>) {
    if let (StackMode::Bpftrace, Some(line)) = (mode, line) {
        out.push(b'@');
        escape(line.file.as_bytes(), out);
        let _ = write!(out, ":{}", line.number);
    }
}

fn binary(location: Option<Location<'_>>, out: &mut Vec<u8>) {
    match location {
        None => out.extend_from_slice(b" ([unknown])"),
        Some(location) => {
            out.extend_from_slice(b" (");
            escape(location.binary.path.as_bytes(), out);
            out.push(b')');
        }
    }
}
