//! A Rust program whose stacks are known: a till rings, which opens, which calls getpriority.

use std::arch::asm;
use std::hint::black_box;

mod shop {
    use super::{asm, black_box};

    pub trait Opens {
        fn open(&self, number: i64) -> i64;
    }

    pub struct Till(pub i64);

    #[inline(never)]
    fn leaf(number: i64) -> i64 {
        let answer: i64;
        // SAFETY: getpriority(PRIO_PROCESS, 0) touches no memory.
        unsafe {
            asm!("syscall", inlateout("rax") 140_i64 => answer, in("rdi") 0, in("rsi") 0, out("rcx") _, out("r11") _);
        }
        black_box(answer + number)
    }

    impl Opens for Till {
        #[inline(never)]
        fn open(&self, number: i64) -> i64 {
            black_box(leaf(number)) + self.0
        }
    }

    impl Till {
        #[inline(never)]
        pub fn ring(&self, many: i64) -> i64 {
            let each = (0..many).map(|number| black_box(self as &dyn Opens).open(number));
            black_box(each.sum())
        }
    }
}

fn main() {
    let many = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(1);
    black_box(shop::Till(1).ring(many));
}
