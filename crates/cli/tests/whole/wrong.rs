//! Wrong input: a clear sentence, the documented code, nothing left behind.

use crate::command::{Answer, WorkFolder, needs_tracing};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const SWITCH: &str = "sched:sched_switch";

#[test]
fn a_wrong_command_line() {
    let place = WorkFolder::new();
    place.run(&["--nosuch"]).fails(2, &["--nosuch"]);
    place
        .run(&["record"])
        .fails(2, &["nothing says what to trace", "-e EVENT"]);
    place
        .run(&["record", "-e", SWITCH, "--nosuch"])
        .fails(2, &["--nosuch"]);
    place
        .run(&["record", "-e", SWITCH, "--buffer-size", "7Q"])
        .fails(2, &["not a unit"]);
    place
        .run(&["record", "-e", SWITCH, "--duration", "soon"])
        .fails(2, &["not a"]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_trace_that_is_none() {
    let place = WorkFolder::new();
    place
        .run(&["print"])
        .fails(1, &["kestrel.trace", "hint:", "record"]);
    fs::write(place.path().join("file"), "x").unwrap();
    place
        .run(&["report", "file"])
        .fails(1, &["file", "no recording", "trace.dat"]);
    place.run(&["print", "."]).fails(1, &["no metadata"]);
    fs::write(place.path().join("metadata"), "no CTF at all {").unwrap();
    place.run(&["print", "."]).fails(1, &["metadata"]);
}

#[test]
fn a_bare_word_is_a_table_that_comes_along() {
    let place = WorkFolder::new();
    let theirs = "table mine { sched:sched_switch { exec(\"/bin/evil\") } }";
    for name in ["flight", "mine", "mine.kst"] {
        fs::write(place.path().join(name), theirs).unwrap();
    }
    let shown = place.run(&["table", "show", "flight", "--source"]).succeeds();
    assert!(shown.out.contains("The flight recorder"), "{}", shown.out);
    let shown = place.run(&["table", "show", "./flight", "--source"]).succeeds();
    assert_eq!(shown.out, theirs);
    place.run(&["table", "show", "mine.kst", "--source"]).succeeds();
    let bare = place.run(&["table", "show", "mine", "--source"]);
    bare.fails(2, &["no table file `mine` comes with Kestrel", "`./mine`"]);
    let misspelled = place.run(&["table", "check", "fligt"]);
    misspelled.fails(2, &["did you mean flight?", "table list --shipped"]);
}

#[test]
fn errors_of_the_handler_come_before_those_of_options() {
    let place = WorkFolder::new();
    let answer = place.run(&["handler", "control", "main", "sched:sched_switch", "reset"]);
    answer.fails(2, &["hint: the handler comes first", "--session NAME"]);
    // The hint follows the command that was parsed, not the words of the message.
    let answer = place.run(&["kestrel handler control"]);
    assert!(!answer.err.contains("hint: the handler"), "{}", answer.err);
    answer.fails(2, &["unrecognized subcommand"]);
}

#[test]
fn a_set_of_tracepoints_is_named_as_people_know_it() {
    needs_tracing!();
    let place = WorkFolder::new();
    let arguments = [
        "record",
        "--via",
        "classic",
        "-e",
        "sched:sched_wak* { record(nosuchfield) }",
    ];
    let answer = place.run(&arguments);
    answer.fails(2, &["nosuchfield"]);
    let number = |word: &str| word.len() == 10 && word.starts_with('(') && word.ends_with(')');
    assert!(!answer.err.split_whitespace().any(number), "{}", answer.err);
}

/// Escape sequences of a file name or an argument do not reach the terminal.
#[test]
fn nothing_of_others_is_obeyed_by_a_terminal() {
    let place = WorkFolder::new();
    let name = "x\u{1b}]0;owned\u{7}\u{202e}";
    fs::create_dir(place.path().join(name)).unwrap();
    for arguments in [
        &["print", name][..],
        &["table", "check", &format!("./{name}")],
        &["bpf", "show", name],
        &["recover", name],
        &["report", "a", name],
        &[name],
    ] {
        let answer = place.run(arguments);
        let text = answer.out + &answer.err;
        // Of words that it does not know the reader of the command line leaves out more.
        let whole = text.contains(r"x\x1b]0;owned\x07\u202e") || text.contains(r"x\u202e");
        assert!(whole, "{arguments:?}: {text:?}");
        let bad = |c: char| c != '\n' && c != '\t' && c.is_control() || c == '\u{202e}';
        assert!(!text.contains(bad), "{arguments:?}: {text:?}");
    }
}

#[test]
fn a_directory_with_a_file_called_metadata_is_left_alone() {
    needs_tracing!();
    let place = WorkFolder::new();
    let file = place.path().join("mine/metadata");
    fs::create_dir(place.path().join("mine")).unwrap();
    fs::write(&file, "title: my thesis\n").unwrap();
    let arguments = ["record", "-e", SWITCH, "--duration", "1ms", "-o", "mine"];
    place
        .run(&arguments)
        .fails(1, &["mine", "not an empty directory"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "title: my thesis\n");
}

#[test]
fn root_records_nowhere_that_others_may_write() {
    needs_tracing!();
    let place = WorkFolder::new();
    let theirs = place.path().join("kestrel.trace");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o777)).unwrap();
    if std::os::unix::fs::chown(&theirs, Some(1000), Some(1000)).is_err() {
        eprintln!("skipped: only root can be attacked by others");
        return;
    }
    let refused = place.run(&["record", "-e", SWITCH, "--duration", "1ms"]);
    refused.fails(1, &["kestrel.trace", "another user (1000)", "chown"]);
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

/// Within a bound of memory that reading without end meets soon.
#[test]
fn an_object_that_has_no_end() {
    let place = WorkFolder::new();
    let mut bounded = Command::new("sh");
    bounded
        .args(["-c", "ulimit -v 2000000; exec \"$K\" bpf show /dev/zero"])
        .env("K", env!("CARGO_BIN_EXE_kestrel"))
        .current_dir(place.path());
    Answer::from(bounded.output().unwrap()).fails(1, &["/dev/zero", "it is no file but a device"]);
    std::os::unix::fs::symlink("/dev/zero", place.path().join("metadata")).unwrap();
    place.run(&["print", "."]).fails(1, &["it is no file"]);
}

/// A file that there is no memory for is an error: it is longer than the process may have memory.
#[test]
fn an_object_that_memory_is_too_small_for() {
    let place = WorkFolder::new();
    let file = fs::File::create(place.path().join("large.o")).unwrap();
    file.set_len(200 << 20).unwrap();
    let mut bounded = Command::new("sh");
    bounded
        .args(["-c", "ulimit -v 180000; exec \"$K\" bpf show ./large.o"])
        .env("K", env!("CARGO_BIN_EXE_kestrel"))
        .current_dir(place.path());
    Answer::from(bounded.output().unwrap()).fails(1, &["large.o", "memory"]);
}

#[test]
fn wrong_events_and_predicates() {
    needs_tracing!();
    let place = WorkFolder::new();
    let wrong = |event: &str, code, words: &[&str]| {
        place
            .run(&["record", "-e", event, "--", "true"])
            .fails(code, words);
    };
    wrong(
        "sched:sched_swich",
        2,
        &["sched:sched_swich", "did you mean", SWITCH],
    );
    wrong("nosuch:event", 2, &["nosuch:event", "hint:", "kestrel list"]);
    wrong("sched", 2, &["sched:*"]);
    wrong("nosuch", 2, &["KIND:NAME"]);
    wrong("tracepoint:sched", 2, &["tracepoint:GROUP:EVENT"]);
    wrong(
        "sched:sched_switch /pidd == 1/",
        2,
        &[
            "<event>:1:21: error:",
            "\n                        ^^^^\n",
            "\"pid\"",
        ],
    );
    wrong(
        "sched:sched_switch /args.nosuch == 1/",
        2,
        &["nosuch", "next_pid"],
    );
    wrong("sched:sched_switch { record( }", 2, &["<event>:1:"]);
    // Read raw, too, a tracepoint has fields, not the arguments of what is behind them.
    for event in [SWITCH, "syscalls:sys_enter_lseek", "sched:sched_process_exit"] {
        let printed = [
            "The arg0 builtin can only be used with",
            "hint: its fields have names: args.",
        ];
        let text = format!("{event} {{ record(arg0) }}");
        wrong(&text, 2, &printed);
        place
            .run(&["record", "--via", "classic", "-e", &text, "--", "true"])
            .fails(2, &printed);
    }
    let dry = [
        "record",
        "--dry-run",
        "-e",
        "rawtracepoint:sched_switch { record(arg0) }",
    ];
    place.run(&dry).succeeds();
    wrong("", 2, &["name of an event"]);
    wrong("BEGIN", 2, &["BEGIN", "`kestrel run`"]);
    let later = "asyncwatchpoint:0x10:8:w";
    wrong(later, 2, &[later, "not yet supported"]);
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        0,
        "no trace was begun"
    );
}

#[test]
fn counters_of_the_processor_are_refused_by_name_where_there_are_none() {
    let place = WorkFolder::new();
    let plan = |event: &str| place.run(&["record", "--dry-run", "-e", event]);
    plan("hardware:cycle").fails(2, &["cpu-cycles, instructions"]);
    let devices = std::path::Path::new("/sys/bus/event_source/devices");
    let counters = ["cpu", "cpu_core"].iter().any(|name| devices.join(name).exists());
    for event in ["hardware:cycles:1000", "h:instructions"] {
        let answer = plan(event);
        if counters {
            answer.succeeds();
        } else {
            answer.fails(4, &["no counters in this processor"]);
        }
    }
}

#[test]
fn a_pattern_without_events_is_named_beside_one_that_has_some() {
    needs_tracing!();
    let answer = WorkFolder::new()
        .run(&["list", SWITCH, "sched:no_such_*"])
        .succeeds();
    assert_eq!(answer.out, "tracepoint:sched:sched_switch\n");
    assert!(answer.err.contains("sched:no_such_*"), "{}", answer.err);
    assert!(!answer.err.contains(SWITCH), "{}", answer.err);
}

#[test]
fn commands_and_processes_that_are_not_there() {
    needs_tracing!();
    let place = WorkFolder::new();
    place
        .run(&["record", "-e", SWITCH, "--", "nosuch-program"])
        .fails(1, &["cannot run `nosuch-program`"]);
    let plain = place.path().join("plain");
    fs::write(&plain, "x").unwrap();
    place
        .run(&["trace", "-e", SWITCH, "--", "./plain"])
        .fails(1, &["not executable"]);
    place
        .run(&["record", "-e", SWITCH, "-p", "4000000"])
        .fails(1, &["process 4000000"]);
    // Tests run in threads that do not lead their process.
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap().to_string_lossy().into_owned();
    let leader = format!("is a thread of process {}", std::process::id());
    place
        .run(&["record", "-e", SWITCH, "-p", &thread])
        .fails(1, &[leader.as_str(), "-p"]);
    fs::remove_file(plain).unwrap();
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        0,
        "no trace was begun"
    );
}

