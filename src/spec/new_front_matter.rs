//! Writes the front matter of a spec.

use super::code_blocks::DesignElements;

/// Values of a new front matter.
pub(super) struct NewFrontMatter<'a> {
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    pub(super) version: u64,
    pub(super) created_at: &'a str,
    pub(super) updated_at: &'a str,
    pub(super) ids: &'a [&'a str],
    pub(super) design: DesignElements,
}

impl NewFrontMatter<'_> {
    /// Returns the front matter, with the `---` before and after it.
    pub(super) fn to_text(&self) -> String {
        // A JSON string is also a YAML string.
        let title = serde_json::Value::from(self.title);
        let ids: String = self.ids.iter().map(|id| format!("    - {id}\n")).collect();
        let DesignElements {
            mermaid,
            json_schema,
            pseudo_code,
            api_spec,
        } = self.design;

        let name = format!(
            "id: {}\ntype: spec\ntitle: {title}\nversion: {}\n",
            self.id, self.version
        );
        let dates = format!(
            "created_at: {}\nupdated_at: {}\n",
            self.created_at, self.updated_at
        );
        let counts = format!("requirements:\n  total: {}\n  ids:\n{ids}", self.ids.len());

        let flags = [
            ("has_mermaid", mermaid),
            ("has_json_schema", json_schema),
            ("has_pseudo_code", pseudo_code),
            ("has_api_spec", api_spec),
        ];
        let flags: String = flags
            .iter()
            .map(|(flag, value)| format!("  {flag}: {value}\n"))
            .collect();

        format!("---\n{name}{dates}{counts}design_elements:\n{flags}---\n")
    }
}
