//! Streams as LTTng writes them, made bit by bit: metadata, packets and events of either byte order.

use std::path::Path;

/// Bits of a packet in the making.
pub struct Packet {
    little: bool,
    bytes: Vec<u8>,
    at: usize,
}

impl Packet {
    pub fn align(&mut self, bits: usize) {
        self.at = self.at.next_multiple_of(bits);
    }

    /// An integer, at a multiple of so many bits.
    pub fn int(&mut self, align: usize, bits: usize, value: i64) {
        self.align(align);
        self.bytes
            .resize((self.at + bits).div_ceil(8).max(self.bytes.len()), 0);
        for bit in 0..bits {
            let at = self.at + bit;
            let (set, place) = match self.little {
                true => (value >> bit & 1, at % 8),
                false => (value >> (bits - 1 - bit) & 1, 7 - at % 8),
            };
            self.bytes[at / 8] |= (set as u8) << place;
        }
        self.at += bits;
    }

    pub fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.int(8, 8, byte.into());
        }
    }

    pub fn name(&mut self, name: &str) {
        for at in 0..16 {
            self.int(8, 8, name.as_bytes().get(at).copied().unwrap_or(0).into());
        }
    }

    /// The head of a packet; its sizes are set when it ends.
    pub fn begin(little: bool, begin: i64, sequence: i64, discarded: i64, cpu: i64) -> Self {
        let mut it = Self {
            little,
            bytes: Vec::new(),
            at: 0,
        };
        it.int(8, 32, 0xc1fc_1fc1);
        for _ in 0..16 {
            it.int(8, 8, 7);
        }
        it.int(8, 32, 0);
        for word in [begin, begin + 20_000, 0, 0, sequence, discarded] {
            it.int(8, 64, word);
        }
        it.int(8, 32, cpu);
        it
    }

    pub fn end(mut self, size: usize) -> Vec<u8> {
        let content = self.at as i64;
        let whole = Self {
            little: self.little,
            bytes: Vec::new(),
            at: 40 * 8,
        };
        let mut sizes = Self {
            bytes: vec![0; 56],
            ..whole
        };
        sizes.int(8, 64, content);
        sizes.int(8, 64, size as i64 * 8);
        self.bytes[40..56].copy_from_slice(&sizes.bytes[40..56]);
        self.bytes.resize(size, 0);
        self.bytes
    }

    /// The header of an event, short as long as its number and the time since the last one are, and the context of its thread.
    pub fn event(&mut self, id: i64, time: i64, (pid, tid, name): (i64, i64, &str)) {
        self.align(8);
        if id < 31 {
            self.int(1, 5, id);
            self.int(1, 27, time & ((1 << 27) - 1));
        } else {
            self.int(1, 5, 31);
            self.int(8, 32, id);
            self.int(8, 64, time);
        }
        self.int(8, 32, pid);
        self.int(8, 32, tid);
        self.name(name);
    }

    /// The header of an event without a context.
    pub fn bare(&mut self, id: i64, time: i64) {
        self.align(8);
        self.int(1, 5, id);
        self.int(1, 27, time);
    }

    pub fn exit(&mut self, time: i64) {
        self.bare(2, time);
        self.int(8, 64, 0);
    }

    pub fn switch(&mut self, time: i64, (from, from_name): (i64, &str), (to, to_name): (i64, &str)) {
        self.bare(0, time);
        self.name(from_name);
        self.int(8, 32, from);
        self.int(8, 32, 120);
        self.int(8, 64, 0);
        self.name(to_name);
        self.int(8, 32, to);
        self.int(8, 32, 120);
    }
}

