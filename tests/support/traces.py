"""Small traces of every format that is a table, and how they come to a file."""

from __future__ import annotations

from pathlib import Path

SIA = "name,time,application,num_replicas,batch_size\na,5,cifar10,4,512\nb,9.5,bert,1,12\n"
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,state,submit_time,duration\n"
    "7,u,vcA,8,8,COMPLETED,2020-09-01 00:00:03,97\n8,u,vcB,1,1,FAILED,2020-09-01 00:01:03,0\n"
)
PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,x\n2017-10-09 07:01:50,10.0,2,20.0,y\n"
)
COPTER = "name,time,category,application\na,1.5,SiaJob,bert\nb,2,BatchInferenceJob,llama\n"
PAI = "job_id,arrival_s,service_sec,gpu_count\nj1,10,100,1\nj2,20,50,2\n"


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    """Return a file that holds a text."""
    path = folder / name
    path.write_text(text)
    return path
