//! Requirements and scenarios of the source documents S0-S4, under their original titles.

mod flows;
mod s0_prompt;
mod s1_templates;
mod s2_orchestrators;
mod s2_replies;
mod s2_turns;
mod s3_builder;
mod s3_depth;
mod s3_program;
mod s3_templates;
mod s3_tools;
mod s4_actions;
mod s4_assembler;
mod s4_documents;
mod s4_knowledge;
mod s4_replies;
mod s4_sandwich;
mod s4_state;
