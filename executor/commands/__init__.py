"""Programs that never call `coadapt.prepare`: how they are started, watched, stopped and started again. No Ray."""