/// The metadata of LTTng's kernel tracer, in short, and an event that has every type.
pub fn tsdl(little: bool) -> String {
    let order = if little { "le" } else { "be" };
    let integer = |size: u32, rest: &str| format!("integer {{ size = {size}; align = 8; {rest} }}");
    let (u32, u64) = (integer(32, "signed = false;"), integer(64, "signed = false;"));
    let i32 = integer(32, "signed = true;");
    let text = integer(8, "signed = false; encoding = UTF8;");
    format!(
        r#"/* CTF 1.8 */
typealias {u32} := uint32_t;
typealias {u64} := unsigned long;
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
typedef {u64} count_t;
trace {{
    major = 1; minor = 8; uuid = "07070707-0707-0707-0707-070707070707"; byte_order = {order};
    packet.header := struct {{ uint32_t magic; {u8} uuid[16]; uint32_t stream_id; }};
}};
env {{ hostname = "far"; domain = "kernel"; sysname = "Linux"; kernel_release = "6.1.0"; tracer_name = "lttng-modules"; tracer_major = 2; tracer_minor = 13; }};
clock {{ name = "monotonic"; freq = 500000000; offset_s = 1000; offset = 250000000; }};
typealias integer {{ size = 27; align = 1; signed = false; map = clock.monotonic.value; }} := uint27_clock_t;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }} := uint64_clock_t;
struct packet_context {{
    uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end; count_t content_size; count_t packet_size;
    count_t packet_seq_num; unsigned long events_discarded; uint32_t cpu_id;
}};
struct event_header_compact {{
    enum : uint5_t {{ compact = 0 ... 30, extended = 31 }} id;
    variant <id> {{
        struct {{ uint27_clock_t timestamp; }} compact;
        struct {{ uint32_t id; uint64_clock_t timestamp; }} extended;
    }} v;
}} align(8);
stream {{
    id = 0;
    event.header := struct event_header_compact;
    packet.context := struct packet_context;
    event.context := struct {{ {i32} _pid; {i32} _tid; {text} _procname[16]; }};
}};
event {{ name = "sched_switch"; id = 0; stream_id = 0; fields := struct {{
    {text} _prev_comm[16]; {i32} _prev_tid; {i32} _prev_prio; {i64} _prev_state; {text} _next_comm[16]; {i32} _next_tid; {i32} _next_prio;
}}; }};
event {{ name = "syscall_entry_openat"; id = 1; stream_id = 0; fields := struct {{
    {i32} _dfd; string _filename; {i32} _flags; {u16} _mode;
}}; }};
event {{ name = "syscall_exit_openat"; id = 2; stream_id = 0; fields := struct {{ {i64} _ret; }}; }};
event {{ name = "my_all"; id = 40; stream_id = 0; context := struct {{ {u8} _extra; }}; fields := struct {{
    integer {{ size = 3; align = 1; signed = true; }} _three;
    integer {{ size = 13; align = 1; signed = false; base = hex; }} _thirteen;
    floating_point {{ exp_dig = 11; mant_dig = 53; align = 8; }} _fraction;
    enum : {u8} {{ "ZERO", ONE, MANY = 2 ... 9, "-1" = 255 }} _which;
    {u16} __words_length;
    {u16} _words[ __words_length ];
    struct {{ {u8} _one; string _two; }} _inner;
    enum : {u8} {{ number = 0, letters = 1 }} _tag;
    variant <_tag> {{ {u32} number; string letters; }} _choice;
    string _texts[2];
    integer {{ size = 32; align = 8; signed = false; byte_order = be; base = 16; }} _network;
    {i16} _three_of[3];
}}; }};
"#,
        u8 = integer(8, ""),
        u16 = integer(16, ""),
        i16 = integer(16, "signed = true;"),
        i64 = integer(64, "signed = true;"),
    )
}

/// Two streams: on CPU 0 calls and switches in two packets, between which seven events were lost; on CPU 3 an event of every type.
pub fn write_lttng(path: &Path, little: bool, packetised: bool) {
    let mut metadata = tsdl(little).into_bytes();
    if packetised {
        let mut packets = Vec::new();
        for part in metadata.chunks(1000) {
            let word = |value: u32| match little {
                true => value.to_le_bytes(),
                false => value.to_be_bytes(),
            };
            packets.extend(word(0x75d1_1d57));
            packets.extend([7; 16]);
            packets.extend(word(0));
            packets.extend(word((37 + part.len() as u32) * 8));
            packets.extend(word(1500 * 8));
            packets.extend([0, 0, 0, 1, 8]);
            packets.extend(part);
            packets.resize(packets.len().next_multiple_of(1500), 0);
        }
        metadata = packets;
    }
    std::fs::create_dir_all(path).unwrap();
    std::fs::write(path.join("metadata"), metadata).unwrap();
    let cat = (70, 71, "cat");
    // Twice, the low 27 bits of the clock begin anew.
    let start = (1 << 27) - 50;
    let mut packet = Packet::begin(little, start, 0, 0, 0);
    for n in 0..20 {
        packet.event(1, start + n * 100, cat);
        packet.int(8, 32, -100);
        packet.text(&format!("/etc/file{n}"));
        packet.int(8, 32, 0o100000);
        packet.int(8, 16, 0);
        packet.event(2, start + n * 100 + 20, cat);
        packet.int(8, 64, if n == 5 { -2 } else { 3 });
    }
    let mut file = packet.end(4096);
    let start = start + (1 << 27) + 5000;
    let mut packet = Packet::begin(little, start, 1, 7, 0);
    for n in 0..10 {
        let (from, to) = if n % 2 == 0 { (71, 0) } else { (0, 71) };
        packet.event(
            0,
            start + n * 1000,
            (from, from, if from == 0 { "swapper/0" } else { "cat" }),
        );
        packet.name(if from == 0 { "swapper/0" } else { "cat" });
        packet.int(8, 32, from);
        packet.int(8, 32, 120);
        packet.int(8, 64, i64::from(from != 0));
        packet.name(if to == 0 { "swapper/0" } else { "cat" });
        packet.int(8, 32, to);
        packet.int(8, 32, 120);
    }
    file.extend(packet.end(1024));
    std::fs::write(path.join("channel0_0"), file).unwrap();
    let mut packet = Packet::begin(little, start, 0, 0, 3);
    packet.event(40, start + 500, cat);
    packet.int(8, 8, 9);
    packet.int(1, 3, -3);
    packet.int(1, 13, 0x1abc);
    packet.int(8, 64, 2.5f64.to_bits() as i64);
    packet.int(8, 8, 255);
    packet.int(8, 16, 3);
    for word in [10, 20, 30] {
        packet.int(8, 16, word);
    }
    packet.int(8, 8, 5);
    packet.text("deep");
    packet.int(8, 8, 1);
    packet.text("abc");
    packet.text("left");
    packet.text("right \"quoted\"");
    let network = 0x0102_0304u32;
    packet.int(
        8,
        32,
        i64::from(if little { network.swap_bytes() } else { network }),
    );
    for word in [-1, 0, 300] {
        packet.int(8, 16, word);
    }
    std::fs::write(path.join("channel0_3"), packet.end(512)).unwrap();
}

/// Metadata of streams without a context.
pub fn without_context() -> String {
    let text = tsdl(true);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("event.context"))
        .collect();
    lines.join("\n")
}
