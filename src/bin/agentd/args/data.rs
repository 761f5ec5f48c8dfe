//! Commands on what the program rests on: models, templates, packs.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models that are known
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
        /// The model's name or an alias
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List every template at every place, and which are in force
    #[command(after_help = "\
Examples:
  agentd template list")]
    List {
        /// Print the list as JSON, each with its metadata
        #[arg(long)]
        json: bool,
    },

    /// Print the template for a mode, as it stands in its file
    #[command(after_help = "\
Examples:
  agentd template show plan --agent gemini
  agentd template show plan --built-in > templates/system/BASE-plan.md    start your own")]
    Show {
        /// The mode
        mode: String,
        /// The agent [default: the mode's in agentd/config.toml, or BASE]
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Print the one that is compiled in, whatever the project and the user have
        #[arg(long)]
        built_in: bool,
        /// Print it with its metadata as JSON
        #[arg(long)]
        json: bool,
    },

    /// Check that templates hold what their mode needs: sections, placeholders, markers
    #[command(after_help = "\
Examples:
  agentd template check                  all templates, shipped and your own
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
    /// List the packs at every place
    #[command(after_help = "\
Examples:
  agentd pack list")]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },

    /// Show a pack: its modes, layers, actions and files, or one of its files
    #[command(after_help = "\
Examples:
  agentd pack show foreman
  agentd pack show foreman identity.md > agentd/packs/foreman/identity.md    start your own
  agentd pack show sdd --json | jq '.modes | keys'")]
    Show {
        /// The pack's name
        name: String,
        /// Print this file of it instead
        file: Option<String>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },

    /// Check packs for mistakes, and their prose against its budget at every tier
    #[command(after_help = "\
Examples:
  agentd pack check                  all packs, shipped and your own
  agentd pack check foreman

Exit codes: 0 no error, 1 an error was found. An error can never work; a warning is probably a mistake.")]
    Check {
        /// Names of packs [default: all]
        names: Vec<String>,
        /// Exit with 1 also if there are only warnings
        #[arg(long)]
        deny_warnings: bool,
        /// Print figures and findings as JSON
        #[arg(long)]
        json: bool,
    },

    /// Start a pack of your own in agentd/packs/NAME; never overwrite
    #[command(after_help = "\
Examples:
  agentd pack new letters && agentd prompt draft \"Thank the referee\" --pack letters")]
    New {
        /// The pack's name
        name: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}
