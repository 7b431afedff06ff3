BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num varchar(32) not null primary key);
INSERT INTO "alembic_version" VALUES('0006');
CREATE TABLE audit (
	number INTEGER NOT NULL, 
	time_s DOUBLE NOT NULL, 
	user TEXT NOT NULL, 
	role TEXT NOT NULL, 
	origin TEXT NOT NULL, 
	request TEXT NOT NULL, 
	verb TEXT NOT NULL, 
	target TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "audit" VALUES(1,995.0,'ops','operator','10.0.0.1','r1','settings.change','','done','{"after": {"debounce_s": 2.0}}','','h1');
CREATE TABLE deliveries (
	webhook INTEGER NOT NULL, 
	event INTEGER NOT NULL, 
	job_id TEXT NOT NULL, 
	at_s DOUBLE NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (webhook, event)
);
INSERT INTO "deliveries" VALUES(1,4,'a-1',996.0,'{"id": "1-4"}');
CREATE TABLE events(
    id integer primary key autoincrement, time_s real not null, job_id text, kind text not null,
    data text not null, cause TEXT DEFAULT '' NOT NULL, who TEXT DEFAULT '' NOT NULL);
INSERT INTO "events" VALUES(1,1000000.0,'a-1','submit','{"spec":{"name":"a","script":"train.py","args":[],"command":[],"elastic":true,"sizes":null,"processes":null,"restartable":false,"grace_s":30.0,"progress":{"file":null,"pattern":null,"total_steps":null},"working_dir":".","env":{},"pip":[],"resources":{"min_gpus":1,"max_gpus":8,"gpus":null,"gpu_types":null,"gpus_per_replica":1,"processes_per_replica":"one","cpus_per_gpu":1.0,"memory_gib_per_gpu":0.0},"training":{"adaptivity":"adaptive","initial_batch_size":null,"max_batch_size":null,"min_local_batch_size":1,"max_local_batch_size":null,"gradient_accumulation":true,"lr_scaling":"auto","legw_warmup_epochs":1.0,"count":"progress","fuse_batches":"auto","target":null,"seed":0,"checkpoint":{"url":null,"every_minutes":10.0,"at_epoch_end":true,"keep":2},"report_interval_s":30.0,"hang_timeout_s":300.0},"pool":null,"preemptible":true,"reservation":null,"restart_policy":null,"max_failures":3,"fingerprint":null,"profile":false,"emulation":{"profile":"cifar10","time_scale":1.0,"pause":false}}}','','');
INSERT INTO "events" VALUES(2,1000000.0,'a-1','admitted','{"text":"queued"}','','');
INSERT INTO "events" VALUES(3,1000000.0,NULL,'plan','{"round":1,"seconds":0.0,"jobs":1,"placements":{"a-1":{"gpu_type":"t4","nodes":{"t4-000":2}}},"without":[],"notes":[]}','','');
INSERT INTO "events" VALUES(4,1000000.0,'a-1','placed','{"text":"is to use 2xt4","gpus":2}','','');
INSERT INTO "events" VALUES(5,1000003.0,'a-1','running','{"text":"runs on 2xt4 on 1 node","recovered":false,"gpu_type":"t4","gpus":2,"nodes":1,"warm":false,"pause_s":null}','','');
INSERT INTO "events" VALUES(6,1000003.0,'b-2','submit','{"spec":{"name":"b","script":"train.py","args":[],"command":[],"elastic":true,"sizes":null,"processes":null,"restartable":false,"grace_s":30.0,"progress":{"file":null,"pattern":null,"total_steps":null},"working_dir":".","env":{},"pip":[],"resources":{"min_gpus":1,"max_gpus":8,"gpus":null,"gpu_types":null,"gpus_per_replica":1,"processes_per_replica":"one","cpus_per_gpu":1.0,"memory_gib_per_gpu":0.0},"training":{"adaptivity":"adaptive","initial_batch_size":null,"max_batch_size":null,"min_local_batch_size":1,"max_local_batch_size":null,"gradient_accumulation":true,"lr_scaling":"auto","legw_warmup_epochs":1.0,"count":"progress","fuse_batches":"auto","target":null,"seed":0,"checkpoint":{"url":null,"every_minutes":10.0,"at_epoch_end":true,"keep":2},"report_interval_s":30.0,"hang_timeout_s":300.0},"pool":null,"preemptible":true,"reservation":null,"restart_policy":null,"max_failures":3,"fingerprint":null,"profile":true,"emulation":{"profile":"cifar10","time_scale":1.0,"pause":false}}}','','');
INSERT INTO "events" VALUES(7,1000003.0,'b-2','admitted','{"text":"to be measured on a100, t4"}','','');
INSERT INTO "events" VALUES(8,1000004.0,NULL,'plan','{"round":2,"seconds":0.0,"jobs":3,"placements":{"b-2/profile/a100":{"gpu_type":"a100","nodes":{"a100-000":1}},"b-2/profile/t4":{"gpu_type":"t4","nodes":{"t4-000":1}}},"without":[],"notes":[]}','','');
INSERT INTO "events" VALUES(9,1000004.0,'b-2','profiling','{"text":"is measured on a100","gpu_type":"a100"}','','');
INSERT INTO "events" VALUES(10,1000004.0,'b-2','profiling','{"text":"is measured on t4","gpu_type":"t4"}','','');
INSERT INTO "events" VALUES(11,1000006.0,'b-2','profiled','{"text":"t4 measured","gpu_type":"t4","ok":true}','','');
INSERT INTO "events" VALUES(12,1000006.0,'b-2','released','{"text":"its profile run left 1xt4"}','','');
INSERT INTO "events" VALUES(13,1000006.0,'c-3','submit','{"spec":{"name":"c","script":"train.py","args":[],"command":[],"elastic":true,"sizes":null,"processes":null,"restartable":false,"grace_s":30.0,"progress":{"file":null,"pattern":null,"total_steps":null},"working_dir":".","env":{},"pip":[],"resources":{"min_gpus":1,"max_gpus":8,"gpus":null,"gpu_types":null,"gpus_per_replica":1,"processes_per_replica":"one","cpus_per_gpu":1.0,"memory_gib_per_gpu":0.0},"training":{"adaptivity":"adaptive","initial_batch_size":null,"max_batch_size":null,"min_local_batch_size":1,"max_local_batch_size":null,"gradient_accumulation":true,"lr_scaling":"auto","legw_warmup_epochs":1.0,"count":"progress","fuse_batches":"auto","target":null,"seed":0,"checkpoint":{"url":null,"every_minutes":10.0,"at_epoch_end":true,"keep":2},"report_interval_s":30.0,"hang_timeout_s":300.0},"pool":null,"preemptible":true,"reservation":null,"restart_policy":null,"max_failures":3,"fingerprint":null,"profile":false,"emulation":{"profile":"cifar10","time_scale":1.0,"pause":false}}}','','');
INSERT INTO "events" VALUES(14,1000006.0,'c-3','pause','{"text":"paused by the user"}','','');
INSERT INTO "events" VALUES(15,1000006.0,'d-4','submit','{"spec":{"name":"d","script":"train.py","args":[],"command":[],"elastic":true,"sizes":null,"processes":null,"restartable":false,"grace_s":30.0,"progress":{"file":null,"pattern":null,"total_steps":null},"working_dir":".","env":{},"pip":[],"resources":{"min_gpus":1,"max_gpus":8,"gpus":null,"gpu_types":null,"gpus_per_replica":1,"processes_per_replica":"one","cpus_per_gpu":1.0,"memory_gib_per_gpu":0.0},"training":{"adaptivity":"adaptive","initial_batch_size":null,"max_batch_size":null,"min_local_batch_size":1,"max_local_batch_size":null,"gradient_accumulation":true,"lr_scaling":"auto","legw_warmup_epochs":1.0,"count":"progress","fuse_batches":"auto","target":null,"seed":0,"checkpoint":{"url":null,"every_minutes":10.0,"at_epoch_end":true,"keep":2},"report_interval_s":30.0,"hang_timeout_s":300.0},"pool":null,"preemptible":true,"reservation":null,"restart_policy":null,"max_failures":3,"fingerprint":null,"profile":false,"emulation":{"profile":"cifar10","time_scale":1.0,"pause":false}}}','','');
INSERT INTO "events" VALUES(16,1000006.0,'d-4','cancel','{"text":"cancelled by the user","phase":"cancelled","metrics":{}}','','');
INSERT INTO "events" VALUES(17,1000006.0,'e-5','submit','{"spec":{"name":"e","script":"train.py","args":[],"command":[],"elastic":true,"sizes":null,"processes":null,"restartable":false,"grace_s":30.0,"progress":{"file":null,"pattern":null,"total_steps":null},"working_dir":".","env":{},"pip":[],"resources":{"min_gpus":1,"max_gpus":8,"gpus":null,"gpu_types":null,"gpus_per_replica":1,"processes_per_replica":"one","cpus_per_gpu":1.0,"memory_gib_per_gpu":0.0},"training":{"adaptivity":"adaptive","initial_batch_size":null,"max_batch_size":null,"min_local_batch_size":1,"max_local_batch_size":null,"gradient_accumulation":true,"lr_scaling":"auto","legw_warmup_epochs":1.0,"count":"progress","fuse_batches":"auto","target":null,"seed":0,"checkpoint":{"url":null,"every_minutes":10.0,"at_epoch_end":true,"keep":2},"report_interval_s":30.0,"hang_timeout_s":300.0},"pool":null,"preemptible":true,"reservation":null,"restart_policy":null,"max_failures":3,"fingerprint":null,"profile":false,"emulation":{"profile":"cifar10","time_scale":1.0,"pause":false}}}','','');
INSERT INTO "events" VALUES(18,1000006.0,'c-3','admitted','{"text":"queued"}','','');
INSERT INTO "events" VALUES(19,1000006.0,'e-5','admitted','{"text":"queued"}','','');
INSERT INTO "events" VALUES(20,1000007.0,NULL,'plan','{"round":3,"seconds":0.0,"jobs":3,"placements":{"e-5":{"gpu_type":"a100","nodes":{"a100-000":1}}},"without":["b-2/profile/t4"],"notes":[]}','','');
INSERT INTO "events" VALUES(21,1000007.0,'e-5','placed','{"text":"is to use 1xa100","gpus":1}','','');
INSERT INTO "events" VALUES(22,1000009.0,'e-5','running','{"text":"runs on 1xa100 on 1 node","recovered":false,"gpu_type":"a100","gpus":1,"nodes":1,"warm":false,"pause_s":null}','','');
INSERT INTO "events" VALUES(23,1000009.0,'e-5','finish','{"text":"did all that was asked for","phase":"succeeded","metrics":{}}','','');
INSERT INTO "events" VALUES(24,1000009.0,'e-5','released','{"text":"its workers left 1xa100: it has ended"}','','');
INSERT INTO "events" VALUES(25,1000010.0,NULL,'plan','{"round":4,"seconds":0.0,"jobs":2,"placements":{},"without":["e-5"],"notes":[]}','','');
INSERT INTO "events" VALUES(26,1.0,'a-1','error','{"text":"a word"}','','');
INSERT INTO "events" VALUES(27,2.0,'torn-6','submit','{"spec":{"name":"torn","script":"t.py","args":[],"command":[],"elastic":true,"sizes":null,"processes":null,"restartable":false,"grace_s":30.0,"progress":{"file":null,"pattern":null,"total_steps":null},"working_dir":".","env":{},"pip":[],"resources":{"min_gpus":1,"max_gpus":64,"gpus":null,"gpu_types":null,"gpus_per_replica":1,"processes_per_replica":"one","cpus_per_gpu":1.0,"memory_gib_per_gpu":0.0},"training":{"adaptivity":"adaptive","initial_batch_size":null,"max_batch_size":null,"min_local_batch_size":1,"max_local_batch_size":null,"gradient_accumulation":true,"lr_scaling":"auto","legw_warmup_epochs":1.0,"count":"progress","fuse_batches":"auto","target":null,"seed":0,"checkpoint":{"url":null,"every_minutes":10.0,"at_epoch_end":true,"keep":2},"report_interval_s":30.0,"hang_timeout_s":300.0},"pool":null,"preemptible":true,"reservation":null,"restart_policy":null,"max_failures":3,"fingerprint":null,"profile":true,"emulation":{"profile":"cifar10","time_scale":1.0,"pause":false}}}','','');
CREATE TABLE gpu_time (
	job_id TEXT NOT NULL, 
	day TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	gpu_type TEXT NOT NULL, 
	gpu_s DOUBLE NOT NULL, 
	PRIMARY KEY (job_id, day, kind, gpu_type), 
	FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE cascade
);
INSERT INTO "gpu_time" VALUES('a-1','2026-11-28','train','t4',120.0);
CREATE TABLE intervals(
    id integer primary key autoincrement, job_id text not null, start_s real not null, end_s real,
    gpu_type text not null, gpus integer not null, nodes integer not null, batch_size integer, lr real,
    phase text not null, share DOUBLE DEFAULT '1' NOT NULL);
INSERT INTO "intervals" VALUES(1,'a-1',1000003.0,NULL,'t4',2,1,64,0.1,'running',1.0);
INSERT INTO "intervals" VALUES(2,'b-2',1000004.0,NULL,'a100',1,1,NULL,NULL,'profiling',1.0);
INSERT INTO "intervals" VALUES(3,'b-2',1000004.0,1000006.0,'t4',1,1,NULL,NULL,'profiling',1.0);
INSERT INTO "intervals" VALUES(4,'e-5',1000009.0,1000009.0,'a100',1,1,64,0.1,'running',1.0);
CREATE TABLE job_details (
	job_id TEXT NOT NULL, 
	details TEXT NOT NULL, 
	PRIMARY KEY (job_id), 
	FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE cascade
);
INSERT INTO "job_details" VALUES('a-1','{"pending_since_s": null, "profiles": [], "fingerprint": "", "largest_gpus": {"t4": 2}, "pauses": 0, "lost_s": 0.0, "pending_commands": [], "last_grant": [], "starts": 1, "starting_s": 3.0, "moves": 0, "moving_s": 0.0, "generation": 0, "traceback": "Traceback: boom", "stopped": null, "retrying": false, "faults": 0, "ended_early": "", "machines": ["10.0.0.1"], "renews": false, "asked": "", "origin": null, "foretold": {"mean_s": 600.0, "low_s": 300.0, "high_s": 1200.0, "basis": "41 earlier jobs"}}');
INSERT INTO "job_details" VALUES('b-2','{"pending_since_s": null, "profiles": [{"gpu_type": "a100", "slot": {"node_id": "a100-000", "lease_id": "lease-a100-000", "devices": [0], "gpu_type": "a100", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}, "started_s": 1000004.0, "ok": null, "reason": "", "sequence": 1, "tries": 0, "losses": 0, "ended_s": null, "asked": 0, "fault": ""}, {"gpu_type": "t4", "slot": null, "started_s": null, "ok": true, "reason": "", "sequence": 2, "tries": 1, "losses": 0, "ended_s": null, "asked": 0, "fault": ""}], "fingerprint": "", "largest_gpus": {}, "pauses": 0, "lost_s": 0.0, "pending_commands": [], "last_grant": [], "starts": 0, "starting_s": 0.0, "moves": 0, "moving_s": 0.0, "generation": 0, "traceback": "", "stopped": null, "retrying": false, "faults": 0, "ended_early": "", "machines": ["machine-a100-000", "machine-t4-000"], "renews": false, "asked": "", "origin": null, "foretold": null}');
INSERT INTO "job_details" VALUES('c-3','{"pending_since_s": null, "profiles": [], "fingerprint": "", "largest_gpus": {}, "pauses": 0, "lost_s": 0.0, "pending_commands": [], "last_grant": [], "starts": 0, "starting_s": 0.0, "moves": 0, "moving_s": 0.0, "generation": 0, "traceback": "", "stopped": null, "retrying": false, "faults": 0, "ended_early": "", "machines": [], "renews": false, "asked": "", "origin": {"job_id": "a-1", "steps": 100, "checkpoint": "step-100", "url": "/ckpt/a", "copied": true}, "foretold": null}');
INSERT INTO "job_details" VALUES('d-4','{"pending_since_s": null, "profiles": [], "fingerprint": "", "largest_gpus": {}, "pauses": 0, "lost_s": 0.0, "pending_commands": [], "last_grant": [], "starts": 0, "starting_s": 0.0, "moves": 0, "moving_s": 0.0, "generation": 0, "traceback": "", "stopped": null, "retrying": false, "faults": 0, "ended_early": "", "machines": [], "renews": false, "asked": "", "origin": null, "foretold": null}');
INSERT INTO "job_details" VALUES('e-5','{"pending_since_s": null, "profiles": [], "fingerprint": "", "largest_gpus": {"a100": 1}, "pauses": 0, "lost_s": 0.0, "pending_commands": [], "last_grant": [], "starts": 1, "starting_s": 2.0, "moves": 0, "moving_s": 0.0, "generation": 0, "traceback": "", "stopped": null, "retrying": false, "faults": 0, "ended_early": "", "machines": ["machine-a100-000"], "renews": false, "asked": "", "origin": null, "foretold": null}');
INSERT INTO "job_details" VALUES('torn-6','{');
CREATE TABLE job_files (
	job_id TEXT NOT NULL, 
	file INTEGER NOT NULL, 
	spec TEXT NOT NULL, 
	package TEXT, 
	script_key TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (job_id, file), 
	FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE cascade
);
INSERT INTO "job_files" VALUES('a-1',0,'{"name": "a", "script": "train.py", "args": [], "command": [], "elastic": true, "sizes": null, "processes": null, "restartable": false, "grace_s": 30.0, "progress": {"file": null, "pattern": null, "total_steps": null}, "working_dir": ".", "env": {}, "pip": [], "resources": {"min_gpus": 1, "max_gpus": 8, "gpus": null, "gpu_types": null, "gpus_per_replica": 1, "processes_per_replica": "one", "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}, "training": {"adaptivity": "adaptive", "initial_batch_size": null, "max_batch_size": null, "min_local_batch_size": 1, "max_local_batch_size": null, "gradient_accumulation": true, "lr_scaling": "auto", "legw_warmup_epochs": 1.0, "count": "progress", "fuse_batches": "auto", "target": null, "seed": 0, "checkpoint": {"url": null, "every_minutes": 10.0, "at_epoch_end": true, "keep": 2}, "report_interval_s": 30.0, "hang_timeout_s": 300.0}, "pool": null, "preemptible": true, "reservation": null, "restart_policy": null, "max_failures": 3, "fingerprint": null, "profile": false, "emulation": {"profile": "cifar10", "time_scale": 1.0, "pause": false}}',NULL,'');
INSERT INTO "job_files" VALUES('b-2',0,'{"name": "b", "script": "train.py", "args": [], "command": [], "elastic": true, "sizes": null, "processes": null, "restartable": false, "grace_s": 30.0, "progress": {"file": null, "pattern": null, "total_steps": null}, "working_dir": ".", "env": {}, "pip": [], "resources": {"min_gpus": 1, "max_gpus": 8, "gpus": null, "gpu_types": null, "gpus_per_replica": 1, "processes_per_replica": "one", "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}, "training": {"adaptivity": "adaptive", "initial_batch_size": null, "max_batch_size": null, "min_local_batch_size": 1, "max_local_batch_size": null, "gradient_accumulation": true, "lr_scaling": "auto", "legw_warmup_epochs": 1.0, "count": "progress", "fuse_batches": "auto", "target": null, "seed": 0, "checkpoint": {"url": null, "every_minutes": 10.0, "at_epoch_end": true, "keep": 2}, "report_interval_s": 30.0, "hang_timeout_s": 300.0}, "pool": null, "preemptible": true, "reservation": null, "restart_policy": null, "max_failures": 3, "fingerprint": null, "profile": true, "emulation": {"profile": "cifar10", "time_scale": 1.0, "pause": false}}',NULL,'');
INSERT INTO "job_files" VALUES('c-3',0,'{"name": "c", "script": "train.py", "args": [], "command": [], "elastic": true, "sizes": null, "processes": null, "restartable": false, "grace_s": 30.0, "progress": {"file": null, "pattern": null, "total_steps": null}, "working_dir": ".", "env": {}, "pip": [], "resources": {"min_gpus": 1, "max_gpus": 8, "gpus": null, "gpu_types": null, "gpus_per_replica": 1, "processes_per_replica": "one", "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}, "training": {"adaptivity": "adaptive", "initial_batch_size": null, "max_batch_size": null, "min_local_batch_size": 1, "max_local_batch_size": null, "gradient_accumulation": true, "lr_scaling": "auto", "legw_warmup_epochs": 1.0, "count": "progress", "fuse_batches": "auto", "target": null, "seed": 0, "checkpoint": {"url": null, "every_minutes": 10.0, "at_epoch_end": true, "keep": 2}, "report_interval_s": 30.0, "hang_timeout_s": 300.0}, "pool": null, "preemptible": true, "reservation": null, "restart_policy": null, "max_failures": 3, "fingerprint": null, "profile": false, "emulation": {"profile": "cifar10", "time_scale": 1.0, "pause": false}}','pkg1','key1');
INSERT INTO "job_files" VALUES('c-3',1,'{"name": "c", "script": "new.py", "args": [], "command": [], "elastic": true, "sizes": null, "processes": null, "restartable": false, "grace_s": 30.0, "progress": {"file": null, "pattern": null, "total_steps": null}, "working_dir": ".", "env": {}, "pip": [], "resources": {"min_gpus": 1, "max_gpus": 64, "gpus": null, "gpu_types": null, "gpus_per_replica": 1, "processes_per_replica": "one", "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}, "training": {"adaptivity": "adaptive", "initial_batch_size": null, "max_batch_size": null, "min_local_batch_size": 1, "max_local_batch_size": null, "gradient_accumulation": true, "lr_scaling": "auto", "legw_warmup_epochs": 1.0, "count": "progress", "fuse_batches": "auto", "target": null, "seed": 0, "checkpoint": {"url": null, "every_minutes": 10.0, "at_epoch_end": true, "keep": 2}, "report_interval_s": 30.0, "hang_timeout_s": 300.0}, "pool": null, "preemptible": true, "reservation": null, "restart_policy": null, "max_failures": 3, "fingerprint": null, "profile": true, "emulation": {"profile": "cifar10", "time_scale": 1.0, "pause": false}}','pkg2','key2');
INSERT INTO "job_files" VALUES('d-4',0,'{"name": "d", "script": "train.py", "args": [], "command": [], "elastic": true, "sizes": null, "processes": null, "restartable": false, "grace_s": 30.0, "progress": {"file": null, "pattern": null, "total_steps": null}, "working_dir": ".", "env": {}, "pip": [], "resources": {"min_gpus": 1, "max_gpus": 8, "gpus": null, "gpu_types": null, "gpus_per_replica": 1, "processes_per_replica": "one", "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}, "training": {"adaptivity": "adaptive", "initial_batch_size": null, "max_batch_size": null, "min_local_batch_size": 1, "max_local_batch_size": null, "gradient_accumulation": true, "lr_scaling": "auto", "legw_warmup_epochs": 1.0, "count": "progress", "fuse_batches": "auto", "target": null, "seed": 0, "checkpoint": {"url": null, "every_minutes": 10.0, "at_epoch_end": true, "keep": 2}, "report_interval_s": 30.0, "hang_timeout_s": 300.0}, "pool": null, "preemptible": true, "reservation": null, "restart_policy": null, "max_failures": 3, "fingerprint": null, "profile": false, "emulation": {"profile": "cifar10", "time_scale": 1.0, "pause": false}}',NULL,'');
INSERT INTO "job_files" VALUES('e-5',0,'{"name": "e", "script": "train.py", "args": [], "command": [], "elastic": true, "sizes": null, "processes": null, "restartable": false, "grace_s": 30.0, "progress": {"file": null, "pattern": null, "total_steps": null}, "working_dir": ".", "env": {}, "pip": [], "resources": {"min_gpus": 1, "max_gpus": 8, "gpus": null, "gpu_types": null, "gpus_per_replica": 1, "processes_per_replica": "one", "cpus_per_gpu": 1.0, "memory_gib_per_gpu": 0.0}, "training": {"adaptivity": "adaptive", "initial_batch_size": null, "max_batch_size": null, "min_local_batch_size": 1, "max_local_batch_size": null, "gradient_accumulation": true, "lr_scaling": "auto", "legw_warmup_epochs": 1.0, "count": "progress", "fuse_batches": "auto", "target": null, "seed": 0, "checkpoint": {"url": null, "every_minutes": 10.0, "at_epoch_end": true, "keep": 2}, "report_interval_s": 30.0, "hang_timeout_s": 300.0}, "pool": null, "preemptible": true, "reservation": null, "restart_policy": null, "max_failures": 3, "fingerprint": null, "profile": false, "emulation": {"profile": "cifar10", "time_scale": 1.0, "pause": false}}',NULL,'');
INSERT INTO "job_files" VALUES('torn-6',0,'',NULL,'');
CREATE TABLE job_reports (
	job_id TEXT NOT NULL, 
	report TEXT NOT NULL, 
	PRIMARY KEY (job_id), 
	FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE cascade
);
INSERT INTO "job_reports" VALUES('a-1','{"report": {"gpu_type": "t4", "replicas": 2, "batch_size": 64, "local_bsz": 32, "accumulation": 0, "lr": 0.1, "gain": 1.5, "noise_scale": 50.0, "epoch": 2, "epochs": 10, "fraction": 0.2, "steps": 9, "samples": 640, "progress_samples": 500.0}, "reached": [[1000003.0, 0.0], [1000003.0, 0.2]], "metrics": {"loss": "NaN", "accuracy": 0.5}, "measured_at": {}, "left_out": "", "usage": {}, "usage_told": ["", 0], "told_idle": false, "refusals": {"count": 0, "last": "", "told": ["", 0]}}');
INSERT INTO "job_reports" VALUES('b-2','{"report": {}, "reached": [], "metrics": {}, "measured_at": {}, "left_out": "", "usage": {}, "usage_told": ["", 0], "told_idle": false, "refusals": {"count": 0, "last": "", "told": ["", 0]}}');
INSERT INTO "job_reports" VALUES('c-3','{"report": {}, "reached": [], "metrics": {}, "measured_at": {}, "left_out": "", "usage": {}, "usage_told": ["", 0], "told_idle": false, "refusals": {"count": 0, "last": "", "told": ["", 0]}}');
INSERT INTO "job_reports" VALUES('d-4','{"report": {}, "reached": [], "metrics": {}, "measured_at": {}, "left_out": "", "usage": {}, "usage_told": ["", 0], "told_idle": false, "refusals": {"count": 0, "last": "", "told": ["", 0]}}');
INSERT INTO "job_reports" VALUES('e-5','{"report": {"gpu_type": "t4", "replicas": 1, "batch_size": 64, "local_bsz": 32, "accumulation": 0, "lr": 0.1, "gain": 1.5, "noise_scale": 50.0, "epoch": 2, "epochs": 10, "fraction": 0.2, "steps": 9, "samples": 640, "progress_samples": 500.0}, "reached": [[1000009.0, 0.0], [1000009.0, 0.2]], "metrics": {}, "measured_at": {}, "left_out": "", "usage": {}, "usage_told": ["", 0], "told_idle": false, "refusals": {"count": 0, "last": "", "told": ["", 0]}}');
INSERT INTO "job_reports" VALUES('torn-6','{}');
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	idempotency_key TEXT, 
	name TEXT DEFAULT '' NOT NULL, 
	owner TEXT DEFAULT '' NOT NULL, 
	pool TEXT DEFAULT '' NOT NULL, 
	asked_gpus INTEGER DEFAULT 1 NOT NULL, 
	asked_cpus DOUBLE DEFAULT 0 NOT NULL, 
	phase TEXT NOT NULL, 
	reason TEXT DEFAULT '' NOT NULL, 
	submitted_s DOUBLE DEFAULT 0 NOT NULL, 
	queued_s DOUBLE, 
	started_s DOUBLE, 
	finished_s DOUBLE, 
	restarts INTEGER DEFAULT 0 NOT NULL, 
	resizes INTEGER DEFAULT 0 NOT NULL, 
	failures INTEGER DEFAULT 0 NOT NULL, 
	recoveries INTEGER DEFAULT 0 NOT NULL, 
	evictions INTEGER DEFAULT 0 NOT NULL, 
	paused BOOLEAN DEFAULT false NOT NULL, 
	retired BOOLEAN DEFAULT false NOT NULL, 
	quarantine TEXT DEFAULT '' NOT NULL, 
	life INTEGER DEFAULT 0 NOT NULL, 
	file INTEGER DEFAULT 0 NOT NULL, 
	next_file INTEGER, 
	sequence INTEGER DEFAULT 0 NOT NULL, 
	profile_sequence INTEGER DEFAULT 0 NOT NULL, 
	target TEXT DEFAULT '[]' NOT NULL, 
	held TEXT DEFAULT '[]' NOT NULL, 
	training TEXT DEFAULT '[]' NOT NULL, team TEXT DEFAULT '' NOT NULL, array TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (number), 
	UNIQUE (idempotency_key)
);
INSERT INTO "jobs" VALUES('a-1',1,'a','a','ann','',1,1.0,'running','',1000000.0,1000000.0,1000003.0,NULL,0,0,0,0,0,0,0,'',0,0,NULL,1,0,'[{"node_id": "t4-000", "lease_id": "lease-t4-000", "devices": [0], "gpu_type": "t4", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}, {"node_id": "t4-000", "lease_id": "lease-t4-000", "devices": [1], "gpu_type": "t4", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}]','[{"node_id": "t4-000", "lease_id": "lease-t4-000", "devices": [0], "gpu_type": "t4", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}, {"node_id": "t4-000", "lease_id": "lease-t4-000", "devices": [1], "gpu_type": "t4", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}]','[{"node_id": "t4-000", "lease_id": "lease-t4-000", "devices": [0], "gpu_type": "t4", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}, {"node_id": "t4-000", "lease_id": "lease-t4-000", "devices": [1], "gpu_type": "t4", "emulated": false, "cpus": 0.0, "memory_gib": 0.0, "share": 1.0}]','vision','');
INSERT INTO "jobs" VALUES('b-2',2,'b','b','','',1,1.0,'profiling','being measured',1000003.0,NULL,NULL,NULL,0,0,0,0,0,0,0,'',0,0,NULL,0,2,'[]','[]','[]','','');
INSERT INTO "jobs" VALUES('c-3',3,'c','c','','',1,1.0,'queued','waiting for GPUs',1000006.0,1000006.0,NULL,NULL,0,0,0,0,0,1,0,'',0,0,1,0,0,'[]','[]','[]','','');
INSERT INTO "jobs" VALUES('d-4',4,'d','d','','',1,1.0,'cancelled','cancelled by the user',1000006.0,NULL,NULL,1000006.0,0,0,0,0,0,0,1,'',0,0,NULL,0,0,'[]','[]','[]','','');
INSERT INTO "jobs" VALUES('e-5',5,'e','e','','',1,1.0,'succeeded','did all that was asked for',1000006.0,1000006.0,1000009.0,1000009.0,0,0,0,0,0,0,1,'',0,0,NULL,1,0,'[]','[]','[]','','');
INSERT INTO "jobs" VALUES('torn-6',6,'torn','torn','','',1,0.0,'submitted','',0.0,NULL,NULL,NULL,0,0,0,0,0,0,0,'',0,0,NULL,0,0,'[]','[]','[]','','');
CREATE TABLE machines(name text primary key, text text not null);
INSERT INTO "machines" VALUES('m0','{"name": "m0"}');
CREATE TABLE measurements (
	job_id TEXT NOT NULL, 
	gpu_type TEXT NOT NULL, 
	measured TEXT NOT NULL, 
	PRIMARY KEY (job_id, gpu_type), 
	FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE cascade
);
INSERT INTO "measurements" VALUES('a-1','','{"grad_sqr": 1.0, "grad_var": 1000003.0, "info": {"fingerprint": "net", "initial_batch_size": 32, "parameters": 1000, "dataset_size": 4096, "adam_type": false, "per_step": 1, "whole_batches": true, "one_pass": false, "undivided": false, "least_local_bsz": 1, "asked_samples": null}}');
INSERT INTO "measurements" VALUES('a-1','t4','{"profile": {"nodes": [1, 1, 1], "replicas": [1, 1, 1], "local_bsz": [8, 16, 32], "accumulation": [0, 0, 0], "count": [5, 5, 5], "step_time_s": [0.08, 0.16, 0.32], "sync_time_s": [0.0, 0.0, 0.0], "densest": [1, 1, 1]}, "largest_local_bsz": 32}');
INSERT INTO "measurements" VALUES('b-2','','{"grad_sqr": null, "grad_var": null, "info": {"fingerprint": "net", "initial_batch_size": 32, "parameters": 1000, "dataset_size": 4096, "adam_type": false, "per_step": 1, "whole_batches": true, "one_pass": false, "undivided": false, "least_local_bsz": 1, "asked_samples": null}}');
INSERT INTO "measurements" VALUES('b-2','t4','{"profile": {"nodes": [1, 1, 1], "replicas": [1, 1, 1], "local_bsz": [8, 16, 32], "accumulation": [0, 0, 0], "count": [5, 5, 5], "step_time_s": [0.08, 0.16, 0.32], "sync_time_s": [0.0, 0.0, 0.0], "densest": [1, 1, 1]}, "largest_local_bsz": 32}');
INSERT INTO "measurements" VALUES('e-5','','{"grad_sqr": 1.0, "grad_var": 1000009.0, "info": {"fingerprint": "net", "initial_batch_size": 32, "parameters": 1000, "dataset_size": 4096, "adam_type": false, "per_step": 1, "whole_batches": true, "one_pass": false, "undivided": false, "least_local_bsz": 1, "asked_samples": null}}');
INSERT INTO "measurements" VALUES('e-5','a100','{"profile": {"nodes": [1, 1, 1], "replicas": [1, 1, 1], "local_bsz": [8, 16, 32], "accumulation": [0, 0, 0], "count": [5, 5, 5], "step_time_s": [0.08, 0.16, 0.32], "sync_time_s": [0.0, 0.0, 0.0], "densest": [1, 1, 1]}, "largest_local_bsz": 32}');
CREATE TABLE meta(key text primary key, value text not null);
INSERT INTO "meta" VALUES('epoch','1');
CREATE TABLE metric_points (
	job_id TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	at_s DOUBLE NOT NULL, 
	epoch INTEGER, 
	samples BIGINT, 
	value DOUBLE, 
	PRIMARY KEY (job_id, metric, number), 
	FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE cascade
);
INSERT INTO "metric_points" VALUES('a-1','loss',0,1000.0,1,0,0.5);
INSERT INTO "metric_points" VALUES('a-1','loss',1,1001.0,1,100,0.4);
INSERT INTO "metric_points" VALUES('a-1','loss',2,1002.0,1,200,NULL);
CREATE TABLE profiles (
	owner TEXT DEFAULT '' NOT NULL, 
	fingerprint TEXT NOT NULL, 
	time_s DOUBLE NOT NULL, 
	measurements TEXT NOT NULL, 
	UNIQUE (owner, fingerprint)
);
INSERT INTO "profiles" VALUES('','net',5.0,'{"profiles": {"t4": {"nodes": [1], "replicas": [1], "local_bsz": [8], "accumulation": [0], "count": [5], "step_time_s": [0.1], "sync_time_s": [0.0], "densest": [1]}, "a100": {"nodes": [1], "replicas": [1], "local_bsz": [8], "accumulation": [0], "count": [5], "step_time_s": [0.1], "sync_time_s": [0.0], "densest": [1]}}, "largest_local_bsz": {"t4": 8, "a100": 8}, "out_of_memory": {}, "grad_sqr": null, "grad_var": null, "info": null, "fits": {}}');
INSERT INTO "profiles" VALUES('','key1',5.0,'{"profiles": {"t4": {"nodes": [1], "replicas": [1], "local_bsz": [8], "accumulation": [0], "count": [5], "step_time_s": [0.1], "sync_time_s": [0.0], "densest": [1]}}, "largest_local_bsz": {"t4": 8}, "out_of_memory": {}, "grad_sqr": null, "grad_var": null, "info": null, "fits": {}}');
CREATE TABLE rounds (
	number INTEGER NOT NULL, 
	time_s DOUBLE NOT NULL, 
	data TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "rounds" VALUES(1,20.0,'{"round": 1, "seconds": 0.1}');
CREATE TABLE secrets (
	user TEXT NOT NULL, 
	name TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	sealed TEXT NOT NULL, 
	created_s DOUBLE NOT NULL, 
	changed_s DOUBLE NOT NULL, 
	PRIMARY KEY (user, name)
);
INSERT INTO "secrets" VALUES('ann','A_KEY','k1','sealed',991.0,992.0);
CREATE TABLE tokens (
	id TEXT NOT NULL, 
	user TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	label TEXT DEFAULT '' NOT NULL, 
	created_s DOUBLE NOT NULL, 
	expires_s DOUBLE, 
	revoked_s DOUBLE, 
	used_s DOUBLE, 
	PRIMARY KEY (id)
);
CREATE TABLE users (
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	disabled BOOLEAN DEFAULT false NOT NULL, 
	created_s DOUBLE NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "users" VALUES('ann','user',0,990.0);
CREATE TABLE webhooks (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	owner TEXT NOT NULL, 
	name TEXT NOT NULL, 
	shown TEXT NOT NULL, 
	events TEXT NOT NULL, 
	by_job BOOLEAN NOT NULL, 
	"after" INTEGER NOT NULL, 
	created_s DOUBLE NOT NULL, 
	UNIQUE (owner, name)
);
INSERT INTO "webhooks" VALUES(1,'ada','mine','https://hooks.example.com/…','["job.ended"]',0,3,995.0);
CREATE INDEX events_of_job on events(job_id, id);
CREATE INDEX events_of_cluster on events(id) where job_id is null and kind<>'plan';
CREATE INDEX intervals_of_job on intervals(job_id, id);
CREATE INDEX jobs_unretired ON jobs (number) WHERE not retired;
CREATE INDEX jobs_of_owner ON jobs (owner, number);
CREATE INDEX jobs_finished ON jobs (finished_s);
CREATE INDEX job_files_of_package ON job_files (package);
CREATE INDEX intervals_ended ON intervals (end_s);
CREATE INDEX tokens_of_user ON tokens (user);
CREATE INDEX audit_of_user ON audit (user, number);
CREATE INDEX audit_of_target ON audit (target, number);
CREATE INDEX jobs_of_team ON jobs (team, number);
CREATE INDEX jobs_of_array ON jobs (array, number);
CREATE INDEX gpu_time_of_day ON gpu_time (day);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',27);
INSERT INTO "sqlite_sequence" VALUES('intervals',4);
INSERT INTO "sqlite_sequence" VALUES('webhooks',1);
COMMIT;
