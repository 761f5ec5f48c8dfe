//! What follows from a reply: gates and the next mode.

mod gates;
