//! Probes at single instructions and at returns: registers, post- and fault-handlers, values of the entry, returns that were missed.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

mod jprobes;

use kestrel::catalog::Catalog;
use kestrel::code::{Code, Function};
use kestrel::kernel::Host;
use std::collections::BTreeSet;
use std::fs;
use vm_tests::bare::program;
use vm_tests::kestrel;
use vm_tests::recording::{Record, Recorder, record_command};

/// Environment variable with the number of instructions that are chosen at random, where there is time for more.
const MANY: &str = "KESTREL_INSTRUCTIONS";
/// Reads of one byte that the workload makes.
const READS: usize = 20;
/// Bad calls, and good ones.
const CALLS: usize = 5;

/// A register by its name in a listing: that of a record's field, and whether it is the low half. Smaller parts (`%ax`, `%r8w`) are not followed.
fn register(name: &str, record: &Record) -> Option<(String, bool)> {
    let name = name.strip_prefix('%')?;
    let numbered = name.starts_with('r') && name[1..].starts_with(|c: char| c.is_ascii_digit());
    let (known, half) = match (numbered, name.strip_prefix('e'), name.strip_suffix('d')) {
        (true, _, Some(whole)) => (whole, true),
        (true, _, None) => (name, false),
        (false, Some(rest), _) => (rest, true),
        (false, None, _) => (name.strip_prefix('r')?, false),
    };
    let known = known.to_owned();
    record.fields.contains_key(&known).then_some((known, half))
}

/// A number as listings have it: `$0x10`, `$-0x10`.
fn immediate(text: &str) -> Option<u64> {
    let text = text.strip_prefix('$')?;
    let (text, negative) = text.strip_prefix('-').map_or((text, false), |text| (text, true));
    let number = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

/// The effect of one instruction on the registers, as far as this test knows: moves between registers and of numbers, sums, bits, the stack's end.
fn applied(text: &str, before: &Record) -> Option<(String, u64)> {
    let (mnemonic, operands) = text.split_once(' ')?;
    let stack = before.number("sp") as u64;
    match mnemonic {
        "push" => return Some(("sp".to_owned(), stack.wrapping_sub(8))),
        "pop" if operands != "%rsp" => return Some(("sp".to_owned(), stack.wrapping_add(8))),
        _ => {}
    }
    let (from, to) = operands.rsplit_once(',')?;
    let (to, half) = register(to, before)?;
    let old = before.number(&to) as u64;
    let value = match immediate(from) {
        Some(number) => number,
        None => before.number(&register(from, before)?.0) as u64,
    };
    let new = match mnemonic {
        "mov" => value,
        "add" => old.wrapping_add(value),
        "sub" => old.wrapping_sub(value),
        "xor" => old ^ value,
        "and" => old & value,
        "or" => old | value,
        _ => return None,
    };
    // A write to the low half of a register clears the high one.
    Some((to, if half { new & 0xffff_ffff } else { new }))
}

/// Numbers that look random and are the same every time.
fn shuffled<T>(mut all: Vec<T>) -> Vec<T> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..all.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        all.swap(last, (state >> 33) as usize % (last + 1));
    }
    all
}

/// Functions that the workload calls, most of them on every kernel.
const FUNCTIONS: &[&str] = &[
    "ksys_read",
    "vfs_read",
    "rw_verify_area",
    "read_zero",
    "read_iter_zero",
    "fdget_pos",
    "filldir64",
    "ksys_write",
    "vfs_write",
    "security_file_permission",
    "__fget_light",
    "do_sys_openat2",
    "getname_flags",
    "do_filp_open",
    "path_openat",
    "path_init",
    "link_path_walk",
    "walk_component",
    "step_into",
    "lookup_fast",
    "inode_permission",
    "generic_permission",
    "may_open",
    "do_dentry_open",
    "vfs_open",
    "open_last_lookups",
    "alloc_empty_file",
    "terminate_walk",
    "complete_walk",
    "filp_close",
    "__fput",
    "dput",
    "mntput",
    "path_put",
    "vfs_statx",
    "vfs_fstat",
    "vfs_getattr",
    "vfs_getattr_nosec",
    "generic_fillattr",
    "cp_new_stat",
    "filename_lookup",
    "path_lookupat",
    "ksys_mmap_pgoff",
    "vm_mmap_pgoff",
    "do_mmap",
    "mmap_region",
    "get_unmapped_area",
    "handle_mm_fault",
    "iterate_dir",
    "verify_dirent_name",
];

