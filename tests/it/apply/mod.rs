//! Effects of a reply: gates and the next mode.

mod gates;
