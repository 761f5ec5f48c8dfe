//! Figures; see docs/speed.md.

fn main() {}
