//! Each event as a tracepoint of the kernel's `user_events` (Linux 6.4), where the kernel has them and the program may: then it stands in tracefs as `user_events:GROUP_NAME`, is
//! filtered by the kernel, and every tool that knows tracepoints listens to it.
//!
//! An event is registered with the address of a word, of which the kernel sets a bit while somebody listens. What is written to `user_events_data` is the number that registering gave, and the
//! fields as they are declared, without gaps; a text is a word with its length and its distance, and lies behind all fields (`__rel_loc`).

use crate::callbacks::Registration;
use crate::event::Event;
use crate::events::events;
use crate::record::Record;
use crate::thread;
use crate::value::{Field, FieldKind, Value};
use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernel's file.
const FILE: &str = "/sys/kernel/tracing/user_events_data";
/// `DIAG_IOCSREG`: `_IOWR('*', 0, struct user_reg *)` of `linux/user_events.h`.
const REGISTER: u64 = 3 << 30 | 8 << 16 | 0x2a << 8;
/// The bit of an event's word.
const BIT: u8 = 0;

/// `struct user_reg`, which is packed.
#[derive(Default)]
struct UserReg {
    enable_address: u64,
    name: u64,
}

/// Bytes of `struct user_reg`, and where the kernel puts the event's number in it.
const SIZE: usize = 28;
const INDEX: usize = 24;

impl UserReg {
    /// `size u32, enable_bit u8, enable_size u8, flags u16, enable_addr u64, name_args u64, write_index u32`.
    fn bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..4].copy_from_slice(&(SIZE as u32).to_le_bytes());
        bytes[4] = BIT;
        bytes[5] = size_of::<AtomicU32>() as u8;
        bytes[8..16].copy_from_slice(&self.enable_address.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.name.to_le_bytes());
        bytes
    }
}

/// An event that is registered with the kernel.
struct Known {
    event: &'static Event,
    index: u32,
    word: &'static AtomicU32,
}

/// All registered events; none where the kernel has no user_events, or the program may not use them.
static KNOWN: OnceLock<Option<(Arc<File>, Vec<Known>)>> = OnceLock::new();
/// Events that somebody listens to, turned on.
static LISTENED: Mutex<Vec<(&'static Event, Registration)>> = Mutex::new(Vec::new());

/// The lock of the events that are on, taken.
pub(crate) type Guard = MutexGuard<'static, Vec<(&'static Event, Registration)>>;

/// Takes the lock of the events that are on: waits for a thread that turns events on or off.
pub(crate) fn guard() -> Guard {
    LISTENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes all events known to the kernel, once.
pub(crate) fn register() {
    let _one = guard();
    KNOWN.get_or_init(|| {
        let file = Arc::new(File::options().write(true).read(true).open(FILE).ok()?);
        let known = events().into_iter().filter_map(|event| known(&file, event));
        let known: Vec<Known> = known.collect();
        Some((file, known))
    });
}

#[allow(unsafe_code, reason = "an ioctl")]
fn known(file: &File, event: &'static Event) -> Option<Known> {
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let text = definition(event.group(), event.name(), event.fields()) + "\0";
    let request = UserReg {
        enable_address: word.as_ptr().addr() as u64,
        name: text.as_ptr().addr() as u64,
    };
    let mut bytes = request.bytes();
    // SAFETY: the kernel reads as many bytes as the first word says, and the text up to its NUL, and writes the event's number into them. It keeps the address of the word, which stays.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), REGISTER as libc::Ioctl, bytes.as_mut_ptr()) };
    let index = bytes[INDEX..]
        .first_chunk()
        .map(|index| u32::from_le_bytes(*index));
    (done == 0).then_some(Known {
        event,
        index: index?,
        word,
    })
}

/// Turns on the events that somebody listens to, and off the others; gives those that are on.
pub(crate) fn update() -> Vec<&'static Event> {
    let Some(Some((file, known))) = KNOWN.get() else {
        return Vec::new();
    };
    let mut listened = guard();
    let wanted = |known: &Known| known.word.load(Ordering::Relaxed) & 1 << BIT != 0;
    let is = |event: &'static Event| {
        known
            .iter()
            .any(|known| std::ptr::eq(known.event, event) && wanted(known))
    };
    let all = std::mem::take(&mut *listened);
    let mut is_refused = false;
    let (mut on, off): (Vec<_>, Vec<_>) = all.into_iter().partition(|(event, _)| is(event));
    for known in known.iter().filter(|known| wanted(known)) {
        if on.iter().any(|(event, _)| std::ptr::eq(*event, known.event)) {
            continue;
        }
        let (file, index) = (Arc::clone(file), known.index);
        // Where code cannot be patched the next look tries again.
        match known
            .event
            .listen(move |record| write(&file, index, record), i32::MIN)
        {
            Ok(registration) => on.push((known.event, registration)),
            Err(_) => is_refused = true,
        }
    }
    let events = on.iter().map(|(event, _)| *event).collect();
    *listened = on;
    drop(listened);
    // Each waits for callbacks.
    drop(off);
    if is_refused {
        thread::free_now();
    }
    events
}

fn write(mut file: &File, index: u32, record: &Record<'_>) {
    let bytes = payload(record.event().fields(), record.values());
    // Without listeners the kernel reports an error: the next look turns the event off.
    let _ = file.write_vectored(&[IoSlice::new(&index.to_le_bytes()), IoSlice::new(&bytes)]);
}

