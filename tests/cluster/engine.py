"""The cluster of docker-compose.yml under a project name of its own: started, disturbed, watched and taken down."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
IMAGE = "recallk-spark:local"
WORKERS = 2
CPUS = 2  # of a container, as docker-compose.yml has it

T = TypeVar("T")


def wait_until(found: Callable[[], T], what: str, *, seconds: float = 120, pause: float = 0.1) -> T:
    """What `found` gives once it is true; fails, naming `what` was waited for, when the time has run out."""
    end = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < end, f"waited {seconds:g} s in vain for {what}"
        time.sleep(pause)
    return answer


def run(command: list[str], *, seconds: float = 60, env: Mapping[str, str] | None = None) -> str:
    """stdout of a command that must succeed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, env=None if env is None else dict(env), check=False
    )
    assert done.returncode == 0, f"{' '.join(command[:6])}: exit {done.returncode}\n{done.stderr[-3000:]}"
    return done.stdout


def missing() -> str:
    """Why no cluster can be started here; '' where one can."""
    if not shutil.which("docker"):
        return "docker is not installed"
    if subprocess.run(["docker", "info"], capture_output=True, timeout=30, check=False).returncode:
        return "no Docker engine answers"
    return "" if _compose() else "neither `docker compose` nor docker-compose is installed"


def _compose() -> list[str]:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=30, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


