#!/bin/sh
# All numbers of docs/studies/evidence.md and the table of docs/losses.md: experiments/evidence.sh
# [TABLE...], of collage poolings causes cars ccp dose tuning losses heads ladder zero_shot plane. What
# experiments/results/evidence has is not trained again: remove a file there to measure its table
# again. Stopped runs continue. JOBS=2 trains two models at a time. Pictures with photographs stay in
# runs/evidence. It needs data/cifar100, data/cars196_half, data/grocery and pip install ".[pretrained]".
set -e
cd "$(dirname "$0")/.."
jobs=${JOBS:-1}
export TF_ENABLE_ONEDNN_OPTS=1  # docs/performance.md
studies=experiments/studies

for table in ${*:-collage poolings causes cars ccp dose tuning losses heads ladder zero_shot plane}; do
  case $table in
    heads) python $studies/heads.py ;;
    ladder) python $studies/ladder.py ;;
    zero_shot) python $studies/zero_shot_prototypes.py --jobs "$jobs" --runs runs/evidence \
      --recipe '[experiments/evidence/zero_shot.yaml]' \
      --out experiments/results/evidence/zero_shot.csv \
      --figure runs/evidence/zero_shot.png ;;
    plane) python $studies/average_pooling_plane.py --backbone resnet20 \
      --results experiments/results/evidence --figures runs/evidence ;;
    collage|poolings|causes|cars|ccp|dose|tuning|losses)
      python $studies/evidence.py --jobs "$jobs" --tables "[$table]" ;;
    *) echo "unknown table $table; the first lines of $0 name them" >&2
      exit 2 ;;
  esac
  python $studies/evidence_page.py
done
