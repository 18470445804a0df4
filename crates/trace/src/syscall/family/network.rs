//! Names of flags and numbers of system calls about sockets: families, types, protocols, options, messages.

use super::row::{Family, flags, names, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::NetlinkProtocol,
        names(rows!(+ whole [
            NETLINK_ROUTE = 0, NETLINK_USERSOCK = 2, NETLINK_SOCK_DIAG = 4, NETLINK_XFRM = 6, NETLINK_SELINUX = 7,
            NETLINK_AUDIT = 9, NETLINK_FIB_LOOKUP = 10, NETLINK_CONNECTOR = 11, NETLINK_NETFILTER = 12, NETLINK_DNRTMSG = 14,
            NETLINK_KOBJECT_UEVENT = 15, NETLINK_GENERIC = 16, NETLINK_CRYPTO = 21,
        ])),
    ),
    (
        Meaning::AddressFamily,
        names(rows!(whole net [
            AF_UNSPEC, AF_UNIX, AF_INET, AF_AX25, AF_IPX, AF_APPLETALK, AF_X25, AF_INET6, AF_NETLINK, AF_PACKET, AF_RDS, AF_CAN, AF_TIPC, AF_BLUETOOTH,
            AF_ALG, AF_VSOCK, AF_QIPCRTR, AF_XDP,
        ])),
    ),
    (
        Meaning::SocketType,
        flags(rows!(
            & 0xf net [SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET]
            + [SOCK_DCCP = 6 / 0xf, SOCK_PACKET = 10 / 0xf, SOCK_CLOEXEC = 0o2000000 / 0o2000000, SOCK_NONBLOCK = 0o4000 / 0o4000]
        )),
    ),
    (
        Meaning::SocketFlags,
        flags(rows!(+ [SOCK_CLOEXEC = 0o2000000 / 0o2000000, SOCK_NONBLOCK = 0o4000 / 0o4000])),
    ),
    (
        Meaning::Protocol,
        names(rows!(whole net [
            IPPROTO_IP, IPPROTO_ICMP, IPPROTO_IGMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_DCCP, IPPROTO_IPV6, IPPROTO_GRE, IPPROTO_ESP, IPPROTO_AH,
            IPPROTO_ICMPV6, IPPROTO_SCTP, IPPROTO_UDPLITE, IPPROTO_RAW, IPPROTO_MPTCP,
        ])),
    ),
    (
        Meaning::Level,
        names(rows!(whole net [
            SOL_IP, SOL_SOCKET, SOL_TCP, SOL_UDP, SOL_IPV6, SOL_RAW, SOL_PACKET, SOL_NETLINK, SOL_ALG, SOL_XDP,
        ] + whole [SOL_VSOCK = 287])),
    ),
    (
        Meaning::SocketOption,
        names(rows!(whole net [
            SO_RCVTIMEO_OLD, SO_SNDTIMEO_OLD, SO_DEBUG, SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_DONTROUTE, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE, SO_OOBINLINE, SO_NO_CHECK,
            SO_PRIORITY, SO_LINGER, SO_REUSEPORT, SO_PASSCRED, SO_PEERCRED, SO_RCVLOWAT, SO_SNDLOWAT, SO_BINDTODEVICE, SO_ATTACH_FILTER,
            SO_DETACH_FILTER, SO_PEERNAME, SO_ACCEPTCONN, SO_PEERSEC, SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_MARK, SO_PROTOCOL, SO_DOMAIN,
            SO_PEEK_OFF, SO_BUSY_POLL, SO_ATTACH_BPF, SO_INCOMING_CPU, SO_COOKIE, SO_PEERGROUPS, SO_ZEROCOPY, SO_TXTIME, SO_PEERPIDFD,
        ])),
    ),
    (
        Meaning::TcpOption,
        names(rows!(whole net [
            TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT, TCP_LINGER2, TCP_DEFER_ACCEPT, TCP_WINDOW_CLAMP,
            TCP_INFO, TCP_QUICKACK, TCP_CONGESTION, TCP_USER_TIMEOUT, TCP_FASTOPEN, TCP_ULP, TCP_FASTOPEN_CONNECT,
        ])),
    ),
    (
        Meaning::IpOption,
        names(rows!(whole net [
            IP_TOS, IP_TTL, IP_HDRINCL, IP_OPTIONS, IP_RECVOPTS, IP_RETOPTS, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTTL, IP_RECVTOS, IP_MTU,
            IP_FREEBIND, IP_TRANSPARENT, IP_MINTTL, IP_BIND_ADDRESS_NO_PORT, IP_MULTICAST_IF, IP_MULTICAST_TTL, IP_MULTICAST_LOOP, IP_ADD_MEMBERSHIP,
            IP_DROP_MEMBERSHIP,
        ])),
    ),
    (
        Meaning::Ipv6Option,
        names(rows!(whole net [
            IPV6_UNICAST_HOPS, IPV6_MULTICAST_IF, IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP, IPV6_ADD_MEMBERSHIP, IPV6_DROP_MEMBERSHIP,
            IPV6_MTU_DISCOVER, IPV6_MTU, IPV6_RECVERR, IPV6_V6ONLY, IPV6_RECVPKTINFO, IPV6_PKTINFO, IPV6_RECVHOPLIMIT, IPV6_HOPLIMIT,
            IPV6_RECVTCLASS, IPV6_TCLASS, IPV6_TRANSPARENT, IPV6_FREEBIND,
        ])),
    ),
    (
        Meaning::Message,
        flags(rows!(bit net [
            MSG_OOB, MSG_PEEK, MSG_DONTROUTE, MSG_CTRUNC, MSG_PROBE, MSG_TRUNC, MSG_DONTWAIT, MSG_EOR, MSG_WAITALL, MSG_FIN, MSG_SYN, MSG_CONFIRM,
            MSG_RST, MSG_ERRQUEUE, MSG_NOSIGNAL, MSG_MORE, MSG_CMSG_CLOEXEC,
        ] + [
            MSG_WAITFORONE = 0x10000 / 0x10000, MSG_BATCH = 0x40000 / 0x40000, MSG_ZEROCOPY = 0x4000000 / 0x4000000,
            MSG_FASTOPEN = 0x20000000 / 0x20000000,
        ])),
    ),
    (
        Meaning::Shutdown,
        names(rows!(whole net [SHUT_RD, SHUT_WR, SHUT_RDWR])),
    ),
    (
        Meaning::NetlinkType,
        names(rows!(whole netlink [NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, NLMSG_OVERRUN])),
    ),
    (
        Meaning::RouteType,
        names(rows!(whole netlink [
            NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, NLMSG_OVERRUN, RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK, RTM_NEWADDR, RTM_DELADDR,
            RTM_GETADDR, RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE, RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH, RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE,
            RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC, RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS, RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER,
        ])),
    ),
    (
        Meaning::NetlinkFlags,
        flags(rows!(+ [
            NLM_F_REQUEST = 1 / 1, NLM_F_MULTI = 2 / 2, NLM_F_ACK = 4 / 4, NLM_F_ECHO = 8 / 8, NLM_F_DUMP_INTR = 16 / 16, NLM_F_DUMP_FILTERED = 32 / 32,
            NLM_F_DUMP = 0x300 / 0x300, NLM_F_ROOT = 0x100 / 0x100, NLM_F_MATCH = 0x200 / 0x200, NLM_F_ATOMIC = 0x400 / 0x400,
        ])),
    ),
    (
        Meaning::ControlType,
        names(rows!(whole net [
            SCM_RIGHTS, SCM_CREDENTIALS, SCM_SECURITY, SCM_TIMESTAMP, SCM_TIMESTAMPNS, SCM_TIMESTAMPING, SCM_TXTIME, SCM_WIFI_STATUS,
        ] + whole [SCM_PIDFD = 4])),
    ),
];
