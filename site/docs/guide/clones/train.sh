#!/usr/bin/env bash
# One run in a clone of its own: train.sh <experiment> <run, or its number from 0 up>. What it makes goes to the DVC remote, its lock and
# ledger to the branch runs/<experiment>/<run>. A machine that gets the same run again goes on with that branch.
set -euo pipefail
{ # bash reads all of it now: a merge may change this file
experiment=$1 run=$2 folder=runs/$1
stages=$(dvc --cd "$folder" stage list --name-only)
if [[ $run =~ ^[0-9]+$ ]]; then
    run=$(sed -n 's/^train-//p' <<<"$stages" | sed -n "$((run + 1))p")
fi
grep -qxF -- "train-$run" <<<"$stages" || { echo "no run $run in $folder/dvc.yaml" >&2; exit 2; }
branch=runs/$experiment/$run work=

git config merge.octavo-lock.driver 'octavo merge-lock %O %A %B %P'
git config user.email >/dev/null || git config user.email worker@octavo.invalid
git config user.name >/dev/null || git config user.name worker
if git fetch -q origin "refs/heads/$branch" 2>/dev/null; then
    git merge -q --no-edit FETCH_HEAD
fi

publish() { # also of a run that was stopped or failed: every attempt counts
    local lock=.cache/locks/$experiment--$run.lock
    [ ! -f "$lock" ] || flock "$lock" true # dvc ends before its stage has written why
    shopt -s nullglob # a run that was stopped may be the first one, without a lock
    git add --force -- "$folder/"*.lock "$folder/$run/"*.jsonl
    git diff --cached --quiet || git commit -qm "$experiment: $run"
    git push -q origin "HEAD:refs/heads/$branch"
}
stop() { # bash waits for a command before it minds a signal, unless `wait` waits
    [ -z "$work" ] || kill -TERM "$work"
}
trap stop TERM INT
trap publish EXIT
for stage in "train-$run" "evaluate-$run"; do
    grep -qxF -- "$stage" <<<"$stages" || continue # an experiment without evaluation
    dvc repro --single-item --pull --glob "$folder/dvc.yaml:$stage" &
    work=$!
    wait "$work" || { wait "$work"; exit; }
    dvc --cd "$folder" push -q "$stage"
done
exit
}