#[test]
fn times_that_no_clock_holds() {
    let place = WorkFolder::new();
    let printed = ["hundred years"];
    let long = "--duration=10000000000000000000s";
    place
        .run(&["record", "-e", SWITCH, "-a", long])
        .fails(2, &printed);
    place.run(&["trace", "-e", SWITCH, "-a", long]).fails(2, &printed);
    place
        .run(&["trace", "--session", "s", "--since=9000000000000000h"])
        .fails(2, &printed);
    place
        .run(&["status", "--interval=10000000000000000000s"])
        .fails(2, &printed);
    place
        .run(&["agent", "--timeout=10000000000000000000s"])
        .fails(2, &printed);
    place
        .run(&["buffer", "dump", "--since=10000000000000000000s"])
        .fails(2, &printed);
}

#[test]
fn numbers_and_places_that_mean_nothing() {
    let place = WorkFolder::new();
    for (arguments, printed) in [
        (&["agent", "--rate", "nan"][..], "no number of starts per second"),
        (&["agent", "--rate", "inf"], "no number of starts per second"),
        (&["agent", "--rate=-1"], "no number of starts per second"),
        (&["agent", "--jobs", "0"], "0 is not in 1.."),
        (&["agent", "--burst", "0"], "0 is not in 1.."),
        (&["agent", "--log", "-"], "cannot go to standard output"),
        (
            &["agent", "--log", "l", "--rotate-size", "0"],
            "nothing fits into 0 bytes",
        ),
        (
            &["record", "-e", SWITCH, "--buffer-size", "0"],
            "nothing fits into 0 bytes",
        ),
        (&["buffer", "resize", "main", "0"], "nothing fits into 0 bytes"),
        (
            &["record", "-e", SWITCH, "-o", "-"],
            "cannot go to standard output",
        ),
        (&["buffer", "dump", "-o", "-"], "cannot go to standard output"),
        (&["recover", "image", "-o", "-"], "cannot go to standard output"),
    ] {
        place.run(arguments).fails(2, &[printed]);
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn arguments_and_names_that_are_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Stdio;
    needs_tracing!();
    let place = WorkFolder::new();
    let crooked = OsStr::from_bytes(b"g\xff\xfe");
    fs::copy(has_path("sleep"), place.path().join(crooked)).unwrap();
    let event = "syscalls:sys_enter_exit_group";
    let run = |arguments: &[&OsStr]| -> Answer {
        let mut command = place.command(&["record", "-e", event]);
        command.args(arguments).output().unwrap().into()
    };
    let program = place.path().join(crooked);
    let (output, end, seconds) = (OsStr::new("-o"), OsStr::new("--"), OsStr::new("0.01"));
    let first = run(&[output, crooked_trace(), end, program.as_os_str(), seconds]).succeeds();
    assert!(first.err.contains("1 event in"), "{}", first.err);
    assert!(place.path().join(crooked_trace()).join("metadata").is_file());
    // It is called as its file is, and ends on a word.
    let mut child = Command::new(&program)
        .arg("1000")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let second = run(&["-p", &pid, "--duration", "1ms"].map(OsStr::new));
    child.kill().unwrap();
    child.wait().unwrap();
    second.succeeds();
}

fn crooked_trace() -> &'static std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(b"t\xff")
}

