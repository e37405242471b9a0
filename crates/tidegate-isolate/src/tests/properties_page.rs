//! The page of the guide that lists all properties is up to date.

use std::fmt::Write as _;
use std::sync::Arc;

use super::property_docs::{CODE_ONLY, COLLAPSER, COMMAND, POOL, PropertyDoc, Values};
use crate::collapser::PROPERTIES;
use crate::properties::{CodeSettings, Family, Property, Sources, all};
use crate::{CollapserConfig, CommandConfig, ConfigError, PREFIX, Properties};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/guide/properties.md"
);
const BEGIN: &str = "<!-- The tests of tidegate-isolate write this part. -->\n";
const END: &str = "<!-- The end of this part. -->\n";
const BLESS: &str = "TIDEGATE_BLESS=1 cargo test -p tidegate-isolate --lib properties_page";

#[test]
fn the_page_lists_every_property() {
    let page = std::fs::read_to_string(PAGE).expect("the guide has this page");
    let (head, rest) = page.split_once(BEGIN).expect("the page has the mark");
    let (_, tail) = rest.split_once(END).expect("the page has the end mark");
    let current = format!("{head}{BEGIN}{}{END}{tail}", tables());
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(PAGE, current).expect("the page can be written");
    } else {
        assert!(
            page == current,
            "docs/guide/properties.md is out of date: run `{BLESS}`"
        );
    }
}

#[test]
fn the_types_and_ranges_of_the_page_are_those_that_are_accepted() {
    for family in [Family::Command, Family::Pool] {
        for doc in docs(family) {
            check_values(doc, |value| {
                let value = [(doc.name, value)];
                let resolved = resolve(family, value.iter().chain(doc.with), None);
                resolved.is_ok_and(|(_, refused)| refused.is_empty())
            });
        }
    }
    for (doc, property) in COLLAPSER.iter().zip(&PROPERTIES) {
        assert_eq!(doc.name, property.name);
        check_values(doc, |value| {
            (property.set)(&mut CollapserConfig::default(), value).is_ok()
        });
    }
}

#[test]
fn the_properties_that_the_page_calls_live_change_a_key_that_exists() {
    let default = CommandConfig::default();
    for property in all() {
        let doc = doc_of(property);
        let before = (property.get)(&default);
        let value = other_value(doc, &before);
        let values = [(doc.name, value.as_str())];
        let (config, _) = resolve(property.family, &values, Some(&default)).unwrap();
        let expected = match property.is_fixed {
            true => &before,
            false => &value,
        };
        assert_eq!(&(property.get)(&config), expected, "{}", doc.name);
    }
}

/// Returns the settings of a new key with these properties, or of a key that has the settings
/// `old`, and the values that are refused.
fn resolve<'a>(
    family: Family,
    values: impl IntoIterator<Item = &'a (&'a str, &'a str)>,
    old: Option<&CommandConfig>,
) -> Result<(CommandConfig, Vec<ConfigError>), ConfigError> {
    let keys = (&"prices".into(), &"catalog".into());
    let (kind, key) = (family.name(), family.key(keys));
    let properties = Properties::new();
    for (name, value) in values {
        let name = format!("{PREFIX}.{kind}.{key}.{name}");
        properties.set(&name, *value)?;
    }
    let sources = Sources::new(vec![Arc::new(properties)]);
    let code_settings = CodeSettings::new(CommandConfig::default());
    code_settings.resolve(&sources.read(keys), keys, old)
}

/// Checks the type and the range of a property against the values that are accepted.
fn check_values(doc: &PropertyDoc, accepts: impl Fn(&str) -> bool) {
    let name = doc.name;
    let yes = |value: &str| assert!(accepts(value), "{name} = {value} should be accepted");
    let no = |value: &str| assert!(!accepts(value), "{name} = {value} should be refused");
    match doc.values {
        Values::Switch => {
            ["true", "false", "TRUE"].into_iter().for_each(yes);
            ["", "1", "perhaps"].into_iter().for_each(no);
        }
        Values::Word(words) => {
            words.iter().copied().for_each(yes);
            no("perhaps");
        }
        Values::Text => yes("any text"),
        Values::Number {
            least, most, step, ..
        } => {
            yes(&least.to_string());
            yes(&most.to_string());
            no(&(most + step).to_string());
            no("many");
            no("1.5");
            if least >= 0 {
                no(&(least - step).to_string());
            }
        }
    }
}

