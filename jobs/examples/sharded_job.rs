//! Partitions that are spread over the replicas that live: start it several times, and end some.
//!
//! ```sh
//! cargo run -p lockyard-jobs --example sharded_job -- redis://127.0.0.1/
//! ```

use std::time::Duration;

use lockyard_jobs::Shards;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://sharded-job".to_owned());
    let (locks, register) = (lockyard::connect(&url).await?, lockyard::connect_register(&url).await?);
    let ttl = locks.capabilities().ttl.min.max(Duration::from_secs(3));
    let shards = Shards::new("demo:partitions", 12, ttl, locks.clone(), register)?;
    let member = tokio::spawn({
        let shards = shards.clone();
        async move { shards.run_until(async { drop(tokio::signal::ctrl_c().await) }).await }
    });
    while !member.is_finished() {
        let owned: Vec<u32> = shards.items().iter().map(lockyard_jobs::Item::index).collect();
        println!("owned {owned:?}");
        // An `Item` that is kept is in use, and is not given to a member that joins.
        for item in shards.items().into_iter().filter(lockyard_jobs::Item::is_held) {
            let _token = item.fencing_token(); // goes to what the work writes to
        }
        let _ = tokio::time::timeout(ttl, shards.changed()).await;
    }
    member.await?;
    locks.shutdown().await?;
    Ok(())
}
