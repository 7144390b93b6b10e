"""What does an engine cost, against the same workers as local processes?

    LAMINAR_DATA=… python benchmarks/cluster_overhead.py [--on ray,spark] [--rounds 5] [--model mlp] [--epochs 20] [--source fashion-mnist]

`laminar build --strategy sync --workers 2` of a small network, on this machine's own processes and on a cluster that the engine starts for
the command, in turns. Two figures:

    rate    samples/s of an epoch of training, the median over all but the first, over that of local processes (the median over the rounds)
    start   seconds from the command to the end of the first step, less those that the bare engine takes from its import until two workers
            have answered

Wanted: rate 0.97 or more, start 5 s or less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from one_build import Told, build

WORKERS = 2


@dataclass(frozen=True)
class Engine:
    on: str
    bare: str  # a program: starts the engine with WORKERS workers, and says "up" when all have answered


RAY = """
import os
os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
import ray
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="warning", _node_ip_address="127.0.0.1")

class Worker:
    def answer(self): return 1

ray.get([ray.remote(Worker).options(num_cpus=1).remote().answer.remote() for _ in range(2)])
print("up", flush=True)
ray.shutdown()
"""
SPARK = """
import os, sys, tempfile, time
from pathlib import Path
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from laminar.launch.spark_session import QUICK, _home_with_a_work_folder  # only so that nothing is written beside Spark's own files
with tempfile.TemporaryDirectory() as folder:
    home = _home_with_a_work_folder(Path(_find_spark_home()), Path(folder) / "home")
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": QUICK}
    settings = {"spark.executor.memory": "512m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR"}
    settings["spark.executor.extraJavaOptions"] = QUICK  # as our own sessions have them
    context = SparkContext("local-cluster[2,1,1024]", "bare", conf=SparkConf().setAll(settings.items()))
    while len(context._jsc.sc().statusTracker().getExecutorInfos()) < 3:  # a barrier stage that comes too soon waits for 15 s
        time.sleep(0.05)
    context.parallelize(range(2), 2).barrier().mapPartitions(lambda rows: [1]).collect()
    print("up", flush=True)
    context.stop()
"""
ENGINES = [Engine("ray", RAY), Engine("spark", SPARK)]


def bare_seconds(engine: Engine) -> float:
    began = time.time()
    with subprocess.Popen([sys.executable, "-c", engine.bare], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n", f"{engine.on} does not start"
        return time.time() - began


def measured(on: str, model: str, epochs: int, source: str) -> tuple[float, float]:
    """Samples/s; seconds from the command to the end of the first step."""
    began = time.time()
    train = f"epochs = {epochs}, batch = 256, lr = 0.001, seed = 0, threads = 1"
    told: Told = build(model, train, "--strategy", "sync", "--workers", str(WORKERS), "--on", on, source=source)
    return told.samples_per_second, told.all("step")[0]["t"] - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--on", default=",".join(engine.on for engine in ENGINES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--epochs", type=int, default=20)  # an engine is still busy with its own start during the first
    parser.add_argument("--source", default="fashion-mnist")
    args = parser.parse_args()
    for engine in [engine for engine in ENGINES if engine.on in args.on.split(",")]:
        rates, starts, locally, bares = [], [], [], []
        for _ in range(args.rounds):
            bare = bare_seconds(engine)
            local_rate, local_start = measured("local", args.model, args.epochs, args.source)
            rate, start = measured(engine.on, args.model, args.epochs, args.source)
            rates.append(rate / local_rate)
            starts.append(start - bare)
            bares.append(bare)
            locally.append(local_start)
        figures = {
            "engine": engine.on,
            "model": args.model,
            "rate": round(statistics.median(rates), 3),
            "rates": [round(rate, 3) for rate in sorted(rates)],
            "start": round(statistics.median(starts), 2),
            "starts": [round(start, 2) for start in sorted(starts)],
            "bare engine": round(statistics.median(bares), 2),
            "local start": round(statistics.median(locally), 2),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
