#!/bin/sh
# Every pooling with C2, the five best of them with ProxyNCA++ too, and every system, three seeds
# each: experiments/small_collage.sh [SEED...]. A run that is there already is left alone.
set -e
folder=$(dirname "$0")

train() { # NAME SEED OPTION...
  name=$1; seed=$2; shift 2
  run=runs/small_collage_$name-$seed
  test -e "$run" || gsp-tf train "$folder/small_collage.yaml" "$@" --run "$run" \
    --name "$name" --seed "$seed"
}

c2='--loss {"name":"contrastive","positive_margin":0.0,"negative_margin":0.5}'
pnca='--loss.name proxy_nca'
crt_pnca='--loss.name proxy_nca --miner null'
adapted='--training.adapt_batches 8'

options() { # POOLING
  case $1 in
    gsp*) echo --pooling.transport_ratio 0.25 --pooling.entropy_smoothing 10 $adapted ;;
    net_vlad|optimal_transport) echo $adapted ;;
    gsop) echo --pooling.reduced_dim 32 ;;
  esac
}

for seed in ${*:-0 1 2}; do
  for system in agrouping crt multihead; do
    train $system "$seed" "$folder/small_collage_$system.yaml"
  done
  train crt-pnca "$seed" "$folder/small_collage_crt.yaml" $crt_pnca
  for pooling in gap max average_max generalized_mean generalized_max weldon crow cbam delf gsop \
      solar smk net_vlad optimal_transport gsp gsp_max gsp_mean; do
    train c2-$pooling "$seed" $c2 --pooling.name $pooling $(options $pooling)
  done
  for pooling in gap gsp cbam generalized_mean gsp_mean solar weldon; do
    train pnca-$pooling "$seed" $pnca --pooling.name $pooling $(options $pooling)
  done
  train pnca-gsp-zs "$seed" $pnca --pooling.name gsp $(options gsp) --zero_shot.weight 0.1
done
