#!/usr/bin/env bash
# What train.sh made elsewhere comes here: collect.sh <experiment>. Then `dvc repro` evaluates, analyses and writes the page; a run that no
# machine has finished would train here, so it is named, and the rest waits.
set -euo pipefail
{ # bash reads all of it now: a merge may change this file
experiment=$1 folder=runs/$1
git config merge.octavo-lock.driver 'octavo merge-lock %O %A %B %P'
git fetch -q origin "refs/heads/runs/$experiment/*:refs/remotes/origin/runs/$experiment/*"
for branch in $(git for-each-ref --format='%(refname)' "refs/remotes/origin/runs/$experiment/"); do
    git merge -q --no-edit "$branch"
done
octavo compile >/dev/null # what git does not keep
dvc --cd "$folder" pull -q --allow-missing
left=$(octavo plan "$experiment" --json | python -c '
import json, sys
plan = json.load(sys.stdin)
print(*[stage["run"] for each in plan["experiments"] for stage in each["stages"] if stage.get("run") and stage["state"] == "runs"])')
if [ -n "$left" ]; then
    echo "not there: $left. Start train.sh $experiment for each again, then collect.sh" >&2
    exit 1
fi
dvc --cd "$folder" repro
exit
}
