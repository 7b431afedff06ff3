#!/usr/bin/env bash
# Train twice and keep the better learning rate.
set -euo pipefail
for lr in 0.02 0.3; do
    python csv_arguments.py --data data/points.csv --lr "$lr" --epochs 30 | tail -n 1 | sed "s/^/lr $lr: /" | tee -a sweep.txt
done
sort -t ' ' -k 5 -n sweep.txt | head -n 1 | sed 's/^lr [0-9.]*: //'
rm sweep.txt
