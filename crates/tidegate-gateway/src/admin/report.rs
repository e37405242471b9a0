//! The settings of the gateway as JSON.

use tidegate::isolate::Isolation;

use crate::json::{Object, array, quoted};

/// Returns every setting in force of every command, or of one, with its origin.
pub(super) fn settings(isolation: &Isolation, only: Option<&str>) -> String {
    let all = isolation.settings();
    let shown = all
        .iter()
        .filter(|command| only.is_none_or(|only| command.command.as_str() == only));
    array(shown.map(|command| {
        let values = command.values.iter().map(|setting| {
            Object::new()
                .text("name", setting.name)
                .optional("property", setting.property.as_deref().map(quoted))
                .text("value", &setting.value)
                .text("origin", &setting.origin.to_string())
                .end()
        });
        Object::new()
            .text("command", command.command.as_str())
            .raw("values", array(values))
            .end()
    }))
}
