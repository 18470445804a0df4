//! Field rules of tracepoints of the network.

use super::row::{Fields, Row};

const SKB: Fields = &[("skbaddr", "skb")];

/// `ntohs(skb->protocol)`.
const PROTOCOL: &str = "((skb->protocol & 0xff) << 8) | (skb->protocol >> 8)";

pub(super) const ROWS: &[Row] = &[
    ("skb:consume_skb", SKB),
    ("skb:skb_copy_datagram_iovec", SKB),
    ("skb:kfree_skb", &[("skbaddr", "skb"), ("protocol", PROTOCOL)]),
];
