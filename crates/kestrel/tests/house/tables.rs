//! Hooks of several tables behind a session's gate, from text to records: which handler an event meets, and when a switch takes effect.

use crate::kernel::{self, words};
use crate::support::{BEGIN, Reader, rest};
use kestrel::buffer::layout::{Geometry, Mode};
use kestrel::buffer::writer::{RingSink, map_name};
use kestrel::catalog::Via;
use kestrel::session::control;
use kestrel::session::dispatch::{BufferPolicy, Dispatch, HandlerChoice, MESSAGES, SLOTS_MAP};
use kestrel_bpf::code::{Code, MapRef, RelocationTarget};
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::check::check;
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::check::{globals::Globals, parameters};
use kestrel_compiler::context::{Context, EventNumber};
use kestrel_compiler::ir::MapUse;
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::{parse_events, parse_script};
use kestrel_compiler::{Program, compile_hook};
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;
use kestrel_trace::packet::PAGE;
use kestrel_trace::value::Value;
use std::collections::BTreeMap;

/// Byte of the control page where the active word stands, and where the words of `use_table` and the parameters begin.
const ACTIVE: u64 = 0;
const PARAMETERS: u64 = 2048;
const TABLES: u64 = 4096;
/// Numbers of records that the rings count.
const NUMBERS: u32 = 1024;
const BUFFERS: [&str; 3] = ["main", "target", MESSAGES];

/// A session without a kernel.
struct Session {
    machine: Machine,
    /// Maps by the names that programs give them.
    maps: BTreeMap<String, MapRef>,
    readers: Vec<Reader>,
    geometry: Geometry,
    globals: Globals,
    context: Context,
    layouts: BTreeMap<u16, Layout>,
}

/// The word that makes a table active whose handlers are known to the hook.
fn known(table: u32) -> u64 {
    table.into()
}

/// The word that makes a table active whose handlers stand in a slot.
fn in_slot(table: u32, slot: u32) -> u64 {
    u64::from(table) | (u64::from(slot) + 1) << 32
}

impl Session {
    fn new(tables: &[String]) -> Self {
        let tree = tempfile::tempdir().unwrap();
        let catalog = kernel::build(tree.path());
        let (probe, _) = parse_events("kprobe:vfs_read");
        let mut resolved = catalog.resolve(&probe.events[0], Via::Auto).unwrap();
        let context = resolved.remove(0).strategies.remove(0).context;

        let mut machine = Machine::new();
        machine.environment.clock = BEGIN;
        let array = |entries| interp::MapKind::Array { entries };
        let mut maps = BTreeMap::new();
        maps.insert(
            control::MAP.to_owned(),
            machine.add_map(array(1), 4, control::SIZE),
        );
        let slots = interp::MapKind::ProgramArray { entries: 64 };
        maps.insert(SLOTS_MAP.to_owned(), machine.add_map(slots, 4, 4));
        let geometry = Geometry::new(Mode::Overwrite, 64 << 10, NUMBERS);
        let mut readers = Vec::new();
        for name in BUFFERS {
            let map = machine.add_map(array(1), 4, geometry.region());
            readers.push(Reader::over(&mut machine, map, geometry, 1));
            maps.insert(map_name(name), map);
        }
        let (script, _) = parse_script("param threshold = 100");
        let mut globals = Globals::default();
        globals.tables.extend(tables.iter().cloned());
        globals.buffers.extend(names(&BUFFERS[..2]));
        globals.parameters.extend(parameters(&script.items).0);
        globals.messages = true;
        Self {
            machine,
            maps,
            readers,
            geometry,
            globals,
            context,
            layouts: BTreeMap::new(),
        }
    }

    #[track_caller]
    fn handler(&mut self, text: &str) -> CheckedProbe {
        let text = format!("kprobe:vfs_read {text}");
        let (probe, found) = parse_events(&text);
        assert!(found.is_empty(), "{found:?}");
        let (checked, found) = check(&probe, &self.context, true, &mut self.globals);
        checked.unwrap_or_else(|| panic!("{}", render(&found, "x", &text, Style::default())))
    }

