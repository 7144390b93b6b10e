"""Do layers pay? `laminar experiment layers` on a Spark cluster of four nodes: a master and four workers of one core each, started here.

    LAMINAR_DATA=… python benchmarks/layers_on_spark.py [--epochs 5] [--workers 4] [--repeats 1] [--samples N] [--into FOLDER]

The experiment of Varykhanov et al., "Methods for Speeding Up the Retraining of Neural Networks" (experiments/ready/layers.py says what is
trained). FOLDER keeps the store with the experiment, so that `laminar experiment show layers` and `report layers` work there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from laminar.testing.spark_cluster import SparkCluster


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--into", type=Path, default=Path("layers-on-spark"))
    args = parser.parse_args()
    args.into.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with SparkCluster(args.workers) as cluster:
        where = ["--on", cluster.master, "--workers", str(args.workers)]
        how = ["--epochs", str(args.epochs), "--repeats", str(args.repeats), "--samples", str(args.samples)]
        subprocess.run([sys.executable, "-m", "laminar", "experiment", "layers", *where, *how], cwd=args.into, check=True)


if __name__ == "__main__":
    main()
