"""What docker-compose.yml promises of the cluster: who may speak to it, from where, and when it is healthy."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cluster.engine import Cluster, get, run, wait_until

pytestmark = pytest.mark.cluster


def inspected(cluster: Cluster) -> list[dict]:
    """What Docker knows of every container."""
    return json.loads(run(["docker", "inspect", *cluster.compose("ps", "-q").split()]))


def test_nobody_is_root_and_ports_are_open_on_this_machine_only(cluster: Cluster) -> None:
    containers = inspected(cluster)
    assert len(containers) == 6
    for container in containers:
        assert cluster.on(container["Id"], "id", "-u").strip() == "10001"
        assert container["HostConfig"]["Memory"] > 0
        assert container["HostConfig"]["NanoCpus"] > 0
        for bindings in container["NetworkSettings"]["Ports"].values():
            assert {binding["HostIp"] for binding in bindings or []} <= {"127.0.0.1"}
        [conf] = [mount for mount in container["Mounts"] if mount["Destination"] == "/opt/recallk/conf"]
        assert conf["RW"] is False


def test_the_master_is_healthy_while_every_worker_is_there(cluster: Cluster) -> None:
    master = cluster.container("master")
    [container] = [container for container in inspected(cluster) if container["Id"] == master]
    check = ["sh", "-c", container["Config"]["Healthcheck"]["Test"][1]]
    assert container["State"]["Health"]["Status"] == "healthy"
    cluster.on(master, *check)
    cluster.kill(cluster.workers[0])
    wait_until(lambda: cluster.master()["aliveworkers"] == 1, "one worker")
    assert subprocess.run(["docker", "exec", master, *check], capture_output=True, timeout=30, check=False).returncode


def test_jobs_cannot_be_sent_to_the_master_over_http(cluster: Cluster) -> None:
    cluster.on_driver("curl", "-sS", "-o", "/dev/null", "http://master:8080/")
    refused = "curl -s http://master:6066/v1/submissions/status/x; test $? -eq 7"
    cluster.on_driver("sh", "-c", refused)


def test_a_worker_without_the_secret_is_refused(cluster: Cluster) -> None:
    command = "timeout 20 spark-class org.apache.spark.deploy.worker.Worker --work-dir /tmp/w spark://master:7077 2>&1"
    stranger = f"export _SPARK_AUTH_SECRET=guessed; {command} | grep -m1 -i 'failed to connect to master'"
    assert cluster.on_driver("sh", "-c", stranger)
    assert cluster.master()["aliveworkers"] == 2


def test_the_secret_stands_in_no_log_and_encryption_is_on(cluster: Cluster) -> None:
    history = f"http://{cluster.address('history', 18080)}/api/v1/applications"
    server = wait_until(lambda: [app for app in get(history) or [] if app["name"] == "connect"], "the history")[0]
    settings = dict(get(f"{history}/{server['id']}/environment")["sparkProperties"])
    assert settings["spark.network.crypto.enabled"] == "true"
    assert settings["spark.authenticate"] == "true"
    assert "redacted" in settings["spark.authenticate.secret"]
    said = cluster.logs()
    assert "Registering worker" in said
    assert cluster.secret not in said
    assert cluster.on_driver("sh", "-c", f"grep -rl {cluster.secret} /events /opt/recallk /scratch || true") == ""
