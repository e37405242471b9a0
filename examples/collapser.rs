//! Many small requests become one call.

use std::collections::HashMap;

use tidegate::isolate::{Collapser, CollapserConfig, Command, Event, Isolation, RequestContext};

fn main() -> tidegate::Result<()> {
    let isolation = Isolation::builder().build()?;
    let command: Command<HashMap<u32, String>, std::fmt::Error> =
        Command::builder("names").group("users").build(&isolation)?;
    let config = CollapserConfig {
        max_batch: 4,
        ..CollapserConfig::default()
    };
    let names = Collapser::new(&command, config, |ids: &[u32], _cancel| {
        println!("one call for {ids:?}");
        Ok(ids.iter().map(|id| (*id, format!("user {id}"))).collect())
    })?;

    let request = RequestContext::new();
    let entered = request.enter();
    let answers: Vec<_> = [3, 1, 3, 2, 7, 8].map(|id| names.submit(id)).into();
    for answer in answers {
        println!("{}", answer.wait()?);
    }
    drop(entered);
    request.end();
    let totals = command.snapshot().totals;
    println!(
        "{} requests, {} calls",
        totals[Event::Collapsed],
        totals[Event::Success]
    );
    Ok(())
}
