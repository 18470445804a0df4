//! A server of one file with four events. It answers lines, or, with a number, that many requests of its own, with a second one as soon as so many of its events are listened to from outside;
//! `slow` answers are printed by a callback.
//!
//! ```text
//! cargo run --release --example server -- 100000
//! KESTREL_TRACEPOINTS='server:*' cargo run --example server -- 3
//! kestrel record -e 'usdt:./server:server:*' -- ./server 100000 4
//! ```

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// Where a request comes from.
struct Peer {
    name: String,
    number: u64,
}

kestrel_tracepoint::events! {
    group server;

    class connection(peer: &Peer) {
        name: char[16] = peer.name,
        number: u64 = peer.number,
    } print "{name} {number}";

    /// A connection came.
    event accepted: connection;
    /// A connection went.
    event closed: connection;

    /// A request was read.
    event asked(peer: &Peer, text: &str) {
        number: u64 = peer.number,
        text: str = text,
    } print "{number} {text}";

    /// A request was answered.
    event answered(peer: &Peer, status: u16, length: usize, took: Duration) {
        number: u64 = peer.number,
        status: u16 = status,
        length: u64 = length as u64,
        took_ns: u64 = took.as_nanos() as u64,
    } print "{number} {status} {length} bytes in {took_ns} ns";
}

fn answer(peer: &Peer, text: &str) -> String {
    let begin = Instant::now();
    trace_asked(peer, text);
    let answer: String = text.chars().rev().collect();
    trace_answered(
        peer,
        if text.is_empty() { 204 } else { 200 },
        answer.len(),
        begin.elapsed(),
    );
    answer
}

fn main() -> std::io::Result<()> {
    kestrel_tracepoint::init()?;
    let _slow = answered::register(
        |peer: &Peer, _, _, took| {
            if took > Duration::from_millis(100) {
                eprintln!("{} was slow: {took:?}", peer.name);
            }
        },
        0,
    );
    let mut peer = Peer {
        name: "standard input".to_owned(),
        number: 0,
    };
    let requests = std::env::args()
        .nth(1)
        .and_then(|count| count.parse::<u64>().ok());
    if let Some(count) = requests {
        let listened = std::env::args()
            .nth(2)
            .and_then(|events| events.parse::<usize>().ok());
        while kestrel_tracepoint::look() < listened.unwrap_or(0) {
            std::thread::sleep(Duration::from_millis(10));
        }
        for number in 0..count {
            peer.number = number;
            trace_accepted(&peer);
            answer(&peer, "request");
            trace_closed(&peer);
        }
        return Ok(());
    }
    trace_accepted(&peer);
    for line in std::io::stdin().lock().lines() {
        let text = answer(&peer, &line?);
        writeln!(std::io::stdout().lock(), "{text}")?;
        peer.number += 1;
    }
    trace_closed(&peer);
    Ok(())
}
