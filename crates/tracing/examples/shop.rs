//! A program with spans and events of `tracing`, to be traced from outside: it takes a number of orders, as soon as a number of its events has listeners.
//!
//! ```text
//! cargo run -p kestrel-tracing --example shop -- 10
//! kestrel record -e 'usdt:./shop:tracing:*' -o shop.trace -- ./shop 100 5
//! kestrel report shop.trace --latency 'span_enter,span_exit,id' --by name
//! ```

use std::time::Duration;
use tracing_subscriber::prelude::*;

fn order(number: u64) {
    let span = tracing::info_span!("order", number);
    let _entered = span.enter();
    tracing::info_span!("pay").in_scope(|| tracing::info!(number, "paid"));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    kestrel_tracepoint::init()?;
    tracing_subscriber::registry()
        .with(kestrel_tracing::layer())
        .init();
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse::<u64>().ok());
    let (orders, listened) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(0));
    while (kestrel_tracepoint::look() as u64) < listened {
        std::thread::sleep(Duration::from_millis(10));
    }
    (0..orders).for_each(order);
    Ok(())
}
