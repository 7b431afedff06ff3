"""`coadapt outputs`: shows what a job's script left, as lines or JSON, or fetches it into a folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.fetch import output_row
from ..core.output_tree import LeftOut, Output, shown
from .plain import say

if TYPE_CHECKING:
    from ..client.client import Client


def listing(client: Client, job_id: str, as_json: bool) -> None:
    """Print a line or a JSON object per output as it comes, because there may be a million."""
    count, size, left_out, first = 0, 0, LeftOut(), True
    if as_json:
        sys.stdout.write(f'{{"id": {json.dumps(job_id)}, "outputs": [')
    for output in client.outputs(job_id):
        kept = output.entry.kind.is_kept
        if as_json:
            sys.stdout.write(("\n  " if first else ",\n  ") + json.dumps(output_row(output)))
            first = False
        elif kept:
            say(line(output))
        if kept:
            count, size = count + 1, size + output.entry.size
        else:
            left_out.add(output.name, output.entry.kind)
    if as_json:
        sys.stdout.write("\n]}\n")
        return
    for sentence in left_out.sentences():
        say(sentence, error=True)
    none = "a script writes them to coadapt.output_dir()"
    hint = f"coadapt outputs {job_id} DEST fetches them" if count else none
    say(f"{count} output{'s' * (count != 1)}, {amount(size)}; {hint}", error=True)


def fetched(client: Client, job_id: str, dest: Path, as_json: bool, tell: Callable[[str], None]) -> None:
    """Fetch the outputs into `dest`, and print how many there were."""
    done = client.fetch_outputs(job_id, dest)
    if as_json:
        fields = {"files": done.files, "bytes": done.bytes, "kept": done.kept, "left_out": list(done.notes)}
        say(json.dumps({"id": job_id, "dest": str(dest), **fields}, indent=2))
        return
    for note in done.notes:
        tell(note)
    there = f"; {done.kept} were there already" if done.kept else ""
    say(f"{done.files} file{'s' * (done.files != 1)}, {amount(done.bytes)}, fetched into {dest}{there}")


def line(output: Output) -> str:
    """Return size, time and path of an output as one line."""
    entry = output.entry
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.mtime_ns / 1e9)) if entry.mtime_ns else "-"
    arrow = f" -> {shown(entry.target)}" if entry.target else ""
    return f"{amount(entry.size):>10}  {when:16}  {shown(output.path)}{arrow}"


def amount(size: float) -> str:
    """Return bytes with a unit, such as `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
