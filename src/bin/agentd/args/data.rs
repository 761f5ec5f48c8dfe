//! Arguments of `models`, `template` and `pack`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List known models
    #[command(after_help = "\
Examples:
  agentd models list
  agentd models list --json | jq -r '.[].id'")]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show one model
    #[command(after_help = "\
Examples:
  agentd models show llama3.2:3b")]
    Show {
        /// Name or alias of the model
        id: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List the templates of the project, the user and agentd
    #[command(after_help = "\
Examples:
  agentd template list")]
    List {
        /// Print the list with the metadata of each template as JSON
        #[arg(long)]
        json: bool,
    },

    /// Print the template of a mode
    #[command(after_help = "\
Examples:
  agentd template show plan --agent gemini
  # customize the template of mode plan
  mkdir -p templates/system
  agentd template show plan --built-in > templates/system/BASE-plan.md")]
    Show {
        /// Mode
        mode: String,
        /// Agent [default: the mode's agent in agentd/config.toml, or BASE]
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Print the built-in template, ignoring overrides of the project and the user
        #[arg(long)]
        built_in: bool,
        /// Print the template with its metadata as JSON
        #[arg(long)]
        json: bool,
    },

    /// Check that templates have the sections, placeholders and markers that their mode needs
    #[command(after_help = "\
Examples:
  agentd template check                  check all templates
  agentd template check BASE-plan")]
    Check {
        /// Names of templates, such as BASE-plan [default: all]
        names: Vec<String>,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackCommand {
    /// List the packs of the project, the user and agentd
    #[command(after_help = "\
Examples:
  agentd pack list")]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show the modes, layers, actions and files of a pack, or print one file
    #[command(after_help = "\
Examples:
  agentd pack show foreman
  # customize identity.md
  mkdir -p agentd/packs/foreman
  agentd pack show foreman identity.md > agentd/packs/foreman/identity.md
  agentd pack show sdd --json | jq '.modes | keys'")]
    Show {
        /// Name of the pack
        name: String,
        /// File of the pack to print
        file: Option<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },

    /// Check packs for errors, and their texts against token budgets
    #[command(after_help = "\
Examples:
  agentd pack check                  check all packs
  agentd pack check foreman

An error makes the pack unusable; a warning is probably a mistake.

Exit codes: 0 no errors, 1 errors found.")]
    Check {
        /// Names of packs [default: all]
        names: Vec<String>,
        /// Also exit with 1 if there are warnings
        #[arg(long)]
        deny_warnings: bool,
        /// Print token counts and findings as JSON
        #[arg(long)]
        json: bool,
    },

    /// Create a pack in agentd/packs/NAME; keep existing files
    #[command(after_help = "\
Examples:
  agentd pack new letters && agentd prompt draft \"Thank the referee\" --pack letters")]
    New {
        /// Name of the pack
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}
