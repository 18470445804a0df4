//! The texts of a folder, changed at random, looked at as the target `language` looks at its inputs, without an engine that follows their way through the code.
//! `mutate FOLDER TEXTS [SEED]`; a panic names its text, and so does one that takes long.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

mod look;

/// Most bytes of a text.
const MAX: usize = 512;
/// Inputs that take longer than this, on a machine that others use too, are reported.
const LONG: Duration = Duration::from_secs(1);
/// Words that texts are given.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "begin", "end", "interval:s:1", "kprobe:f", "tracepoint:sched:sched_switch", "{", "}", "(", ")", "[", "]", ";", ",", "/", "printf(\"%d %s\\n\", ",
    "print(", "clear(@x)", "@x", "@x[1]", "@x = count()", "hist(", "str(", "macro m(a) { a }", "m(1)", "import \"a.bt\";", "#define A(x) x\n", "#ifdef A\n", "#endif\n",
    "config = { ", "while (1) { ", "for ($i : 0..9) { ", "unroll(3) { ", "if (1) { ", " else ", "struct s { int a; };", "(struct s *)", "let ", "args.", "comptime ",
    "getopt(\"x\", 1)", "sizeof(", "offsetof(", "typeof(", "$1", "$#", "$a = ", "curtask->", "++", "=>", "?", ":", "(uint8)", "kstack", "nsecs", "delete(@x, 1)", "(1, 2).0",
    "\"", "\\", "//", "/*", "*/", "0x", "1e9", "-", "!", "\u{0}", "\u{e4}", "\u{1f980}", "18446744073709551616",
];

/// A source of numbers (xorshift64*): the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        number as usize % most.max(1)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// A place between two characters.
    fn place(&mut self, text: &str) -> usize {
        let mut place = self.below(text.len() + 1);
        while !text.is_char_boundary(place) {
            place -= 1;
        }
        place
    }
}

/// Another text: one of them with a few changes.
fn changed(texts: &[String], random: &mut Random) -> String {
    let mut text = random.of(texts).clone();
    for _ in 0..=random.below(4) {
        let (one, other) = (random.place(&text), random.place(&text));
        let (from, to) = (one.min(other), one.max(other));
        let near = to.min(text.ceil_char_boundary(from + 8));
        let word: &str = *random.of::<&str>(WORDS);
        match random.below(6) {
            0 => text.insert_str(from, word),
            1 => text.replace_range(from..near, ""),
            2 => text.replace_range(from..near, word),
            3 => text.insert_str(to, &text[from..to].to_owned()),
            4 => {
                let other = random.of(texts);
                let piece = &other[random.place(other)..];
                text.replace_range(from.., piece);
            }
            _ => text.insert(from, char::from(random.below(127) as u8 + 1)),
        }
    }
    text.truncate(text.floor_char_boundary(MAX));
    text
}

fn texts(folder: &str) -> std::io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(Path::new(folder))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let texts = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    Ok(texts.filter(|text| !text.is_empty()).collect())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count, rest @ ..] = words.as_slice() else {
        return Err("mutate FOLDER TEXTS [SEED]".into());
    };
    let (count, seed): (u64, u64) = (count.parse()?, rest.first().map_or(Ok(1), |seed| seed.parse())?);
    let texts = texts(folder)?;
    if texts.is_empty() {
        return Err(format!("{folder} has no texts").into());
    }
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let begun = Instant::now();
    for number in 1..=count {
        let text = changed(&texts, &mut random);
        let before = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| look::at(&text))).is_err() {
            eprintln!("text {number} of seed {seed}: {text:?}");
            return Ok(ExitCode::FAILURE);
        }
        if before.elapsed() > LONG {
            eprintln!(
                "text {number} of seed {seed} took {:.1} s: {text:?}",
                before.elapsed().as_secs_f64()
            );
        }
        if number % 100_000 == 0 || number == count {
            let seconds = begun.elapsed().as_secs_f64();
            println!(
                "{number} texts in {seconds:.0} s, {:.0} a second",
                number as f64 / seconds
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
