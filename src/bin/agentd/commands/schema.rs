//! `agentd schema`: JSON Schemas of values.

use agentd::UnifiedPrompt;
use agentd::models::Work;

use crate::args::SchemaOf;
use crate::exit;
use crate::terminal::{self, Outcome};

pub(super) fn run(value: SchemaOf) -> Outcome {
    match value {
        SchemaOf::Prompt => terminal::print_json(&UnifiedPrompt::json_schema())?,
        SchemaOf::State => terminal::print_json(&Work::json_schema())?,
    }
    Ok(exit::OK)
}