    /// A program of these handlers, with numbers from `first` on, `stride` for each event that it serves.
    #[track_caller]
    fn program(&mut self, texts: &[&str], choice: HandlerChoice, number: EventNumber) -> Code {
        let handlers: Vec<CheckedProbe> = texts.iter().map(|text| self.handler(text)).collect();
        let handlers: Vec<&CheckedProbe> = handlers.iter().collect();
        let ring = |name: &str| RingSink {
            map: map_name(name),
            geometry: self.geometry,
            reentrant: false,
            bell: kestrel::buffer::bell::Bell::Silent,
            outlined: kestrel::buffer::writer::Outlined::None,
            brief: false,
        };
        let dispatch = Dispatch {
            counts_failures: false,
            counts_updates: false,
            counts_divisions: false,
            buffers: BUFFERS.map(|name| (name.to_owned(), ring(name))).into(),
            owners: Vec::new(),
            buffer_policy: BufferPolicy::any(&self.globals.buffers),
            tables: self.globals.tables.clone(),
            parameters: self.globals.parameters.iter().map(|p| p.name.clone()).collect(),
            followed: false,
            calls: Vec::new(),
            choice,
            taken_from: None,
            relayed_hooks: Vec::new(),
            passes_to: None,
            place: None,
            switches: None,
            // The harder way: what calls another program, or ends, must have switched preemption on.
            preemption_off: true,
            subprogram: false,
        };
        let context = Context {
            number,
            ..self.context.clone()
        };
        let program = compile_hook(&handlers, &context, &dispatch).unwrap();
        self.keep_layouts(&program, number);
        self.linked(&program)
    }

    fn keep_layouts(&mut self, program: &Program, number: EventNumber) {
        let (first, stride, instances) = match number {
            EventNumber::Constant(first) => (first, 0, 1),
            EventNumber::Cookie { first, stride } | EventNumber::Selected { first, stride } => {
                (first, stride, 8)
            }
        };
        for instance in 0..instances {
            for (id, layout) in (first + instance * stride..).zip(&program.layouts) {
                self.layouts.insert(id, layout.clone());
            }
        }
    }

    /// The code with the machine's numbers of maps.
    fn linked(&mut self, program: &Program) -> Code {
        let mut numbers = Vec::new();
        for used in &program.maps {
            numbers.push(match used {
                MapUse::External(name) => self.maps[name],
                MapUse::Private(spec) => {
                    let kind = interp::MapKind::PerCpuArray {
                        entries: spec.entries,
                    };
                    self.machine.add_map(kind, spec.key, spec.value)
                }
            });
        }
        let mut code = program.code.clone();
        for relocation in &mut code.relocations {
            if let RelocationTarget::Map(map) | RelocationTarget::MapValue(map) = &mut relocation.target {
                *map = numbers[map.0 as usize];
            }
        }
        code
    }

    fn set(&mut self, at: u64, value: u64) {
        let page = self
            .machine
            .value_address(self.maps[control::MAP], &[0; 4])
            .unwrap();
        self.machine.write(page + at, &value.to_le_bytes()).unwrap();
    }

    fn get(&mut self, at: u64) -> u64 {
        let page = self
            .machine
            .value_address(self.maps[control::MAP], &[0; 4])
            .unwrap();
        let word = self.machine.read(page + at, 8).unwrap();
        u64::from_le_bytes(word.try_into().unwrap())
    }

    fn put_in_slot(&mut self, slot: u32, code: Code) {
        self.machine.set_program(self.maps[SLOTS_MAP], slot, code);
    }

    /// Reads so many bytes, as the event sees it.
    #[track_caller]
    fn hit(&mut self, code: &Code, count: u64) {
        let mut registers = [0; 21];
        registers[12] = count;
        if let Err(fault) = self.machine.run(code, &words(&registers)) {
            panic!("{fault}\n{}", kestrel_bpf::text::listing(code, &[]));
        }
    }

