//! A job by cron on every replica, of which one runs it.
//!
//! ```sh
//! cargo run -p lockyard-jobs --example cluster_cron -- redis://127.0.0.1/   # as often as you like, on as many hosts
//! lockyard job list -b redis://127.0.0.1/
//! ```

use std::time::Duration;

use lockyard_jobs::{Job, JobEvent, JobObserver, OnConflict, Schedule, Scheduler};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://cluster-cron".to_owned());
    let (locks, register) = (lockyard::connect(&url).await?, lockyard::connect_register(&url).await?);
    let job = Job::builder("demo:tick", locks.clone(), register)
        .schedule(Schedule::cron("* * * * * *").tz("Europe/Berlin")) // six fields: every second
        .ttl(locks.capabilities().ttl.min.max(Duration::from_secs(5)))
        .at_most_for(Duration::from_secs(10))
        .on_conflict(OnConflict::Skip)
        .observer(Printer)
        .build()?;
    let scheduler = Scheduler::new().add(job, |run| async move {
        // Idempotent: what is written is named by the slot and guarded by the token.
        println!("ran {} under token {}", run.scheduled_at(), run.fencing_token());
        Ok::<_, std::io::Error>(())
    })?;
    scheduler.run_until(async { drop(tokio::signal::ctrl_c().await) }).await;
    locks.shutdown().await?;
    Ok(())
}

#[derive(Debug)]
struct Printer;

impl JobObserver for Printer {
    fn on_event(&self, job: &str, event: &JobEvent) {
        match event {
            JobEvent::Skipped { slot, reason } => println!("skipped {slot}: {reason}"),
            JobEvent::Missed { first, count } => println!("{job}: {count} slots from {first} on were run by nobody"),
            _ => {}
        }
    }
}
