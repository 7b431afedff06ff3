"""A folder of profiles as Pollux and Sia publish them: one tiny model, measured on one GPU type."""

from __future__ import annotations

from pathlib import Path

PLACEMENTS = """local_bsz,step_time,sync_time,placement
8,1.0,0.0,1
16,1.6,0.0,1
8,1.2,0.1,2
16,1.8,0.1,2
8,1.5,0.4,11
16,2.1,0.4,11
8,1.7,0.5,12
16,2.4,0.5,12
"""
SCALABILITY = """num_nodes,num_replicas,local_bsz,step_time,sync_time
4,8,8,2.0,0.8
4,8,16,2.6,0.8
"""
VALIDATION = "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,1.0,4.0\n200,200,0,1.0,8.0\n"


def written(folder: Path) -> Path:
    """Write the profiles of model "tiny" on GPU type "x" and return their folder."""
    found = folder / "tiny"
    found.mkdir()
    (found / "placements-x.csv").write_text(PLACEMENTS)
    (found / "scalability-x.csv").write_text(SCALABILITY)
    (found / "validation-16.csv").write_text(VALIDATION)
    (found / "validation-64.csv").write_text(VALIDATION.replace("100,100", "104,100"))
    return found
