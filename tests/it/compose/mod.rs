//! Prompts: layers, fit, rendering, token counts.

mod fit;
mod tokens;
mod xml;
