//! Prompts: layers, fit, rendering, token counts.

mod fit;
mod request;
mod tokens;
mod xml;
