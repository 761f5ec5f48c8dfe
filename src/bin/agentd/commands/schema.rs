//! `agentd schema`: JSON Schemas of values.

use agentd::UnifiedPrompt;
use agentd::models::Work;

use crate::args::SchemaOf;
use crate::exit;
use crate::out::{self, Outcome};

pub(super) fn run(value: SchemaOf) -> Outcome {
    match value {
        SchemaOf::Prompt => out::json(&UnifiedPrompt::json_schema())?,
        SchemaOf::State => out::json(&Work::json_schema())?,
    }
    Ok(exit::OK)
}
