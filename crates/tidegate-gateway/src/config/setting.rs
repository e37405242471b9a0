//! How a setting is read from the tree, with its origin.
//!
//! A [`Setting`] is a value or a section. A value implements [`Leaf`]. A section is a struct that
//! the macro `settings!` defines: its fields are the keys, its documentation is the reference. So
//! the types, the keys that are known and the reference cannot differ.
//!
//! Each setting is read from its [`Scope`]: the text of the section itself and the text that it
//! inherits. A section inherits key by key. There are two exceptions: a section whose `kind`
//! differs from the inherited one inherits nothing, and a section with alternatives (`fallback`)
//! is replaced as a whole.

use super::mistake::{Mistake, Mistakes};
use super::source::Span;
use super::tree::{Node, Value};

/// A value or a section of a configuration.
pub trait Setting: Sized {
    /// `true` if the value is shown also where it comes from a variable.
    const IS_PLAIN: bool = false;

    /// Returns the form of a correct value, such as "a duration, such as `250ms`".
    fn expected() -> String;

    /// Reads the setting. Adds each mistake to `reading` and returns `None` if there is one.
    fn read(scope: &Scope<'_>, reading: &mut Reading) -> Option<Self>;

    /// Returns the value in the notation of the file.
    fn shown(&self) -> String;

    /// Returns the keys, if this is a section.
    fn section() -> Option<Section> {
        None
    }
}

/// A setting that is a single value.
pub trait Leaf: Sized {
    /// The form of a correct value: a noun, then a comma and examples.
    const EXPECTED: &'static str;
    /// `true` if the text is never printed.
    const SECRET: bool = false;
    /// `true` if the value is shown also where it comes from a variable: an address, a number, a duration, a
    /// name. Any other text may be a secret.
    const IS_PLAIN: bool = false;

    /// Parses the value.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as a part of a sentence; may be empty.
    fn parse(node: &Node) -> Result<Self, String>;

    /// Returns the value in the notation of the file.
    fn show(&self) -> String;

    /// Returns the known words, if only some words are allowed.
    fn words() -> &'static [&'static str] {
        &[]
    }
}

/// The description of a section, for the reference.
#[derive(Clone, Debug)]
pub struct Section {
    /// What it is for.
    pub about: String,
    /// Its keys.
    pub fields: Vec<Field>,
}

/// The description of a key.
#[derive(Clone, Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// What it is for.
    pub about: String,
    /// The form of its value.
    pub expected: String,
    /// The default. `None` for a key that is required, and for a section.
    pub default: Option<String>,
    /// The keys below it.
    pub section: Option<Section>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The section itself.
    Own(Span),
    /// The section from which it inherits.
    Inherited(Span),
    /// The default of the program.
    Default,
}

/// A value that was read, for `tidegate explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The setting, such as `route.catalog.timeout`.
    pub path: String,
    /// The value. A text with variables is as it is in the file, unless it is an address, a number, a
    /// duration or a name. Secrets are not shown.
    pub shown: String,
    /// Where it comes from.
    pub source: Source,
}

/// The text from which a setting is read.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    own: Option<&'a Node>,
    inherited: Option<&'a Node>,
    path: String,
    /// The place to which a missing key belongs.
    at: Span,
    /// `true` for a section of defaults, in which no key is required.
    partial: bool,
    /// The key that a value in place of a table stands for.
    short: Option<&'static str>,
    /// `true` if the setting can be off, so that `true` switches it on.
    optional: bool,
}

impl<'a> Scope<'a> {
    /// Creates the scope of a node.
    pub fn new(path: impl Into<String>, own: Option<&'a Node>, at: Span) -> Self {
        Self {
            own,
            inherited: None,
            path: path.into(),
            at,
            partial: false,
            short: None,
            optional: false,
        }
    }

    /// Adds the text that the section inherits.
    #[must_use]
    pub fn inherit(mut self, node: Option<&'a Node>) -> Self {
        self.inherited = node;
        self
    }

