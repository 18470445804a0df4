//! A Rust program whose stacks are known: a till rings, which opens, which calls getppid.

use std::hint::black_box;

mod shop {
    use super::black_box;

    pub trait Opens {
        fn open(&self, number: i64) -> i64;
    }

    pub struct Till(pub i64);

    #[inline(never)]
    fn leaf(number: i64) -> i64 {
        let answer = i64::from(std::os::unix::process::parent_id());
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