def get(url: str) -> Any:
    """The JSON at a URL; None where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return None


class Cluster:
    """One cluster.

    Attributes:
        data: the directory of this machine that is /data in every container.
        secret: what its parts authenticate by.
    """

    def __init__(self, folder: Path, golden: Path) -> None:
        self.data = folder / "data"
        self.secret = secrets.token_hex(32)
        self._extra: list[str] = []
        self._throttled = False
        for directory in (self.data, folder / "events"):
            directory.mkdir()
            directory.chmod(0o777)  # the containers' user is none of this machine's
        self._env = {
            **os.environ,
            "SPARK_AUTH_SECRET": self.secret,
            "SPARK_WORKERS": str(WORKERS),
            "RECALLK_DATA": str(self.data),
            "RECALLK_EVENTS": str(folder / "events"),
            "GOLDEN": str(golden),
            **dict.fromkeys(("MASTER_PORT", "HISTORY_PORT", "UI_PORT", "CONNECT_PORT"), ""),
        }
        self.project = f"recallk-test-{os.getpid()}"
        files = ["-f", str(ROOT / "docker-compose.yml"), "-f", str(ROOT / "tests" / "cluster" / "compose.yml")]
        self._compose = [*_compose(), "-p", self.project, *files]

    def compose(self, *arguments: str, seconds: float = 60) -> str:
        """stdout of a compose command."""
        return run([*self._compose, *arguments], seconds=seconds, env=self._env)

    def up(self) -> None:
        """Builds the image and starts everything; returns when every health check holds."""
        self.compose("build", "master", seconds=600)
        self.compose("up", "-d", "--scale", f"worker={WORKERS}", seconds=240)
        self._driver = self.container("driver")
        self._workers = self.compose("ps", "-q", "worker").split()
        self._master_url = f"http://{self.address('master', 8080)}"
        self._ui_url = f"http://{self.address('driver', 4040)}"

    def down(self) -> None:
        """Removes all that was started."""
        if self._extra:
            run(["docker", "rm", "-f", *self._extra])
        if hasattr(self, "_driver"):  # files of another user, which the owner of the directory cannot delete
            subprocess.run(
                ["docker", "exec", self._driver, "sh", "-c", "rm -rf /data/* /events/*"],
                capture_output=True,
                timeout=60,
                check=False,
            )
        self.compose("kill", seconds=120)
        self.compose("down", "--volumes", seconds=120)

    def logs(self) -> str:
        """What every container has said."""
        said = self.compose("logs", "--no-color", seconds=60)
        for container in self._extra:
            done = subprocess.run(
                ["docker", "logs", container], capture_output=True, text=True, timeout=30, check=False
            )
            said += done.stdout + done.stderr
        return said

    def container(self, service: str) -> str:
        """The id of a service's one container."""
        return self.compose("ps", "-q", service).strip()

    def address(self, service: str, port: int) -> str:
        """Where this machine reaches a port."""
        return self.compose("port", service, str(port)).strip()

    def on(self, container: str, *command: str, seconds: float = 60) -> str:
        """stdout of a command in a container."""
        return run(["docker", "exec", container, *command], seconds=seconds)

    def on_driver(self, *command: str, seconds: float = 60) -> str:
        """stdout of a command in the driver's container."""
        return self.on(self._driver, *command, seconds=seconds)

    # --- jobs

    def start(self, command: list[str], name: str, stdout: Path, stderr: Path) -> subprocess.Popen[bytes]:
        """A command in the driver's container; Docker gives it a process group, which `kill_job` knows by name."""
        grouped = ["sh", "-c", f'echo $$ > /tmp/{name}.pid; exec "$@"', "sh", *command]
        with stdout.open("wb") as out, stderr.open("wb") as err:
            return subprocess.Popen(["docker", "exec", self._driver, *grouped], stdout=out, stderr=err)

    def kill_job(self, name: str) -> None:
        """SIGKILL to every process of a job: Python and Java."""
        self.on_driver("sh", "-c", f"kill -KILL -$(cat /tmp/{name}.pid)")

    def stages(self) -> list[dict[str, Any]]:
        """The stages of the one job that runs, as Spark's REST API tells them; none before it answers."""
        return self._running("stages")

    def executors(self) -> list[dict[str, Any]]:
        """Its executors, likewise."""
        return self._running("executors")

    def _running(self, what: str) -> list[dict[str, Any]]:
        found = get(f"{self._ui_url}/api/v1/applications") or []
        return (get(f"{self._ui_url}/api/v1/applications/{found[0]['id']}/{what}") or []) if found else []

    # --- workers

    @property
    def workers(self) -> list[str]:
        """The containers of the workers."""
        return self._workers

    def master(self) -> dict[str, Any]:
        """What the master says of workers and applications."""
        return get(f"{self._master_url}/json/") or {}

    def kill(self, *workers: str) -> None:
        """SIGKILL to workers with their executors, as when a machine dies."""
        run(["docker", "kill", *workers])

    def begin(self, *workers: str) -> None:
        """Starts workers that were killed."""
        run(["docker", "start", *workers])

    def signal_executors(self, name: str) -> None:
        """A signal to whatever runs tasks; the workers live on."""
        for worker in self._workers:
            self.on(worker, "sh", "-c", f"pkill -{name} -f CoarseGrainedExecutor[B]ackend || true")

    def kill_at_work(self, worker: str) -> None:
        """As `kill`, of a worker that has unfinished tasks: its executor is stopped first, and keeps those it is given.

        Without the stop, tasks of a tenth of a second are over before Docker has killed anything.
        """
        self.on(worker, "pkill", "-STOP", "-f", "CoarseGrainedExecutor[B]ackend")
        networks = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        host = run(["docker", "inspect", "-f", networks, worker]).strip()
        wait_until(
            lambda: any(item["activeTasks"] for item in self.executors() if item["hostPort"].split(":")[0] == host),
            "tasks of a stopped executor",
        )
        self.kill(worker)

    def throttle(self, worker: str, cpus: float) -> None:
        """What a worker may use of the processors from now on."""
        run(["docker", "update", "--cpus", str(cpus), worker])
        self._throttled = cpus < CPUS

    def restore(self) -> None:
        """Two whole idle workers, whatever a test has done."""
        if self._extra:
            run(["docker", "rm", "-f", *self._extra])
            self._extra.clear()
        self.begin(*self._workers)
        if self._throttled:
            for worker in self._workers:
                self.throttle(worker, CPUS)
        wait_until(self._is_idle, "two idle workers")

    def _is_idle(self) -> bool:
        state = self.master()
        return state.get("aliveworkers") == WORKERS and state.get("coresused") == 0

    def add_small_worker(self, size: str) -> None:
        """One more worker, whose shuffle files have a disk of `size`."""
        mounts = [f"{ROOT / 'conf'}:/opt/recallk/conf:ro", f"{self.data}:/data"]
        command = "spark-class org.apache.spark.deploy.worker.Worker --cores 1 --memory 1500m --work-dir /tmp/work"
        self._extra.append(
            run(
                [
                    *("docker", "run", "-d", "--network", f"{self.project}_default"),
                    *("--env", "_SPARK_AUTH_SECRET", "--env", "SPARK_LOCAL_DIRS=/small"),
                    *("--tmpfs", f"/small:size={size},mode=1777", "--memory", "2500m"),
                    *(part for mount in mounts for part in ("-v", mount)),
                    *(IMAGE, *command.split(), "spark://master:7077"),
                ],
                env={**self._env, "_SPARK_AUTH_SECRET": self.secret},
            ).strip()
        )
        wait_until(lambda: self.master().get("aliveworkers") == WORKERS + 1, "a third worker")
