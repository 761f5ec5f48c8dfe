#!/bin/sh
# Plays an agent in transcripts and in the examples of the documentation. It tells the modes apart by the
# headings of their prompts, and answers with ~/replies/MODE. In implement and fix it first runs
# ~/replies/edit.sh in its working folder.
case $1 in
    --version) echo "1.0.0"; exit ;;
esac

prompt=$(cat)
nonce=$(printf '%s' "$prompt" | sed -n 's/.*<review run="\([^"]*\)".*/\1/p' | head -n 1)

case $prompt in
    *"# Plan a change"*) mode=plan ;;
    *"# Challenge a "*) mode=challenge ;;
    *"# Implement a "*) mode=implement ;;
    *"# Review a"*) mode=review ;;
    *"# Archive a change"*) mode=archive ;;
    *) mode=other ;;
esac

case $* in
    *--edit*) if test -f "$HOME/replies/edit.sh"; then sh "$HOME/replies/edit.sh"; fi ;;
esac

if test -f "$HOME/replies/$mode"; then
    sed "s/{{NONCE}}/$nonce/" "$HOME/replies/$mode"
else
    echo "Done."
fi
