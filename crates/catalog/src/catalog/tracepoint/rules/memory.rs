//! Field rules of tracepoints of memory: allocators, pages, page cache and address spaces.

use super::row::{Fields, Row};

const MAPPING: Fields = &[
    ("i_ino", "mapping->host->i_ino"),
    ("s_dev", "mapping->host->i_sb->s_dev"),
];
const MEMCG: Fields = &[("id", "memcg->css.cgroup->kn->id")];
const MAPLE: Fields = &[
    ("min", "mas->min"),
    ("max", "mas->max"),
    ("index", "mas->index"),
    ("last", "mas->last"),
    ("node", "mas->node"),
];
const PAGE: Fields = &[("pfn", "PFN(page)")];
const PAGE_OR_NONE: Fields = &[
    ("pfn", "(uint64)page == 0 ? 0xffffffffffffffff : PFN(page)"),
    ("gfp_flags", "gfp_flags"),
];
const GFP: Fields = &[("gfp_flags", "gfp_flags")];

/// `cgroup_id_from_mm`: the root's id where the memory has no owner any more.
const MMAP_LOCK: Fields = &[(
    "memcg_id",
    "(uint64)mm->owner == 0 ? 1 : mm->owner->cgroups->subsys[memory_cgrp_id]->cgroup->kn->id",
)];

/// The fields of `kmem:kmem_cache_alloc`, given the expression for whether the object is accounted to a cgroup.
macro_rules! cache_alloc {
    ($accounted:literal) => {
        &[
            ("bytes_req", "s->object_size"),
            ("bytes_alloc", "s->size"),
            ("gfp_flags", "gfp_flags"),
            ("name", "kstr(s->name)"),
            ("accounted", $accounted),
        ]
    };
}

/// The fields of a folio that comes into the page cache or leaves it, given the expression for its order.
macro_rules! page_cache {
    ($order:literal) => {
        &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            ("order", $order),
        ]
    };
}

/// The fields of `pagemap:mm_lru_insertion` (`folio_lru_list`, `trace_pagemap_flags`), given the place of a folio's flags. Before
/// `_large_mapcount` (6.10) the kernel counted the mappings of a large folio page by page: there the formatted entry serves.
macro_rules! lru_insertion {
    ($flags:literal) => {
        &[
            ("pfn", "PFN(folio)"),
            (
                "lru",
                concat!(
                    "((",
                    $flags,
                    " >> PG_unevictable) & 1) != 0 ? 4 : ((((",
                    $flags,
                    " >> PG_swapbacked) & 1) ^ 1) << 1) + ((",
                    $flags,
                    " >> PG_active) & 1)"
                ),
            ),
            (
                "flags",
                concat!(
                    "(((uint64)folio->mapping & 1) != 0 ? 2 : 4)",
                    " | ((((",
                    $flags,
                    " >> PG_head) & 1) != 0 ? folio->_large_mapcount.counter : folio->_mapcount.counter) >= 0 ? 1 : 0)",
                    " | ((",
                    $flags,
                    " >> PG_swapbacked) & (",
                    $flags,
                    " >> PG_swapcache) & 1) << 3",
                    " | ((",
                    $flags,
                    " >> PG_swapbacked) & 1) << 4",
                    " | ((",
                    $flags,
                    " >> PG_mappedtodisk) & 1) << 5",
                    " | ((",
                    $flags,
                    " >> PG_private) & 1) << 6"
                ),
            ),
        ]
    };
}

pub(super) const ROWS: &[Row] = &[
    (
        "kmem:kmem_cache_free",
        &[
            ("call_site", "call_site"),
            ("ptr", "ptr"),
            ("name", "kstr(s->name)"),
        ],
    ),
    ("kmem:kfree", &[("call_site", "call_site"), ("ptr", "ptr")]),
    ("oom:mark_victim", &[("pid", "task->pid")]),
    ("memcg:mod_memcg_state", MEMCG),
    ("memcg:mod_memcg_lruvec_state", MEMCG),
    ("memcg:count_memcg_events", MEMCG),
    ("memcg:memcg_flush_stats", MEMCG),
    ("maple_tree:ma_op", MAPLE),
    ("maple_tree:ma_read", MAPLE),
    ("maple_tree:ma_write", MAPLE),
    ("kmem:kmalloc", GFP),
    ("percpu:percpu_alloc_percpu", GFP),
    (
        "kmem:kmem_cache_alloc",
        cache_alloc!(
            "((gfp_flags >> ___GFP_ACCOUNT_BIT) & 1) != 0 || ((s->flags >> _SLAB_ACCOUNT) & 1) != 0"
        ),
    ),
    // Before these bits had names in the kernel's types.
    (
        "kmem:kmem_cache_alloc",
        cache_alloc!("(gfp_flags & 0x400000) != 0 || (s->flags & 0x4000000) != 0"),
    ),
    ("kmem:mm_page_free", PAGE),
    ("kmem:mm_page_free_batched", PAGE),
    ("kmem:mm_page_alloc", PAGE_OR_NONE),
    ("kmem:mm_page_alloc_zone_locked", PAGE_OR_NONE),
    ("kmem:mm_page_pcpu_drain", PAGE_OR_NONE),
    ("filemap:mm_filemap_get_pages", MAPPING),
    ("filemap:mm_filemap_map_pages", MAPPING),
    ("filemap:mm_filemap_fault", MAPPING),
    (
        "filemap:mm_filemap_add_to_page_cache",
        page_cache!("(folio->flags.f >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0"),
    ),
    (
        "filemap:mm_filemap_delete_from_page_cache",
        page_cache!("(folio->flags.f >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0"),
    ),
    (
        "filemap:mm_filemap_add_to_page_cache",
        page_cache!("(folio->flags >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0"),
    ),
    (
        "filemap:mm_filemap_delete_from_page_cache",
        page_cache!("(folio->flags >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0"),
    ),
    (
        "filemap:mm_filemap_add_to_page_cache",
        page_cache!("(folio->flags >> PG_head) & 1 ? folio->_folio_order : 0"),
    ),
    (
        "filemap:mm_filemap_delete_from_page_cache",
        page_cache!("(folio->flags >> PG_head) & 1 ? folio->_folio_order : 0"),
    ),
    ("pagemap:mm_lru_insertion", lru_insertion!("folio->flags.f")),
    ("pagemap:mm_lru_insertion", lru_insertion!("folio->flags")),
    ("pagemap:mm_lru_activate", &[("pfn", "PFN(folio)")]),
    (
        "mmap:vm_unmapped_area",
        &[
            ("total_vm", "curtask->mm->total_vm"),
            ("flags", "info->flags"),
            ("length", "info->length"),
            ("low_limit", "info->low_limit"),
            ("high_limit", "info->high_limit"),
            ("align_mask", "info->align_mask"),
            ("align_offset", "info->align_offset"),
        ],
    ),
    ("mmap_lock:mmap_lock_start_locking", MMAP_LOCK),
    ("mmap_lock:mmap_lock_acquire_returned", MMAP_LOCK),
    ("mmap_lock:mmap_lock_released", MMAP_LOCK),
];
