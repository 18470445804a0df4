//! Field rules of tracepoints of block devices and file systems.

use super::row::{Fields, Row};

const DEV_INO: Fields = &[("dev", "inode->i_sb->s_dev"), ("ino", "inode->i_ino")];
const EXTENT: Fields = &[
    ("dev", "inode->i_sb->s_dev"),
    ("ino", "inode->i_ino"),
    ("lblk", "es->es_lblk"),
    ("len", "es->es_len"),
    ("pblk", ES_PBLK),
    ("status", "es->es_pblk >> 59"),
];

/// `ext4_es_show_pblock`: the five highest bits are the status; no block is shown as 0.
const ES_PBLK: &str =
    "(es->es_pblk & 0x7ffffffffffffff) == 0x7ffffffffffffff ? 0 : es->es_pblk & 0x7ffffffffffffff";
const MAP_BLOCKS_EXIT: Fields = &[
    ("dev", "inode->i_sb->s_dev"),
    ("ino", "inode->i_ino"),
    ("pblk", "map->m_pblk"),
    ("lblk", "map->m_lblk"),
    ("len", "map->m_len"),
    ("mflags", "map->m_flags"),
];
const BUFFER: Fields = &[
    ("dev", "bh->b_bdev->bd_dev"),
    ("sector", "bh->b_blocknr"),
    ("size", "bh->b_size"),
];
const JBD2: Fields = &[
    ("dev", "journal->j_fs_dev->bd_dev"),
    ("sync_commit", "commit_transaction->t_synchronous_commit"),
    ("transaction", "commit_transaction->t_tid"),
];

pub(super) const ROWS: &[Row] = &[
    ("block:block_touch_buffer", BUFFER),
    ("block:block_dirty_buffer", BUFFER),
    ("ext4:ext4_es_lookup_extent_enter", DEV_INO),
    ("ext4:ext4_da_write_begin", DEV_INO),
    ("ext4:ext4_da_write_end", DEV_INO),
    ("ext4:ext4_write_begin", DEV_INO),
    ("ext4:ext4_write_end", DEV_INO),
    ("ext4:ext4_ext_map_blocks_enter", DEV_INO),
    ("ext4:ext4_ind_map_blocks_enter", DEV_INO),
    ("ext4:ext4_drop_inode", DEV_INO),
    ("ext4:ext4_begin_ordered_truncate", DEV_INO),
    ("ext4:ext4_discard_preallocations", DEV_INO),
    ("ext4:ext4_es_insert_extent", EXTENT),
    ("ext4:ext4_es_cache_extent", EXTENT),
    ("ext4:ext4_es_lookup_extent_exit", EXTENT),
    ("ext4:ext4_ext_map_blocks_exit", MAP_BLOCKS_EXIT),
    ("ext4:ext4_ind_map_blocks_exit", MAP_BLOCKS_EXIT),
    (
        "ext4:ext4_mark_inode_dirty",
        &[
            ("dev", "inode->i_sb->s_dev"),
            ("ino", "inode->i_ino"),
            ("ip", "IP"),
        ],
    ),
    (
        "ext4:ext4_journal_start_inode",
        &[
            ("dev", "inode->i_sb->s_dev"),
            ("ino", "inode->i_ino"),
            ("ip", "IP"),
        ],
    ),
    (
        "ext4:ext4_journal_start_sb",
        &[("dev", "sb->s_dev"), ("ip", "IP")],
    ),
    ("ext4:ext4_journal_start", &[("dev", "sb->s_dev"), ("ip", "IP")]),
    ("jbd2:jbd2_start_commit", JBD2),
    ("jbd2:jbd2_commit_locking", JBD2),
    ("jbd2:jbd2_commit_flushing", JBD2),
    ("jbd2:jbd2_commit_logging", JBD2),
];
