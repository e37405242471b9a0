//! Rewrites the tokens of an `async fn`: the keyword `async` goes, and `block_on` runs the body.

use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

/// What becomes of the result of `block_on`. Its error cannot be returned: the function has a
/// return type of its own.
const ARMS: &str = r#"
    ::core::result::Result::Ok(output) => output,
    ::core::result::Result::Err(why) => ::core::panic!("an `async fn` did not run: {}", why),
"#;

/// An error of the user's code, and where it is.
pub(crate) struct Fault {
    text: String,
    at: Span,
}

impl Fault {
    pub(crate) fn new(text: impl Into<String>, at: Span) -> Self {
        let text = text.into();
        Self { text, at }
    }

    /// Returns an invocation of `compile_error!` at the place of the fault.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let text = TokenTree::from(Literal::string(&self.text));
        let mut error = code("::core::compile_error!");
        error.extend([group(Delimiter::Brace, text.into())]);
        let spanned = error.into_iter().map(|mut token| {
            token.set_span(self.at);
            token
        });
        spanned.collect()
    }
}

/// Expands `#[tidegate::main]`.
pub(crate) fn main(options: TokenStream, item: TokenStream) -> Result<TokenStream, Fault> {
    let function = AsyncFn::parse("main", options, item)?;
    if function.name.to_string() != "main" {
        let text = "`#[tidegate::main]` is for the function `main`; call `tidegate::block_on` in \
                    other functions";
        return Err(Fault::new(text, function.name.span()));
    }
    Ok(function.blocking(TokenStream::new()))
}

/// Expands `#[tidegate::test]`.
pub(crate) fn test(options: TokenStream, item: TokenStream) -> Result<TokenStream, Fault> {
    let function = AsyncFn::parse("test", options, item)?;
    Ok(function.blocking(code("#[::core::prelude::v1::test]")))
}

/// The tokens of an `async fn` without arguments.
struct AsyncFn {
    /// What stands before `fn`, without `async`: attributes, and the visibility.
    before: Vec<TokenTree>,
    name: Ident,
    /// What stands between the name and the body: the arguments, and the return type.
    signature: Vec<TokenTree>,
    body: Group,
}

impl AsyncFn {
    /// Splits the tokens of `item`. `attribute` is the name of the attribute, for the errors.
    fn parse(attribute: &str, options: TokenStream, item: TokenStream) -> Result<Self, Fault> {
        if let Some(option) = options.into_iter().next() {
            let text = format!("`#[tidegate::{attribute}]` has no options; remove them");
            return Err(Fault::new(text, option.span()));
        }
        let wanted = format!("`#[tidegate::{attribute}]` needs an `async fn` with a body");
        let mut tokens: Vec<TokenTree> = item.into_iter().collect();
        let body = match tokens.pop() {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
            Some(other) => return Err(Fault::new(wanted, other.span())),
            None => return Err(Fault::new(wanted, Span::call_site())),
        };
        let Some(keyword) = tokens.iter().position(|token| is_word(token, "fn")) else {
            let at = tokens.first().map_or_else(Span::call_site, TokenTree::span);
            return Err(Fault::new(wanted, at));
        };
        let mut signature = tokens.split_off(keyword);
        let function = signature.remove(0);
        let before = without_async(tokens)
            .ok_or_else(|| Fault::new(format!("{wanted}: add `async`"), function.span()))?;
        let name = match (!signature.is_empty()).then(|| signature.remove(0)) {
            Some(TokenTree::Ident(name)) => name,
            _ => return Err(Fault::new(wanted, function.span())),
        };
        check_signature(attribute, &name, &signature)?;
        Ok(Self {
            before,
            name,
            signature,
            body,
        })
    }

    /// Returns the function that blocks on the body, with `attributes` before it.
    fn blocking(self, attributes: TokenStream) -> TokenStream {
        let future = match return_type(&self.signature) {
            Some(returned) => typed_future(returned, self.body),
            None => untyped_future(self.body),
        };
        let mut body = code("match ::tidegate::block_on");
        body.extend([
            group(Delimiter::Parenthesis, future),
            group(Delimiter::Brace, code(ARMS)),
        ]);
        let mut function = attributes;
        function.extend(self.before);
        function.extend(code("fn"));
        function.extend([TokenTree::from(self.name)]);
        function.extend(self.signature);
        function.extend([group(Delimiter::Brace, body)]);
        function
    }
}

/// Returns `async move { … }`.
fn untyped_future(body: Group) -> TokenStream {
    let mut future = code("async move");
    future.extend([TokenTree::from(body)]);
    future
}

/// Returns `{ async fn tidegate_body() -> R { … } tidegate_body() }` for the return type `R`. An
/// `async` block has no place for a return type, without which `?` and `Ok(())` do not compile.
fn typed_future(returned: &[TokenTree], body: Group) -> TokenStream {
    let mut block = code("async fn tidegate_body() ->");
    block.extend(returned.iter().cloned());
    block.extend([TokenTree::from(body)]);
    block.extend(code("tidegate_body()"));
    group(Delimiter::Brace, block).into()
}

/// Returns `tokens` without the word `async`, or `None` if it is not among them.
fn without_async(mut tokens: Vec<TokenTree>) -> Option<Vec<TokenTree>> {
    let at = tokens.iter().position(|token| is_word(token, "async"))?;
    tokens.remove(at);
    Some(tokens)
}

/// Checks that the function has neither type parameters nor arguments.
fn check_signature(attribute: &str, name: &Ident, signature: &[TokenTree]) -> Result<(), Fault> {
    match signature.first() {
        Some(TokenTree::Group(arguments)) if arguments.delimiter() == Delimiter::Parenthesis => {
            if arguments.stream().is_empty() {
                return Ok(());
            }
            let text = format!(
                "a function with `#[tidegate::{attribute}]` takes no arguments; remove them"
            );
            Err(Fault::new(text, arguments.span()))
        }
        _ => {
            let text = format!(
                "a function with `#[tidegate::{attribute}]` has no type parameters; remove them"
            );
            Err(Fault::new(text, name.span()))
        }
    }
}

/// Returns the tokens behind the arrow, if there is one behind the arguments.
fn return_type(signature: &[TokenTree]) -> Option<&[TokenTree]> {
    match signature {
        [
            _,
            TokenTree::Punct(dash),
            TokenTree::Punct(tip),
            returned @ ..,
        ] if dash.as_char() == '-' && tip.as_char() == '>' => Some(returned),
        _ => None,
    }
}

pub(crate) fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn group(delimiter: Delimiter, inside: TokenStream) -> TokenTree {
    Group::new(delimiter, inside).into()
}

/// Returns the tokens of `text`, which is code of this file.
fn code(text: &str) -> TokenStream {
    text.parse().expect("the code in this file has tokens")
}
