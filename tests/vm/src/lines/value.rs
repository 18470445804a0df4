//! Lines whose values are known in two ways, and the values that the kernel's trace shows for them.

use super::{Line, Random};

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
                    // The value at a symbol is an address here: nothing is fetched from none, of which the kernel records what lay there.
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

/// Values of fields as the kernel's trace shows them, in their order; `None` where the line is another event's.
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
