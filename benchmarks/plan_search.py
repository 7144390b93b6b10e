"""Does a seeded walk find what pricing every plan finds, with a twentieth of the evaluations?

    LAMINAR_DATA=… python benchmarks/plan_search.py [--seeds 5]

Tables of rules for single modules on a mesh of two workers, with operators and links as measured here. Spaces of up to 20,000 plans are
priced whole, by edits of one simulation (plan/delta.py); then walks (plan/anneal.py) with other seeds look for the best plan with at most
5 % of the evaluations. Wanted: within 2 % of the best.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import ExitStack

from plan_jobs import project

from laminar.plan.anneal import anneal, size_of, try_all
from laminar.plan.machine import this_machine
from laminar.plan.places import Places
from laminar.plan.search_modules import Choices, MeshWalk, choices_for, groups_of
from laminar.train.splitting import Mesh

# job, the table of the mesh, other dimensions, modules
SPACES = {
    "cnn": ({"channels": "cols"}, ["channels", "height"], 6),
    "wide": ({"hidden": "cols"}, ["hidden"], 3),
    "branches": ({"channels": "cols"}, ["channels", "height"], 6),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    from laminar.plan.profile.measure import Profile
    from laminar.plan.trials.open_layer import open_layer
    from laminar.stack.project import open_project

    for name, (split, dimensions, count) in SPACES.items():
        with ExitStack() as held:
            os.chdir(held.enter_context(project(name)))
            opened = open_project()
            job, _ = held.enter_context(open_layer(opened.need_file(), opened.open_store(), "base"))
            profile = held.enter_context(Profile.open(job))
            how = Mesh(mesh={"cols": 2}, split=split)
            choices: Choices = choices_for(how, groups_of(dict(list(profile.modules().items())[:count]), {}), dimensions)
            facts = profile.machine(2)
            places = Places(this_machine(facts), facts, 2)
            batch = job.recipe.batch
            walk = MeshWalk(profile, places, how, choices, batch)
            start = time.perf_counter()
            best = try_all(walk, choices.options)
            whole = time.perf_counter() - start
            most = size_of(choices.options) // 20
            ratios = []
            for seed in range(args.seeds):
                found = anneal(
                    MeshWalk(profile, places, how, choices, batch), choices.options, choices.starts(), evaluations=most, seed=seed
                )
                ratios.append(found.cost / best.cost)
            print(
                f"{name}: {best.space:,} plans of {len(choices.groups)} modules in {whole:.0f} s, best {1e3 * best.cost:.2f} ms; "
                f"{most} evaluations: {statistics.median(ratios):.4f} of it, at worst {max(ratios):.4f}",
                flush=True,
            )
            os.chdir(tempfile.gettempdir())


if __name__ == "__main__":
    main()
