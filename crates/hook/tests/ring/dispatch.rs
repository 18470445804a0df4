//! Several rings behind a session's gate: every record is in the ring that is meant, exactly one, or counted there as lost.

use crate::support::{BEGIN, EVENTS, Got, Reader, contents, rest, table};
use kestrel_bpf::code::{Code, MapRef};
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::check::tree::{Action, Destination};
use kestrel_compiler::codegen;
use kestrel_compiler::ir::{Builder, Operand, Width};
use kestrel_compiler::sink::{Sink, Size};
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::buffer::writer::{Outlined, RingSink, map_name};
use kestrel_hook::hook::control;
use kestrel_hook::hook::dispatch::{BufferPolicy, Dispatch, HandlerChoice, MESSAGES};
use kestrel_hook::hook::owner::Owner;

/// Different in everything that a reservation depends on.
const BUFFERS: [(&str, Mode, u32); 4] = [
    ("main", Mode::Overwrite, 4),
    ("target", Mode::Stream, 8),
    ("rest", Mode::Overwrite, 16),
    (MESSAGES, Mode::Stream, 4),
];

struct Bench {
    machine: Machine,
    readers: Vec<Reader>,
    dispatch: Dispatch,
    control: MapRef,
}

impl Bench {
    fn new(policy: BufferPolicy) -> Self {
        let mut machine = Machine::new();
        machine.environment.clock = BEGIN;
        let array = |entries| interp::MapKind::Array { entries };
        let control = machine.add_map(array(1), 4, control::SIZE);
        let mut readers = Vec::new();
        let mut buffers = Vec::new();
        for (name, mode, pages) in BUFFERS {
            let geometry = Geometry::new(mode, u64::from(pages) * 4096, EVENTS);
            let map = machine.add_map(array(2), 4, geometry.region());
            readers.push(Reader::over(&mut machine, map, geometry, 2));
            let map = map_name(name);
            buffers.push((
                name.to_owned(),
                RingSink {
                    map,
                    geometry,
                    reentrant: false,
                    bell: Bell::Silent,
                    outlined: Outlined::None,
                    brief: false,
                },
            ));
        }
        Self {
            machine,
            readers,
            dispatch: Dispatch {
                counts_failures: false,
                counts_updates: false,
                counts_divisions: false,
                buffers,
                owners: Vec::new(),
                buffer_policy: policy,
                tables: Vec::new(),
                parameters: Vec::new(),
                followed: false,
                calls: Vec::new(),
                choice: HandlerChoice::Only,
                taken_from: None,
                relayed_hooks: Vec::new(),
                passes_to: None,
                place: None,
                switches: None,
                preemption_off: false,
                subprogram: false,
            },
            control,
        }
    }

    /// A program in which every map has the number that the machine gave it.
    fn builder(&self) -> Builder {
        let mut b = Builder::new();
        b.external(control::MAP);
        for (_, ring) in &self.dispatch.buffers {
            b.external(&ring.map);
        }
        b
    }

    /// Records the context's first word, and its second at the end where the size varies.
    fn recorder(&self, to: &Destination, number: u16, variable: bool) -> Code {
        let mut b = self.builder();
        let refused = b.block();
        let context = b.context();
        let payload = b.load(Width::B8, context, 0);
        let size = if variable {
            let wanted = b.load(Width::B8, context, 8);
            let value = b.and(wanted, 0x7f8);
            Size::Variable { value, max: 2040 }
        } else {
            Size::Constant(16)
        };
        let number = Operand::Imm(number.into());
        let room = self.dispatch.reserve(&mut b, number, size, to, refused).unwrap();
        b.store(Width::B8, room.record, 8, payload);
        if let Size::Variable { value, .. } = size {
            let end = b.add(room.record, value);
            b.store(Width::B8, end, -8, payload);
            let count = b.sub(value, 18);
            b.store(Width::B2, room.record, 16, count);
        }
        self.dispatch.commit(&mut b, room, true);
        b.exit(1);
        codegen::generate(&b.finish()).unwrap().code
    }

