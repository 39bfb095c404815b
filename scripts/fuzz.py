"""Coverage-guided fuzzing: `python scripts/fuzz.py --minutes 2 [--target bodies] [--keep]`.

Runs atheris on each target for so many minutes, from the kept corpus and the seeds. It is not part of the
environment: if it cannot be imported it is installed into build/atheris (a wheel for Linux and macOS, Python 3.11
to 3.13). With `--keep` the inputs that raise coverage are written to tests/fuzzing/corpus, as few and as short as
reach the same. An input that finds a bug is written to tests/fuzzing/found/<target>, where it stays as a regression
test, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).parents[1]
INSTALLED: Final = ROOT / "build" / "atheris"
ATHERIS: Final = "atheris==3.0.0"
INPUT_BYTES_MAX: Final = 4_096
RUN_SECONDS_MAX: Final = 10
MEMORY_MB_MAX: Final = 1_536
CHILD: Final = "--child"
sys.path[:0] = [str(ROOT / "tests" / "support")]
if TYPE_CHECKING:
    from fuzzing import corpus, targets
elif CHILD not in sys.argv:  # the child imports them under the eyes of atheris
    corpus, targets = (importlib.import_module(f"fuzzing.{name}") for name in ("corpus", "targets"))


def main() -> int:
    """Fuzzes the targets one after the other; 1 if a bug was found."""
    arguments = _arguments()
    if arguments.child:
        _fuzz_here(arguments.child, arguments.rest)
    _need_atheris()
    found = [
        crash
        for name in arguments.target or targets.TARGETS
        for crash in fuzz(name, minutes=arguments.minutes, seed=arguments.seed, is_kept=arguments.keep)
    ]
    for crash in found:
        print(f"found: {crash.relative_to(ROOT)}")
    return 1 if found else 0


def fuzz(name: str, *, minutes: float, seed: int, is_kept: bool) -> list[Path]:
    """Fuzzes one target in a process of its own; gives the files of what it found."""
    run, seeds, _ = targets.TARGETS[name]
    known = [*seeds(), *corpus.read(corpus.CORPUS, name)]
    with tempfile.TemporaryDirectory(prefix="stemmadb-fuzz-") as place:
        inputs, crashes = Path(place) / "inputs", Path(place) / "crashes"
        crashes.mkdir()
        for data in known:
            corpus.keep(inputs.parent, inputs.name, data)
        started = time.monotonic()
        _run_child(name, inputs, crashes, minutes=minutes, seed=seed)
        made = [file.read_bytes() for file in inputs.iterdir()]
        found = [corpus.keep(corpus.FOUND, name, file.read_bytes()) for file in sorted(crashes.iterdir())]
        print(f"{name}: {len(made)} inputs after {time.monotonic() - started:.0f} s, {len(found)} found", flush=True)
    if is_kept:
        kept = corpus.minimised(_quietly(run), made)
        corpus.replace(name, kept)
        print(f"{name}: {len(kept)} inputs kept, {sum(map(len, kept))} bytes", flush=True)
    return found


def _run_child(name: str, inputs: Path, crashes: Path, *, minutes: float, seed: int) -> None:
    """libFuzzer ends its process when it is done or has found something."""
    options = [
        f"-max_total_time={round(minutes * 60)}",
        f"-max_len={max([INPUT_BYTES_MAX, *(file.stat().st_size for file in inputs.iterdir())])}",
        f"-timeout={RUN_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-seed={seed}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    command = [sys.executable, __file__, CHILD, name, "--", *options, str(inputs)]
    done = subprocess.run(command, cwd=ROOT, timeout=minutes * 60 + 300, capture_output=True, text=True, check=False)  # noqa: S603
    told = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("INFO:", "WARNING:"))]
    print("\n".join(told)[-4_000:], flush=True)


def _fuzz_here(name: str, options: list[str]) -> None:
    """In the child: never returns."""
    sys.path[:0] = [str(INSTALLED)]
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["stemmadb"], enable_loader_override=False):
        table = importlib.import_module("fuzzing.targets").TARGETS
    atheris.Setup([__file__, *options], table[name].run)
    atheris.Fuzz()
    raise SystemExit(0)


def _need_atheris() -> None:
    probe = f"import sys; sys.path[:0] = [{str(INSTALLED)!r}]; import atheris"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode:  # noqa: S603
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(INSTALLED), ATHERIS]
        subprocess.run(install, check=True)  # noqa: S603


def _quietly(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """What it finds is in `found`; for the corpus only what it reaches counts."""

    def quiet(data: bytes) -> None:
        with suppress(Exception):
            run(data)

    return quiet


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="for each target")
    parser.add_argument("--target", action="append", help="only this one; may be given again")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer, from 1 up")
    parser.add_argument("--keep", action="store_true", help="write what raises coverage to the corpus")
    parser.add_argument(CHILD, help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
