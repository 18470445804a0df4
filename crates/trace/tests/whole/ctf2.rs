//! Common Trace Format 2: the streams of `lttng_streams`, described by its JSON instead of TSDL, are the same records.

use crate::babeltrace::babeltrace;
use crate::importing::read;
use crate::lttng_streams::write_lttng;
use kestrel_trace::import;
use serde_json::{Value, json};
use std::path::Path;

/// The metadata of `lttng_streams::tsdl` in the words of version 2.
fn fragments(little: bool) -> Vec<Value> {
    let order = if little { "little-endian" } else { "big-endian" };
    let of = |sign: &str, bits: u64, align: u64, role: &str| {
        json!({
            "type": format!("fixed-length-{sign}-integer"), "length": bits, "alignment": align, "byte-order": order, "roles": [role],
        })
    };
    let unsigned = |bits| of("unsigned", bits, 8, "none");
    let signed = |bits| of("signed", bits, 8, "none");
    let role = |bits, role| of("unsigned", bits, 8, role);
    let with = |mut class: Value, key: &str, value: Value| {
        class[key] = value;
        class
    };
    let member = |name: &str, class: Value| json!({ "name": name, "field-class": class });
    let structure = |members: Value| json!({ "type": "structure", "member-classes": members });
    let path = |names: &[&str]| json!({ "path": names });
    let name = || json!({ "type": "static-length-string", "length": 16 });
    let text = || json!({ "type": "null-terminated-string" });
    let event = |id: u64, name: &str, members: Value| {
        json!({
            "type": "event-record-class", "id": id, "name": name, "payload-field-class": structure(members),
        })
    };
    let compact = with(
        of("unsigned", 5, 1, "event-record-class-id"),
        "mappings",
        json!({ "compact": [[0, 30]] }),
    );
    let header = json!({ "type": "structure", "minimum-alignment": 8, "member-classes": [
        member("which", compact),
        member("v", json!({ "type": "variant", "selector-field-location": path(&["which"]), "options": [
            { "selector-field-ranges": [[0, 30]], "field-class": structure(json!([
                member("short", of("unsigned", 27, 1, "default-clock-timestamp")),
            ])) },
            { "selector-field-ranges": [[31, 31]], "field-class": structure(json!([
                member("long id", role(32, "event-record-class-id")),
                member("long time", role(64, "default-clock-timestamp")),
            ])) },
        ] })),
    ] });
    vec![
        json!({ "type": "preamble", "version": 2, "uuid": vec![7; 16] }),
        json!({ "type": "field-class-alias", "name": "a name", "field-class": name() }),
        json!({ "type": "trace-class",
            "environment": {
                "hostname": "far", "domain": "kernel", "sysname": "Linux", "kernel_release": "6.1.0",
                "tracer_name": "lttng-modules", "tracer_major": 2, "tracer_minor": 13,
            },
            "packet-header-field-class": structure(json!([
                member("a", role(32, "packet-magic-number")),
                member("b", json!({ "type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"] })),
                member("c", role(32, "data-stream-class-id")),
            ])),
        }),
        json!({ "type": "clock-class", "id": "one", "name": "monotonic", "frequency": 500_000_000,
            "offset-from-origin": { "seconds": 1000, "cycles": 250_000_000 }, "origin": "unix-epoch" }),
        json!({ "type": "data-stream-class", "id": 0, "default-clock-class-id": "one",
            "packet-context-field-class": structure(json!([
                member("d", role(64, "default-clock-timestamp")),
                member("e", role(64, "packet-end-default-clock-timestamp")),
                member("f", role(64, "packet-content-length")),
                member("g", role(64, "packet-total-length")),
                member("h", role(64, "packet-sequence-number")),
                member("i", role(64, "discarded-event-record-counter-snapshot")),
                member("cpu_id", unsigned(32)),
            ])),
            "event-record-header-field-class": header,
            "event-record-common-context-field-class": structure(json!([
                member("pid", signed(32)), member("tid", signed(32)), member("procname", json!("a name")),
            ])),
        }),
        event(
            0,
            "sched_switch",
            json!([
                member("prev_comm", name()),
                member("prev_tid", signed(32)),
                member("prev_prio", signed(32)),
                member("prev_state", signed(64)),
                member("next_comm", name()),
                member("next_tid", signed(32)),
                member("next_prio", signed(32)),
            ]),
        ),
        event(
            1,
            "syscall_entry_openat",
            json!([
                member("dfd", signed(32)),
                member("filename", text()),
                member("flags", signed(32)),
                member("mode", unsigned(16)),
            ]),
        ),
        event(2, "syscall_exit_openat", json!([member("ret", signed(64))])),
        with(
            event(
                40,
                "my_all",
                json!([
                    member("three", of("signed", 3, 1, "none")),
                    member(
                        "thirteen",
                        with(of("unsigned", 13, 1, "none"), "preferred-display-base", json!(16))
                    ),
                    member(
                        "fraction",
                        json!({
                            "type": "fixed-length-floating-point-number", "length": 64, "alignment": 8, "byte-order": order,
                        })
                    ),
                    member(
                        "which",
                        with(
                            unsigned(8),
                            "mappings",
                            json!({ "ZERO": [[0, 0]], "ONE": [[1, 1]], "MANY": [[2, 9]], "-1": [[255, 255]] })
                        )
                    ),
                    member("_words_length", unsigned(16)),
                    member(
                        "words",
                        json!({
                            "type": "dynamic-length-array", "element-field-class": unsigned(16), "length-field-location": path(&["_words_length"]),
                        })
                    ),
                    member(
                        "inner",
                        structure(json!([member("one", unsigned(8)), member("two", text())]))
                    ),
                    member(
                        "tag",
                        with(
                            unsigned(8),
                            "mappings",
                            json!({ "number": [[0, 0]], "letters": [[1, 1]] })
                        )
                    ),
                    member(
                        "choice",
                        json!({ "type": "variant", "selector-field-location": path(&["tag"]), "options": [
                    { "name": "number", "selector-field-ranges": [[0, 0]], "field-class": unsigned(32) },
                    { "name": "letters", "selector-field-ranges": [[1, 1]], "field-class": text() },
                ] })
                    ),
                    member(
                        "texts",
                        json!({ "type": "static-length-array", "length": 2, "element-field-class": text() })
                    ),
                    member(
                        "network",
                        json!({
                            "type": "fixed-length-unsigned-integer", "length": 32, "alignment": 8, "byte-order": "big-endian", "preferred-display-base": 16,
                        })
                    ),
                    member(
                        "three_of",
                        json!({ "type": "static-length-array", "length": 3, "element-field-class": signed(16) })
                    ),
                ]),
            ),
            "specific-context-field-class",
            structure(json!([member("extra", unsigned(8))])),
        ),
    ]
}

