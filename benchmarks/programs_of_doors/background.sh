#!/usr/bin/env bash
# Watch the machine in the background while training, and forget to end it.
(setsid bash -c 'while true; do uptime >> load.txt; sleep 1; done' > /dev/null 2>&1 &)
python plain_script.py
