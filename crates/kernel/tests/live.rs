//! bpf(2) on the kernel that runs the tests: only this process is observed, everything detaches with the test; without privilege they skip.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of functions marked as tests"
)]

use kestrel_bpf::btf::TypeId;
use kestrel_bpf::code::{Code, MapRef, Relocation, RelocationTarget};
use kestrel_bpf::insn::Insn;
use kestrel_kernel::bpf::{
    self, Link, LinkDetail, Map, MapKind, MapSpec, Pinned, Program, ProgramKind, ProgramSpec, TestRun,
    ValueCheck, sys,
};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::{Errno, Error, Host};
use std::os::fd::AsFd;

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}

/// Programs by hand: this crate must not depend on the assembler being right.
fn code(insns: &[Insn], relocations: &[(usize, RelocationTarget)]) -> Code {
    let relocations = relocations
        .iter()
        .map(|(insn, target)| Relocation {
            insn: *insn,
            target: target.clone(),
        })
        .collect();
    Code {
        insns: insns.to_vec(),
        relocations,
        lines: vec![],
        callbacks: vec![],
        functions: vec![],
    }
}

fn return_value(value: i32) -> Code {
    code(&[insn(0xb7, 0, 0, 0, value), insn(0x95, 0, 0, 0, 0)], &[])
}

