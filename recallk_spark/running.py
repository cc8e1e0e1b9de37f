"""What stands beside a job while Spark runs it: its time limit, and its progress told to a person."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from recallk_spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERRUPTS = 10  # this often, at half a second each, before the block is ended by a signal


@contextmanager
def time_limit(spark: SparkSession, seconds: float) -> Iterator[Callable[[], None]]:
    """Interrupts what Spark runs in the block after `seconds` (0: never), again and again until the block ends.

    What cannot be interrupted is ended by a signal, where the block runs in the main thread: by SIGUSR1, since what a
    shell has put into the background ignores SIGINT.

    Gives a function to call between two steps: it raises once the time has run out.

    Raises:
        SparkError: the time ran out.
    """
    expired, ended = threading.Event(), threading.Event()
    main_thread = threading.current_thread() is threading.main_thread()

    def check() -> None:
        if expired.is_set():
            raise SparkError(f"not finished within job_timeout = {seconds:g} s")

    def end_block(*_: object) -> None:
        if not ended.is_set():
            raise KeyboardInterrupt

    def interrupt() -> None:
        try:
            if ended.wait(seconds):
                return
            expired.set()
            for _ in range(_INTERRUPTS):
                spark.interruptAll()
                if ended.wait(0.5):
                    return
            # a job that belongs to no query, as the one by which Spark learns the columns of files, is not interrupted
            if main_thread:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            while not ended.wait(0.5):
                spark.interruptAll()
        except Exception:  # the session went away: what the block runs fails by itself
            return

    if seconds:
        if main_thread:
            signal.signal(signal.SIGUSR1, end_block)  # it stays, and does nothing once the block has ended
        threading.Thread(target=interrupt, daemon=True).start()
    try:
        yield check
    except (Exception, KeyboardInterrupt) as error:
        if not isinstance(error, SparkError) and expired.is_set():
            raise SparkError(f"not finished within job_timeout = {seconds:g} s") from error
        raise
    finally:
        ended.set()


@contextmanager
def tasks_told(spark: SparkSession, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Tells how many tasks of the running job are done, of how many, while a Spark Connect server works in the block.

    Classic Spark has its own bar for that (`spark.ui.showConsoleProgress`), and nothing to ask without the JVM.
    """
    from pyspark.sql import is_remote  # noqa: PLC0415

    def handle(*, stages: Iterable[Any] | None, **_: Any) -> None:
        begun = list(stages or ())
        tell(sum(stage.num_completed_tasks for stage in begun), sum(stage.num_tasks for stage in begun))

    handler: Any = handle  # Spark's type is a class, but it takes whatever can be called so
    if not is_remote():
        yield
        return
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