/// Where a program lies.
fn has_path(program: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file()).unwrap()
}

#[test]
fn who_reads_messages_may_go_away() {
    let code = |stderr: std::process::Stdio| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kestrel"));
        let command = command.args(["table", "check", "/nosuch"]).stderr(stderr);
        command.status().unwrap().code()
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(code(writer.into()), code(std::process::Stdio::null()));
}

#[test]
fn outputs_that_cannot_be_written() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = |to: &str| place.run(&["record", "-e", SWITCH, "-o", to, "--", "touch", "ran"]);
    record("/proc/nosuch").fails(1, &["/proc/nosuch"]);
    fs::create_dir(place.path().join("mine")).unwrap();
    fs::write(place.path().join("mine/letter"), "dear").unwrap();
    record("mine").fails(1, &["not an empty directory", "hint:"]);
    fs::write(place.path().join("file"), "dear").unwrap();
    record("file").fails(1, &["file"]);
    assert_eq!(fs::read(place.path().join("mine/letter")).unwrap(), b"dear");
    assert_eq!(fs::read(place.path().join("file")).unwrap(), b"dear");
    assert!(!place.path().join("ran").exists(), "the command never ran");
}

#[test]
fn a_note_beside_a_trace_saves_the_trace() {
    needs_tracing!();
    let place = WorkFolder::new();
    let record = || {
        place.run(&[
            "record",
            "-e",
            "syscalls:sys_enter_exit_group",
            "-o",
            "t",
            "--",
            "true",
        ])
    };
    record().succeeds();
    let before = place.run(&["print", "t"]).succeeds().out;
    assert!(!before.is_empty());
    fs::write(place.path().join("t/notes.txt"), "dear").unwrap();
    record().fails(1, &["t/notes.txt", "move it away"]);
    assert_eq!(place.run(&["print", "t"]).succeeds().out, before);
    fs::remove_file(place.path().join("t/notes.txt")).unwrap();
    record().succeeds();
}

