//! Objects over modules: their functions and types, and the functions of theirs that programs may call.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use crate::held::{gone, held, last_value, missed, shown, wait_for};
use kestrel_kernel::bpf::{self, Pinned, TestRun};
use std::{fs, path::Path};
use vm_tests::{shell, skip};

/// A module that every guest has loaded, unless the kernel has it built in.
const LOADED: &str = "qemu_fw_cfg";

#[test]
fn types_and_functions_that_only_a_module_has_are_found() {
    if !Path::new("/sys/kernel/btf").join(LOADED).exists() {
        return skip("the module is built in");
    }
    let before = held();
    // The name of the first file, and what it holds.
    let folder = shell("dirname $(ls /sys/firmware/qemu_fw_cfg/by_key/*/raw | head -1)").success();
    let folder = Path::new(folder.trim());
    let name = fs::read_to_string(folder.join("name")).unwrap();
    let count = 20;
    let wanted = format!("wanted={}", std::process::id());
    let mut read = 0;
    let out = shown(&["/object_module.o", "--strict", "--set", &wanted], || {
        for _ in 0..count {
            read += fs::read(folder.join("raw")).unwrap().len() as u64;
        }
    });
    let values = last_value(&out, ".bss", 0);
    let number = |of: &str| values[of].as_u64().unwrap();
    let lost = missed(&out);
    // Where a file ends, sysfs knows itself.
    for of in ["entered", "returned", "probed"] {
        let calls = number(of);
        assert!(
            calls <= count && calls + lost >= count,
            "{of}: {calls} and {lost} missed"
        );
    }
    assert!(lost > 0 || number("bytes") == read, "{values}, {read} read");
    assert_eq!(number("size"), read / count);
    assert_eq!(values["name"], name.trim());
    assert_eq!(number("nothing"), 0);
    assert!(number("size_of_entry") > 60, "a kobject and more: {values}");
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let address = symbols
        .lines()
        .find_map(|line| {
            line.split_once(" t fw_cfg_sysfs_read_raw")
                .map(|(address, _)| address)
        })
        .unwrap();
    assert_eq!(number("read_raw_at"), u64::from_str_radix(address, 16).unwrap());
    gone(&before);
}

#[test]
fn functions_of_a_module_are_called() {
    let order = fs::read_to_string("/module_order").unwrap();
    let mut modules: Vec<&str> = order.lines().collect();
    for module in &modules {
        shell(&format!("insmod {module}")).success();
    }
    let before = held();
    let wanted = format!("wanted={}", std::process::id());
    let pins = "/sys/fs/bpf/conntrack";
    let arguments = ["/object_conntrack.o", "--strict", "--set", &wanted, "--pin", pins];
    let mut returned = Vec::new();
    let out = shown(&arguments, || {
        let Pinned::Program(program) = bpf::pinned(&Path::new(pins).join("program_connect")).unwrap() else {
            panic!("not a program")
        };
        for _ in 0..2 {
            let run = TestRun {
                data: &[0; 64],
                ..TestRun::default()
            };
            returned.push(program.test_run(&run).unwrap().value);
        }
    });
    assert_eq!(returned, [0, 1], "it is new once");
    let values = last_value(&out, ".bss", 0);
    assert_eq!(values["unknown"], -2, "ENOENT");
    assert_eq!(
        (&values["status_after"], &values["status_before"]),
        (&6.into(), &6.into())
    );
    if values["inserted"] == 0 {
        assert!(missed(&out) > 0, "{values}");
    } else {
        assert_eq!(
            (&values["inserted"], &values["status_entered"]),
            (&1.into(), &6.into())
        );
    }
    shell(&format!("rm -r {pins}")).success();
    gone(&before);
    modules.reverse();
    for module in modules {
        let name = module.trim_start_matches("/module_").trim_end_matches(".ko");
        wait_for(&format!("the end of {name}"), || {
            shell(&format!("rmmod {name}")).code == Some(0)
        });
    }
}
