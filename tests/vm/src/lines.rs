//! Lines for the kernel's `kprobe_events`, right and wrong, made from a seed; and the values that its trace shows for them.

/// Functions of the kernel that the lines are about, with what opening and reading a file passes them.
const FUNCTIONS: &[&str] = &["vfs_read", "do_sys_openat2", "vfs_open", "security_file_open"];

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

/// A line of any kind: most have one thing wrong or odd.
#[must_use]
pub fn any(random: &mut Random, number: usize) -> Line {
    let mut new = false;
    let at_return = random.chance(30);
    let letter = match (at_return, random.below(20)) {
        (true, 0..5) => random.one(&["r8", "r1", "r0x10", "r010", "r4096"]),
        (true, 5) => random.one(&["r0", "r4097", "rx", "r-1", "r08", "r99999999999"]),
        (true, _) => "r",
        (false, 0) => "p4",
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
                ":", ":/e", ":a.b/c", ":1a", ":a-b", ":a/b/c", ":a+b", ":e$", ":-a/b", ":a/1",
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
        _ => function.to_owned(),
    };
    let mut words = vec![format!("{letter}{name}"), place];
    for _ in 0..random.below(4) {
        let (text, newer) = argument(random);
        new |= newer;
        words.push(text);
    }
    if random.chance(2) {
        words.push("# a remark".to_owned());
    }
    Line {
        text: words.join(if random.chance(5) { "\t  " } else { " " }),
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
        13 => (random.one(&[":symbol", ":symstr", ":char", ":%pd", ":%pD"]), true),
        14 | 15 => (random.one(&[":string", ":ustring"]), false),
        16 => (
            random.one(&[
                ":string[2]",
                ":ustring[3]",
                ":u8[4]",
                ":x64[2]",
                ":u32[64]",
                ":symstr[2]",
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
            ]),
            false,
        ),
        _ => (
            random.one(&[":u128", ":", ":u", ":int", ":x64x", ":String", ":u8:u8", ":b"]),
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
                .one(&["%rdi", "%eax", "%nope", "%", "%ds", "%al"])
                .to_owned(),
            false,
        ),
        6..9 => (
            random
                .one(&["$stack", "$stack0", "$stack3", "$stack17", "$stack2048"])
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
                ])
                .to_owned(),
            false,
        ),
        10 => (random.one(&["$comm", "$COMM"]).to_owned(), true),
        11 => ("$retval".to_owned(), false),
        // At a return, and named where it is one of the function's own, newer kernels know arguments.
        12..15 => (
            random
                .one(&["$arg1", "$arg2", "$arg3", "$arg4", "$arg7", "$arg5"])
                .to_owned(),
            true,
        ),
        15 => (
            random
                .one(&["$argx", "$arg", "$arg2049", "$arg-1", "$arg1x"])
                .to_owned(),
            false,
        ),
        16 => (
            random
                .one(&[
                    "@jiffies",
                    "@jiffies+8",
                    "@jiffies-0x8",
                    "@init_task",
                    "@linux_banner",
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
                ])
                .to_owned(),
            false,
        ),
        18 => (
            random
                .one(&["\\1", "\\-1", "\\0x10", "\\+5", "\\010", "\\\"text\"", "\\\"\""])
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
                ])
                .to_owned(),
            false,
        ),
        20 => (
            random
                .one(&["file", "count", "dfd", "filename", "path"])
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
                    "$retval->x",
                ])
                .to_owned(),
            true,
        ),
        22 => ("$arg*".to_owned(), true),
        _ => (
            random
                .one(&["5", "(", ")", "~", "[1]", "", "-8", "+8"])
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
        format!("{}:kt/v{number}", if at_return { "r" } else { "p" }),
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
                random.one(&["\\5", "\\-1", "\\0x1234567890", "\\+7"])
            ),
            false,
        ),
        2 => ("\\\"some(text)\"".to_owned(), false),
        3 => ("@linux_banner:string".to_owned(), false),
        4 => (format!("@linux_banner+{word}{integer}{array}"), false),
        5 if at_return => (format!("$retval{integer}"), true),
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
                ])
                .to_owned(),
            false,
        ),
        12 if open => (
            random
                .one(&["dfd", "filename:ustring", "how->flags", "how->mode:x16", "how"])
                .to_owned(),
            true,
        ),
        11 => ("+0(+8(%di)):x64".to_owned(), false),
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