#[test]
fn the_place_of_a_running_recorder_is_taken() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    needs_tracing!();
    let place = WorkFolder::new();
    let event = "syscalls:sys_enter_exit_group";
    let begin = || {
        let arguments = ["record", "-e", event, "--", "sh", "-c", "echo ready; read line"];
        let mut child = place
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        child
    };
    let mut first = begin();
    let second = || place.run(&["record", "-e", event, "--", "true"]);
    let printed = ["another process is writing a trace to kestrel.trace", "-o"];
    second().fails(1, &printed);
    drop(first.stdin.take());
    let first: Answer = first.wait_with_output().unwrap().into();
    let first = first.err;
    assert!(first.contains("1 event in"), "{first}");
    assert_eq!(place.run(&["print"]).succeeds().out.lines().count(), 1);
    second().succeeds();
    // Nothing of one that was killed is in the way.
    let mut killed = begin();
    killed.kill().unwrap();
    killed.wait().unwrap();
    second().succeeds();
}

#[test]
fn a_field_that_no_event_has() {
    needs_tracing!();
    let place = WorkFolder::new();
    place.run(&[
        "record",
        "-e",
        "syscalls:sys_enter_lseek",
        "-o",
        "t",
        "--",
        "true",
    ]);
    place.run(&["report", "t", "--field", "nosuch"]).fails(
        2,
        &[
            "no event of this trace has a field nosuch",
            "hint: its fields are ",
            "offset, whence",
        ],
    );
}

