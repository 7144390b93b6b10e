"""A Ray cluster of several raylets on loopback, as a process of its own: `python -m tests.cluster.ray_cluster NODES`.

Says where it is by a line of JSON; for each line on its standard input it adds a node. It ends with its standard input.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Any

# Ray takes 127.0.0.1 for the machine's own address on a network, unless it is told that there is none.
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",  # that nodes live without a head
    # Ray's proxy for clients forks while gRPC works in other threads; what gRPC then does in the child crashes it now and then.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}

# A raylet that was killed refuses calls at once; one that is only slow has its time.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 10000,
    "health_check_failure_threshold": 5,
}


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def main() -> None:
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    here: dict[str, Any] = {"node_ip_address": "127.0.0.1", "include_dashboard": False}
    client = free_port()
    head = {**here, "num_cpus": 0, "ray_client_server_port": client, "_system_config": HEALTH}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.head_node]
    for _ in range(int(sys.argv[1])):
        nodes.append(cluster.add_node(num_cpus=1, **here))

    def say() -> None:
        raylets = [found.process for node in nodes for found in node.all_processes["raylet"]]
        alive = [process.pid for process in raylets if process.poll() is None]
        told = {"address": cluster.address, "client": f"ray://127.0.0.1:{client}", "head": alive[0], "raylets": alive[1:]}
        print(json.dumps(told), flush=True)

    say()
    while True:
        for node in nodes:
            for found in node.all_processes["raylet"]:
                found.process.poll()  # Ray's workers take a zombie for a raylet that lives
        if select.select([sys.stdin], [], [], 0.05)[0]:
            if not sys.stdin.readline():
                break
            nodes.append(cluster.add_node(num_cpus=1, **here))
            say()
    cluster.shutdown()


if __name__ == "__main__":
    main()
