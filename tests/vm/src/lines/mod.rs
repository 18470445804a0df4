//! Lines for the kernel's `kprobe_events`, right and wrong, made from a seed; and the values that its trace shows for them.

mod argument;
mod random;
mod value;

pub use random::Random;
pub use value::{shown, valued};

use argument::{argument, extreme, many};

/// Functions of the kernel that the lines are about, most with what opening and reading a file passes them; some return nothing, one takes a
/// structure with bit fields.
const FUNCTIONS: &[&str] = &[
    "vfs_read",
    "do_sys_openat2",
    "vfs_open",
    "security_file_open",
    "vfs_read",
    "do_sys_openat2",
    "fput",
    "wake_up_new_task",
    "vm_mmap_pgoff",
    "__x64_sys_getppid",
];

/// A line, and whether it has a form that older kernels do not know.
#[derive(Debug, Clone)]
pub struct Line {
    /// The line.
    pub text: String,
    /// Whether it may be too new.
    pub new: bool,
}

/// A line of any kind: most have one thing wrong or odd. The address is a function's.
#[must_use]
pub fn any(random: &mut Random, number: usize, address: u64) -> Line {
    let mut new = false;
    let at_return = random.chance(30);
    let letter = match (at_return, random.below(20)) {
        (true, 0..5) => random.one(&["r8", "r1", "r0x10", "r010", "r4096"]),
        (true, 5) => random.one(&["r0", "r4097", "rx", "r-1", "r08", "r99999999999"]),
        (true, 6) => random.one(&["rr", "r-", "r ", "r8x", "r+8", "R"]),
        (true, _) => "r",
        (false, 0) => "p4",
        (false, 1) => random.one(&["f", "t", "e", "u", "P", "-", "", "pp", "p0", "#p", "p#", ":"]),
        (false, _) => "p",
    };
    let name = match random.below(20) {
        0..3 => String::new(),
        3 => {
            new = true;
            format!(":g{number}/")
        }
        4 => format!(":a-b{number}/e"),
        5 => format!(":g.e{number}"),
        6 => random
            .one(&[
                ":",
                ":/e",
                ":a.b/c",
                ":1a",
                ":a-b",
                ":a/b/c",
                ":a+b",
                ":e$",
                ":-a/b",
                ":a/1",
                ":a.b.c",
                ":.e",
                ":a:b",
                ":a/b:c",
                ":e;",
                ":\u{e9}",
                ":a\u{e9}/b",
                ":_",
                ":_/_",
                "::",
                ":a/",
                ":a.",
                ":A/B",
                ":a/b#c",
            ])
            .to_owned(),
        7 => format!(":{}", "n".repeat(60 + random.below(8))),
        8 => format!(":{}/e", "n".repeat(60 + random.below(8))),
        _ => format!(":kt/e{number}"),
    };
    let function = random.one(FUNCTIONS);
    let place = match random.below(24) {
        0 => format!("{function}+4"),
        1 => format!("{function}+0"),
        2 => format!("{function}+0x100000"),
        3 => format!("{function}-4"),
        4 => format!("{function}%return"),
        5 => random
            .one(&[
                "nothing_here",
                "no_module:nothing_here",
                "no_module:f+8",
                "vfs_read%foo",
                "vfs_read+x",
                "vfs_read+08",
                "0",
                "vfs_read+",
                "vfs_read+-0",
                "vfs_read-0",
                "vfs_read+0+4",
                "*",
            ])
            .to_owned(),
        6 => format!("{function}+1"),
        7 => random
            .one(&[
                "qemu_fw_cfg:fw_cfg_sysfs_read_raw",
                "qemu_fw_cfg:fw_cfg_sysfs_read_raw+4",
                "qemu_fw_cfg:vfs_read",
                "qemu_fw_cfg:nothing_here",
                "fw_cfg_sysfs_read_raw",
                "no_module:nothing_here%return",
                "no_module:vfs_read+0x20",
                "no_module:a-1",
                "no-module:a",
                "vfs_read.part.0",
                "vfs_read;",
                "vfs_read,",
                "vfs_read%",
                "vfs_read%return%return",
                "vfs_read+4%return",
                "vfs_read%return+4",
                "VFS_READ",
                "jiffies",
                "vfs_read+0x",
                "vfs_read+4294967296",
                "vfs_read+0x100000000",
                "\u{e9}",
                "vfs_read#+4",
            ])
            .to_owned(),
        8 => format!("{address:#x}"),
        9 => format!("{address}"),
        // Alone: with a symbol that is not there the kernel would take it wherever it lies.
        10 => {
            let head = format!("{letter}{name}");
            let text = format!("{head} {:#x}", address + 1 + random.below(6) as u64);
            return Line { text, new };
        }
        _ => function.to_owned(),
    };
    let mut words = vec![format!("{letter}{name}"), place];
    for _ in 0..random.below(4) {
        let (text, newer) = argument(random);
        new |= newer;
        words.push(text);
    }
    match random.below(100) {
        0..2 => words.push(random.one(&["# a remark", "#", "#%di", "#$nope"]).to_owned()),
        2..5 => {
            words.push(extreme(random));
            new = true;
        }
        5..8 => {
            words.extend(many(random));
            new = true;
        }
        8 => words.push(
            random
                .one(&[";", "%di;", "%di;p:x vfs_open", "%di,", "'%di'", "a=%di b"])
                .to_owned(),
        ),
        _ => {}
    }
    if random.chance(1) {
        // Around as many letters as the kernel reads of a line.
        let length: usize = words.iter().map(|word| word.len() + 1).sum();
        words.insert(1, " ".repeat((4090 + random.below(10)).saturating_sub(length)));
    }
    Line {
        text: words.join(random.one(&[
            " ", " ", " ", " ", " ", " ", " ", " ", " ", "\t  ", "\u{b} ", "\u{c}",
        ])),
        new,
    }
}
