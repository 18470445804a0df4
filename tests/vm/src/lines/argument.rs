//! Arguments of a line: what is fetched, of which type, under which name; right, wrong, and at the limits of what the kernel takes.

use super::Random;

/// Fetches so long, or so deep, that the kernel just takes them, or just does not.
pub(super) fn extreme(random: &mut Random) -> String {
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
pub(super) fn many(random: &mut Random) -> Vec<String> {
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

pub(super) fn argument(random: &mut Random) -> (String, bool) {
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