/// Returns a valid value other than this one.
fn other_value(doc: &PropertyDoc, than: &str) -> String {
    match doc.values {
        Values::Switch => (than != "true").to_string(),
        Values::Word(words) => {
            let other = words.iter().find(|word| **word != than);
            (*other.expect("there are two")).to_owned()
        }
        Values::Text => "other".to_owned(),
        Values::Number { least, most, .. } => {
            let least = least.max(0).to_string();
            if least == than {
                most.to_string()
            } else {
                least
            }
        }
    }
}

fn docs(family: Family) -> &'static [PropertyDoc] {
    match family {
        Family::Command => &COMMAND,
        Family::Pool => &POOL,
    }
}

fn doc_of(property: &Property) -> &'static PropertyDoc {
    let mut docs = docs(property.family).iter();
    docs.find(|doc| doc.name == property.name)
        .unwrap_or_else(|| panic!("`property_docs` has no row for {}", property.name))
}

/// Returns the generated part of the page.
fn tables() -> String {
    let default = CommandConfig::default();
    let mut text = String::new();
    for (family, title) in [
        (Family::Command, "Commands: `hystrix.command.<KEY>.`"),
        (Family::Pool, "Pools: `hystrix.threadpool.<POOL>.`"),
    ] {
        let listed: Vec<_> = all().filter(|one| one.family == family).collect();
        assert_eq!(listed.len(), docs(family).len(), "each row has a property");
        begin_table(&mut text, title);
        for property in listed {
            let value = (property.get)(&default);
            add_row(&mut text, doc_of(property), &value, !property.is_fixed);
        }
    }
    begin_table(&mut text, "Collapsers: `hystrix.collapser.<KEY>.`");
    assert_eq!(COLLAPSER.len(), PROPERTIES.len(), "each row has a property");
    let collapser = CollapserConfig::default();
    for (doc, property) in COLLAPSER.iter().zip(&PROPERTIES) {
        add_row(&mut text, doc, &(property.get)(&collapser), true);
    }
    add_code_only(&mut text);
    text
}

fn begin_table(text: &mut String, title: &str) {
    let columns =
        "| property | type | default | range | live | what it sets |\n|---|---|---|---|---|---|";
    let _ = writeln!(text, "\n## {title}\n\n{columns}");
}

fn add_row(text: &mut String, doc: &PropertyDoc, default: &str, is_live: bool) {
    let PropertyDoc { name, about, .. } = doc;
    let default = match default {
        "" => "none".to_owned(),
        value if value == usize::MAX.to_string() => "no limit".to_owned(),
        value => format!("`{value}`"),
    };
    let (kind, range) = match doc.values {
        Values::Switch => ("switch", "`true`, `false`".to_owned()),
        Values::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            ("word", words.join(", "))
        }
        Values::Text => ("text", "any".to_owned()),
        Values::Number {
            unit, least, most, ..
        } => (unit, format!("{} to {}", grouped(least), grouped(most))),
    };
    let range = match doc.range {
        "" => range,
        words => words.to_owned(),
    };
    let live = if is_live { "yes" } else { "no" };
    let _ = writeln!(
        text,
        "| `{name}` | {kind} | {default} | {range} | {live} | {about} |"
    );
}

/// Lists the settings that have no property.
fn add_code_only(text: &mut String) {
    let default = CommandConfig::default();
    let keys = (&"prices".into(), &"catalog".into());
    let reading = Sources::new(Vec::new()).read(keys);
    let settings =
        CodeSettings::new(default.clone()).settings(&reading, keys, &default, (true, false));
    let listed = settings.iter().filter(|one| one.property.is_none());
    let listed: Vec<_> = listed.collect();
    assert_eq!(listed.len(), CODE_ONLY.len(), "each row has a setting");
    text.push_str("\n## Settings without a property\n\n");
    text.push_str("| setting | default | what it sets |\n|---|---|---|\n");
    for setting in listed {
        let doc = CODE_ONLY.iter().find(|(name, _)| *name == setting.name);
        let (name, about) =
            doc.unwrap_or_else(|| panic!("`property_docs` has no row for {}", setting.name));
        let default = match setting.value.as_str() {
            "" => "none".to_owned(),
            value => format!("`{value}`"),
        };
        let _ = writeln!(text, "| `{name}` | {default} | {about} |");
    }
    text.push('\n');
}

/// Returns a number with a comma before each group of three digits.
fn grouped(number: i128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