/// Definition under which an event is registered: `server_answered __rel_loc char[] path;u16 status`.
fn definition(group: &str, name: &str, fields: &[Field]) -> String {
    let field = |field: &Field| {
        let ty = match field.kind {
            FieldKind::Integer { size, signed } => {
                format!("{}{}", if signed { 's' } else { 'u' }, u32::from(size) * 8)
            }
            // The kernel has no floats: the bits of one of 8 bytes.
            FieldKind::Float { .. } => "u64".to_owned(),
            FieldKind::Bool => "u8".to_owned(),
            FieldKind::Text { size } => format!("char[{size}]"),
            FieldKind::String => "__rel_loc char[]".to_owned(),
            FieldKind::Bytes => "__rel_loc unsigned char[]".to_owned(),
            FieldKind::Array { size, count, .. } => {
                format!("unsigned char[{}]", u32::from(size) * u32::from(count))
            }
        };
        format!("{ty} {}", field.name)
    };
    let fields: Vec<String> = fields.iter().map(field).collect();
    format!("{group}_{name} {}", fields.join(";"))
        .trim_end()
        .to_owned()
}

/// Bytes of a field where it stands.
fn size(kind: FieldKind) -> usize {
    match kind {
        FieldKind::Integer { size, .. } => usize::from(size),
        FieldKind::Float { .. } => 8,
        FieldKind::Bool => 1,
        FieldKind::Text { size } => usize::from(size),
        FieldKind::String | FieldKind::Bytes => 4,
        FieldKind::Array { size, count, .. } => usize::from(size) * usize::from(count),
    }
}

/// Most bytes of a text: its length is in 16 bits.
const LONGEST: usize = 4095;

/// The fields as they are written.
fn payload(fields: &[Field], values: &[Value<'_>]) -> Vec<u8> {
    let fixed: usize = fields.iter().map(|field| size(field.kind)).sum();
    let (mut bytes, mut behind) = (Vec::with_capacity(fixed), Vec::new());
    let mut far = |at: usize, data: &[u8], nul: bool| {
        let data = &data[..data.len().min(LONGEST)];
        let offset = (fixed + behind.len() - (at + 4)) as u32;
        let length = (data.len() + usize::from(nul)) as u32;
        behind.extend_from_slice(data);
        if nul {
            behind.push(0);
        }
        length << 16 | (offset & 0xffff)
    };
    for (field, value) in fields.iter().zip(values) {
        let size = size(field.kind);
        match *value {
            Value::Unsigned(value) => bytes.extend_from_slice(&value.to_le_bytes()[..size.min(8)]),
            Value::Signed(value) => bytes.extend_from_slice(&value.to_le_bytes()[..size.min(8)]),
            Value::Float(value) => bytes.extend_from_slice(&value.to_bits().to_le_bytes()),
            Value::Bool(value) => bytes.push(u8::from(value)),
            Value::Text(text) if field.kind == FieldKind::String => {
                // A NUL ends it for the kernel.
                let text = text.split('\0').next().unwrap_or_default();
                let word = far(bytes.len(), text.as_bytes(), true);
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            Value::Text(text) => {
                let most = text.len().min(size.saturating_sub(1));
                let end = bytes.len() + size;
                bytes.extend_from_slice(&text.as_bytes()[..most]);
                bytes.resize(end, 0);
            }
            Value::Bytes(data) => {
                let word = far(bytes.len(), data, false);
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            Value::Elements(elements) => bytes.extend_from_slice(elements),
        }
    }
    bytes.extend_from_slice(&behind);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::FieldType;

    fn field(name: &'static str, kind: FieldKind) -> Field {
        Field {
            name,
            kind,
            c_type: "",
        }
    }

    #[test]
    fn a_request_is_laid_out_as_the_kernels_header_has_it() {
        let request = UserReg {
            enable_address: 0x1122_3344_5566_7788,
            name: 0x99,
        };
        let bytes = request.bytes();
        assert_eq!(bytes[..8], [28, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(bytes[8..16], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(bytes[16..], [0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(REGISTER, 0xc008_2a00);
    }

    #[test]
    fn fields_are_declared_and_written_in_their_order() {
        let fields = [
            field("path", FieldKind::String),
            field("status", <u16 as FieldType>::KIND),
            field("balance", <i32 as FieldType>::KIND),
            field("load", <f32 as FieldType>::KIND),
            field("ok", FieldKind::Bool),
            field("comm", FieldKind::Text { size: 4 }),
            field("body", FieldKind::Bytes),
            field("pair", <[u16; 2] as FieldType>::KIND),
        ];
        assert_eq!(
            definition("server", "answered", &fields),
            "server_answered __rel_loc char[] path;u16 status;s32 balance;u64 load;u8 ok;char[4] comm;__rel_loc unsigned char[] body;unsigned char[4] pair"
        );
        assert_eq!(definition("server", "bare", &[]), "server_bare");
        let values = [
            Value::Text("/x"),
            Value::Unsigned(200),
            Value::Signed(-2),
            Value::Float(1.0),
            Value::Bool(true),
            Value::Text("abcdef"),
            Value::Bytes(b"yz"),
            Value::Elements(&[1, 0, 2, 0]),
        ];
        let bytes = payload(&fields, &values);
        // 4 + 2 + 4 + 8 + 1 + 4 + 4 + 4, then the strings.
        let mut expected = vec![27, 0, 3, 0, 200, 0, 0xfe, 0xff, 0xff, 0xff];
        expected.extend(1.0_f64.to_bits().to_le_bytes());
        expected.extend([1, b'a', b'b', b'c', 0]);
        // It stands at 23, and its bytes at 31 + 3.
        expected.extend([7, 0, 2, 0]);
        expected.extend([1, 0, 2, 0]);
        expected.extend(b"/x\0yz");
        assert_eq!(bytes, expected);
    }
}
