#!/usr/bin/env bash
# Checks packaging/kubernetes against the schemas of Kubernetes, without a cluster: every key has to be known and of its
# type. Nothing is said of admission, of scheduling and of what the agents then do.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools=target/kubernetes
validate=$tools/bin/kubernetes-validate
if [ ! -x "$validate" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" --quiet --disable-pip-version-check install kubernetes-validate==1.37.0
fi
for file in packaging/kubernetes/*.yaml; do "$validate" --quiet --strict "$file"; done

# A check that lets mistakes through would be none.
wrong=$(mktemp --suffix .yaml)
trap 'rm -f "$wrong"' EXIT
sed 's/imagePullPolicy/imagePullPolcy/' packaging/kubernetes/qualify.yaml > "$wrong"
if "$validate" --quiet --strict "$wrong" > /dev/null 2>&1; then
    echo "error: a misspelt key passes" >&2
    exit 1
fi
