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

CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    "best_effort,job_type\n"
    "a,vc,1,1,5530,mobilenet_v2,96,5,159-189-229-289,10-8-5-2,0,soft\n"
    "b,vc,8,2,760,vgg16,26,6,235,10,0,strict\n"
    "c,vc,4,3,50,alexnet,20,6,0,0,1,best\n"
    "d,vc,0,4,50,alexnet,20,6,0,0,1,best\n"
)
ELASTICFLOW = (
    "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
    "0,3715485,2011,cifar10,3719996,4096,1,5644,0\n1,3717535,1548,ncf,3717000,32768,8,66,1\n"
)


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    """Return a file that holds a text."""
    path = folder / name
    path.write_text(text)
    return path
