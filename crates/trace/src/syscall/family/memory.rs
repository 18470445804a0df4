//! Memory: protections, mappings, advice, policies.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::Protection,
        flags(rows!(bit general [
            PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC, PROT_SEM, PROT_GROWSDOWN, PROT_GROWSUP,
        ])),
    ),
    (
        Meaning::Map,
        flags(rows!(
            & 0xf general [MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE, MAP_DROPPABLE]
            bit general [
                MAP_FIXED, MAP_ANONYMOUS, MAP_32BIT, MAP_GROWSDOWN, MAP_DENYWRITE, MAP_EXECUTABLE, MAP_LOCKED, MAP_NORESERVE, MAP_POPULATE, MAP_NONBLOCK,
                MAP_STACK, MAP_HUGETLB, MAP_SYNC, MAP_FIXED_NOREPLACE, MAP_UNINITIALIZED,
            ]
        )),
    ),
    (
        Meaning::Remap,
        flags(rows!(bit general [MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP])),
    ),
    (
        Meaning::Advice,
        names(rows!(whole general [
            MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_HWPOISON,
            MADV_SOFT_OFFLINE, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_WIPEONFORK,
            MADV_KEEPONFORK, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_DONTNEED_LOCKED, MADV_COLLAPSE,
        ])),
    ),
    (
        Meaning::SyncMemory,
        flags(rows!(bit general [MS_ASYNC, MS_INVALIDATE, MS_SYNC])),
    ),
    (
        Meaning::LockMemory,
        flags(rows!(bit general [MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT])),
    ),
    (Meaning::LockRange, flags(rows!(bit general [MLOCK_ONFAULT]))),
    (
        Meaning::Memfd,
        flags(rows!(bit general [
            MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_HUGETLB, MFD_NOEXEC_SEAL, MFD_EXEC,
        ])),
    ),
    (
        Meaning::MemoryPolicy,
        flags(rows!(+ [
            MPOL_DEFAULT = 0 / 0xff, MPOL_PREFERRED = 1 / 0xff, MPOL_BIND = 2 / 0xff, MPOL_INTERLEAVE = 3 / 0xff, MPOL_LOCAL = 4 / 0xff,
            MPOL_PREFERRED_MANY = 5 / 0xff, MPOL_WEIGHTED_INTERLEAVE = 6 / 0xff, MPOL_F_STATIC_NODES = 0x8000 / 0x8000,
            MPOL_F_RELATIVE_NODES = 0x4000 / 0x4000,
        ])),
    ),
    (
        Meaning::Membarrier,
        names(rows!(+ whole [
            MEMBARRIER_CMD_QUERY = 0, MEMBARRIER_CMD_GLOBAL = 1, MEMBARRIER_CMD_GLOBAL_EXPEDITED = 2,
            MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED = 4, MEMBARRIER_CMD_PRIVATE_EXPEDITED = 8,
            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED = 16, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE = 32,
            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE = 64, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ = 128,
            MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ = 256, MEMBARRIER_CMD_GET_REGISTRATIONS = 512,
        ])),
    ),
];
