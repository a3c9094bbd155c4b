//! B136: clients that come back again and again, one of them far away.

use std::time::Duration;

use lockyard::{Clock, Queueing};
use lockyard_benches::stats::jain;
use lockyard_conformance::history::{Event, What};
use tokio::task::JoinSet;

use crate::puppet::{Do, now};
use crate::stage::{Client, Site, Stage, checked};

const CLIENTS: u32 = 10;
/// The way of the first client takes so much longer, there and back together.
const FAR: Duration = Duration::from_millis(30);
const HOLD: Duration = Duration::from_millis(20);
/// Who asks this much later comes later: an ask needs a while to arrive, that of the far client above all.
const ARRIVED: Duration = Duration::from_millis(100);
const ANSWER: Duration = Duration::from_secs(60);

/// One hold of a client, in nanoseconds of the clock that all have in common.
#[derive(Debug)]
struct Turn {
    client: u32,
    asked: u64,
    granted: u64,
}

/// All take the name in turn for so long.
pub(crate) async fn run(site: Site, time: Duration) {
    let Some(stage) = Stage::of(site, Duration::from_secs(30)).await else { return };
    let ordered = stage.locks().await.capabilities().queue == Queueing::Fifo;
    let mut clients = Vec::new();
    for process in 1..=CLIENTS {
        let mut client = stage.client(process, 1).await;
        // Who answers is connected.
        client.order(1, Do::Acquire { name: format!("of client {process}"), wait_ms: 30_000 }).await;
        client.answer(ANSWER).await;
        client.release(1, ANSWER).await;
        clients.push(client);
    }
    clients[0].way.delay(FAR / 2);
    let end = now() + nanos(time);
    let mut working = JoinSet::new();
    for (client, process) in clients.into_iter().zip(1..) {
        working.spawn(take_turns(client, process, end));
    }
    let (mut turns, mut said) = (Vec::new(), Vec::new());
    for (its, seen) in working.join_all().await {
        turns.extend(its);
        said.extend(seen);
    }
    turns.sort_by_key(|turn| turn.granted);
    judge(site, ordered, &turns);
    checked(said);
}

/// Takes the name again and again, and stops at the end with nothing held.
async fn take_turns(mut client: Client, process: u32, end: u64) -> (Vec<Turn>, Vec<Event>) {
    let mut turns = Vec::new();
    let ops = 2..;
    for op in ops.take_while(|_| now() < end) {
        client.order(op, Do::Acquire { name: "shared".to_owned(), wait_ms: 60_000 }).await;
        let asked = client.says(ANSWER, |event| (event.what == What::Acquire).then_some(event.at)).await;
        let (granted, token) = client.answer(ANSWER).await;
        assert!(token.is_some(), "{granted}");
        Clock::system().sleep(HOLD).await;
        client.release(op, ANSWER).await;
        turns.push(Turn { client: process, asked, granted: granted.at });
    }
    client.all();
    (turns, client.seen)
}

/// Tells the shares. Where the order is promised it was kept, and the shares are even; else nobody had less than half of his.
fn judge(site: Site, ordered: bool, turns: &[Turn]) {
    let shares: Vec<u64> =
        (1..=CLIENTS).map(|client| turns.iter().filter(|turn| turn.client == client).count() as u64).collect();
    let even = jain(&shares).expect("somebody had it");
    let overtaken: Vec<_> = turns.iter().enumerate().filter_map(|(at, turn)| overtakes(turn, &turns[..at])).collect();
    let again = turns.windows(2).filter(|pair| pair[0].client == pair[1].client).count();
    let longest = turns.iter().map(|turn| Duration::from_nanos(turn.granted.saturating_sub(turn.asked)));
    let longest = longest.max().unwrap_or_default();
    println!(
        "{} {}: {} turns, shares {shares:?} (the first is far), fairness {even:.4}, longest wait {longest:.1?}, overtaken {}, twice in a row {again}",
        site.service,
        site.query,
        turns.len(),
        overtaken.len(),
    );
    assert!(turns.len() > 20 * CLIENTS as usize, "{} turns", turns.len());
    if ordered {
        assert!(overtaken.is_empty(), "not in the order of arrival: {overtaken:#?}");
        assert!(even >= 0.99, "{shares:?}");
    } else {
        let half = turns.len() as u64 / u64::from(CLIENTS) / 2;
        assert!(shares.iter().all(|share| *share >= half), "{shares:?}");
    }
}

/// The first of the turns before this one whose client asked after this turn's had arrived.
fn overtakes<'a>(turn: &'a Turn, before: &'a [Turn]) -> Option<(&'a Turn, &'a Turn)> {
    let arrived = turn.asked + nanos(ARRIVED);
    before
        .iter()
        .rev()
        .take_while(|other| other.granted > turn.asked)
        .find(|other| other.asked > arrived)
        .map(|other| (other, turn))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("it is short")
}