/// An instruction of one of them.
struct Chosen {
    symbol: String,
    offset: u64,
    text: String,
    /// The instruction runs once whenever the function is called: nothing before it jumps elsewhere.
    straight: bool,
}

impl Chosen {
    fn place(&self) -> String {
        format!("kprobe:{}+{:#x}", self.symbol, self.offset)
    }

    fn entry(&self) -> String {
        format!("kprobe:{}", self.symbol)
    }
}

/// Their instructions that can be probed and followed.
fn instructions(code: &Code<'_>, functions: &[&str]) -> (Vec<Chosen>, Vec<Function>) {
    let named: Vec<Function> = functions
        .iter()
        .filter_map(|name| code.function(None, name).ok())
        .take(40)
        .collect();
    let mut all = Vec::new();
    for function in &named {
        // Somebody may jump back to whatever stands before the first branch.
        let targets = |i: &kestrel::code::Instruction| {
            i.text
                .starts_with('j')
                .then(|| i.text.split_once('+'))
                .flatten()
                .and_then(|(_, to)| {
                    let digits: String = to.chars().skip(2).take_while(char::is_ascii_hexdigit).collect();
                    u64::from_str_radix(&digits, 16).ok()
                })
        };
        let mut back = function.instructions.iter().filter_map(targets);
        let first = back.by_ref().min().unwrap_or(u64::MAX);
        let mut straight = true;
        for one in &function.instructions {
            straight &= one.offset < first;
            if one.probeable.is_ok() && code.following(one.address).is_ok() {
                all.push(Chosen {
                    symbol: function.symbol.clone(),
                    offset: one.offset,
                    text: one.text.clone(),
                    straight,
                });
            }
            straight &= !one.text.starts_with(['j', 'c', 'r', 'u', 'i', 'l']) || one.text.starts_with("lea");
        }
    }
    assert!(all.len() > 50, "functions of the workload are known");
    (shuffled(all), named)
}

