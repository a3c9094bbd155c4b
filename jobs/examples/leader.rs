//! One leader among the replicas; another takes over when it ends or dies.
//!
//! ```sh
//! cargo run -p lockyard-jobs --example leader -- redis://127.0.0.1/
//! ```

use std::time::Duration;

#[tokio::main]
async fn main() -> lockyard::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://leader".to_owned());
    let locks = lockyard::connect(&url).await?;
    let ttl = locks.capabilities().ttl.min.max(Duration::from_secs(5));
    let mut end = std::pin::pin!(async { drop(tokio::signal::ctrl_c().await) });
    loop {
        println!("waiting");
        let guard = tokio::select! {
            biased;
            () = &mut end => break,
            guard = locks.lock("demo:leader").ttl(ttl).label("leader example").acquire() => guard?,
        };
        println!("leading under token {:?}", guard.fencing_token());
        // What a leader does ends with its lock: `run` drops it then.
        let lead = guard.run(std::future::pending::<()>());
        tokio::select! {
            biased;
            () = &mut end => {
                guard.release().await?;
                break;
            }
            lost = lead => println!("no leader any more: {lost:?}"),
        }
    }
    locks.shutdown().await
}
