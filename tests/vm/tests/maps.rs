//! Maps of handlers: counts are exact over processors and programs, what finds no room is losses, and every aggregation loads on every kernel.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use vm_tests::{
    Run, kestrel,
    recording::{counts, missed},
};

const CALLS: usize = 10_000;
const GETPPID: &str = "syscalls:sys_enter_getppid /comm == \"calls\"/";

/// Records with these handlers while a command runs.
fn record(options: &[&str], handlers: &[&str], command: &[&str]) -> Run {
    let mut arguments = vec!["record", "-o", "/tmp/maps.trace"];
    arguments.extend_from_slice(options);
    for handler in handlers {
        arguments.extend_from_slice(&["-e", handler]);
    }
    arguments.push("--");
    arguments.extend_from_slice(command);
    let run = kestrel(&arguments);
    assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.err);
    run
}

fn calls() -> [&'static str; 3] {
    ["calls", "getppid", "10000"]
}

/// The number after `title:`.
fn number(run: &Run, title: &str) -> usize {
    let line = run
        .out
        .lines()
        .find_map(|line| line.strip_prefix(title)?.strip_prefix(": "));
    let Some(number) = line.and_then(|rest| rest.split(' ').next()?.replace(',', "").parse().ok()) else {
        panic!("no {title} in\n{}\n{}", run.out, run.err)
    };
    number
}

/// The sum over a histogram's buckets.
fn sum(run: &Run, title: &str) -> usize {
    let rows = run
        .out
        .lines()
        .skip_while(|line| *line != format!("{title}:"))
        .skip(1);
    let rows = rows.take_while(|line| line.contains(" |"));
    let count = |row: &str| {
        row.split(" |")
            .next()?
            .split_whitespace()
            .last()?
            .parse::<usize>()
            .ok()
    };
    rows.map(|row| count(row).unwrap()).sum()
}

/// The sum over a time series' intervals, of which the longest that an emulated machine needs are not as many as it has.
fn series(run: &Run, title: &str) -> usize {
    let rows = run
        .out
        .lines()
        .skip_while(|line| *line != format!("{title}:"))
        .skip(3);
    let rows = rows.take_while(|line| !line.starts_with(' '));
    let value = |row: &str| row.split_whitespace().last()?.parse::<usize>().ok();
    rows.filter_map(value).sum()
}

#[test]
fn every_event_counts() {
    for via in ["raw", "classic"] {
        let handler = format!(
            "{GETPPID} {{ @[comm] = count(); @n++; @plain = count(); @h = hist(nsecs); @l = lhist(pid, 0, 100000, 1000); @one = sum(1); @series = tseries(1, 10ms, 680, \"sum\") }}"
        );
        let run = record(&["--via", via], &[&handler], &calls());
        let losses = counts(&run.err);
        for kept in [
            number(&run, "@[calls]"),
            number(&run, "@n"),
            number(&run, "@plain"),
            number(&run, "@one"),
            sum(&run, "@h"),
            sum(&run, "@l"),
            series(&run, "@series"),
        ] {
            assert!(
                losses.explain(kept, CALLS),
                "{kept}, {} missed: {}",
                losses.missed,
                run.out
            );
        }
        assert!(!run.err.contains("none of the events came"), "{}", run.err);
        // The trace keeps them.
        let report = kestrel(&["report", "/tmp/maps.trace"]).success();
        for line in run.out.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            assert!(report.contains(line), "{line} is not in\n{report}");
        }
        let report = kestrel(&["report", "/tmp/maps.trace", "--format", "json"]).success();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let held = report["maps"].as_array().unwrap().iter();
        let counted = held.filter_map(|map| map["data"]["@"]["calls"].as_u64());
        assert_eq!(counted.collect::<Vec<_>>(), [number(&run, "@[calls]") as u64]);
    }
}