/// Puts other metadata into the folder of a trace: fragments as a text sequence, each behind its mark.
fn describe(path: &Path, fragments: &[Value]) {
    let text: String = fragments
        .iter()
        .map(|fragment| format!("\x1e{fragment}\n"))
        .collect();
    std::fs::write(path.join("metadata"), text).unwrap();
}

#[test]
fn the_same_streams_are_the_same_records() {
    for little in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        write_lttng(dir.path(), little, false);
        let by_tsdl = read(dir.path());
        assert_eq!(by_tsdl.0.len(), 51);
        describe(dir.path(), &fragments(little));
        let by_json = read(dir.path());
        for (one, other) in by_json.0.iter().zip(&by_tsdl.0) {
            assert_eq!(one, other);
        }
        assert_eq!(by_json, by_tsdl);
        // Before version 2.1 it does not read them.
        if let Some(output) = babeltrace(&[], dir.path()).filter(|output| output.status.success()) {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(text.lines().count(), 51, "{text}");
        }
    }
}

/// An optional field has a value where its selector chooses it, and none elsewhere.
#[test]
fn optional_fields_may_be_absent() {
    let dir = tempfile::tempdir().unwrap();
    write_lttng(dir.path(), true, false);
    let mut all = fragments(true);
    for (ranges, shown) in [(json!([[1, 1]]), "abc"), (json!([[7, 9]]), "")] {
        let members = &mut all.last_mut().unwrap()["payload-field-class"]["member-classes"];
        members[8]["field-class"] = json!({
            "type": "optional", "selector-field-location": { "path": ["tag"] }, "selector-field-ranges": ranges,
            "field-class": { "type": "null-terminated-string" },
        });
        describe(dir.path(), &all);
        let (records, ..) = read(dir.path());
        let all = records.iter().find(|record| record["event"] == "my_all").unwrap();
        assert_eq!(all["fields"]["choice"], shown);
    }
}

#[test]
fn unsupported_ctf2_classes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    write_lttng(dir.path(), true, false);
    let with = |class: Value| {
        let mut all = fragments(true);
        all.last_mut().unwrap()["payload-field-class"]["member-classes"][0]["field-class"] = class;
        all
    };
    let mut nested = json!({ "type": "null-terminated-string" });
    for _ in 0..50 {
        nested = json!({ "type": "static-length-array", "length": 1, "element-field-class": nested });
    }
    let mut newer = fragments(true);
    newer[0]["version"] = json!(3);
    for (all, why) in [
        (newer, "it is of version 3; versions 1.8 and 2 are read"),
        (
            with(json!({ "type": "variable-length-unsigned-integer" })),
            "the type variable-length-unsigned-integer is not read",
        ),
        (
            with(json!({ "type": "fixed-length-unsigned-integer", "length": 0 })),
            "without a length",
        ),
        (
            with(json!({ "type": "fixed-length-unsigned-integer", "length": 8, "alignment": 3 })),
            "no power of two",
        ),
        (
            with(json!({ "type": "null-terminated-string", "encoding": "utf-16le" })),
            "null-terminated-string of utf-16le is not read",
        ),
        (with(json!("nobody")), "nobody is not a type"),
        (with(nested), "nested too deeply"),
    ] {
        describe(dir.path(), &all);
        let error = import::open(dir.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // Cut anywhere, and with an alias of itself.
    let text = std::fs::read_to_string(dir.path().join("metadata")).unwrap();
    for at in (0..text.len()).step_by(97) {
        std::fs::write(dir.path().join("metadata"), &text[..at]).unwrap();
        let _ = import::open(dir.path());
    }
    let mut all = with(json!("itself"));
    all.insert(
        1,
        json!({ "type": "field-class-alias", "name": "itself", "field-class": "itself" }),
    );
    describe(dir.path(), &all);
    assert!(import::open(dir.path()).is_err());
}
