//! A bulkhead grows and shrinks while it works, by code and by a property.

use tidegate::isolate::{Command, Isolation, PoolConfig, Properties};

fn main() -> tidegate::Result<()> {
    let properties = Properties::new();
    let isolation = Isolation::builder()
        .properties(properties.clone())
        .build()?;
    let prices: Command<u32, std::io::Error> = Command::builder("prices")
        .group("catalog")
        .threads(PoolConfig {
            core: 2,
            queue: 10,
            ..PoolConfig::default()
        })
        .build(&isolation)?;
    let show = |what: &str| {
        let pool = &isolation.pool_snapshots()[0];
        println!(
            "{what}: {} to {} threads, {} may wait",
            pool.core,
            pool.max,
            pool.config.effective_queue()
        );
    };
    show("built");
    assert_eq!(prices.run(|_| Ok(1))?, 1);
    prices.configure(|c| (c.pool.core, c.pool.max) = (4, Some(16)))?;
    show("grown by code");
    properties.set("hystrix.threadpool.prices.coreSize", "8")?;
    show("grown by a property");
    properties.set("hystrix.threadpool.prices.queueSizeRejectionThreshold", "3")?;
    show("a lower live bound");
    let refused = properties.set("hystrix.threadpool.prices.coreSize", "-1");
    println!(
        "refused: {}",
        refused.expect_err("no pool has fewer threads than none")
    );
    properties.remove("hystrix.threadpool.prices.coreSize")?;
    show("the property removed");
    assert_eq!(prices.run(|_| Ok(2))?, 2);
    println!("{}", prices.snapshot());
    Ok(())
}
