"""The process that looks into one file, within limits.

    python -m verification.golive.inspector application/pdf <cr12.pdf

It writes a line with the Fault, or an empty one, and then what is kept of a picture.
"""

import resource
import sys

from verification.golive.inspection import (
    CPU_SECONDS,
    JPEG,
    MEMORY_BYTES,
    PDF,
    Fault,
    Unacceptable,
)


def main() -> None:
    _limit()
    try:
        told, kept = "", _inspect(sys.argv[1], sys.stdin.buffer.read())
    except Unacceptable as e:
        told, kept = e.fault, b""
    except MemoryError:
        told, kept = Fault.BOMB, b""
    sys.stdout.buffer.write(told.encode() + b"\n" + kept)


def _limit() -> None:
    for what, soft, hard in (
        (resource.RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 1),
        # It writes no file, not even its own remains, and starts no process.
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
    ):
        # Elsewhere, as on a developer's Mac, memory has no such limit.
        if what != resource.RLIMIT_AS or sys.platform == "linux":
            resource.setrlimit(what, (soft, hard))


def _inspect(found: str, content: bytes) -> bytes:
    # Imported where they are needed, and once there are limits.
    if found == PDF:
        from verification.golive.file_contents import refuse_harmful_pdf

        refuse_harmful_pdf(content)
        return b""
    from verification.golive.file_contents import redraw_picture

    return redraw_picture(content, "JPEG" if found == JPEG else "PNG")


if __name__ == "__main__":
    main()