#[test]
fn programs_on_several_processors_share_a_map() {
    let line = "calls getppid 10000 & calls getppid 10000 & calls getppid 10000; wait";
    let enter = format!("{GETPPID} {{ @all++; @by[\"both\"] = count(); @sum[1] += 2; count() }}");
    let exit = enter.replace("enter", "exit");
    let run = record(&[], &[&enter, &exit], &["sh", "-c", line]);
    let losses = counts(&run.err);
    let both = 2 * 3 * CALLS;
    for kept in [
        number(&run, "@all"),
        number(&run, "@by[both]"),
        number(&run, "@sum[1]") / 2,
        number(&run, "count()[syscalls:sys_enter_getppid]")
            + number(&run, "count()[syscalls:sys_exit_getppid]"),
    ] {
        assert!(
            losses.explain(kept, both),
            "{kept} of {both}, {} missed: {}",
            losses.missed,
            run.out
        );
    }
}

/// New keys on several processors at once: each is made once, and what both found counts.
#[test]
fn keys_are_made_by_the_first_cpu() {
    let line = "calls getppid 10000 & calls getppid 10000; wait";
    // Every call of a thread uses a key that the other makes at about the same time.
    let handler = format!("{GETPPID} {{ @call[tid]++; @at[@call[tid]] = count(); @plain[@call[tid]] += 1 }}");
    let run = record(&[], &[&handler], &["sh", "-c", line]);
    let losses = counts(&run.err);
    for title in ["@at", "@plain"] {
        let rows = run
            .out
            .lines()
            .filter(|line| line.starts_with(&format!("{title}[")));
        let counted: usize = rows
            .map(|row| row.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
            .sum();
        let kept = counted + number(&run, title);
        assert!(
            losses.explain(kept, 2 * CALLS),
            "{title}: {kept}, {} missed",
            losses.missed
        );
    }
}

#[test]
fn updates_of_full_maps_are_reported() {
    let handler = format!("{GETPPID} {{ @called = count(); @[nsecs] = count() }}");
    let run = record(&[], &[&handler], &calls());
    let called = number(&run, "@called");
    let keys = run.out.lines().filter(|line| line.starts_with("@[")).count();
    assert_eq!(keys, 4096);
    assert_eq!(number(&run, "@"), called - keys, "{}", run.err);
}

/// Each handler on each kind of program: whether the verifier takes it is what is asked.
#[test]
fn every_handler_loads() {
    let handlers = [
        "{ @ = count(); @s = sum(tid); @a = min((int32)tid); @b = max(tid); @c = avg(tid); @d = stats(tid) }",
        "{ @[comm, tid] = count(); @s[tid] = sum(tid); @a[tid] = min((int32)tid); @b[1] = max(tid); @c[1] = avg(tid); @d[cpu] = stats(tid) }",
        "{ @h = hist(tid); @i = hist(tid, 5); @l = lhist(tid, -10, 90000, 100) }",
        "{ @h[comm] = hist(tid); @i[tid] = hist(nsecs, 3); @l[comm, cpu] = lhist(tid, 0, 1000, 1) }",
        "{ @t[tid] = comm; if (@t[tid] == \"calls\") { @n[@t[tid], \"x\"]++ } }",
        "/@t[tid] == 0 || has_key(@t, tid)/ { @t[tid] = nsecs; @u = comm; @v = @u; record(@t[tid], @v) }",
        "{ @x[tid] = 1; delete(@x[tid]); delete(@x, tid); clear(@x); zero(@x); @y = 3; clear(@y); @y -= 2; @z *= 2 }",
        "{ count(); hist(tid); sum(tid); if (tid > 3) { lhist(tid, 0, 10, 1) } else { hist(cpu) } }",
        "{ @o[kstr(curtask->comm, 7), tid, kstr(curtask->comm, 13)] = kstr(curtask->comm, 5); @n[kstr(curtask->comm, 1)]++; $t = kstr(0, 3) == \"\"; record($t, str(1, 9)) }",
        "{ @a = (int16 *)0x32; @a += 2; @b = @a - (int16 *)0x32; @f[kstr(0)] = count(); @g[tid ? kstr(curtask->comm, 6) : \"x\"]++ }",
        "{ @ = count(); @s = tseries(tid, 1ms, 682); @t[comm] = tseries((int64)tid, 100ms, 9, \"max\"); @u[tid] = tseries(tid, 1s, 1, \"avg\"); tseries(cpu, 1s, 3, \"sum\") }",
        "{ @p[kptr(curtask)] = count(); @q[1, 2, 3, 4, 5, 6, comm, comm] = max(nsecs) }",
    ];
    for (options, event) in [
        (vec!["--via", "raw"], "syscalls:sys_enter_read"),
        (vec!["--via", "classic"], "syscalls:sys_enter_read"),
        (vec!["--via", "raw", "-a"], "sched:sched_switch"),
        (vec![], "kprobe:vfs_read"),
        (vec![], "kretprobe:vfs_read"),
        (vec![], "fentry:vfs_read"),
    ] {
        // Each has maps of its own.
        let own = |(index, handler): (usize, &&str)| {
            format!("{event} {}", handler.replace('@', &format!("@m{index}")))
        };
        let handlers: Vec<String> = handlers.iter().enumerate().map(own).collect();
        let handlers: Vec<&str> = handlers.iter().map(String::as_str).collect();
        let run = record(&options, &handlers, &["calls", "read", "100"]);
        assert!(number(&run, "@m0") > 0, "{event}: {}", run.out);
    }
}

#[test]
fn texts_of_the_process_are_keys() {
    let handler =
        "syscalls:sys_enter_openat { @[str(args.filename)] = count(); @short[str(args.filename, 8)]++ }";
    // Whether they load is what is asked: `rwbs` has 8 bytes or 10, and `str(1)` cannot be read.
    let others = [
        "block:block_rq_complete { @rwbs[args.rwbs] = count(); @last = args.rwbs }",
        "syscalls:sys_enter_read /comm == \"calls\"/ { @bad[str(1)]++; record(bad = str(1), empty = str(1) == \"\") }",
    ];
    // Many times, since 7.x may skip some of them.
    let line = "for i in 1 2 3 4 5 6 7 8; do calls read 1; done";
    let run = record(&[], &[handler, others[0], others[1]], &["sh", "-c", line]);
    assert!(number(&run, "@bad[(fault)]") > 0, "{}", run.out);
    let text = kestrel(&["print", "/tmp/maps.trace"]).success();
    assert!(
        text.lines().all(|line| line.ends_with("bad=(fault) empty=false")),
        "{text}"
    );
    let json = kestrel(&["print", "/tmp/maps.trace", "--format", "json"]).success();
    assert!(json.contains("{\"bad\":null,\"empty\":false}"), "{json}");
    let losses = counts(&run.err);
    for key in ["@[/dev/zero]", "@short[/dev/zer]"] {
        let opened = number(&run, key);
        assert!(losses.explain(opened, 8), "{opened}: {}", run.out);
    }
}

#[test]
fn maps_are_seen_live_and_as_json() {
    let handler = format!("{GETPPID} {{ @[comm] = count() }}");
    let run = kestrel(&[
        "trace", "--format", "json", "-e", &handler, "--", "calls", "getppid", "100",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let shown: serde_json::Value = serde_json::from_str(run.out.trim()).unwrap();
    let count = shown["data"]["@"]["calls"].as_u64().unwrap();
    assert!(
        count <= 100 && count + missed(&run.err) >= 100,
        "{shown}: {}",
        run.err
    );
    assert_eq!(
        run.out.trim(),
        format!("{{\"data\":{{\"@\":{{\"calls\":{count}}}}},\"type\":\"map\"}}")
    );
}

#[test]
fn tables_count_into_maps() {
    let table = format!(
        "config = {{ max_map_keys = 100 }}\ntable t {{\n  {GETPPID} {{ count(); @[nsecs] = count() }}\n}}\n"
    );
    std::fs::write("/tmp/maps.kst", table).unwrap();
    let run = record(&["--table", "/tmp/maps.kst"], &[], &calls());
    let counted = number(&run, "count()[syscalls:sys_enter_getppid]");
    let losses = counts(&run.err);
    assert!(
        losses.explain(counted, CALLS),
        "{counted}, {} missed",
        losses.missed
    );
    assert_eq!(run.out.lines().filter(|line| line.starts_with("@[")).count(), 100);
    assert_eq!(number(&run, "@"), counted - 100);
}