#[test]
fn registers_before_an_instruction_give_those_after_it() {
    let catalog = Catalog::new(Host::default());
    let code = Code::new(&catalog).unwrap();
    let many = std::env::var(MANY).ok().and_then(|n| n.parse().ok());
    // Functions that the workload certainly calls, where there are few.
    let functions = if many.is_some() {
        FUNCTIONS
    } else {
        &FUNCTIONS[..9]
    };
    let (chosen, named) = instructions(&code, functions);
    // Of few, half are such as are certainly reached.
    let chosen: Vec<Chosen> = if let Some(many) = many {
        chosen.into_iter().take(many).collect()
    } else {
        let (straight, other): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|one| one.straight);
        straight
            .into_iter()
            .take(6)
            .chain(other.into_iter().take(6))
            .collect()
    };
    let (mut reached, mut computed, mut hits, mut straight) = (0, 0, 0, 0);
    for some in chosen.chunks(12) {
        let mut events = BTreeSet::new();
        for one in some {
            events.insert(format!("{} {{ record(regs) }}", one.place()));
            events.insert(format!("{}:post {{ record(regs) }}", one.place()));
            if one.straight {
                events.insert(one.entry());
            }
        }
        let options: Vec<&str> = events.iter().flat_map(|event| ["-e", event.as_str()]).collect();
        let line =
            format!("calls read {READS}; calls seek {READS}; ls / > /dev/null; cat /proc/uptime > /dev/null");
        let (records, counts) = record_command(&options, &["sh", "-c", &line]);
        assert_eq!(counts.lost, 0);
        for one in some {
            let (place, text) = (one.place(), &one.text);
            let of = |name: &str| records.iter().filter(|r| r.event == name).collect::<Vec<_>>();
            let (mut pre, post) = (of(&place), of(&format!("{place}:post")));
            // An instruction that had to wait for a page of the process is begun again, and seen again before it.
            if one.symbol == "filldir64" {
                let again = |before: &&Record| {
                    let next = records.iter().find(|r| {
                        r.time > before.time
                            && r.tid == before.tid
                            && (r.event == place || r.event == format!("{place}:post"))
                    });
                    next.is_some_and(|next| next.event == place && next.fields == before.fields)
                };
                pre.retain(|before| !again(before));
            }
            assert_eq!(pre.len(), post.len(), "{place}: {text} ({counts:?})");
            reached += usize::from(!pre.is_empty());
            hits += pre.len();
            if one.straight {
                assert_eq!(pre.len(), of(&one.entry()).len(), "{place}: {text}: calls");
                straight += 1;
            }
            for before in &pre {
                let Some((register, value)) = applied(text, before) else {
                    break;
                };
                // The next of the same thread: what comes between runs in an interrupt, or is another thread's.
                let after = post
                    .iter()
                    .find(|after| after.tid == before.tid && after.time > before.time);
                let after = after.unwrap_or_else(|| panic!("{place}: {text}: nothing after {before:?}"));
                assert_eq!(
                    after.number(&register) as u64,
                    value,
                    "{place}: {text}: {register}"
                );
                computed += 1;
            }
        }
    }
    println!(
        "{} instructions of {} functions: {reached} were reached, {hits} times; {straight} run once a call; {computed} results computed",
        chosen.len(),
        named.len()
    );
    assert!(reached >= 2, "the workload reaches some of them: {reached}");
    assert!(many.is_none() || computed > 0, "none of them could be computed");
    assert_eq!(list_of_kprobes(), "", "nothing stays");
    // The text is what it was. The kernel takes the jump of an optimised kprobe out of its text in the background, after the probe has left the
    // list (`kprobe_optimizer` in kernel/kprobes.c).
    for before in named {
        let now = || {
            Code::new(&catalog)
                .unwrap()
                .function(None, &before.symbol)
                .unwrap()
        };
        let mut after = now();
        for _ in 0..200 {
            if after == before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            after = now();
        }
        let both = after.instructions.iter().zip(&before.instructions);
        let changed: Vec<_> = both.filter(|(now, then)| now != then).collect();
        assert!(after == before, "{}: {changed:?}", before.symbol);
    }
}

