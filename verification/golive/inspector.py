"""The process that inspects one file, within limits of memory and time.

    python -m verification.golive.inspector application/pdf <cr12.pdf

It writes a line with the Fault, or an empty line, and then the redrawn picture.
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
        fault, clean = "", _inspect(sys.argv[1], sys.stdin.buffer.read())
    except Unacceptable as e:
        fault, clean = e.fault, b""
    except MemoryError:
        fault, clean = Fault.BOMB, b""
    sys.stdout.buffer.write(fault.encode() + b"\n" + clean)


def _limit() -> None:
    for what, soft, hard in (
        (resource.RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 1),
        # The process writes no file and no core dump, and starts no process.
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
    ):
        # Other systems, such as macOS, have no such limit on memory.
        if what != resource.RLIMIT_AS or sys.platform == "linux":
            resource.setrlimit(what, (soft, hard))


def _inspect(content_type: str, content: bytes) -> bytes:
    # Imported here, so that the limits apply to the libraries, too.
    if content_type == PDF:
        from verification.golive.file_contents import refuse_harmful_pdf

        refuse_harmful_pdf(content)
        return b""
    from verification.golive.file_contents import redraw_picture

    return redraw_picture(content, "JPEG" if content_type == JPEG else "PNG")


if __name__ == "__main__":
    main()
