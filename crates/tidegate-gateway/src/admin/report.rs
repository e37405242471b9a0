//! The settings of the gateway as JSON.

use tidegate::isolate::Isolation;

use crate::command::why_without_effect_in;
use crate::json::{Object, array, quoted};

/// Returns every setting of every command, or of one, with its origin. A property without an effect
/// says why.
pub(super) fn settings(isolation: &Isolation, only: Option<&str>) -> String {
    let all = isolation.settings();
    let shown = all
        .iter()
        .filter(|command| only.is_none_or(|only| command.command.as_str() == only));
    array(shown.map(|command| {
        let values = command.values.iter().map(|setting| {
            let property = setting.property.as_deref();
            let is_set = |name: &&str| setting.origin.to_string() == format!("property {name}");
            let without_effect = property.filter(is_set);
            let without_effect = without_effect
                .and_then(|name| why_without_effect_in(command, name, &setting.value));
            Object::new()
                .text("name", setting.name)
                .optional("property", setting.property.as_deref().map(quoted))
                .text("value", &setting.value)
                .text("origin", &setting.origin.to_string())
                .optional("without_effect", without_effect.map(quoted))
                .end()
        });
        Object::new()
            .text("command", command.command.as_str())
            .raw("values", array(values))
            .end()
    }))
}