    fn act(&mut self, action: &Action) {
        let mut b = self.builder();
        self.dispatch.act(&mut b, action).unwrap();
        b.exit(1);
        let code = codegen::generate(&b.finish()).unwrap().code;
        assert_eq!(self.machine.run(&code, &[0; 8]).unwrap(), 1);
    }

    fn record(&mut self, code: &Code, payload: u64) -> bool {
        let context: Vec<u8> = [payload, 48].iter().flat_map(|w| w.to_le_bytes()).collect();
        self.machine.run(code, &context).unwrap() == 1
    }

    /// Payloads in a buffer's ring of a CPU.
    fn payloads(&mut self, buffer: usize, cpu: u32) -> Vec<u64> {
        let mut pages = Vec::new();
        let table = table(&[(1, 16), (2, 16)]);
        let now = self.machine.environment.clock;
        let rest =
            self.readers[buffer].with(&mut self.machine, |ring| rest(ring, cpu, now, &table, &mut pages));
        assert_eq!(rest.unfinished, 0);
        let records = contents(&table, &pages).records;
        records.iter().map(|got: &Got| got.payload).collect()
    }

    fn lost(&mut self, buffer: usize, number: u16) -> u64 {
        self.readers[buffer].with(&mut self.machine, |ring| {
            assert_eq!(ring.lost(0), (0..8).map(|n| ring.counts(0, n).lost).sum::<u64>());
            ring.counts(0, number).lost
        })
    }
}

fn all() -> BufferPolicy {
    BufferPolicy::any(&["main", "target", "rest"].map(str::to_owned))
}

#[test]
fn each_cpu_writes_where_it_was_sent() {
    let mut bench = Bench::new(all());
    let current = bench.recorder(&Destination::Current, 1, false);
    let variable = bench.recorder(&Destination::Current, 7, true);
    let named = bench.recorder(&Destination::Buffer("target".to_owned()), 2, false);
    let message = bench.recorder(&Destination::Messages, 2, false);
    let mut expected: Vec<[Vec<u64>; 2]> = vec![Default::default(); 4];
    let mut now = [0usize; 2];
    let mut random = 12345u64;
    for payload in 1..400 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let cpu = (random >> 33 & 1) as usize;
        bench.machine.environment.cpu = cpu as u32;
        let (code, to) = match random >> 40 & 7 {
            0 => (&named, 1),
            1 => (&message, 3),
            2 => {
                now[cpu] = (random >> 50) as usize % 3;
                bench.act(&Action::UseBuffer(BUFFERS[now[cpu]].0.to_owned()));
                continue;
            }
            3 => (&variable, now[cpu]),
            _ => (&current, now[cpu]),
        };
        assert!(bench.record(code, payload));
        expected[to][cpu].push(payload);
    }
    for (buffer, cpus) in expected.iter().enumerate() {
        for (cpu, payloads) in cpus.iter().enumerate() {
            assert!(payloads.len() > 5);
            assert_eq!(
                bench.payloads(buffer, cpu as u32),
                *payloads,
                "buffer {buffer} CPU {cpu}"
            );
        }
    }
}