    /// Contents of a buffer: numbers of records with their first field.
    fn records(&mut self, buffer: &str) -> Vec<(u16, u64)> {
        let classes = self.layouts.iter().map(|(id, layout)| EventClass {
            id: EventId(*id),
            name: "kprobe:vfs_read".to_owned(),
            kind: "kprobe".to_owned(),
            layout: layout.clone(),
            action: None,
            print: None,
        });
        let table = EventTable::new(classes);
        let at = BUFFERS.iter().position(|name| *name == buffer).unwrap();
        let mut pages = Vec::new();
        let now = self.machine.environment.clock;
        let rest = self.readers[at].with(&mut self.machine, |ring| rest(ring, 0, now, &table, &mut pages));
        assert_eq!(rest.unfinished, 0);
        let mut all = Vec::new();
        for page in pages.chunks(PAGE as usize) {
            for record in Packet::parse(page).unwrap().records(&table) {
                let record = record.unwrap();
                let Some((_, Value::Unsigned { value, .. })) = record.fields().next() else {
                    panic!("the first field is a count");
                };
                all.push((record.event.id.0, value));
            }
        }
        all
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Each handler's tables.
fn tables(tables: &[&[u32]], slots: bool) -> HandlerChoice {
    HandlerChoice::Tables {
        tables: tables.iter().map(|numbers| numbers.to_vec()).collect(),
        slots,
    }
}

const ONE: EventNumber = EventNumber::Constant(1);

/// A program that is longer than its jumps can span at once.
#[test]
fn five_hundred_different_handlers_are_one_program() {
    let all: Vec<String> = (1..=512).map(|table| format!("t{table}")).collect();
    let mut session = Session::new(&all);
    let texts: Vec<String> = (1..=512)
        .map(|table| format!("/pid != {table}/ {{ record(args.count + {table}, comm); }}"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let own: Vec<Vec<u32>> = (1..=512).map(|table| vec![table]).collect();
    let choice = HandlerChoice::Tables {
        tables: own,
        slots: false,
    };
    let begun = std::time::Instant::now();
    let hook = session.program(&texts, choice, ONE);
    println!("{} instructions in {:?}", hook.insns.len(), begun.elapsed());
    assert!(hook.insns.len() > 40_000, "{}", hook.insns.len());
}

#[test]
fn the_active_table_decides_and_none_masks() {
    let mut session = Session::new(&names(&["normal", "detail"]));
    let texts = [
        "{ record(args.count) }",
        "{ record(args.count, pid); record(args.count) }",
    ];
    let hook = session.program(&texts, tables(&[&[1], &[2]], false), ONE);
    for (count, table) in (1..).zip([0, 1, 2, 3, 1, 0, 2, u32::MAX]) {
        session.set(ACTIVE, known(table));
        session.hit(&hook, count);
    }
    // A slot means nothing to a hook without slots.
    session.set(ACTIVE, in_slot(9, 0));
    session.hit(&hook, 100);
    assert_eq!(
        session.records("main"),
        [(1, 2), (2, 3), (3, 3), (1, 5), (2, 7), (3, 7)]
    );
}

#[test]
fn a_switch_in_a_handler_is_for_the_next_event() {
    let mut session = Session::new(&names(&["normal", "detail"]));
    let texts = [
        "{ record(args.count); if (args.count > threshold) { use_table(\"detail\") } record(args.count) }",
        "{ record(args.count); if (args.count < 10) { use_table(\"normal\"); return } }",
    ];
    let hook = session.program(&texts, tables(&[&[1], &[2]], false), ONE);
    session.set(TABLES, known(1));
    session.set(TABLES + 8, known(2));
    session.set(PARAMETERS, 100);
    session.set(ACTIVE, known(1));
    for count in [1, 101, 102, 9, 103] {
        session.hit(&hook, count);
    }
    // The threshold is changed while the hook runs.
    session.set(PARAMETERS, 1000);
    for count in [3, 999, 1001, 4] {
        session.hit(&hook, count);
    }
    let expected: Vec<(u16, u64)> = [
        (1, 1),
        (2, 1),
        (1, 101),
        (2, 101),
        (3, 102),
        (3, 9),
        (1, 103),
        (2, 103), // 103: detail again
        (3, 3),
        (1, 999),
        (2, 999),
        (1, 1001),
        (2, 1001),
        (3, 4),
    ]
    .into();
    assert_eq!(session.records("main"), expected);
    assert_eq!(session.get(ACTIVE), known(1));
}

#[test]
fn two_hundred_tables_take_few_comparisons() {
    let all: Vec<String> = (1..=200).map(|n| format!("t{n}")).collect();
    let mut session = Session::new(&all);
    // Three handlers in runs, in single tables, and not at all.
    let of = |table: u32| match table {
        0 | 201.. => None,
        n if n % 7 == 0 => None,
        1..=60 => Some(0),
        n => Some(n % 3),
    };
    let numbers = |handler| -> Vec<u32> { (1..=200).filter(|n| of(*n) == Some(handler)).collect() };
    let choice = HandlerChoice::Tables {
        tables: (0..3).map(numbers).collect(),
        slots: false,
    };
    let text = "{ record(args.count) }";
    let hook = session.program(&[text; 3], choice, ONE);
    let mut masked = 0;
    for table in 0..=201 {
        session.set(ACTIVE, known(table));
        let before = session.machine.steps();
        session.hit(&hook, table.into());
        if of(table).is_none() {
            masked = masked.max(session.machine.steps() - before);
        }
    }
    let expected: Vec<(u16, u64)> = (0..=201)
        .filter_map(|table| of(table).map(|handler| (handler as u16 + 1, table.into())))
        .collect();
    assert!(expected.len() > 150);
    assert_eq!(session.records("main"), expected);
    // Switching preemption off and on, loading the word, eight halvings of two jumps at most, leaving.
    assert!(masked <= 7 + 4 + 8 * 2 + 4, "{masked} instructions");
}

#[test]
fn a_table_loaded_later_stands_in_a_slot() {
    let mut session = Session::new(&names(&["normal", "detail", "later"]));
    let hook = session.program(&["{ record(args.count) }"], tables(&[&[1]], true), ONE);
    let text = "{ record(args.count); use_table(\"normal\") }";
    let later = session.program(
        &[text],
        HandlerChoice::Instances(vec![vec![]]),
        EventNumber::Constant(2),
    );
    let newer = session.program(
        &["{ record(args.count, pid) }"],
        HandlerChoice::Instances(vec![vec![]]),
        EventNumber::Constant(3),
    );
    session.set(TABLES, known(1));
    session.set(TABLES + 16, in_slot(5, 3));

    // The slot is empty: the table does not handle this event.
    session.set(ACTIVE, in_slot(5, 3));
    session.hit(&hook, 1);
    session.put_in_slot(3, later);
    session.hit(&hook, 2);
    // It went back to the first table by itself.
    session.hit(&hook, 3);
    // Another slot of the same hook, and one that no array has.
    session.put_in_slot(63, newer.clone());
    session.set(ACTIVE, in_slot(6, 63));
    session.hit(&hook, 4);
    session.set(ACTIVE, in_slot(7, 64));
    session.hit(&hook, 5);
    session.set(ACTIVE, in_slot(7, u32::MAX - 1));
    session.hit(&hook, 6);
    // Replaced under its name: a new number in the same slot.
    session.put_in_slot(3, newer);
    session.set(ACTIVE, in_slot(8, 3));
    session.hit(&hook, 7);
    // A table that the hook knows is not looked for in slots; one of a number alone is masked.
    session.set(ACTIVE, in_slot(1, 3));
    session.hit(&hook, 8);
    session.set(ACTIVE, known(9));
    session.hit(&hook, 9);
    assert_eq!(session.records("main"), [(2, 2), (1, 3), (3, 4), (3, 7), (1, 8)]);
}

#[test]
fn a_handler_switches_to_a_table_in_a_slot_and_back() {
    let mut session = Session::new(&names(&["normal", "later"]));
    let hook = session.program(
        &["{ record(args.count); use_table(\"later\") }"],
        tables(&[&[1]], true),
        ONE,
    );
    let later = session.program(
        &["{ record(args.count); use_table(\"normal\") }"],
        HandlerChoice::Instances(vec![vec![]]),
        EventNumber::Constant(2),
    );
    session.put_in_slot(0, later);
    session.set(TABLES, known(1));
    session.set(TABLES + 8, in_slot(2, 0));
    session.set(ACTIVE, known(1));
    for count in 0..6 {
        session.hit(&hook, count);
    }
    let expected: Vec<(u16, u64)> = (0..6).map(|count| (1 + count as u16 % 2, count)).collect();
    assert_eq!(session.records("main"), expected);
}

#[test]
fn events_of_a_set_have_handlers_and_numbers_of_their_own_in_a_slot() {
    let mut session = Session::new(&names(&["normal", "later"]));
    let number = |first, stride| EventNumber::Cookie { first, stride };
    let hook = session.program(&["{ record(args.count) }"], tables(&[&[1]], true), number(1, 1));
    let later = session.program(
        &[
            "{ record(args.count); record(args.count, pid) }",
            "{ record(args.count, tid) }",
        ],
        HandlerChoice::Instances(vec![vec![0, 1, 5], vec![3]]),
        number(20, 3),
    );
    session.put_in_slot(0, later);
    for active in [known(1), in_slot(2, 0)] {
        session.set(ACTIVE, active);
        for instance in 0..7 {
            session.machine.environment.cookie = instance;
            session.hit(&hook, instance);
        }
    }
    let mut expected: Vec<(u16, u64)> = (0..7).map(|i| (1 + i as u16, i)).collect();
    expected.extend([(20, 0), (21, 0), (23, 1), (24, 1), (31, 3), (35, 5), (36, 5)]);
    assert_eq!(session.records("main"), expected);
}

#[test]
fn records_go_where_handlers_say() {
    let mut session = Session::new(&names(&["normal"]));
    let text = "{
        record(args.count);
        to(\"target\", args.count);
        if (args.count == 2) { use_buffer(\"target\") }
        if (args.count == 3) { freeze(\"target\"); notify(\"frozen\", args.count) }
        if (args.count == 5) { thaw(\"target\"); use_buffer(\"main\"); exec(\"collect\", args.count) }
    }";
    let hook = session.program(&[text], HandlerChoice::Only, ONE);
    session.hit(&hook, 0); // no table is active
    session.set(ACTIVE, known(1));
    for count in 1..=6 {
        session.hit(&hook, count);
    }
    // 1, 2 to main; 3 to target, where its second record is, too; then it is frozen, and 4 and 5 are lost.
    assert_eq!(session.records("main"), [(1, 1), (1, 2), (1, 6)]);
    assert_eq!(
        session.records("target"),
        [(2, 1), (2, 2), (1, 3), (2, 3), (2, 6)]
    );
    assert_eq!(session.records(MESSAGES), [(3, 3), (4, 5)]);
}
