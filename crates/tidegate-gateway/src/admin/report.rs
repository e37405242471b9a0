//! The settings of the gateway as JSON.

use tidegate::isolate::PropertySource as _;

use super::controls::Controls;

use crate::command::why_without_effect_in;
use crate::json::{Object, array, quoted};

/// Returns every setting of every command, or of one, with its origin. A property without an effect
/// says why.
pub(super) fn settings(controls: &dyn Controls, only: Option<&str>) -> String {
    let (all, properties) = (controls.isolation().settings(), controls.properties());
    let shown = all
        .iter()
        .filter(|command| only.is_none_or(|only| command.command.as_str() == only));
    array(shown.map(|command| {
        let values = command.values.iter().map(|setting| {
            let property = setting.property.as_deref();
            let without_effect = property.and_then(|name| {
                let value = properties.get(name)?;
                why_without_effect_in(command, name, &value)
            });
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
