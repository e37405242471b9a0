//! Rewrites the tokens of an `async fn`: the keyword `async` goes, and the body becomes a future
//! that `block_on` runs.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// An error of the user's code, and where it is.
pub(crate) struct Fault {
    text: String,
    at: Span,
}

impl Fault {
    fn new(text: impl Into<String>, at: Span) -> Self {
        let text = text.into();
        Self { text, at }
    }

    /// Returns an invocation of `compile_error!` at the place of the fault.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let at = self.at;
        let mut text = Literal::string(&self.text);
        text.set_span(at);
        let arguments: TokenStream = TokenTree::from(text).into();
        let mut arguments = Group::new(Delimiter::Brace, arguments);
        arguments.set_span(at);
        let mut tokens = path(&["core", "compile_error"], at);
        tokens.extend([punct('!', at), arguments.into()]);
        tokens.into_iter().collect()
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
    Ok(function.blocking(Vec::new()))
}

/// Expands `#[tidegate::test]`.
pub(crate) fn test(options: TokenStream, item: TokenStream) -> Result<TokenStream, Fault> {
    let function = AsyncFn::parse("test", options, item)?;
    let at = Span::call_site();
    let attribute: TokenStream = path(&["core", "prelude", "v1", "test"], at)
        .into_iter()
        .collect();
    let attribute = Group::new(Delimiter::Bracket, attribute);
    Ok(function.blocking(vec![punct('#', at), attribute.into()]))
}

/// The tokens of an `async fn` without arguments.
struct AsyncFn {
    /// What stands before `fn`, without `async`: attributes, and the visibility.
    before: Vec<TokenTree>,
    name: Ident,
    /// What stands between the name and the body: the arguments, the return type, a `where`.
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

    /// Returns the function that blocks on the body, with `attributes` in front.
    fn blocking(self, attributes: Vec<TokenTree>) -> TokenStream {
        let at = Span::call_site();
        let returned = return_type(&self.signature);
        let mut future = vec![word("async", at), word("move", at)];
        future.push(self.body.clone().into());
        let future = match returned {
            // Tells the compiler the type of the body, so that `?` and `Ok(())` work in it.
            Some(returned) => typed(future, returned, &self.body),
            None => future,
        };
        let argument = Group::new(Delimiter::Parenthesis, future.into_iter().collect());
        let mut call = path(&["tidegate", "block_on"], at);
        call.extend([argument.into(), punct('.', at), word("expect", at)]);
        let text = Literal::string("a thread that drives no event loop can run a future");
        let text: TokenStream = TokenTree::from(text).into();
        call.push(Group::new(Delimiter::Parenthesis, text).into());
        let mut body = Group::new(Delimiter::Brace, call.into_iter().collect());
        body.set_span(self.body.span());
        let mut tokens = attributes;
        tokens.extend(self.before);
        tokens.extend([word("fn", at), self.name.into()]);
        tokens.extend(self.signature);
        tokens.push(body.into());
        tokens.into_iter().collect()
    }
}

/// Returns `{ async fn body() -> R { … } body() }` for a body with the return type `R`.
fn typed(future: Vec<TokenTree>, returned: &[TokenTree], body: &Group) -> Vec<TokenTree> {
    drop(future);
    let at = Span::call_site();
    let name = Ident::new("tidegate_body", Span::mixed_site());
    let none = || TokenTree::from(Group::new(Delimiter::Parenthesis, TokenStream::new()));
    let mut block = vec![
        word("async", at),
        word("fn", at),
        name.clone().into(),
        none(),
    ];
    block.extend([joint('-', at), punct('>', at)]);
    block.extend(returned.iter().cloned());
    block.extend([body.clone().into(), name.into(), none()]);
    let block: TokenStream = block.into_iter().collect();
    vec![Group::new(Delimiter::Brace, block).into()]
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
            let text = format!("a function with `#[tidegate::{attribute}]` takes no arguments");
            Err(Fault::new(text, arguments.span()))
        }
        _ => {
            let text = format!("a function with `#[tidegate::{attribute}]` has no type parameters");
            Err(Fault::new(text, name.span()))
        }
    }
}

/// Returns the tokens of the return type, without the arrow.
fn return_type(signature: &[TokenTree]) -> Option<&[TokenTree]> {
    // The arguments, `-`, `>`, and the type.
    signature.get(3..).filter(|returned| !returned.is_empty())
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn word(text: &str, at: Span) -> TokenTree {
    Ident::new(text, at).into()
}

fn punct(mark: char, at: Span) -> TokenTree {
    spaced(mark, Spacing::Alone, at)
}

/// Returns a mark that forms one operator with the mark behind it.
fn joint(mark: char, at: Span) -> TokenTree {
    spaced(mark, Spacing::Joint, at)
}

fn spaced(mark: char, spacing: Spacing, at: Span) -> TokenTree {
    let mut mark = Punct::new(mark, spacing);
    mark.set_span(at);
    mark.into()
}

/// Returns the tokens of the absolute path `::a::b`.
fn path(names: &[&str], at: Span) -> Vec<TokenTree> {
    let parts = names
        .iter()
        .flat_map(|name| [joint(':', at), punct(':', at), word(name, at)]);
    parts.collect()
}