#[test]
fn a_wrong_line_of_the_kernels_is_shown_with_its_place() {
    let place = WorkFolder::new();
    for (line, at, printed) in [
        ("p: vfs_read", 2, "no name behind the colon"),
        ("r0:x vfs_read", 1, "number of calls"),
        ("p:x vfs_read+8 a=$arg1", 17, "entry of a function"),
        ("p:x vfs_read a=$stack10000", 15, "2048 words"),
        ("p:x vfs_read a=%rdi", 15, "calls it %di"),
    ] {
        let shown = format!("    {line}\n    {:at$}^", "");
        let answer = place.run(&["probe", "add", "--dry-run", line]);
        assert!(answer.err.contains(&shown), "{line}: {}", answer.err);
        answer.fails(2, &[printed]);
    }
}

#[test]
fn a_time_series_beyond_the_kernels_memory_for_a_value_says_so() {
    let program = "config = { unstable_tseries = enable } begin { @ = tseries(1, 1s, 170001); }";
    let words = [
        "the number of intervals is 1 to 170000",
        "no value of more than 4 MiB",
    ];
    WorkFolder::new().run(&["run", "-e", program]).fails(2, &words);
}

#[test]
fn imports_of_c_and_of_objects_name_the_nearest_way() {
    let place = WorkFolder::new();
    std::fs::write(place.path().join("count.bpf.c"), "int count(void) { return 1; }").unwrap();
    std::fs::write(place.path().join("count.bpf.o"), b"\x7fELF\x02\x01\x01\x00").unwrap();
    for (file, why) in [
        ("count.bpf.c", "it is C"),
        ("count.bpf.o", "it is a compiled object"),
    ] {
        let program = format!("import \"{file}\"; begin {{ print(count()); }}");
        let answer = place.run(&["run", "-e", &program]);
        answer.fails(
            2,
            &[why, "macros, in a .bt file", "--target=bpf", "kestrel bpf run"],
        );
        assert!(!answer.err.contains("-I"), "{}", answer.err);
    }
}
