//! What is wrong with the files of TLS, and with which setting.

/// What is wrong with the settings of TLS.
pub(crate) struct Wrong {
    /// The name of the setting; `None` if it is not a single one.
    pub(crate) setting: Option<&'static str>,
    pub(crate) why: String,
}

impl Wrong {
    pub(super) fn new(setting: impl Into<Option<&'static str>>, why: impl ToString) -> Self {
        Self {
            setting: setting.into(),
            why: why.to_string(),
        }
    }
}
