//! Names of flags and commands of system calls about files: opening, paths, modes, locks, descriptors, mounts.

use super::row::{Family, Row, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (Meaning::Directory, names(rows!(whole general [AT_FDCWD]))),
    (
        Meaning::Open,
        flags(rows!(
            & 3 general [O_RDONLY, O_WRONLY, O_RDWR]
            // Flags of two bits (`O_TMPFILE`, `O_SYNC`) come before the flag that is one of their bits.
            bit general [
                O_TMPFILE, O_SYNC, O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND, O_NONBLOCK, O_DSYNC, FASYNC, O_DIRECT, O_LARGEFILE, O_DIRECTORY,
                O_NOFOLLOW, O_NOATIME, O_CLOEXEC, O_PATH,
            ]
        )),
    ),
    (
        Meaning::Pipe,
        flags(rows!(bit general [O_NONBLOCK, O_DIRECT, O_CLOEXEC])),
    ),
    (
        Meaning::At,
        flags(rows!(bit general [
            AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC, AT_RECURSIVE,
        ])),
    ),
    // `AT_EACCESS` and `AT_REMOVEDIR` are the same bit, so the two calls have meanings of their own.
    (
        Meaning::AccessAt,
        flags(rows!(bit general [AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH])),
    ),
    (Meaning::UnlinkAt, flags(rows!(bit general [AT_REMOVEDIR]))),
    (
        Meaning::Access,
        flags(rows!(bit general [F_OK, R_OK, W_OK, X_OK])),
    ),
    (Meaning::KernelDevice, names(&[])),
    (
        Meaning::FileMode,
        flags(rows!(& 0o170000 general [S_IFSOCK, S_IFLNK, S_IFREG, S_IFBLK, S_IFDIR, S_IFCHR, S_IFIFO])),
    ),
    (
        Meaning::Whence,
        names(rows!(whole general [SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE])),
    ),
    (
        Meaning::Fcntl,
        names(rows!(whole general [
            F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN, F_GETOWN, F_SETSIG, F_GETSIG, F_SETOWN_EX, F_GETOWN_EX,
            F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_GETLEASE, F_NOTIFY, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS,
            F_GET_SEALS, F_GET_RW_HINT, F_SET_RW_HINT,
        ] + whole [
            // Commands of 32-bit programs.
            F_GETLK64 = 12, F_SETLK64 = 13, F_SETLKW64 = 14,
        ])),
    ),
    (Meaning::DescriptorFlags, flags(rows!(bit general [FD_CLOEXEC]))),
    (
        Meaning::Seals,
        flags(
            rows!(bit general [F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE, F_SEAL_EXEC]),
        ),
    ),
    (
        Meaning::Resolve,
        flags(rows!(bit general [
            RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_CACHED,
        ])),
    ),
    (
        Meaning::LockType,
        names(rows!(whole general [F_RDLCK, F_WRLCK, F_UNLCK])),
    ),
    (
        Meaning::Lock,
        flags(rows!(bit general [LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN])),
    ),
    (
        Meaning::Ioctl,
        flags(rows!(whole ioctl [
            TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TCSBRK, TCXONC, TCFLSH, TIOCEXCL, TIOCNXCL, TIOCSCTTY, TIOCGPGRP,
            TIOCSPGRP, TIOCOUTQ, TIOCSTI, TIOCGWINSZ, TIOCSWINSZ, TIOCNOTTY, TIOCGSID, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER, FIONREAD, FIONBIO, FIOASYNC,
            FIOCLEX, FIONCLEX, FICLONE, FICLONERANGE, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_FIEMAP, BLKGETSIZE64, BLKSSZGET, BLKROGET,
            SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFINDEX, SIOCGIFNAME, SIOCGIFHWADDR, SIOCGIFMTU, TUNSETIFF,
            TCSBRKP, TIOCINQ, TIOCMGET, TIOCMSET, TIOCSBRK, TIOCCBRK, TIOCGSERIAL, TIOCLINUX, TIOCCONS, TIOCPKT, TIOCSETD, TIOCGETD, TIOCGDEV, TIOCVHANGUP,
            FIOQSIZE, FIDEDUPERANGE, FIFREEZE, FITHAW, FITRIM, FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, BLKROSET, BLKRRPART, BLKGETSIZE,
            BLKFLSBUF, BLKRASET, BLKRAGET, BLKPBSZGET, BLKDISCARD, BLKIOMIN, BLKIOOPT, KDGETMODE, KDSETMODE, KDGKBTYPE, KDGKBMODE, KDSKBMODE,
            KDGKBLED, KDSKBLED, SIOCSPGRP, SIOCGPGRP, SIOCATMARK, SIOCADDRT, SIOCDELRT, SIOCSIFFLAGS, SIOCSIFADDR, SIOCGIFDSTADDR, SIOCGIFBRDADDR,
            SIOCGIFNETMASK, SIOCSIFNETMASK, SIOCGIFMETRIC, SIOCSIFMTU, SIOCSIFHWADDR, SIOCGIFTXQLEN, SIOCGARP,
            RNDGETENTCNT, RNDADDENTROPY,
        ])),
    ),
    (
        Meaning::Rename,
        flags(rows!(bit general [RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT])),
    ),
    (
        Meaning::Statx,
        flags(rows!(bit general [
            STATX_ALL, STATX_BASIC_STATS, STATX_TYPE, STATX_MODE, STATX_NLINK, STATX_UID, STATX_GID, STATX_ATIME, STATX_MTIME, STATX_CTIME, STATX_INO,
            STATX_SIZE, STATX_BLOCKS, STATX_BTIME, STATX_MNT_ID, STATX_DIOALIGN,
        ])),
    ),
    (
        Meaning::Xattr,
        flags(rows!(bit general [XATTR_CREATE, XATTR_REPLACE])),
    ),
    (
        Meaning::Fallocate,
        flags(rows!(bit general [
            FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_ZERO_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_UNSHARE_RANGE,
        ])),
    ),
    (
        Meaning::FileAdvice,
        names(rows!(whole general [
            POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED, POSIX_FADV_NOREUSE,
        ])),
    ),
    (
        Meaning::Splice,
        flags(rows!(bit general [SPLICE_F_MOVE, SPLICE_F_NONBLOCK, SPLICE_F_MORE, SPLICE_F_GIFT])),
    ),
    (
        Meaning::SyncRange,
        flags(rows!(bit general [
            SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, SYNC_FILE_RANGE_WAIT_AFTER,
        ])),
    ),
    (
        Meaning::ReadWrite,
        flags(rows!(+ [
            RWF_HIPRI = 1 / 1, RWF_DSYNC = 2 / 2, RWF_SYNC = 4 / 4, RWF_NOWAIT = 8 / 8, RWF_APPEND = 16 / 16, RWF_NOAPPEND = 32 / 32, RWF_ATOMIC = 64 / 64,
        ])),
    ),
    (
        Meaning::MountFlags,
        flags(rows!(bit general [
            MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_SYNCHRONOUS, MS_REMOUNT, MS_MANDLOCK, MS_DIRSYNC, MS_NOSYMFOLLOW, MS_NOATIME, MS_NODIRATIME,
            MS_BIND, MS_MOVE, MS_REC, MS_SILENT, MS_POSIXACL, MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED, MS_RELATIME, MS_KERNMOUNT,
            MS_I_VERSION, MS_STRICTATIME, MS_LAZYTIME,
        ])),
    ),
    (
        Meaning::Unmount,
        flags(rows!(bit general [MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW])),
    ),
    (
        Meaning::CloseRange,
        flags(rows!(+ [CLOSE_RANGE_UNSHARE = 2 / 2, CLOSE_RANGE_CLOEXEC = 4 / 4])),
    ),
    (
        Meaning::MountAttributes,
        flags(rows!(
            & 0x70 general [MOUNT_ATTR_NOATIME, MOUNT_ATTR_STRICTATIME]
            bit general [
                MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NODIRATIME, MOUNT_ATTR_IDMAP,
                MOUNT_ATTR_NOSYMFOLLOW,
            ]
        )),
    ),
    (
        Meaning::MoveMount,
        flags(rows!(bit general [
            MOVE_MOUNT_F_SYMLINKS, MOVE_MOUNT_F_AUTOMOUNTS, MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_SYMLINKS, MOVE_MOUNT_T_AUTOMOUNTS,
            MOVE_MOUNT_T_EMPTY_PATH, MOVE_MOUNT_SET_GROUP, MOVE_MOUNT_BENEATH,
        ])),
    ),
    (Meaning::FsOpen, flags(rows!(bit general [FSOPEN_CLOEXEC]))),
    (Meaning::FsMount, flags(rows!(bit general [FSMOUNT_CLOEXEC]))),
    (
        Meaning::FsPick,
        flags(rows!(bit general [
            FSPICK_CLOEXEC, FSPICK_SYMLINK_NOFOLLOW, FSPICK_NO_AUTOMOUNT, FSPICK_EMPTY_PATH,
        ])),
    ),
    (
        Meaning::FsConfig,
        names(rows!(+ whole [
            FSCONFIG_SET_FLAG = 0, FSCONFIG_SET_STRING = 1, FSCONFIG_SET_BINARY = 2, FSCONFIG_SET_PATH = 3,
            FSCONFIG_SET_PATH_EMPTY = 4, FSCONFIG_SET_FD = 5, FSCONFIG_CMD_CREATE = 6, FSCONFIG_CMD_RECONFIGURE = 7,
            FSCONFIG_CMD_CREATE_EXCL = 8,
        ])),
    ),
    (
        Meaning::OpenTree,
        flags(rows!(bit general [
            OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH, AT_RECURSIVE,
        ])),
    ),
    (
        Meaning::StatxAttributes,
        flags(rows!(+ [
            STATX_ATTR_COMPRESSED = 4 / 4, STATX_ATTR_IMMUTABLE = 0x10 / 0x10, STATX_ATTR_APPEND = 0x20 / 0x20, STATX_ATTR_NODUMP = 0x40 / 0x40,
            STATX_ATTR_ENCRYPTED = 0x800 / 0x800, STATX_ATTR_AUTOMOUNT = 0x1000 / 0x1000, STATX_ATTR_MOUNT_ROOT = 0x2000 / 0x2000,
            STATX_ATTR_VERITY = 0x10_0000 / 0x10_0000, STATX_ATTR_DAX = 0x20_0000 / 0x20_0000, STATX_ATTR_WRITE_ATOMIC = 0x40_0000 / 0x40_0000,
        ])),
    ),
    // include/uapi/linux/magic.h, and the file systems' own headers.
    (
        Meaning::FileSystem,
        flags(rows!(+ whole [
            EXT2_SUPER_MAGIC = 0xef53, TMPFS_MAGIC = 0x0102_1994, PROC_SUPER_MAGIC = 0x9fa0, SYSFS_MAGIC = 0x6265_6572,
            BTRFS_SUPER_MAGIC = 0x9123_683e, XFS_SUPER_MAGIC = 0x5846_5342, OVERLAYFS_SUPER_MAGIC = 0x794c_7630, NFS_SUPER_MAGIC = 0x6969,
            CGROUP_SUPER_MAGIC = 0x27_e0eb, CGROUP2_SUPER_MAGIC = 0x6367_7270, DEVPTS_SUPER_MAGIC = 0x1cd1, RAMFS_MAGIC = 0x8584_58f6,
            SQUASHFS_MAGIC = 0x7371_7368, FUSE_SUPER_MAGIC = 0x6573_5546, DEBUGFS_MAGIC = 0x6462_6720, TRACEFS_MAGIC = 0x7472_6163,
            BPF_FS_MAGIC = 0xcafe_4a11, HUGETLBFS_MAGIC = 0x9584_58f6, SECURITYFS_MAGIC = 0x7363_6673, PIPEFS_MAGIC = 0x5049_5045,
            SOCKFS_MAGIC = 0x534f_434b, ANON_INODE_FS_MAGIC = 0x0904_1934, NSFS_MAGIC = 0x6e73_6673, MSDOS_SUPER_MAGIC = 0x4d44,
            ISOFS_SUPER_MAGIC = 0x9660, F2FS_SUPER_MAGIC = 0xf2f5_2010, V9FS_MAGIC = 0x0102_1997,
        ])),
    ),
    (
        Meaning::Owner,
        names(&[Row {
            mask: -1,
            value: u32::MAX as i64,
            name: "-1",
        }]),
    ),
];