/// The map, or `None` (said so) where this process may not use bpf(2).
fn allowed(spec: &MapSpec<'_>) -> Option<Map> {
    match Map::create(spec) {
        Ok(map) => Some(map),
        Err(error) if error.errno().is_some_and(Errno::is_permission) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn global(name: &str) -> Option<Map> {
    allowed(&MapSpec::new(MapKind::ARRAY, name, 4, 4096, 1).with_flags(sys::MAP_MMAPABLE))
}

#[cfg(target_arch = "x86_64")]
const GETPPID: i32 = 110;
#[cfg(target_arch = "aarch64")]
const GETPPID: i32 = 173;

/// Counts at offset 0 of map 0 the sys_enter events of this thread for getppid.
fn getppid_counter() -> Code {
    let thread = kestrel_kernel::process::thread_id() as i32;
    code(
        &[
            insn(0xbf, 6, 1, 0, 0),       // r6 = context
            insn(0x85, 0, 0, 0, 14),      // bpf_get_current_pid_tgid
            insn(0x56, 0, 0, 6, thread),  // if w0 != thread goto exit
            insn(0x79, 1, 6, 8, 0),       // r1 = context[1]: the number of the system call
            insn(0x55, 1, 0, 4, GETPPID), // if r1 != getppid goto exit
            insn(0x18, 1, 0, 0, 0),       // r1 = address of the map's value
            insn(0, 0, 0, 0, 0),
            insn(0xb7, 2, 0, 0, 1),
            insn(0xdb, 1, 2, 0, 0), // atomic add
            insn(0xb7, 0, 0, 0, 0),
            insn(0x95, 0, 0, 0, 0),
        ],
        &[(5, RelocationTarget::MapValue(MapRef(0)))],
    )
}

fn call_getppid(times: u64) {
    for _ in 0..times {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
}

#[test]
fn a_raw_tracepoint_counts_exactly_the_calls_of_this_thread() {
    let Some(map) = global("counts") else { return };
    let memory = Mapping::new(map.as_fd(), 0, 4096, Access::ReadOnly).unwrap();
    let (code, maps) = (getppid_counter(), [map.as_fd()]);
    let program = Program::load(&ProgramSpec::new(
        "getppid",
        ProgramKind::RawTracepoint,
        &code,
        &maps,
    ))
    .unwrap();
    call_getppid(10);
    assert_eq!(memory.load_u64(0), Some(0), "not attached yet");
    let link = Link::raw_tracepoint(&program, "sys_enter", 0).unwrap();
    call_getppid(1000);
    let info = link.info().unwrap();
    assert_eq!(
        info.detail,
        LinkDetail::RawTracepoint {
            name: "sys_enter".into()
        }
    );
    assert!(bpf::link_ids().unwrap().contains(&info.id));
    assert_eq!(info.program, program.info().unwrap().id);
    drop(link);
    call_getppid(10);
    // Where a program is preempted in it, the kernel skips, and counts, what others of its CPU would have it see.
    let (counted, skipped) = (
        memory.load_u64(0).unwrap(),
        program.info().unwrap().recursion_misses,
    );
    assert!(
        counted <= 1000 && counted + skipped >= 1000,
        "{counted}, {skipped} skipped"
    );
    let unknown = Link::raw_tracepoint(&program, "no_such_tracepoint", 0).unwrap_err();
    assert_eq!(unknown.errno().unwrap().name(), Some("ENOENT"));
    assert!(unknown.to_string().contains("no_such_tracepoint"));
}

#[test]
fn the_kernel_describes_loaded_objects() {
    let Some(map) = global("info") else { return };
    let (code, maps) = (getppid_counter(), [map.as_fd()]);
    let program = Program::load(&ProgramSpec::new(
        "a-name",
        ProgramKind::RawTracepoint,
        &code,
        &maps,
    ))
    .unwrap();
    let info = program.info().unwrap();
    assert_eq!(
        (info.name.as_str(), info.kind),
        ("a_name", bpf::ProgramType::RAW_TRACEPOINT)
    );
    assert_ne!(info.tag, [0; 8]);
    assert_eq!(program.map_ids().unwrap(), [map.info().id]);
    assert!(bpf::program_ids().unwrap().contains(&info.id));
    assert_eq!(Program::from_id(info.id).unwrap().info().unwrap().tag, info.tag);
    assert!(
        Map::from_fd(program.as_fd().try_clone_to_owned().unwrap()).is_err(),
        "a program is not a map"
    );
}

#[test]
fn a_refused_program_comes_back_with_the_verifiers_log() {
    if global("any").is_none() {
        return;
    }
    let code = code(&[insn(0x95, 0, 0, 0, 0)], &[]);
    let error =
        Program::load(&ProgramSpec::new("wrong", ProgramKind::RawTracepoint, &code, &[])).unwrap_err();
    // Linux 7.3 says it in more words.
    let printed = |text: &str| text.contains("R0 !read_ok") || text.contains("Initialize R0");
    assert!(printed(error.verifier_log().unwrap()), "{error:?}");
    assert!(printed(&error.to_string()), "{error}");
    assert_eq!(error.hint(), None);
}

#[test]
fn references_that_cannot_be_filled_in_are_named_before_the_kernel_is_asked() {
    let load = |target: RelocationTarget| {
        let code = code(&[insn(0x85, 0, 2, 0, -1), insn(0x95, 0, 0, 0, 0)], &[(0, target)]);
        Program::load(&ProgramSpec::new("p", ProgramKind::RawTracepoint, &code, &[])).unwrap_err()
    };
    let error = load(RelocationTarget::Kfunc("bpf_no_such_thing".into()));
    assert!(matches!(error, Error::Unresolved { .. }) && error.to_string().contains("bpf_no_such_thing"));
    assert!(
        load(RelocationTarget::Map(MapRef(3)))
            .to_string()
            .contains("map number 3")
    );
}

#[test]
fn kernel_functions_are_called_by_the_id_that_the_caller_finds() {
    if global("any").is_none() {
        return;
    }
    let code = code(
        &[insn(0x85, 0, 2, 0, -1), insn(0x95, 0, 0, 0, 0)],
        &[(0, RelocationTarget::Kfunc("something".into()))],
    );
    let find = |_: &str| Some(TypeId(1));
    let spec = ProgramSpec::new("p", ProgramKind::RawTracepoint, &code, &[]).with_kfunc(&find);
    let error = Program::load(&spec).unwrap_err();
    let message = error.to_string();
    // Before 5.13 programs cannot call kernel functions at all.
    let printed = [
        "kernel btf_id 1 is not a function",
        "BPF_CALL uses reserved fields",
    ];
    assert!(
        printed.iter().any(|printed| message.contains(printed)),
        "{message}"
    );
}

#[test]
fn test_runs_return_the_programs_value() {
    if global("any").is_none() {
        return;
    }
    let code = return_value(42);
    let program = Program::load(&ProgramSpec::new("run", ProgramKind::SocketFilter, &code, &[])).unwrap();
    let result = program
        .test_run(&TestRun {
            data: &[7; 64],
            repeat: 3,
            ..TestRun::default()
        })
        .unwrap();
    // The kernel hides the link-layer header (14 bytes) from socket filters.
    assert_eq!((result.value, &result.data[14..]), (42, &[7; 50][..]));
}

#[test]
fn elements_are_written_found_walked_and_removed() {
    let Some(map) = allowed(&MapSpec::new(MapKind::HASH, "table", 4, 8, 1000)) else {
        return;
    };
    for key in 0..300u32 {
        map.update(
            &key.to_ne_bytes(),
            &u64::from(key * 2).to_ne_bytes(),
            ValueCheck::New,
        )
        .unwrap();
    }
    let again = map
        .update(&7u32.to_ne_bytes(), &[0; 8], ValueCheck::New)
        .unwrap_err();
    assert_eq!(again.errno().unwrap().name(), Some("EEXIST"));
    assert_eq!(
        map.lookup(&7u32.to_ne_bytes()).unwrap().unwrap(),
        14u64.to_ne_bytes()
    );
    assert_eq!(map.lookup(&700u32.to_ne_bytes()).unwrap(), None);
    assert!(
        map.lookup(&[0; 3]).is_err(),
        "a wrong size never reaches the kernel"
    );
    assert!(map.delete(&7u32.to_ne_bytes()).unwrap());
    assert!(!map.delete(&7u32.to_ne_bytes()).unwrap());

    let mut walked = 0;
    let mut key = map.next_key(None).unwrap();
    while let Some(current) = key {
        walked += 1;
        key = map.next_key(Some(&current)).unwrap();
    }
    assert_eq!(walked, 299);
    let sum = |entries: &[(Vec<u8>, Vec<u8>)]| -> u64 {
        entries
            .iter()
            .map(|(_, value)| u64::from_ne_bytes(value.as_slice().try_into().unwrap()))
            .sum()
    };
    let expected: u64 = (0..300).filter(|key| *key != 7).map(|key| key * 2).sum();
    let entries = map.entries().unwrap();
    assert_eq!((entries.len(), sum(&entries)), (299, expected));
    let mut drained = vec![(vec![7], 1000_u64.to_ne_bytes().to_vec())];
    map.drain(&mut drained).unwrap();
    assert_eq!((drained.len(), sum(&drained)), (300, expected + 1000));
    assert!(map.entries().unwrap().is_empty());
    // The old values are there after an error.
    let array = MapSpec::new(MapKind::ARRAY, "array", 4, 8, 4);
    let Some(array) = allowed(&array) else { return };
    assert!(array.drain(&mut drained).is_err());
    assert_eq!(drained.len(), 300);
}

#[test]
fn per_cpu_values_come_one_for_each_possible_cpu() {
    let Some(map) = allowed(&MapSpec::new(MapKind::PERCPU_ARRAY, "each", 4, 12, 2)) else {
        return;
    };
    let cpus = kestrel_kernel::procfs::possible_cpus().unwrap().len();
    assert_eq!(map.element_size(), cpus * 16);
    let mut element = vec![0; map.element_size()];
    for (cpu, value) in element.chunks_mut(16).enumerate() {
        value[0] = cpu as u8 + 1;
    }
    map.update(&1u32.to_ne_bytes(), &element, ValueCheck::Any)
        .unwrap();
    let element = map.lookup(&1u32.to_ne_bytes()).unwrap().unwrap();
    let firsts: Vec<_> = map
        .cpu_values(&element)
        .map(|value| (value.len(), value[0]))
        .collect();
    assert_eq!(firsts, (1..=cpus).map(|cpu| (12, cpu as u8)).collect::<Vec<_>>());
}

#[test]
fn a_mapped_array_and_its_elements_are_the_same_bytes() {
    let Some(map) = global("shared") else { return };
    let memory = Mapping::new(map.as_fd(), 0, 4096, Access::ReadWrite).unwrap();
    memory
        .atomic_u64(64)
        .unwrap()
        .fetch_add(5, std::sync::atomic::Ordering::AcqRel);
    memory.copy_in(100, b"kestrel").unwrap();
    let value = map.lookup(&0u32.to_ne_bytes()).unwrap().unwrap();
    assert_eq!(value[64..72], 5u64.to_ne_bytes());
    assert_eq!(&value[100..107], b"kestrel");
    assert!(map.freeze().is_err(), "not while it is mapped writable");
    drop(memory);
    map.freeze().unwrap();
    assert!(Mapping::new(map.as_fd(), 0, 4096, Access::ReadWrite).is_err());
    let memory = Mapping::new(map.as_fd(), 0, 4096, Access::ReadOnly).unwrap();
    assert_eq!(memory.to_vec(100..107).unwrap(), b"kestrel");
    assert!(map.update(&0u32.to_ne_bytes(), &value, ValueCheck::Any).is_err());
}

#[test]
fn pins_outlive_their_makers_descriptors() {
    let Some(map) = global("pinned") else { return };
    let directory = match Host::default().bpffs() {
        Ok(path) => path.join(format!("kestrel-test-{}", std::process::id())),
        Err(error) => return println!("skipped: {error}"),
    };
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("map");
    bpf::pin(map.as_fd(), &path).unwrap();
    let id = map.info().id;
    assert_eq!(
        bpf::pin(map.as_fd(), &path).unwrap_err().errno().unwrap().name(),
        Some("EEXIST")
    );
    drop(map);
    match bpf::pinned(&path).unwrap() {
        Pinned::Map(map) => assert_eq!(map.info().id, id),
        other => panic!("{other:?}"),
    }
    assert!(bpf::unpin(&path).unwrap());
    assert!(!bpf::unpin(&path).unwrap());
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn statistics_count_runs_while_they_are_on() {
    let Some(map) = global("stats") else { return };
    let stats = match bpf::enable_stats() {
        Ok(stats) => stats,
        Err(error) => return println!("skipped: {error}"),
    };
    let (code, maps) = (getppid_counter(), [map.as_fd()]);
    let program = Program::load(&ProgramSpec::new(
        "runs",
        ProgramKind::RawTracepoint,
        &code,
        &maps,
    ))
    .unwrap();
    let link = Link::raw_tracepoint(&program, "sys_enter", 0).unwrap();
    call_getppid(100);
    drop(link);
    let info = program.info().unwrap();
    assert!(info.runs + info.recursion_misses >= 100, "{info:?}");
    drop(stats);
}