/// The kernel's list of its probes; many come off in the background, each after a wait of the kernel's.
fn list_of_kprobes() -> String {
    let debugfs = Host::default().mount_debugfs().unwrap();
    for _ in 0..1000 {
        let list = fs::read_to_string(debugfs.join("kprobes/list")).unwrap();
        if list.is_empty() {
            return list;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::read_to_string(debugfs.join("kprobes/list")).unwrap()
}

/// Room that the program has for answers; what it has not.
const GOOD: u64 = 0x40_8000;
const BAD: u64 = 0x1000;

/// The arguments of a call that writes to an address.
type Arguments = fn(u64) -> [u64; 3];

#[test]
fn faults_are_seen_once_for_each_bad_call() {
    // getdents64, getdents, uname; the first two read the directory that is the standard input.
    let calls: &[(u32, Arguments)] = &[
        (217, |to| [0, to, 4096]),
        (78, |to| [0, to, 4096]),
        (63, |to| [to, 0, 0]),
    ];
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    for (number, arguments) in calls {
        let rewind = (8, [0, 0, 0]);
        let of = |to: u64| {
            let one = [rewind, (*number, arguments(to))];
            one.into_iter().cycle().take(2 * CALLS).collect::<Vec<_>>()
        };
        // A page that is there already: an instruction that waits for one is begun twice.
        let there = std::iter::once((63, [GOOD, 0, 0]));
        let all: Vec<_> = there.chain(of(GOOD)).collect();
        bad.push(format!(
            "{} < /proc/self",
            program(&format!("bad-{number}"), &of(BAD))
        ));
        good.push(format!(
            "{} < /proc/self",
            program(&format!("good-{number}"), &all)
        ));
    }
    // Where they fault, somebody else says: one process after the other.
    let seen = "kprobe:fixup_exception { record(ip = ((struct pt_regs *)arg0)->ip, address = arg3) }";
    let (records, _) = record_command(&["-e", seen], &["sh", "-c", &bad.join("; ")]);
    let ours: Vec<&Record> = records.iter().filter(|r| in_bad(r.number("address"))).collect();
    // A copy may try once more, elsewhere: each place counts by itself.
    let mut by_place: Vec<((u64, i64), usize)> = Vec::new();
    for record in &ours {
        let key = (record.pid, record.number("ip"));
        match by_place.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => by_place.push((key, 1)),
        }
    }
    assert!(by_place.iter().all(|(_, count)| *count == CALLS), "{by_place:?}");
    by_place.dedup_by_key(|((pid, _), _)| *pid);
    let places: Vec<String> = by_place.iter().map(|((_, ip), _)| named(*ip as u64)).collect();
    assert_eq!(places.len(), calls.len(), "{places:?}");
    let different: BTreeSet<&String> = places.iter().collect();
    assert_eq!(different.len(), calls.len(), "{places:?}");
    assert!(places[0].starts_with("filldir64+"), "{places:?}");
    // With a probe on the same instruction, too, the fault is still its own, and there is no post for it.
    let (pre, post) = (
        format!("kprobe:{}", places[0]),
        format!("kprobe:{}:post", places[0]),
    );
    let faults = places
        .iter()
        .map(|place| format!("kprobe:{place}:fault {{ record(args, regs) }}"));
    let events: Vec<String> = faults.chain([pre.clone(), post.clone()]).collect();
    let options: Vec<&str> = events.iter().flat_map(|event| ["-e", event.as_str()]).collect();
    // Good calls fault nowhere.
    let line = format!("{}; {}", bad.join("; "), good.join("; "));
    let (records, counts) = record_command(&options, &["sh", "-c", &line]);
    let of = |event: &str| records.iter().filter(|r| r.event == event).collect::<Vec<_>>();
    for place in &places {
        let faults = of(&format!("kprobe:{place}:fault"));
        assert!(
            counts.explain(faults.len(), CALLS),
            "{place}: {} {counts:?}",
            faults.len()
        );
        for record in faults {
            assert!(in_bad(address(record, "address")), "{record:?}");
            assert_eq!(record.text("trap"), "PF");
            assert!(record.text("ip").starts_with(place), "{place}: {record:?}");
        }
    }
    let (pre, post) = (of(&pre).len(), of(&post).len());
    assert!(post > 0 && post + CALLS == pre, "{pre} before, {post} after");
}

fn in_bad(address: i64) -> bool {
    (BAD..BAD + 4096).contains(&(address as u64))
}

fn address(record: &Record, field: &str) -> i64 {
    i64::from_str_radix(record.text(field).trim_start_matches("0x"), 16).unwrap()
}

fn named(address: u64) -> String {
    let catalog = Catalog::new(Host::default());
    let function = Code::new(&catalog).unwrap().around(address).unwrap();
    format!("{}+{:#x}", function.symbol, address - function.address)
}

#[test]
fn returns_know_their_entries() {
    let event = "kretprobe:vfs_read { record(entry.arg2, entry.args.count, retval, entry.reg(\"dx\"), took = nsecs - entry.nsecs) }";
    let (records, counts) = record_command(&["-e", event], &["calls", "read", "100"]);
    let ours = records.iter().filter(|r| r.number("entry_arg2") == 1).count();
    assert!(counts.explain(ours, 100), "{ours} {counts:?}");
    for record in &records {
        assert_eq!(record.number("entry_count"), record.number("entry_arg2"));
        assert_eq!(record.number("entry_dx"), record.number("entry_arg2"));
        assert!(record.number("retval") <= record.number("entry_arg2"));
        assert!(record.number("took") > 0);
    }
    // Each of its calls goes through the next: they nest, in many processes at once.
    let nested = "kretprobe:ksys_*read* { record(entry.arg2, retval) }";
    let (records, _) = record_command(&["-e", nested], &["calls", "read", "50"]);
    let of = |name: &str| {
        records
            .iter()
            .filter(|r| r.event == name && r.number("entry_arg2") == 1)
            .count()
    };
    assert!(of("kretprobe:ksys_read") > 0);
    let printed = kestrel(&[
        "trace",
        "-e",
        "fexit:vfs_read { record(entry.nsecs) }",
        "--",
        "true",
    ])
    .err;
    assert!(
        printed.contains("kretprobe:vfs_read keeps any value"),
        "{printed}"
    );
}

#[test]
fn missed_returns_are_reported() {
    // A call that sleeps and that nobody else makes: misses are counted for everybody.
    let (empty, fill) = rustix::pipe::pipe().unwrap();
    let empty = std::sync::Arc::new(empty);
    let own = std::process::id().to_string();
    let options = ["-p", &own, "-e", "kretprobe:__x64_sys_tee:maxactive=1"];
    let recorder = Recorder::start("missed", &options);
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let empty = std::sync::Arc::clone(&empty);
            std::thread::spawn(move || {
                let (_own, copy) = rustix::pipe::pipe().unwrap();
                rustix::pipe::tee(&*empty, &copy, 1, rustix::pipe::SpliceFlags::empty()).unwrap()
            })
        })
        .collect();
    // All of them sleep in the call when there is something to copy.
    while sleepers("276") < 8 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    rustix::io::write(&fill, b"x").unwrap();
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), 1);
    }
    let (records, counts, printed) = recorder.stop();
    assert_eq!(records.len() as u64 + counts.missed, 8, "{printed}");
    assert!(
        printed.contains("returns of kretprobe:__x64_sys_tee were missed"),
        "{printed}"
    );
    assert!(
        printed.contains("(counted for all processes, not only for those traced)"),
        "{printed}"
    );
    // Those of a set are counted together, and their line says so.
    let set = "kretprobe:vfs_read* { count() }";
    let printed = kestrel(&["record", "-o", "/tmp/missed-set", "-e", set, "--", "true"]).err;
    let of_set = |line: &str| {
        line.contains(" of kretprobe:vfs_read") && line.contains(" other") && line.contains(" missed")
    };
    let lines: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains(" missed") && !line.contains("; lost "))
        .collect();
    assert!(lines.iter().all(|line| of_set(line)), "{printed}");
    // Where nothing was missed nothing is said of it.
    assert!(
        !lines.iter().any(|line| line.trim().starts_with("0 ")),
        "{printed}"
    );
    assert!(!own_events().contains("kestrel/"), "{}", own_events());
}

