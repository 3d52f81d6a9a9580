#!/usr/bin/env bash
# demo_sample.sh DEMO PACKAGE_GRAPH SAMPLE DIRECTORY: the demo on the sample, killed several times. The seed is printed; what a
# failure leaves behind stays in the directory.
set -euo pipefail
demo=$1 program=$2 sample=$3 directory=$4
rm -rf "$directory"
mkdir -p "$directory"
xz --decompress --stdout "$sample" >"$directory/packages"
"$demo" --program "$program" --heap "$directory/packages.hf" --input "$directory/packages" --kills 6 --commit-every 1000
rm -rf "$directory"
