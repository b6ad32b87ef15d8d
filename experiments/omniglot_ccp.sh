#!/bin/sh
# Train every variant of omniglot_ccp.yaml with three seeds: experiments/omniglot_ccp.sh [SEED...]
# A run that is there already is left alone. The memory holds as many embeddings as 8 proxies a class.
set -e
recipe=$(dirname "$0")/omniglot_ccp.yaml

train() { # NAME SEED OPTION...
  name=$1; seed=$2; shift 2
  test -e "runs/$name-$seed" || gsp-tf train "$recipe" --run "runs/$name-$seed" \
    --name "$name" --seed "$seed" "$@"
}

memory='--loss_wrapper.name cross_batch_memory --loss_wrapper.capacity 776
  --loss_wrapper.batch_weight 1.0'
ms='--loss {"name":"multi_similarity","alpha":2.0,"beta":40.0,"base":0.5}'
c1='--loss.name cosine_contrastive --loss.margin 0.5'
triplet='--loss.name triplet --loss.margin 0.1'

for seed in ${*:-0 1 2}; do
  for loss in c2 ms; do
    options=; test "$loss" = c2 || options=$ms
    train "$loss" "$seed" $options
    train "$loss-xbm" "$seed" $options $memory
    train "$loss-single-8" "$seed" $options --trainer ccp --ccp.max_projections 1 \
      --ccp.patience 40
    for k in 1 8; do
      train "$loss-ccp-$k" "$seed" $options --trainer ccp --ccp.proxies_per_class $k
    done
  done
done
train c1-ccp-8 0 $c1 --trainer ccp
train triplet-ccp-8 0 $triplet --trainer ccp
