//! Each event as a USDT probe of the program, for tracers outside of it.
//!
//! A probe is a `nop` that tracers put a uprobe on, and a note in the program's file (`.note.stapsdt`, the form of systemtap's `sys/sdt.h`) that says where it is,
//! where its arguments are, and which word of memory tracers count themselves in: its semaphore. All arguments lie in an array that one register points to, so that the note
//! of any event is a text which is known when it is compiled.

use crate::value::Definition;
#[cfg(patched_keys)]
use crate::value::{Field, FieldKind};
use core::sync::atomic::AtomicU16;

/// Arguments of a probe, at most: as many as tracers take.
#[cfg(patched_keys)]
const ARGUMENTS: usize = 12;
/// Words that a probe's register points to: Kestrel, which knows what they are, reads more than the arguments.
pub(crate) const CARRIED: usize = 32;

/// Words of a note's text.
#[cfg(patched_keys)]
const WORDS: usize = 64;
/// Bytes of a note's text, its NULs included.
#[cfg(patched_keys)]
const BYTES: usize = WORDS * 8;

/// A note's text as it is put together.
#[cfg(patched_keys)]
struct Text {
    bytes: [u8; BYTES],
    length: usize,
}

#[cfg(patched_keys)]
impl Text {
    const fn push(mut self, text: &str) -> Self {
        let (text, mut at) = (text.as_bytes(), 0);
        while at < text.len() {
            // The last byte is left 0, as the end of the text.
            if self.length < BYTES - 1 {
                self.bytes[self.length] = text[at];
                self.length += 1;
            }
            at += 1;
        }
        self
    }

    const fn words(&self) -> [u64; WORDS] {
        let (mut words, mut at) = ([0; WORDS], 0);
        while at < BYTES {
            words[at / 8] |= (self.bytes[at] as u64) << (at % 8 * 8);
            at += 1;
        }
        words
    }
}

/// Number of a field's arguments: bytes are two, their address and length.
#[cfg(patched_keys)]
pub(crate) const fn arguments_of(kind: FieldKind) -> usize {
    match kind {
        FieldKind::Bytes => 2,
        _ => 1,
    }
}

/// `GROUP NUL NAME NUL ARGUMENTS NUL`, where the arguments are `8@0(%rax) -8@8(%rax) …`.
#[cfg(patched_keys)]
const fn text((group, name): (&str, &str), fields: &[Field]) -> Text {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let mut text = Text {
        bytes: [0; BYTES],
        length: 0,
    };
    text = text.push(group).push("\0").push(name).push("\0");
    let (mut field, mut argument) = (0, 0);
    while field < fields.len() {
        let kind = fields[field].kind;
        let mut part = 0;
        while part < arguments_of(kind) && argument < ARGUMENTS {
            let sign = match kind {
                FieldKind::Integer { signed: true, .. } => "-",
                _ => "",
            };
            let space = if argument == 0 { "" } else { " " };
            let at = argument * 8;
            text = text.push(space).push(sign).push("8@");
            if at >= 10 {
                text = text.push(DIGITS[at / 10]);
            }
            text = text.push(DIGITS[at % 10]).push("(%rax)");
            part += 1;
            argument += 1;
        }
        field += 1;
    }
    text
}

#[cfg(patched_keys)]
struct Note<T>(core::marker::PhantomData<T>);

#[cfg(patched_keys)]
impl<T: Definition> Note<T> {
    const TEXT: Text = text(T::NAMES, T::FIELDS);
    const WORDS: [u64; WORDS] = Self::TEXT.words();
    /// With the NUL that ends it: bpftrace takes no note that has more.
    const LENGTH: usize = Self::TEXT.length + 1;
    const LAST: u64 = match Self::LENGTH / 8 {
        WORDS => 0,
        last => Self::WORDS[last],
    };
}

/// The probe of `T`, hit with these arguments, [`CARRIED`] words, or only looked at where they are null; gives its semaphore.
#[cfg(patched_keys)]
#[doc(hidden)]
#[inline(never)]
#[allow(
    unsafe_code,
    reason = "an instruction for uprobes, and the linker's sections about it"
)]
pub fn hit<T: Definition>(arguments: *const u64) -> &'static AtomicU16 {
    crate::describe::emit_note::<T>();
    let semaphore: *mut u16;
    macro_rules! note {
        ($($word:ident $at:literal),*) => {
            // SAFETY: the instructions read and write two registers. A tracer reads what the first points to. The sections hold a note of the form that tracers
            // know, and a word that only they write.
            unsafe {
                core::arch::asm!(
                    "lea {semaphore}, [rip + 991f]",
                    "test rax, rax",
                    "jz 993f",
                    "990:",
                    "nop",
                    "993:",
                    ".pushsection .probes,\"aw\",@progbits",
                    ".balign 2",
                    "991:",
                    ".short 0",
                    ".popsection",
                    ".pushsection .note.stapsdt,\"\",@note",
                    ".balign 4",
                    ".long 8, 996f - 995f, 3",
                    ".asciz \"stapsdt\"",
                    "995:",
                    ".quad 990b",
                    // No section that says whether the file was moved since: such files are of the past.
                    ".quad 0",
                    ".quad 991b",
                    $(concat!(".if {whole} > ", $at, "\n.quad {", stringify!($word), "}\n.endif"),)*
                    // The rest is no whole word.
                    ".if {rest} > 0\n.byte {last} & 255\n.endif",
                    ".if {rest} > 1\n.byte ({last} >> 8) & 255\n.endif",
                    ".if {rest} > 2\n.byte ({last} >> 16) & 255\n.endif",
                    ".if {rest} > 3\n.byte ({last} >> 24) & 255\n.endif",
                    ".if {rest} > 4\n.byte ({last} >> 32) & 255\n.endif",
                    ".if {rest} > 5\n.byte ({last} >> 40) & 255\n.endif",
                    ".if {rest} > 6\n.byte ({last} >> 48) & 255\n.endif",
                    "996:",
                    ".balign 4",
                    ".popsection",
                    $($word = const Note::<T>::WORDS[$at],)*
                    whole = const Note::<T>::LENGTH / 8,
                    rest = const Note::<T>::LENGTH % 8,
                    last = const Note::<T>::LAST,
                    semaphore = out(reg) semaphore,
                    in("rax") arguments,
                    options(nostack),
                );
            }
        };
    }
    note!(
        w0 0, w1 1, w2 2, w3 3, w4 4, w5 5, w6 6, w7 7, w8 8, w9 9, w10 10, w11 11, w12 12, w13 13, w14 14, w15 15,
        w16 16, w17 17, w18 18, w19 19, w20 20, w21 21, w22 22, w23 23, w24 24, w25 25, w26 26, w27 27, w28 28, w29 29, w30 30, w31 31,
        w32 32, w33 33, w34 34, w35 35, w36 36, w37 37, w38 38, w39 39, w40 40, w41 41, w42 42, w43 43, w44 44, w45 45, w46 46, w47 47,
        w48 48, w49 49, w50 50, w51 51, w52 52, w53 53, w54 54, w55 55, w56 56, w57 57, w58 58, w59 59, w60 60, w61 61, w62 62, w63 63
    );
    // SAFETY: the word lies in a section of the program that is there as long as it is, and is only read here; tracers write it through the kernel.
    unsafe { AtomicU16::from_ptr(semaphore) }
}

/// No probes here: a semaphore that no tracer knows.
#[cfg(not(patched_keys))]
#[doc(hidden)]
pub fn hit<T: Definition>(_: *const u64) -> &'static AtomicU16 {
    static NONE: AtomicU16 = AtomicU16::new(0);
    &NONE
}
