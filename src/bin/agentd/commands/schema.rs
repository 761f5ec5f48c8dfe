//! `agentd schema`: JSON Schemas of values.

use agentd::UnifiedPrompt;

use crate::args::{Args, SchemaOf};
use crate::terminal::{self, CommandResult};
use crate::{exit, project};

pub(super) fn run(args: &Args, value: SchemaOf, pack: Option<&str>) -> CommandResult {
    match value {
        SchemaOf::Prompt => terminal::print_json(&UnifiedPrompt::json_schema())?,
        SchemaOf::State => {
            let workspace = project::workspace(args, pack)?;
            terminal::print_json(&workspace.pack.state.json_schema())?;
        }
    }
    Ok(exit::OK)
}
