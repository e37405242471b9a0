//! What is wrong with the files of TLS, and with which setting.

/// What is wrong with the settings of TLS.
pub(crate) struct Wrong {
    /// The setting below `tls`; `None` if it is not a single one.
    pub(crate) setting: Option<String>,
    pub(crate) why: String,
}

impl Wrong {
    pub(super) fn new(setting: impl Into<Option<&'static str>>, why: impl ToString) -> Self {
        Self {
            setting: setting.into().map(str::to_owned),
            why: why.to_string(),
        }
    }

    /// The setting is one of this section.
    pub(super) fn of(self, section: &str) -> Self {
        let setting = self.setting.map(|setting| format!("{section}.{setting}"));
        Self { setting, ..self }
    }
}
