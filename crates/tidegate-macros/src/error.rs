//! Derives `Display` and `Error` from the sentence at each variant of an error type.

use std::iter::Peekable;

use proc_macro::token_stream::IntoIter;
use proc_macro::{Delimiter, Group, Span, TokenStream, TokenTree};

use crate::expand::{Fault, is_word};

type Tokens = Peekable<IntoIter>;

/// A variant of an enum, or a struct.
struct Variant {
    /// What matches it, with a name for each of its fields: those of a tuple are `_0`, `_1` and so
    /// on.
    pattern: String,
    /// The expression that writes its sentence to `__f`.
    show: String,
    /// The expression that is its source.
    source: String,
}

/// The fields of a variant.
#[derive(Default)]
struct Fields {
    pattern: String,
    /// The name of the field with `#[source]`.
    source: Option<String>,
    /// `true` if the type of that field is an `Option`.
    is_optional: bool,
}

/// Expands `#[derive(Error)]`.
pub(crate) fn derive(item: TokenStream) -> Result<TokenStream, Fault> {
    let wanted = "`Error` is derived for a struct or an enum without type parameters";
    let refused = |at: Span| Fault::new(wanted, at);
    let mut tokens = item.into_iter().peekable();
    let attributes = attributes(&mut tokens);
    skip_visibility(&mut tokens);
    let (Some(kind), Some(name)) = (tokens.next(), tokens.next()) else {
        return Err(refused(Span::call_site()));
    };
    let variants = match tokens.next() {
        Some(TokenTree::Group(body)) if is_word(&kind, "enum") => variants(&body)?,
        Some(TokenTree::Group(body)) if is_word(&kind, "struct") => {
            vec![variant("Self", &attributes, Some(&body), name.span())?]
        }
        Some(TokenTree::Punct(end)) if end.as_char() == ';' => {
            vec![variant("Self", &attributes, None, name.span())?]
        }
        _ => return Err(refused(name.span())),
    };
    let code = implementations(&name.to_string(), &variants);
    code.parse::<TokenStream>()
        .map_err(|_| refused(name.span()))
}

/// Returns the code of the two implementations.
fn implementations(name: &str, variants: &[Variant]) -> String {
    let arm = |pattern: &str, expression: &str| format!("{pattern} => {expression},\n");
    let shown: String = variants
        .iter()
        .map(|one| arm(&one.pattern, &one.show))
        .collect();
    let sources: String = variants
        .iter()
        .map(|one| arm(&one.pattern, &one.source))
        .collect();
    let unused = r#"#[allow(unused_variables, reason = "a sentence need not name every field")]"#;
    format!(
        "#[automatically_derived]
        impl ::core::fmt::Display for {name} {{
            {unused}
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{
                match self {{ {shown} }}
            }}
        }}
        #[automatically_derived]
        impl ::core::error::Error for {name} {{
            {unused}
            fn source(&self) -> ::core::option::Option<&(dyn ::core::error::Error + 'static)> {{
                match self {{ {sources} }}
            }}
        }}"
    )
}

/// Splits the body of an enum.
fn variants(body: &Group) -> Result<Vec<Variant>, Fault> {
    let mut tokens = body.stream().into_iter().peekable();
    let mut all = Vec::new();
    while tokens.peek().is_some() {
        let attributes = attributes(&mut tokens);
        let Some(name) = tokens.next() else { break };
        let fields = match tokens.next_if(|token| matches!(token, TokenTree::Group(_))) {
            Some(TokenTree::Group(fields)) => Some(fields),
            _ => None,
        };
        let _ = tokens.next_if(|token| is_punct(token, ','));
        let path = format!("Self::{name}");
        all.push(variant(&path, &attributes, fields.as_ref(), name.span())?);
    }
    Ok(all)
}

/// Returns the variant with this path. `at` is where an error is reported.
fn variant(
    path: &str,
    attributes: &[TokenStream],
    body: Option<&Group>,
    at: Span,
) -> Result<Variant, Fault> {
    let fields = body.map(fields).unwrap_or_default();
    let pattern = format!("{path} {}", fields.pattern);
    let sentence = sentence(attributes)
        .ok_or_else(|| Fault::new("add `#[error(\"…\")]` with the sentence of this error", at))?;
    if sentence == "transparent" {
        return Ok(Variant {
            pattern,
            show: "::core::fmt::Display::fmt(_0, __f)".to_string(),
            source: "::core::error::Error::source(_0)".to_string(),
        });
    }
    // Fields of a tuple are named, because an argument that a text does not use is refused.
    let sentence = sentence.replace("{0", "{_0").replace("{1", "{_1");
    let source = match fields.source {
        None => "::core::option::Option::None".to_string(),
        Some(name) if fields.is_optional => {
            format!("{name}.as_ref().map(|why| why as &(dyn ::core::error::Error + 'static))")
        }
        Some(name) => format!("::core::option::Option::Some({name})"),
    };
    Ok(Variant {
        pattern,
        show: format!("::core::write!(__f, {sentence})"),
        source,
    })
}

/// Returns what is in the parentheses of `#[error(…)]`.
fn sentence(attributes: &[TokenStream]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let mut tokens = attribute.clone().into_iter();
        let word = tokens.next().filter(|word| is_word(word, "error"));
        match (word, tokens.next()) {
            (Some(_), Some(TokenTree::Group(inside))) => Some(inside.stream().to_string()),
            _ => None,
        }
    })
}

/// Splits the fields of a variant, in braces or in parentheses.
fn fields(body: &Group) -> Fields {
    let has_names = body.delimiter() == Delimiter::Brace;
    let mut tokens = body.stream().into_iter().peekable();
    let mut fields = Fields::default();
    let mut names = Vec::new();
    while tokens.peek().is_some() {
        let attributes = attributes(&mut tokens);
        skip_visibility(&mut tokens);
        let mut name = format!("_{}", names.len());
        if has_names {
            name = tokens.next().map_or(name, |name| name.to_string());
            let _ = tokens.next_if(|token| is_punct(token, ':'));
        }
        if attributes.iter().any(|one| one.to_string() == "source") {
            fields.source = Some(name.clone());
            fields.is_optional = tokens.peek().is_some_and(|token| is_word(token, "Option"));
        }
        skip_type(&mut tokens);
        names.push(name);
    }
    let names = names.join(", ");
    fields.pattern = match has_names {
        true => format!("{{ {names} }}"),
        false => format!("({names})"),
    };
    fields
}

/// Takes the attributes that come next, without their brackets.
fn attributes(tokens: &mut Tokens) -> Vec<TokenStream> {
    let mut all = Vec::new();
    while tokens.next_if(|token| is_punct(token, '#')).is_some() {
        if let Some(TokenTree::Group(attribute)) = tokens.next() {
            all.push(attribute.stream());
        }
    }
    all
}

/// Skips `pub`, and the parentheses behind it.
fn skip_visibility(tokens: &mut Tokens) {
    if tokens.next_if(|token| is_word(token, "pub")).is_some() {
        let _ = tokens.next_if(|token| matches!(token, TokenTree::Group(_)));
    }
}

/// Skips a type, and the comma behind it.
fn skip_type(tokens: &mut Tokens) {
    let mut depth = 0;
    for token in tokens.by_ref() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '<' => depth += 1,
            TokenTree::Punct(sign) if sign.as_char() == '>' => depth -= 1,
            TokenTree::Punct(sign) if sign.as_char() == ',' && depth == 0 => return,
            _ => {}
        }
    }
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}
