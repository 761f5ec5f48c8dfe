#!/bin/sh
# Greets someone by name.
echo "Hello, $1!"