    /// Makes all keys optional.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Returns the text that applies: the own one before the inherited one.
    pub fn chosen(&self) -> Option<&'a Node> {
        self.own.or(self.inherited)
    }

    /// Returns the name of the setting.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the scope of a key.
    fn child(&self, key: &str) -> Self {
        let pick = |node: Option<&'a Node>| match (node, self.short) {
            (Some(node), _) if node.table().is_some() => node.get(key),
            (Some(node), Some(short)) if short == key => Some(node),
            _ => None,
        };
        let own = pick(self.own);
        Self {
            own,
            inherited: pick(self.inherited),
            path: joined(&self.path, key),
            at: self.own.map_or(self.at, |node| node.at),
            partial: self.partial,
            short: None,
            optional: false,
        }
    }

    /// Returns the scope of an element of a list.
    fn element(&self, index: usize, node: &'a Node) -> Self {
        let mut scope = Self::new(format!("{}[{index}]", self.path), Some(node), node.at);
        scope.partial = self.partial;
        scope
    }

    fn source(&self, node: &Node) -> Source {
        match self.own {
            Some(_) => Source::Own(node.at),
            None => Source::Inherited(node.at),
        }
    }
}

/// What reading a configuration collects.
#[derive(Debug, Default)]
pub struct Reading {
    /// The mistakes so far.
    pub mistakes: Mistakes,
    /// The values so far.
    pub origins: Vec<Origin>,
    /// The places of secrets, which no message may show.
    pub secrets: Vec<Span>,
    /// The settings that are there and wrong: what depends on them is not known.
    pub(super) wrong: Vec<String>,
}

impl Reading {
    /// Enters a section: checks that it is a table with known keys, and applies the exceptions of
    /// inheritance. Returns `None` if it is not a table.
    pub fn enter<'a>(
        &mut self,
        scope: &Scope<'a>,
        shape: Shape,
        known: &[&'static str],
    ) -> Option<Scope<'a>> {
        let mut scope = scope.clone();
        scope.short = shape.short;
        // `true` and `false` have no keys to inherit.
        let is_flag = |node: &&Node| matches!(node.value, Value::Bool(_));
        scope.inherited = scope.inherited.filter(|node| !is_flag(node));
        match scope.own.map(|node| (node, &node.value)) {
            Some((node, Value::Table(entries))) => {
                for entry in entries.iter().filter(|e| !known.contains(&e.key.as_str())) {
                    let path = joined(&scope.path, &entry.key);
                    let mistake = Mistake::new(entry.key_at, path, "the key is unknown");
                    let mistake = mistake.nearest(&entry.key, known.iter().copied());
                    let keys = format!("one of {}", known.join(", "));
                    self.mistakes.add(match mistake.nearest {
                        Some(_) => mistake,
                        None => mistake.expected(keys),
                    });
                }
                let kind = |node: Option<&Node>| node.and_then(|n| n.get("kind")).map(Node::shown);
                let other = kind(Some(node)).is_some_and(|own| kind(scope.inherited) != Some(own));
                if shape.whole || other {
                    scope.inherited = None;
                }
            }
            // `breaker = true` is a breaker with the inherited settings.
            Some((node, Value::Bool(true))) if scope.optional => {
                scope.at = node.at;
                scope.own = None;
            }
            Some((node, _)) if shape.short.is_none() => {
                let what = format!("{} is not a table", node.shown());
                let keys = format!("a table with keys of {}", known.join(", "));
                self.mistakes
                    .add(Mistake::new(node.at, &scope.path, what).expected(keys));
                return None;
            }
            Some(_) => scope.inherited = scope.inherited.filter(|_| !shape.whole),
            None => {}
        }
        Some(scope)
    }

    /// Reads a key of a section. Returns the default if the key is missing or wrong.
    pub fn field<T: Setting>(
        &mut self,
        section: &Scope<'_>,
        key: &'static str,
        default: Option<T>,
    ) -> Option<T> {
        let scope = section.child(key);
        let is_section = T::section().is_some();
        let Some(node) = scope.chosen() else {
            if let Some(default) = default {
                self.note(&scope, default.shown(), Source::Default);
                return Some(default);
            }
            if is_section {
                return T::read(&scope, self);
            }
            if !scope.partial {
                let what = format!("the key `{key}` is missing");
                self.mistakes
                    .add(Mistake::new(scope.at, &scope.path, what).expected(T::expected()));
            }
            return None;
        };
        let Some(value) = T::read(&scope, self) else {
            self.wrong.push(scope.path);
            return default;
        };
        // Nothing below them has a place.
        let is_off = node.value == Value::Bool(false);
        let is_empty = matches!(&node.value, Value::List(nodes) if nodes.is_empty());
        if !is_section || is_off || is_empty {
            let shown = match node.has_variables() && !T::IS_PLAIN {
                true => node.notation(),
                false => value.shown(),
            };
            self.note(&scope, shown, scope.source(node));
        }
        Some(value)
    }

    /// Reads a single value.
    pub(super) fn leaf<T: Leaf>(&mut self, scope: &Scope<'_>) -> Option<T> {
        let node = scope.chosen()?;
        let is_secret = T::SECRET || node.is_secret;
        if is_secret {
            self.secrets.push(node.at);
        }
        let why = match T::parse(node) {
            Ok(value) => return Some(value),
            Err(why) => why,
        };
        let noun = T::EXPECTED.split(',').next().unwrap_or(T::EXPECTED);
        let subject = match is_secret {
            true => "the value".to_owned(),
            false => node.shown(),
        };
        // The reason may quote the value, which a message must not show.
        let why = match why.is_empty() || node.written.is_some() || is_secret {
            true => String::new(),
            false => format!(": {why}"),
        };
        let what = format!("{subject} is not {noun}{why}");
        let mut mistake = Mistake::new(node.at, &scope.path, what).expected(T::EXPECTED);
        if let (Value::Text(word), None) = (&node.value, &node.written) {
            mistake = mistake.nearest(word, T::words().iter().copied());
        }
        self.mistakes.add(mistake);
        None
    }

    fn note(&mut self, scope: &Scope<'_>, shown: String, source: Source) {
        if !scope.partial {
            self.origins.push(Origin {
                path: scope.path.clone(),
                shown,
                source,
            });
        }
    }
}