/// While its process runs, records of a CPU go to a buffer that is for it, whatever the CPU's current one is, and to the first of two that are for the same one.
#[test]
fn a_process_has_a_buffer_of_its_own() {
    let mut bench = Bench::new(BufferPolicy::default());
    bench.dispatch.parameters = vec!["other".to_owned(), "wanted".to_owned()];
    bench.dispatch.owners = vec![
        (1, Owner::Process(42)),
        (2, Owner::Parameter("wanted".to_owned())),
    ];
    bench.dispatch.buffer_policy.current = vec!["rest".to_owned()];
    let current = bench.recorder(&Destination::Current, 1, false);
    let variable = bench.recorder(&Destination::Current, 7, true);
    let named = bench.recorder(&Destination::Buffer("main".to_owned()), 2, false);
    let page = bench.machine.value_address(bench.control, &[0; 4]).unwrap();
    let mut expected: Vec<[Vec<u64>; 2]> = vec![Default::default(); 3];
    let (mut now, mut wanted) = ([0usize; 2], 0u64);
    let mut random = 54321u64;
    for payload in 1..600 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let cpu = (random >> 33 & 1) as usize;
        bench.machine.environment.cpu = cpu as u32;
        let pid = [41u32, 42, 43, 0][(random >> 36 & 3) as usize];
        bench.machine.environment.pid = pid;
        let to = match pid {
            42 => 1,
            pid if u64::from(pid) == wanted => 2,
            _ => now[cpu],
        };
        let (code, to) = match random >> 40 & 7 {
            0 => (&named, 0),
            1 => {
                now[cpu] = 2 - now[cpu];
                bench.act(&Action::UseBuffer(BUFFERS[now[cpu]].0.to_owned()));
                continue;
            }
            2 => {
                // None: no number that a process has.
                wanted = [43, 42, u64::MAX, 43 | 1 << 32][(random >> 50 & 3) as usize];
                let place = page + u64::from(control::parameter_at(1));
                bench.machine.write(place, &wanted.to_le_bytes()).unwrap();
                continue;
            }
            3 => (&variable, to),
            _ => (&current, to),
        };
        assert!(bench.record(code, payload));
        expected[to][cpu].push(payload);
    }
    for (buffer, cpus) in expected.iter().enumerate() {
        for (cpu, payloads) in cpus.iter().enumerate() {
            assert!(payloads.len() > 20);
            assert_eq!(
                bench.payloads(buffer, cpu as u32),
                *payloads,
                "buffer {buffer} CPU {cpu}"
            );
        }
    }
}

#[test]
fn a_frozen_buffer_counts_refused_records() {
    let mut bench = Bench::new(all());
    let current = bench.recorder(&Destination::Current, 1, false);
    let other = bench.recorder(&Destination::Buffer("rest".to_owned()), 2, false);
    assert!(bench.record(&current, 1));
    bench.act(&Action::Freeze("main".to_owned()));
    for payload in 2..7 {
        assert!(!bench.record(&current, payload));
        assert!(bench.record(&other, payload));
    }
    bench.act(&Action::Thaw("main".to_owned()));
    assert!(bench.record(&current, 7));
    assert_eq!(bench.payloads(0, 0), [1, 7]);
    assert_eq!(bench.payloads(2, 0), [2, 3, 4, 5, 6]);
    assert_eq!((bench.lost(0, 1), bench.lost(2, 2)), (5, 0));
}

#[test]
fn a_reset_is_the_time_since_when_records_count() {
    let mut bench = Bench::new(all());
    let before = bench.machine.environment.clock;
    bench.act(&Action::Reset("target".to_owned()));
    let page = bench.machine.value_address(bench.control, &[0; 4]).unwrap();
    let reset = bench.machine.read(page + 64 + 32 + 8, 8).unwrap();
    let reset = u64::from_le_bytes(reset.try_into().unwrap());
    assert!((before..=bench.machine.environment.clock).contains(&reset));
}

#[test]
fn who_never_steers_pays_nothing() {
    let steered = Bench::new(all());
    let plain = Bench::new(BufferPolicy::default());
    let length = |bench: &Bench| bench.recorder(&Destination::Current, 1, false).insns.len();
    assert!(length(&steered) > 2 * length(&plain));
    let listing = kestrel_bpf::text::listing(
        &plain.recorder(&Destination::Current, 1, false),
        &["control", "a", "b", "c", "d"],
    );
    assert!(!listing.contains("control"), "{listing}");
}

#[test]
fn dispatch_refuses_absent_tables_and_buffers() {
    let bench = Bench::new(all());
    let mut b = Builder::new();
    let refused = b.block();
    let mut reserve = |to| {
        bench
            .dispatch
            .reserve(&mut b, Operand::Imm(1), Size::Constant(16), &to, refused)
            .is_err()
    };
    assert!(reserve(Destination::Buffer("nowhere".to_owned())));
    assert!(!reserve(Destination::Messages));
    let mut b = Builder::new();
    assert!(
        bench
            .dispatch
            .act(&mut b, &Action::Freeze("nowhere".to_owned()))
            .is_err()
    );
}