/// Number of this process's threads that sleep in a system call of that number.
fn sleepers(call: &str) -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let in_it = |thread: std::io::Result<fs::DirEntry>| -> Option<bool> {
        let text = fs::read_to_string(thread.ok()?.path().join("syscall")).ok()?;
        Some(text.split(' ').next() == Some(call))
    };
    threads.filter_map(in_it).filter(|sleeps| *sleeps).count()
}

fn own_events() -> String {
    fs::read_to_string(format!("{}/kprobe_events", vm_tests::TRACEFS)).unwrap()
}

#[test]
fn tracefs_events_of_a_killed_run_are_removed_and_others_are_not() {
    use std::io::Write;
    let file = format!("{}/kprobe_events", vm_tests::TRACEFS);
    let define = |line: &str| {
        let mut events = fs::OpenOptions::new().append(true).open(&file).unwrap();
        events.write_all(line.as_bytes()).unwrap();
    };
    define("p:theirs/one vfs_read\n");
    let event = "kretprobe:__x64_sys_flock:maxactive=3";
    let mut recorder = Recorder::start("killed", &["-e", event]);
    assert!(own_events().contains("kestrel/p"), "{}", own_events());
    recorder.kill();
    let _ = recorder.wait();
    fs::write(
        "/tmp/stays.kst",
        format!("table main {{ {event} {{ record(retval) }} }}"),
    )
    .unwrap();
    kestrel(&["start", "stays", "/tmp/stays.kst"]).success();
    let _ = kestrel(&[
        "record",
        "-o",
        "/tmp/swept",
        "-e",
        "kprobe:vfs_read",
        "--",
        "true",
    ]);
    let left = own_events();
    assert_eq!(left.matches("kestrel/p").count(), 1, "the session's own: {left}");
    kestrel(&["stop", "stays"]).success();
    let left = own_events();
    assert!(
        !left.contains("kestrel/") && left.contains("theirs/one"),
        "{left}"
    );
    define("-:theirs/one\n");
}