/// How a section may be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// The key that a value in place of the table stands for.
    pub short: Option<&'static str>,
    /// `true` if the section is inherited as a whole or not at all.
    pub whole: bool,
}

impl<T: Leaf> Setting for T {
    const IS_PLAIN: bool = <T as Leaf>::IS_PLAIN;

    fn expected() -> String {
        T::EXPECTED.to_owned()
    }

    fn read(scope: &Scope<'_>, reading: &mut Reading) -> Option<Self> {
        reading.leaf(scope)
    }

    fn shown(&self) -> String {
        self.show()
    }
}

/// A setting that can be off. `false` switches off what is inherited.
impl<T: Setting> Setting for Option<T> {
    const IS_PLAIN: bool = T::IS_PLAIN;

    fn expected() -> String {
        T::expected()
    }

    fn read(scope: &Scope<'_>, reading: &mut Reading) -> Option<Self> {
        match scope.chosen().map(|node| &node.value) {
            None | Some(Value::Bool(false)) => Some(None),
            Some(_) => {
                let mut scope = scope.clone();
                scope.optional = true;
                T::read(&scope, reading).map(Some)
            }
        }
    }

    fn shown(&self) -> String {
        self.as_ref().map_or("off".to_owned(), T::shown)
    }

    fn section() -> Option<Section> {
        T::section()
    }
}

/// A list. A single value is a list of one.
impl<T: Setting> Setting for Vec<T> {
    const IS_PLAIN: bool = T::IS_PLAIN;

    fn expected() -> String {
        format!("{}; or a list of them", T::expected())
    }

    fn read(scope: &Scope<'_>, reading: &mut Reading) -> Option<Self> {
        let nodes = match scope.chosen() {
            None => return Some(Self::new()),
            Some(node) => match &node.value {
                Value::List(nodes) => nodes.as_slice(),
                _ => std::slice::from_ref(node),
            },
        };
        let elements = nodes.iter().enumerate();
        let read: Vec<Option<T>> = elements
            .map(|(index, node)| T::read(&scope.element(index, node), reading))
            .collect();
        read.into_iter().collect()
    }

