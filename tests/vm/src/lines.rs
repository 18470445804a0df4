//! Lines for the kernel's `kprobe_events`, right and wrong, made from a seed; and the values that its trace shows for them.

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

/// Fetches so long, or so deep, that the kernel just takes them, or just does not.
fn extreme(random: &mut Random) -> String {
    match random.below(4) {
        0 => {
            let depth = 6 + random.below(10);
            let inner = random.one(&[
                "%sp",
                "$arg1",
                "$stack2",
                "@jiffies",
                "\\1",
                "file",
                "file->f_inode",
            ]);
            let ty = random.one(&[
                "",
                ":u8",
                ":b1@0/8",
                ":string",
                ":u8[2]",
                ":b1@0/8[2]",
                ":symstr",
                ":ustring[2]",
            ]);
            format!("a={}{inner}{}{ty}", "+0(".repeat(depth), ")".repeat(depth))
        }
        1 => format!(
            "a=+{}8(%sp)",
            "0".repeat(random.one_of([52, 244]) + random.below(6))
        ),
        2 => format!(
            "a=\\\"{}\"",
            "t".repeat(random.one_of([57, 249]) + random.below(6))
        ),
        _ => format!("{}=%di:u8", "n".repeat(30 + random.below(5))),
    }
}

/// Many arguments: around as many as a line may have, or around the room that the kernel has for what it puts in the place of some.
fn many(random: &mut Random) -> Vec<String> {
    let number = |index: usize, text: &str| text.replace('N', &index.to_string());
    match random.below(4) {
        0 => (0..126 + random.below(5)).map(|_| "%di".to_owned()).collect(),
        1 => (0..125 + random.below(5))
            .map(|_| "%di".to_owned())
            .chain(["$arg*".to_owned()])
            .collect(),
        2 => {
            let text = random.one(&["bN=$arg1:%pd", "cN=file:%pD", "bN=+0(%di):%pD", "bN=%di:%pd"]);
            (0..4 + random.below(6))
                .map(|index| number(index, text))
                .collect()
        }
        _ => {
            let text = random.one(&["$arg1", "$arg2:x8", "$arg1:u64", "$arg3"]);
            (0..2 + random.below(20)).map(|_| text.to_owned()).collect()
        }
    }
}

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn one_of(&mut self, of: [usize; 2]) -> usize {
        of[self.below(2)]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

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

fn argument(random: &mut Random) -> (String, bool) {
    let name = match random.below(20) {
        0..6 => String::new(),
        6 => random
            .one(&[
                "1a=",
                "=",
                "a-b=",
                "common_pid=",
                "__probe_ip=",
                "a.b=",
                "a=b=",
                "_=",
                "same=",
                "same=",
                "common_type=",
                "common_tgid=",
                "common_flags=",
                "common_preempt_count=",
                "__probe_ret_ip=",
                "__probe_func=",
                "common_lock=",
                "$a=",
                "\u{e9}=",
                "file=",
                "arg1=",
                "arg2=",
            ])
            .to_owned(),
        7 => format!("{}=", "n".repeat(30 + random.below(5))),
        _ => format!(
            "{}{}=",
            random.one(&["a", "b", "c", "arg", "x_"]),
            random.below(9)
        ),
    };
    let (fetch, new) = fetch(random, 0);
    let (ty, newer) = match random.below(20) {
        0..7 => ("", false),
        7..13 => (
            random.one(&[
                ":u8", ":s8", ":x8", ":u16", ":s16", ":x16", ":u32", ":s32", ":x32", ":u64", ":s64", ":x64",
            ]),
            false,
        ),
        13 => (
            random.one(&[
                ":symbol",
                ":symstr",
                ":char",
                ":%pd",
                ":%pD",
                ":%pd",
                ":%pD",
                ":%pd[2]",
                ":%p",
                ":%px",
                ":%PD",
                ":symbol[2]",
                ":char[4]",
            ]),
            true,
        ),
        14 | 15 => (random.one(&[":string", ":ustring"]), false),
        16 => (
            random.one(&[
                ":string[2]",
                ":ustring[3]",
                ":u8[4]",
                ":x64[2]",
                ":u32[64]",
                ":symstr[2]",
                ":string[1]",
                ":string[64]",
                ":string[65]",
                ":s8[64]",
                ":x8[3]",
                ":b4@2/32[3]",
            ]),
            false,
        ),
        17 => (
            random.one(&[
                ":b4@2/32",
                ":b1@63/64",
                ":b8@0/8",
                ":b3@0x4/16",
                ":b0x2@1/8",
                ":b2@1/8[2]",
            ]),
            false,
        ),
        18 => (
            random.one(&[
                ":b4@30/32",
                ":b0@1/8",
                ":b4/8",
                ":b4@/8",
                ":b4@1/24",
                ":u8[0]",
                ":u8[65]",
                ":u8[2",
                ":u8[2]x",
                ":u8[x]",
                ":b4@2",
                ":u8[+2]",
                ":u8[0x2]",
                ":u8[-1]",
                ":u8[]",
                ":u8[2][2]",
                ":u8]",
                ":[2]",
                ":u8[4294967297]",
                ":b1@64/64",
                ":b64@0/64",
                ":b33@0/32",
                ":b-1@0/8",
                ":b1@-1/8",
                ":b1@0/8x",
                ":b1@0/+8",
                ":b1@0/010",
                ":b4@3/32/8",
                ":b4294967297@0/8",
                ":b1@18446744073709551615/8",
            ]),
            false,
        ),
        _ => (
            random.one(&[
                ":u128", ":", ":u", ":int", ":x64x", ":String", ":u8:u8", ":b", ":strings", ":xstring", ":s",
                ":U8", ":u8 ", ":uchar", ":%", ":u64,",
            ]),
            false,
        ),
    };
    (format!("{name}{fetch}{ty}"), new || newer)
}

fn fetch(random: &mut Random, depth: usize) -> (String, bool) {
    if depth < 4 && random.chance(if depth == 0 { 40 } else { 25 }) {
        let offset = random.one(&[
            "+0", "+8", "-8", "+0x10", "+u0", "-u8", "+u0x8", "+-8", "++8", "+010",
        ]);
        let offset = if random.chance(5) {
            random.one(&[
                "+",
                "-",
                "+x",
                "-+8",
                "--8",
                "+u",
                "u+8",
                "+08",
                "+99999999999999999999",
                "++",
                "+-",
                "-0",
                "+uu8",
                "+U8",
                "+0x",
                "-u-8",
                "+u+8",
                "+9223372036854775807",
                "-9223372036854775808",
                "+9223372036854775808",
            ])
        } else {
            offset
        };
        let (inner, new) = fetch(random, depth + 1);
        let close = match random.below(40) {
            0 => "",
            1 => "))",
            2 => ")x",
            _ => ")",
        };
        let open = if random.chance(2) { "" } else { "(" };
        return (format!("{offset}{open}{inner}{close}"), new);
    }
    match random.below(24) {
        0..5 => (
            format!(
                "%{}",
                random.one(&[
                    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r15", "ip", "flags", "cs", "ss",
                    "orig_ax"
                ])
            ),
            false,
        ),
        5 => (
            random
                .one(&[
                    "%rdi", "%eax", "%nope", "%", "%ds", "%al", "%SP", "%sp ", "%%sp", "%r10", "%fs_base",
                    "%r16",
                ])
                .to_owned(),
            false,
        ),
        6..9 => (
            random
                .one(&[
                    "$stack",
                    "$stack0",
                    "$stack3",
                    "$stack17",
                    "$stack2048",
                    "$stack15",
                    "$stack16",
                    "$stack003",
                ])
                .to_owned(),
            false,
        ),
        9 => (
            random
                .one(&[
                    "$stack2049",
                    "$stackx",
                    "$nope",
                    "$",
                    "$stack-1",
                    "$stack08",
                    "$stack99999999999999999999",
                    "$stack+1",
                    "$stack 1",
                    "$stack0x1",
                    "$Stack",
                    "$comm1",
                    "$common_pid",
                    "$com",
                ])
                .to_owned(),
            false,
        ),
        10 => (random.one(&["$comm", "$COMM", "$Comm"]).to_owned(), true),
        11 => match random.below(3) {
            0 => (
                random
                    .one(&[
                        "$retvalx",
                        "$retval.x",
                        "$retval->f_flags",
                        "$retval-",
                        "$retval->",
                        "$Retval",
                        "$retval[0]",
                        "$retval1",
                    ])
                    .to_owned(),
                true,
            ),
            _ => ("$retval".to_owned(), false),
        },
        // At a return, and named where it is one of the function's own, newer kernels know arguments.
        12..15 => (
            random
                .one(&["$arg1", "$arg2", "$arg3", "$arg4", "$arg7", "$arg5"])
                .to_owned(),
            true,
        ),
        15 => (
            random
                .one(&[
                    "$argx", "$arg", "$arg2049", "$arg-1", "$arg1x", "$arg0", "$arg+1", "$arg08", "$arg0x1",
                    "$arg**", "$arg*x", "$arg1*", "$arg6", "$arg10", "$ARG1", "$args", "$arg1->x", "$arg1.x",
                ])
                .to_owned(),
            true,
        ),
        16 => (
            random
                .one(&[
                    "@jiffies",
                    "@jiffies+8",
                    "@jiffies-0x8",
                    "@init_task",
                    "@linux_banner",
                    "@vfs_read",
                    "@jiffies+010",
                    "@0xffffffff81000000",
                    "@18446744071578845184",
                    "@010",
                    "@0",
                    "@qemu_fw_cfg:fw_cfg_sysfs_read_raw",
                ])
                .to_owned(),
            false,
        ),
        17 => (
            random
                .one(&[
                    "@nothing_here",
                    "@+8",
                    "@",
                    "@jiffies+",
                    "@jiffies+x",
                    "@jiffies*2",
                    "@08",
                    "@0x",
                    "@nothing_here+8",
                    "@nothing_here+x",
                    "@+",
                    "@-8",
                    "@@jiffies",
                    "@jiffies+8+8",
                    "@jiffies->x",
                    "@no_module:nothing_here",
                    "@99999999999999999999",
                    "@_",
                    "@%sp",
                ])
                .to_owned(),
            false,
        ),
        18 => (
            random
                .one(&[
                    "\\1",
                    "\\-1",
                    "\\0x10",
                    "\\+5",
                    "\\010",
                    "\\\"text\"",
                    "\\\"\"",
                    "\\18446744073709551615",
                    "\\-9223372036854775808",
                    "\\-0",
                    "\\\"a\"b\"",
                    "\\\"%di\"",
                    "\\\"(\"",
                    "\\\"\\\"",
                    "\\+9223372036854775807",
                    "\\+-5",
                ])
                .to_owned(),
            false,
        ),
        19 => (
            random
                .one(&[
                    "\\",
                    "\\x",
                    "\\\"text",
                    "\\08",
                    "\\--1",
                    "\\99999999999999999999",
                    "\\\"",
                    "\\++5",
                    "\\+9223372036854775808",
                    "\\-9223372036854775809",
                    "\\18446744073709551616",
                    "\\1x",
                    "\\'a'",
                    "\\\\\"a\"",
                    "\\-",
                    "\\+",
                    "\\\"a:b\"",
                    "\\\"a b\"",
                ])
                .to_owned(),
            false,
        ),
        20 => (
            random
                .one(&[
                    "file", "count", "dfd", "filename", "path", "how", "buf", "pos", "p", "flag", "pgoff",
                    "__unused", "File", "_", "file1",
                ])
                .to_owned(),
            true,
        ),
        21 => (
            random
                .one(&[
                    "file->f_flags",
                    "file->f_inode->i_ino",
                    "file->f_path.dentry->d_name.name",
                    "filename->x",
                    "file->nope",
                    "file.f_flags",
                    "file-f_flags",
                    "how->flags",
                    "path->dentry->d_name.name",
                    "file->",
                    "file->f_path.",
                    "file->f_path",
                    "file->f_path.mnt",
                    "file->f_path.mnt->mnt_flags",
                    "file->f_path.mnt->mnt_sb->s_id",
                    "file->f_path->mnt",
                    "file->f_path.dentry.d_name",
                    "file->f_inode->i_sb->s_id",
                    "file->f_inode->i_sb->s_type->name",
                    "file->f_inode->i_sb->s_blocksize_bits",
                    "file->f_inode->i_rdev",
                    "file->f_inode->i_op->lookup",
                    "file->f_inode->i_private",
                    "file->f_op->read",
                    "file->f_ra.ra_pages",
                    "file->f_mapping->host->i_mode",
                    "file->f_inode->i_sb->s_uuid.b",
                    "file->f_inode->i_sb->s_uuid.b[0]",
                    "file->f_inode[0]",
                    "file->f_inode->i_nlink",
                    "file->f_inode->i_state",
                    "file->->f_flags",
                    "file->.f_flags",
                    "file>f_flags",
                    "file->f_flags->x",
                    "file-->f_flags",
                    "(file)->f_flags",
                    "file->f_flags+1",
                    "count->x",
                    "buf->x",
                    "*file",
                    "&file",
                    "p->pid",
                    "p->comm",
                    "p->se.vruntime",
                    "p->sched_reset_on_fork",
                    "p->sched_contributes_to_load",
                    "p->in_execve",
                    "p->mm->pgd",
                    "p->real_parent->pid",
                    "p->prio",
                    "p->policy",
                    "p->static_prio.x",
                    "$arg1->f_flags",
                    "$retval->x",
                ])
                .to_owned(),
            true,
        ),
        22 => ("$arg*".to_owned(), true),
        _ => (
            random
                .one(&[
                    "5", "(", ")", "~", "[1]", "", "-8", "+8", "'a'", "\"a\"", "*", "0x10", "=", "\u{e9}",
                    "&x", "!", "+0", "-0()", "+0()",
                ])
                .to_owned(),
            false,
        ),
    }
}

/// A line for a function that opening and reading a file calls, whose values are the same for whoever reads them there.
#[must_use]
pub fn valued(random: &mut Random, number: usize) -> Line {
    let at_return = random.chance(25);
    let function = random.one(&["vfs_read", "do_sys_openat2"]);
    let mut new = false;
    let mut words = vec![
        format!(
            "{}:kt/v{number}",
            if at_return {
                random.one(&["r", "r", "r", "r16"])
            } else {
                "p"
            }
        ),
        function.to_owned(),
    ];
    for index in 0..1 + random.below(4) {
        let (text, newer) = value(random, function, at_return);
        new |= newer;
        words.push(format!("v{index}={text}"));
    }
    if random.chance(10) && !at_return {
        new = true;
        words.push(random.one(&["$arg*", "$arg1", "$arg2:x8"]).to_owned());
    }
    Line {
        text: words.join(" "),
        new,
    }
}

const INTEGERS: &[&str] = &[
    "",
    ":u8",
    ":s8",
    ":x8",
    ":u16",
    ":s16",
    ":x16",
    ":u32",
    ":s32",
    ":x32",
    ":u64",
    ":s64",
    ":x64",
    ":b4@2/32",
    ":b1@63/64",
    ":b8@0/8",
    ":b3@4/16",
];

fn value(random: &mut Random, function: &str, at_return: bool) -> (String, bool) {
    let integer = random.one(INTEGERS);
    let array = if random.chance(25) {
        random.one(&["[2]", "[5]"])
    } else {
        ""
    };
    let array = if integer.is_empty() { "" } else { array };
    // The first word of the stack is the return address, which a return probe of another line may have exchanged already.
    let word = 8 + random.below(11) * 8;
    let open = function == "do_sys_openat2";
    match random.below(if at_return { 8 } else { 16 }) {
        0 => (format!("$comm{}", random.one(&["", ":string"])), false),
        1 => (
            format!(
                "{}{integer}",
                random.one(&[
                    "\\5",
                    "\\-1",
                    "\\0x1234567890",
                    "\\+7",
                    "\\010",
                    "\\18446744073709551615"
                ])
            ),
            false,
        ),
        2 => ("\\\"some(text)\"".to_owned(), false),
        3 => match random.below(4) {
            0 => ("@envp_init:string[2]".to_owned(), false),
            1 => ("+0(@envp_init+8):string".to_owned(), false),
            2 => ("@sys_call_table:symbol[3]".to_owned(), true),
            _ => ("@linux_banner:string".to_owned(), false),
        },
        4 => (format!("@linux_banner+{word}{integer}{array}"), false),
        5 if at_return => (format!("$retval{integer}"), true),
        7 if at_return && random.chance(50) => (
            if open {
                random.one(&["dfd", "$arg1", "filename:ustring", "filename:x16", "how:x64"])
            } else {
                random.one(&[
                    "file->f_flags",
                    "file->f_inode->i_sb->s_id:string",
                    "pos:x64",
                    "file:x8",
                    "$arg3:s8",
                ])
            }
            .to_owned(),
            true,
        ),
        6 if at_return => (format!("{}{integer}", if open { "$arg1" } else { "$arg3" }), true),
        7 if at_return => (if open { "+0($arg2):ustring" } else { "count" }.to_owned(), true),
        5 => (
            format!(
                "%{}{integer}",
                random.one(&[
                    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r15", "ip", "cs"
                ])
            ),
            false,
        ),
        6 => (format!("$stack{}{integer}", 1 + random.below(29)), false),
        7 => (format!("+{word}(%sp){integer}{array}"), false),
        8 => (format!("$arg{}{integer}", 1 + random.below(8)), false),
        9 => ("%ip:symbol".to_owned(), false),
        10 => (
            random
                .one(&[
                    "@sys_call_table:symbol",
                    "+0(@sys_call_table):x8",
                    "$stack:x64",
                    "%ip:symbol",
                ])
                .to_owned(),
            false,
        ),
        11 if open => (
            random
                .one(&[
                    "+0($arg2):ustring",
                    "+0($arg2):string",
                    "+u0($arg2):string",
                    "+u0(%si):u8",
                    "+0(%si):x16",
                    "+1(%si):x8[3]",
                    "+u1($arg2):string",
                    "+0(%si):b4@4/8",
                ])
                .to_owned(),
            false,
        ),
        12 if open => (
            random
                .one(&[
                    "dfd",
                    "filename:ustring",
                    "how->flags",
                    "how->mode:x16",
                    "how",
                    "filename:string",
                    "how->resolve",
                    "how->flags:b4@2/32",
                    "+0(filename):ustring",
                    "+8(how):x32[2]",
                    "+0(filename):char",
                    "filename:symbol",
                ])
                .to_owned(),
            true,
        ),
        11 => (
            random
                .one(&[
                    // What is at a symbol is an address here: nothing is fetched from none, of which the kernel records what lay there.
                    "+0(@sys_call_table):x64",
                    "+0x10(@sys_call_table+8):u8",
                    "+0(@sys_call_table-0):x8[3]",
                    "+0(@envp_init):b4@2/32",
                    "+-1(@envp_init+8):x8",
                    "+1(@envp_init+8):string",
                ])
                .to_owned(),
            false,
        ),
        12 => (
            random
                .one(&[
                    "file->f_flags",
                    "file->f_mode",
                    "file->f_inode->i_ino",
                    "file->f_inode->i_mode",
                    "file->f_path.dentry->d_name.name:string",
                    "$arg1:%pD",
                    "count",
                    "pos",
                    "file->f_path.dentry:%pd",
                    "file:%pD",
                    "file->f_path.dentry->d_name.name:symbol",
                    "file->f_path.mnt->mnt_sb->s_id:string",
                    "file->f_inode->i_sb->s_type->name:string",
                    "file->f_inode->i_sb->s_magic",
                    "file->f_inode->i_sb->s_blocksize_bits",
                    "file->f_mapping->host->i_mode:b3@4/16",
                    "file->f_op->read_iter:symbol",
                    "file->f_op->read_iter:symstr",
                    "file->f_ra.ra_pages",
                    "+0(file->f_inode):x16",
                    "buf",
                    "count:b8@0/8",
                ])
                .to_owned(),
            true,
        ),
        13 if !open => (format!("+{word}(%di){integer}{array}"), false),
        13 => (format!("+{}(%dx){integer}{array}", random.below(3) * 8), false),
        14 => ("%ip:symstr".to_owned(), true),
        _ => (format!("%dx{integer}"), false),
    }
}

/// What the kernel's trace shows as the values of fields, in their order; `None` where the line is another's.
#[must_use]
pub fn shown(line: &str, event: &str, fields: &[String]) -> Option<Vec<String>> {
    let (_, rest) = line.split_once(&format!(" {event}: ("))?;
    let mut rest = &rest[rest.find(')')? + 1..];
    let mut values = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        rest = rest.strip_prefix(&format!(" {field}="))?;
        let end = match fields.get(index + 1) {
            Some(next) => rest.find(&format!(" {next}="))?,
            None => rest.len(),
        };
        values.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    Some(values)
}
