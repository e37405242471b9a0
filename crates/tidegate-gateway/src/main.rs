//! The `tidegate` binary: a guided tour of the existing features, until the gateway exists.
//!
//! Each part runs real code and prints its result. A part that fails ends the tour with an error.
#![forbid(unsafe_code)]

mod table;
mod tour;

fn main() -> tidegate::Result<()> {
    println!("Tidegate: a runtime for services that must not fall over.\n");
    let mut table = table::Table::new(["part", "action", "result"]);
    for (name, part) in tour::PARTS {
        eprint!("\r{name:<24}");
        for (done, came) in part()? {
            table.row([name.to_string(), done, came]);
        }
    }
    eprint!("\r{:24}\r", "");
    print!("{table}");
    println!("\nEach line is a real run. The programs behind them are in `examples/`.");
    Ok(())
}
