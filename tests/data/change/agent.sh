# An agent for tests. It answers for its mode and for the change of its worktree, and logs its calls in a folder.
# It runs the file MODE.sh of that folder before it answers.
home=$1
change=${PWD##*/}
prompt=$(cat)
run=$(printf '%s\n' "$prompt" | grep -o 'run="[^"]*"' | head -n 1)
case $prompt in
*"Challenge the plan of this change."*) mode=challenge ;;
*"Carry out the tasks of this change."*) mode=implement ;;
*"Review the implementation of this change."*) mode=review ;;
*"Write the changelog entry of this change."*) mode=archive ;;
*) mode=plan ;;
esac
echo "$change $mode" >> "$home/calls"
if [ -f "$home/$mode.sh" ]; then . "$home/$mode.sh"; fi
case $mode in
plan)
cat <<END
Planned.
<content_update target="proposal.md">
# Say $change

## Why
Nobody says it.

## What changes
- It is said.
</content_update>
<content_update target="specs/$change.md">
---
id: $change
type: spec
title: "Saying"
version: 1
created_at: 2026-01-01T00:00:00Z
updated_at: 2026-01-01T00:00:00Z
requirements:
  total: 1
  ids:
    - R1
design_elements:
  has_mermaid: false
  has_json_schema: false
  has_pseudo_code: false
  has_api_spec: false
---

<spec>

# Saying

## Overview
What is said.

## Requirements

### R1 - It is said

It says $change.

## Acceptance Criteria

### Scenario: Asked

- **WHEN** it is asked
- **THEN** it says $change

</spec>
</content_update>
<content_update target="tasks.md">
# Tasks

## 1. Saying
- [ ] 1.1 Say it
  - file: $change.txt
  - spec: $change#R1
</content_update>
<review $run>PASS</review>
END
;;
challenge) printf 'Sound.\n<content_update target="CHALLENGE.md">\n# Challenge\n\nNothing.\n</content_update>\n<review %s>PASS</review>\n' "$run" ;;
implement)
echo "$change" > "$change.txt"
printf 'Done.\n<content_update target="IMPLEMENTATION.md">\n# Implementation\n\nSaid.\n</content_update>\n<task_status id="1.1">COMPLETED</task_status>\n' ;;
review) printf 'Good.\n<content_update target="REVIEW.md">\n# Review\n\nMet.\n</content_update>\n<review %s>PASS</review>\n' "$run" ;;
archive) printf '<content_update target="CHANGELOG.md">\n- It says %s.\n</content_update>\n' "$change" ;;
esac
