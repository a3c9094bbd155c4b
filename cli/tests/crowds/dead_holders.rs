//! B55: holders that die at any moment of a second.

use std::sync::Arc;
use std::time::Duration;

use lockyard::{Clock, Locker};
use lockyard_conformance::history::{Event, What};
use lockyard_testbed::Mode;
use lockyard_testbed::timing::scaled;
use tokio::task::JoinSet;

use crate::puppet::{Do, now};
use crate::stage::{Site, Stage};

const TTL: Duration = Duration::from_secs(2);
/// Beyond the granted lease the next one waits so long at most.
const LATEST: Duration = Duration::from_secs(3);
/// Holders side by side.
const AT_A_TIME: u32 = 10;

/// How a holder dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gone {
    /// Its process is killed.
    Killed,
    /// Nothing passes between it and the server any more.
    CutOff,
}

/// When another got the name, in nanoseconds.
struct Followed {
    after_death: u64,
    /// After the end of the lease as it was last renewed.
    after_lease: u64,
}

/// So many holders, each on a name of its own.
pub(crate) async fn run(site: Site, gone: Gone, runs: u32) {
    let Some(stage) = Stage::of(site, TTL).await else { return };
    let (next, stage) = (Arc::new(stage.locks().await), Arc::new(stage));
    let granted = {
        let guard = next.acquire("how long").await.expect("it is free");
        guard.ttl().expect("every backend here has leases")
    };
    let mut followed = Vec::new();
    for first in (1..=runs).step_by(AT_A_TIME as usize) {
        let mut holders = JoinSet::new();
        for holder in first..(first + AT_A_TIME).min(runs + 1) {
            holders.spawn(die(Arc::clone(&stage), Arc::clone(&next), holder, gone, granted));
        }
        followed.extend(holders.join_all().await);
    }
    let died = |it: &Followed| Duration::from_nanos(it.after_death);
    let (first, last) =
        (followed.iter().map(died).min().unwrap_or_default(), followed.iter().map(died).max().unwrap_or_default());
    let early = followed.iter().map(|it| Duration::from_nanos(it.after_lease)).min().unwrap_or_default();
    println!(
        "{} {}{gone:?}: {runs} leases of {granted:?} followed {first:.2?} to {last:.2?} after the death, {early:.1?} after the end of the lease at the earliest",
        site.service, site.query
    );
}

/// A holder that renews its lease for a while and dies; the next one waits for its name from that moment on.
async fn die(stage: Arc<Stage>, next: Arc<Locker>, holder: u32, gone: Gone, granted: Duration) -> Followed {
    let name = format!("holder-{holder}");
    let mut client = stage.client(holder, 1).await;
    client.order(1, Do::Acquire { name: name.clone(), wait_ms: 30_000 }).await;
    client.answer(Duration::from_secs(60)).await;
    Clock::system().sleep(Duration::from_micros(fastrand::u64(1_000_000..2_000_000))).await;
    match gone {
        Gone::Killed => client.kill().await,
        Gone::CutOff => client.way.set(Mode::Hold).await,
    }
    let died = now();
    let guard = next.lock(&name).wait(granted + scaled(LATEST)).acquire().await;
    let guard = guard.unwrap_or_else(|error| panic!("{name} was not free {LATEST:?} after its lease: {error}"));
    let taken = now();
    let believed = client.all().iter().filter_map(believes).max().expect("it was granted");
    assert!(believed <= taken, "{name}: its holder believed in it when another got it: {:#?}", client.seen);
    // What the holder believes ends the margin of its clock before the lease.
    let ends = believed + nanos(granted / 100 + Duration::from_millis(2));
    assert!(ends <= taken, "{name}: a lease ended {:?} early: {:#?}", Duration::from_nanos(ends - taken), client.seen);
    guard.release().await.expect("the server answers");
    Followed { after_death: taken - died, after_lease: taken - ends }
}

/// Up to when a holder believes in its hold.
fn believes(event: &Event) -> Option<u64> {
    match event.what {
        What::Granted { until, .. } | What::Held { until } => Some(until),
        _ => None,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("it is short")
}
