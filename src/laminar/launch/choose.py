"""Choose: the launcher that `--on` names."""

from __future__ import annotations

import os
from typing import Final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.launch.protocol import Launcher

WAYS: Final = ("local", "ray", "spark", "env")  # and agents: those of a cluster, on this machine, to try things out


def launcher_of(on: str) -> Launcher | None:
    """None: processes of this machine, which need none. Engines are imported here, when they are asked for.

    `ray`, `spark`: a small cluster on this machine. `ray://HOST:10001`, `ray:HOST:6379`, `spark://HOST:7077`: one that runs.
    """
    kind, colon, rest = on.partition(":")
    if on == "local":
        return None
    if on == "agents":
        from laminar.launch.local_agents import LocalAgents

        return LocalAgents()
    if kind == "ray" and (not colon or rest.strip("/")):
        from laminar.launch.ray import RayLauncher

        return RayLauncher(None if not colon else on if rest.startswith("//") else rest)
    if kind == "spark" and (not colon or rest.strip("/")):
        from laminar.launch.spark import SparkLauncher

        return SparkLauncher(None if not colon else on if rest.startswith("//") else rest)
    if on == "env":
        from laminar.launch.environment import EnvironmentLauncher, need_place

        return EnvironmentLauncher(need_place(os.environ))
    if kind and rest.isdecimal():  # an address, without what listens there
        raise LaminarError(
            "L008",
            f"--on: '{on}' does not say what listens at {on}; expected Ray, Spark or a desktop grid before it",
            hint=f"--on ray:{on} | spark://{on} | grid://{on}",
        )
    raise LaminarError(
        "L008",
        f"--on: there is no '{on}'; {did_you_mean(kind, WAYS)}",
        hint="--on local | ray | ray://HOST:10001 | spark | spark://HOST:7077 | env",
    )
