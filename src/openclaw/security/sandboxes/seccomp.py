"""Builds the filter of system calls for sandboxed programs, as the kernel's BPF instructions. Pure.

The namespaces of a sandbox take away what can be named; the filter takes away the calls that reach the kernel itself:
mounts and namespaces, kernel modules, keys, tracing of the kernel, other processes' memory, and typing into terminals.
What programs and compilers use stays. A refused call fails like one that the kernel does not allow.
"""

import struct
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97

Machine = Literal["x86_64", "aarch64"]
_ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""Set in the numbers of x86_64's second set of calls, which would otherwise go round the filter."""

# name: (number on x86_64, number on aarch64); None where there is no such call.
_REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# Newer calls that libraries try first: told that they do not exist, they use the older one, which is judged above.
_UNKNOWN = {
    "clone3": 435,
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "fspick": 433,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "mount_setattr": 442,
    "move_mount": 429,
    "open_tree": 428,
}
_CLONE, _IOCTL, _SOCKET = (56, 220), (16, 29), (41, 198)
_CLONE_NEWUSER = 0x10000000
_TYPING = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put words into a terminal as if somebody typed them."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""

# BPF: load a word of the call's record, compare, return.
_LOAD, _EQUALS, _HAS_BITS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class BpfStep(Struct, frozen=True):
    """One instruction; `then` and `other` are how many instructions to skip."""

    code: int
    value: int
    then: int = 0
    other: int = 0


def build_filter(machine: str) -> bytes | None:
    """The filter for programs of `machine`; None where we know no numbers."""
    if machine not in _ARCHITECTURES:
        return None
    return b"".join(struct.pack("=HBBI", step.code, step.then, step.other, step.value) for step in steps(machine))


def steps(machine: str) -> list[BpfStep]:
    """The instructions: one after the other, and what nobody refused is allowed."""
    column = 0 if machine == "x86_64" else 1
    found = [BpfStep(_LOAD, _ARCH), BpfStep(_EQUALS, _ARCHITECTURES[machine], then=1), _refuse(ENOSYS)]
    found.append(BpfStep(_LOAD, _NUMBER))
    if machine == "x86_64":
        found += [BpfStep(_AT_LEAST, _X32, other=1), _refuse(ENOSYS)]
    for numbers in _REFUSED.values():
        if (number := numbers[column]) is not None:
            found += [BpfStep(_EQUALS, number, other=1), _refuse(EPERM)]
    for number in _UNKNOWN.values():
        found += [BpfStep(_EQUALS, number, other=1), _refuse(ENOSYS)]
    found += _when(_CLONE[column], _FIRST, [BpfStep(_HAS_BITS, _CLONE_NEWUSER, other=1), _refuse(EPERM)])
    typing = [step for each in _TYPING for step in (BpfStep(_EQUALS, each, other=1), _refuse(EPERM))]
    found += _when(_IOCTL[column], _SECOND, typing)
    count = len(_FAMILIES)
    families = [BpfStep(_EQUALS, each, then=count - index) for index, each in enumerate(_FAMILIES)]
    found += _when(_SOCKET[column], _FIRST, [*families, _refuse(EAFNOSUPPORT)])
    return [*found, BpfStep(_RETURN, _ALLOW)]


def _when(number: int, argument: int, judged: list[BpfStep]) -> list[BpfStep]:
    """Judges an argument of one call, and loads the number again for the calls below."""
    return [
        BpfStep(_EQUALS, number, other=len(judged) + 2),
        BpfStep(_LOAD, argument),
        *judged,
        BpfStep(_LOAD, _NUMBER),
    ]


def _refuse(error: int) -> BpfStep:
    return BpfStep(_RETURN, _ERRNO | error)
