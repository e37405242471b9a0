//! The page of the guide that lists all properties says what the crate does.

use std::sync::{Arc, LazyLock};

use crate::collapser::PROPERTIES;
use crate::properties::{CodeSettings, Family, Property, Sources, all};
use crate::{CollapserConfig, CommandConfig, ConfigError, PREFIX, Properties};

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let path = "/../../docs/guide/properties.md";
    let path = format!("{}{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the guide has this page")
});

const COMMANDS: &str = "Commands: ";
const POOLS: &str = "Pools: ";
const COLLAPSERS: &str = "Collapsers: ";

/// A row of the page about a property.
struct Row {
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    range: &'static str,
    is_live: bool,
}

/// The values of a property, by the page.
enum Values {
    Words(Vec<&'static str>),
    Text,
    /// Whole numbers. Every multiple of `step` in the range is valid.
    Number {
        least: i128,
        most: i128,
        step: i128,
    },
}

/// Returns the cells of the rows of the table below a title.
fn cells(title: &str) -> Vec<Vec<&'static str>> {
    let start = PAGE.find(&format!("\n## {title}")).expect(title);
    let lines = PAGE[start + 1..].lines().skip(1);
    let lines = lines.take_while(|line| !line.starts_with("## "));
    let rows = lines.filter(|line| line.starts_with("| `"));
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect();
    rows.map(cells).collect()
}

fn unquoted(cell: &'static str) -> &'static str {
    cell.trim_matches('`')
}

fn rows(title: &str) -> Vec<Row> {
    let row = |cells: Vec<&'static str>| Row {
        name: unquoted(cells[0]),
        kind: cells[1],
        default: cells[2],
        range: cells[3],
        is_live: cells[4] == "yes",
    };
    cells(title).into_iter().map(row).collect()
}

fn title(family: Family) -> &'static str {
    match family {
        Family::Command => COMMANDS,
        Family::Pool => POOLS,
    }
}

impl Row {
    fn values(&self) -> Values {
        let number = |least, most, step| Values::Number { least, most, step };
        match (self.name, self.range) {
            (_, "any") => Values::Text,
            (_, range) if range.starts_with('`') => {
                Values::Words(range.split(", ").map(unquoted).collect())
            }
            // Described in words.
            ("circuitBreaker.window.timeInMilliseconds", _) => number(500, 5_000_000, 500),
            ("metrics.healthSnapshot.intervalInMilliseconds", _) => number(1, 10_000, 1),
            ("maxQueueSize", "up to 1,000,000") => number(i64::MIN.into(), 1_000_000, 1),
            (_, "1 or more") => number(1, usize::MAX as i128, 1),
            (_, range) => {
                let (least, most) = range.split_once(" to ").expect("a range");
                let parse = |number: &str| number.replace(',', "").parse().expect("a number");
                number(parse(least), parse(most), 1)
            }
        }
    }

    /// Returns another property that must be set for the whole range to be valid.
    fn needs(&self) -> Option<(&'static str, &'static str)> {
        match self.name {
            "metrics.rollingStats.timeInMilliseconds" => {
                Some(("metrics.rollingStats.numBuckets", "1"))
            }
            "metrics.rollingPercentile.timeInMilliseconds" => {
                Some(("metrics.rollingPercentile.numBuckets", "1"))
            }
            "maximumSize" => Some(("allowMaximumSizeToDivergeFromCoreSize", "true")),
            _ => None,
        }
    }
}

/// Returns a default as the page shows it.
fn shown(default: &str) -> String {
    match default {
        "" => "none".to_owned(),
        value if value == usize::MAX.to_string() => "no limit".to_owned(),
        value => format!("`{value}`"),
    }
}

#[test]
fn the_page_lists_every_property() {
    let default = CommandConfig::default();
    for family in [Family::Command, Family::Pool] {
        let rows = rows(title(family));
        let listed = all().filter(|one| one.family == family);
        let listed: Vec<_> = listed
            .map(|one| (one.name, shown(&(one.get)(&default)), !one.is_fixed))
            .collect();
        let on_page = |row: &Row| (row.name, row.default.to_owned(), row.is_live);
        assert_eq!(rows.iter().map(on_page).collect::<Vec<_>>(), listed);
    }
    let collapser = CollapserConfig::default();
    let listed = PROPERTIES
        .iter()
        .map(|one| (one.name, shown(&(one.get)(&collapser))));
    let rows = rows(COLLAPSERS);
    let rows = rows.iter().map(|row| (row.name, row.default.to_owned()));
    assert!(rows.eq(listed), "the collapsers");
    let keys = (&"prices".into(), &"catalog".into());
    let reading = Sources::new(Vec::new()).read(keys);
    let code = CodeSettings::new(default.clone());
    let settings = code.settings(&reading, keys, &default, (true, false));
    let settings = settings.iter().filter(|one| one.property.is_none());
    let listed: Vec<_> = settings.map(|one| (one.name, shown(&one.value))).collect();
    let rows = cells("Settings without a property").into_iter();
    let rows: Vec<_> = rows
        .map(|row| (unquoted(row[0]), row[1].to_owned()))
        .collect();
    assert_eq!(rows, listed);
}

#[test]
fn the_types_and_ranges_of_the_page_are_those_that_are_accepted() {
    for family in [Family::Command, Family::Pool] {
        for row in rows(title(family)) {
            check_values(&row, |value| {
                let values = [Some((row.name, value)), row.needs()];
                let resolved = resolve(family, values.iter().flatten(), None);
                resolved.is_ok_and(|(_, refused)| refused.is_empty())
            });
        }
    }
    for (row, property) in rows(COLLAPSERS).iter().zip(&PROPERTIES) {
        check_values(row, |value| {
            (property.set)(&mut CollapserConfig::default(), value).is_ok()
        });
    }
}

#[test]
fn the_properties_that_the_page_calls_live_change_a_key_that_exists() {
    let default = CommandConfig::default();
    for property in all() {
        let row = row_of(property);
        let before = (property.get)(&default);
        let value = other_value(&row, &before);
        let values = [(row.name, value.as_str())];
        let (config, _) = resolve(property.family, &values, Some(&default)).unwrap();
        let expected = match row.is_live {
            false => &before,
            true => &value,
        };
        assert_eq!(&(property.get)(&config), expected, "{}", row.name);
    }
}

fn row_of(property: &Property) -> Row {
    let mut rows = rows(title(property.family)).into_iter();
    rows.find(|row| row.name == property.name)
        .unwrap_or_else(|| panic!("the page has no row for {}", property.name))
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
fn check_values(row: &Row, accepts: impl Fn(&str) -> bool) {
    let name = row.name;
    let yes = |value: &str| assert!(accepts(value), "{name} = {value} should be accepted");
    let no = |value: &str| assert!(!accepts(value), "{name} = {value} should be refused");
    match row.values() {
        Values::Words(words) => {
            words.into_iter().for_each(yes);
            no("perhaps");
            if row.kind == "switch" {
                yes("TRUE");
                ["", "1"].into_iter().for_each(no);
            }
        }
        Values::Text => yes("any text"),
        Values::Number { least, most, step } => {
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
fn other_value(row: &Row, than: &str) -> String {
    match row.values() {
        Values::Words(words) => {
            let other = words.into_iter().find(|word| *word != than);
            other.expect("there are two").to_owned()
        }
        Values::Text => "other".to_owned(),
        Values::Number { least, most, .. } => match least.max(0).to_string() {
            least if least == than => most.to_string(),
            least => least,
        },
    }
}
