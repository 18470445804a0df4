//! Stacks in lines, in bpftrace's modes and in Kestrel's own.

use super::escape::escape;
use super::piece::{frame, hexadecimal};
use super::text::digits;
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
            }
        }
        return out.push(b'\n');
    }
    // Frames but the first hold return addresses, which may already belong to the next line or function.
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

#[cfg(test)]
mod tests {
    use crate::layout::{FieldType, Frames as FramePlace, HeldStack, Space, StackMode};
    use crate::print::{JsonStyle, Style, json, styled};
    use crate::symbol::Symbols;
    use crate::user_symbol::{Binary, Code, Inlined, Line, Mapping, UserSymbols};
    use crate::value::{Stacks, Value, ValueContext};

    fn symbols() -> Symbols {
        let line = |number| {
            Some(Line {
                file: "/src/a.c".to_owned(),
                number,
            })
        };
        let code = Code {
            at: 0x110,
            function: "main".to_owned(),
            offset: 16,
            line: line(7),
            inlined: vec![Inlined {
                function: "inner".to_owned(),
                line: line(3),
            }],
        };
        let binary = Binary {
            path: "/bin/program".to_owned(),
            code: vec![code],
            ..Binary::default()
        };
        let mapping = Mapping {
            from_ns: 0,
            until_ns: u64::MAX,
            start: 0x40_0000,
            end: 0x40_1000,
            ..Mapping::default()
        };
        let user = UserSymbols::new(vec![binary], [(7, vec![mapping])].into());
        Symbols::new([
            (0x1000, 0x100, "vfs_read", None),
            (0x9000, 0x100, "ext4_read", Some("ext4")),
        ])
        .with_user(user)
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn stack(space: Space, mode: StackMode, frames: FramePlace) -> FieldType {
        FieldType::HeldStack(HeldStack {
            space,
            max: 4,
            mode,
            frames,
        })
    }

    fn shown(space: Space, mode: StackMode, frames: &[u64]) -> String {
        let ty = stack(space, mode, FramePlace::Inline);
        let mut bytes = words(&[frames.len() as u64]);
        bytes.extend(words(frames));
        bytes.resize(8 + 4 * 8, 0);
        bytes.extend(words(&[7]));
        let mut out = Vec::new();
        styled(Value::read(&ty, &bytes), Style::BPFTRACE, &symbols(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn frames_are_written_in_each_mode() {
        let kernel = [0x1005, 0x9010, 0xffff];
        let user = [0x40_0110, 0x40_0111, 0x7777];
        use Space::{Kernel, User};
        for (space, mode, text) in [
            (
                Kernel,
                StackMode::Bpftrace,
                "\n        vfs_read+5\n        ext4_read+16\n        0xffff\n",
            ),
            (
                Kernel,
                StackMode::Perf,
                "\n\t1005 vfs_read+5\n\t9010 ext4_read+16\n\tffff 0xffff\n",
            ),
            (Kernel, StackMode::Raw, "\n1005\n9010\nffff\n"),
            (
                User,
                StackMode::Bpftrace,
                "\n        [inlined] inner@/src/a.c:3\n        main+16@/src/a.c:7\n        [inlined] inner@/src/a.c:3\n        main+17@/src/a.c:7\n        0x7777\n",
            ),
            (
                User,
                StackMode::Perf,
                "\n\t400110 [inlined] inner\n\t400110 main+16 (/bin/program)\n\t400111 [inlined] inner\n\t400111 main+17 (/bin/program)\n\t7777 0x7777 ([unknown])\n",
            ),
            (User, StackMode::Raw, "\n400110\n400111\n7777\n"),
        ] {
            let frames = if space == Kernel { kernel } else { user };
            assert_eq!(shown(space, mode, &frames), text, "{space:?} {mode:?}");
        }
        assert_eq!(shown(Kernel, StackMode::Raw, &[]), "\n");
    }

    #[test]
    fn build_ids_stand_before_places_in_files() {
        let ty = stack(Space::User, StackMode::BuildId, FramePlace::Inline);
        let mut frame = vec![1, 0, 0, 0];
        frame.extend([0xa2; 20]);
        frame.extend(0x11_0e89_u64.to_le_bytes());
        let mut address = vec![2, 0, 0, 0];
        address.extend([0; 20]);
        address.extend(0x7eff_cc14_2c08_u64.to_le_bytes());
        let mut bytes = words(&[2]);
        bytes.extend([frame, address].concat());
        bytes.resize(8 + 4 * 32 + 8, 0);
        let mut out = Vec::new();
        styled(Value::read(&ty, &bytes), Style::BPFTRACE, &symbols(), &mut out);
        let text = format!("\n{} 0x110e89\n7effcc142c08\n", "a2".repeat(20));
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn stacks_by_number_have_the_frames_beside_them() {
        let ty = stack(Space::Kernel, StackMode::Bpftrace, FramePlace::Numbered);
        let mut stacks = Stacks::default();
        stacks.insert(5, words(&[0x1005]));
        let beside = ValueContext {
            stacks: Some(&stacks),
            time_ns: 0,
        };
        let shown = |number: i64| {
            let bytes = words(&[number.cast_unsigned(), 0]);
            let mut out = Vec::new();
            json(
                Value::read_beside(&ty, &bytes, beside),
                JsonStyle::BPFTRACE,
                &symbols(),
                &mut out,
            );
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(5), "\"\\n        vfs_read+5\\n\"");
        assert_eq!((shown(6), shown(-17)), ("\"\"".to_owned(), "\"\"".to_owned()));
        assert_eq!(shown(-14), "\"\\n\"", "an empty one");
    }
}