    fn shown(&self) -> String {
        match self.as_slice() {
            [one] => one.shown(),
            all => format!(
                "[{}]",
                all.iter().map(T::shown).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn section() -> Option<Section> {
        T::section()
    }
}

/// Returns the name of a key in a section.
pub(super) fn joined(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// Defines a section: a struct whose fields are the keys.
///
/// `= value` after a field is its default. A field without a default is required, unless it is a
/// section itself. `short "key"` accepts a value in place of the table. `whole` turns inheritance
/// key by key off.
macro_rules! settings {
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@shown) => { None };
    (@shown $type:ty, $default:expr) => {{
        let default: $type = $default;
        Some($crate::config::setting::Setting::shown(&default))
    }};
    (@short) => { None };
    (@short $short:literal) => { Some($short) };
    (@whole) => { false };
    (@whole $whole:ident) => { true };
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident $(short $short:literal)? $(, $whole:ident)? {
            $(
                $(#[doc = $field_about:literal])+
                $field:ident: $type:ty $(= $default:expr)?,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, PartialEq)]
        pub struct $name {
            $(
                $(#[doc = $field_about])+
                pub $field: $type,
            )+
        }

        /// Prints no values: they may be those of variables. [`Config::origins`] can be printed.
        ///
        /// [`Config::origins`]: crate::config::Config::origins
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl $crate::config::setting::Setting for $name {
            fn expected() -> String {
                const KEYS: &[&str] = &[$(stringify!($field)),+];
                format!("a table with keys of {}", KEYS.join(", "))
            }

            fn read(
                scope: &$crate::config::setting::Scope<'_>,
                reading: &mut $crate::config::setting::Reading,
            ) -> Option<Self> {
                let shape = $crate::config::setting::Shape {
                    short: settings!(@short $($short)?),
                    whole: settings!(@whole $($whole)?),
                };
                let scope = reading.enter(scope, shape, &[$(stringify!($field)),+])?;
                $(
                    let $field: Option<$type> = reading.field(
                        &scope,
                        stringify!($field),
                        settings!(@default $($default)?),
                    );
                )+
                Some(Self { $($field: $field?),+ })
            }

            fn shown(&self) -> String {
                let pairs = [$(
                    format!(
                        "{} = {}",
                        stringify!($field),
                        $crate::config::setting::Setting::shown(&self.$field)
                    )
                ),+];
                format!("{{ {} }}", pairs.join(", "))
            }

            fn section() -> Option<$crate::config::setting::Section> {
                Some($crate::config::setting::Section {
                    about: concat!($($about, "\n"),+).trim().to_owned(),
                    fields: vec![$(
                        $crate::config::setting::Field {
                            name: stringify!($field),
                            about: concat!($($field_about, "\n"),+).trim().to_owned(),
                            expected: <$type as $crate::config::setting::Setting>::expected(),
                            default: settings!(@shown $($type, $default)?),
                            section: <$type as $crate::config::setting::Setting>::section(),
                        }
                    ),+],
                })
            }
        }
    };
}

/// Defines a value that is one of several words.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident: $expected:literal {
            $( $(#[doc = $word_about:literal])+ $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[doc = $word_about])+ $variant, )+
        }

        impl $crate::config::setting::Leaf for $name {
            const EXPECTED: &'static str = $expected;
            const IS_PLAIN: bool = true;

            fn parse(node: &$crate::config::tree::Node) -> Result<Self, String> {
                match &node.value {
                    $( $crate::config::tree::Value::Text(word) if word == $word => {
                        Ok(Self::$variant)
                    } )+
                    _ => Err(String::new()),
                }
            }

            fn show(&self) -> String {
                let word = match self { $( Self::$variant => $word, )+ };
                format!("\"{word}\"")
            }

            fn words() -> &'static [&'static str] {
                &[$($word),+]
            }
        }
    };
}

pub(crate) use {settings, words};
